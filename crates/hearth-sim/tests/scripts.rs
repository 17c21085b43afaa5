//! Protocol stories: what comes is what is written. `UPDATE=1` writes what comes.

use std::fs;
use std::path::{Path, PathBuf};

fn scripts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the directory of scripts")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn stories_go_as_they_are_told() {
    let mut wrong = Vec::new();
    for path in scripts() {
        let told = fs::read_to_string(&path).expect("a script");
        let (came, world) = hearth_sim::script::play(&told).expect("a clear script");
        assert_eq!(world.violations(), [], "{}", path.display());
        if came == told {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &came).expect("a script can be written");
        } else {
            wrong.push(format!("{}:\n{came}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "UPDATE=1 rewrites\n{}", wrong.join("\n"));
}

#[test]
fn an_unclear_line_is_named() {
    let error = hearth_sim::script::play("0 sings h0\n").err();
    assert_eq!(
        error.map(|unclear| unclear.0).as_deref(),
        Some("0 sings h0")
    );
}

/// Messages of a story under a policy, once the files are open.
fn messages(policy: &str, orders: &str) -> usize {
    let text = format!("policy {policy}\nnodes 3\nfile 1 32\n0 opens 1 write\n1 opens 1 write\n");
    let count = |text: &str| {
        let (came, world) = hearth_sim::script::play(text).expect("a clear script");
        assert_eq!(world.violations(), []);
        came.lines().filter(|line| line.contains(" -> ")).count()
    };
    count(&format!("{text}{orders}")) - count(&text)
}

/// If homes push, the bytes that a producer has closed are with its consumer before that asks.
#[test]
fn producers_and_consumers_say_less_where_homes_push() {
    let round = "1 reads h0 0 16\n0 writes h0 0 16\n0 flushes h0\n";
    let orders = round.repeat(20);
    // Ask and grant, write, call back and acknowledge, flush; in all but the first round a push in place
    // of the first two.
    assert_eq!(messages("home", &orders), 20 * 8);
    assert_eq!(messages("home:plus", &orders), 8 + 19 * 6 + 20);
}
