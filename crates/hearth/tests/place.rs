//! `hearth place` by what running agents hold.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::process::Output;

use fixture::{Fixture, finish, signal, skipped, text, well};
use rustix::process::Signal;

/// Three agents, of which each has written a file, and a file that is in the store alone.
fn written(policy: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.up(3, &["--policy", policy, "--pool", "16MiB"]);
    for (agent, file) in ["zero", "one", "two"].iter().enumerate() {
        let dir = fixture.mount(agent).join("in");
        fs::create_dir_all(&dir).expect("the mount takes it");
        fs::write(dir.join(file), vec![7; 3 << 20]).expect("the mount takes it");
    }
    fs::write(fixture.store().join("cold"), "elsewhere").expect("the store takes it");
    fixture
}

fn place(fixture: &Fixture, jobs: &str, options: &[&str]) -> Output {
    let path = fixture.path("jobs");
    fs::write(&path, jobs).expect("our own directory");
    let mut command = fixture.hearth(&["place"]);
    finish(command.arg(path).args(options))
}

const JOBS: &str = "job a reads in/two cold\njob b reads in/zero\njob c reads in/one\n";

#[test]
fn a_job_goes_where_an_agent_holds_its_bytes_now() {
    if skipped("a_job_goes_where_an_agent_holds_its_bytes_now", &[]) {
        return;
    }
    let fixture = written("local");
    let named = place(&fixture, JOBS, &["--nodes", "x,y,z", "--as", "nodelist"]);
    well(&named);
    let expected = "a --nodelist=z\nb --nodelist=x\nc --nodelist=y\n";
    assert_eq!(text(&named.stdout), expected);
    let json = place(&fixture, JOBS, &["--nodes", "x,y,z", "--as", "json"]);
    let first: serde_json::Value =
        serde_json::from_str(text(&json.stdout).lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["there"], 3 << 20);
    assert_eq!(
        first["reads"],
        (3 << 20) + 9,
        "the store knows the size of `cold`"
    );
    // Paths below the store and below a mount mean the same files.
    let (store, mount) = (fixture.store(), fixture.mount(1));
    let paths = format!(
        "job a reads {}/in/two\njob b reads {}/in/two\n",
        store.display(),
        mount.display()
    );
    let both = place(
        &fixture,
        &paths,
        &["--nodes", "x,y,z", "--seats", "2", "--as", "nodelist"],
    );
    assert_eq!(text(&both.stdout), "a --nodelist=z\nb --nodelist=z\n");
    // Agents of one host are one node to the scheduler, unless they are named.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let here = place(
        &fixture,
        JOBS,
        &["--seats", "3", "--as", "nodelist", "--job", "b"],
    );
    assert_eq!(text(&here.stdout), format!("--nodelist={}\n", host.trim()));
    fixture.down();
}

#[test]
fn what_an_agent_reads_it_holds_too() {
    if skipped("what_an_agent_reads_it_holds_too", &[]) {
        return;
    }
    let fixture = written("home");
    fs::read(fixture.mount(2).join("in/zero")).expect("it is there");
    let said = place(
        &fixture,
        "job a reads in/zero\n",
        &["--nodes", "x,y,z", "--as", "residency"],
    );
    well(&said);
    let residency: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let files = residency["files"].as_array().expect("a list");
    let zero = files
        .iter()
        .find(|file| file["path"] == "in/zero")
        .expect("it is named");
    assert_eq!(
        (&zero["size"], &zero["held"]["z"]),
        (&(3 << 20).into(), &(3 << 20).into())
    );
    fixture.down();
}

#[test]
fn an_agent_that_is_gone_costs_its_node_alone() {
    if skipped("an_agent_that_is_gone_costs_its_node_alone", &[]) {
        return;
    }
    let fixture = written("local");
    signal(fixture.agents()[2], Signal::KILL);
    fixture::until("it is gone", fixture::LIMIT, || fixture.status().1 == 1);
    let said = place(&fixture, JOBS, &["--nodes", "x,y,z", "--as", "nodelist"]);
    well(&said);
    assert!(
        text(&said.stderr).contains("warning: agent 2"),
        "{}",
        text(&said.stderr)
    );
    let lines = text(&said.stdout);
    assert!(
        lines.contains("b --nodelist=x\nc --nodelist=y\n"),
        "{lines}"
    );
    assert!(!lines.contains('z'), "{lines}");
    well(&fixture.run(&["down", "--discard"]));
}

#[test]
fn what_cannot_be_asked_is_said() {
    if skipped("what_cannot_be_asked_is_said", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let none = place(&fixture, JOBS, &[]);
    assert_eq!(none.status.code(), Some(1));
    assert!(
        text(&none.stderr).contains("no agents are up"),
        "{}",
        text(&none.stderr)
    );
    fixture.up(2, &["--pool", "16MiB"]);
    let large = "file x 1GiB\njob a reads x\n";
    for (jobs, options, why) in [
        (
            JOBS,
            &["--nodes", "x"][..],
            "--nodes has 1 names, and none for agent 1",
        ),
        (
            JOBS,
            &[],
            "job `a` reads `in/two`, of which no size is known",
        ),
        (
            large,
            &[],
            "they read 1 GiB, and all nodes together hold 32 MiB",
        ),
        (
            "file x 1\nfile y 2\njob a reads x\n",
            &[],
            "file `y` is named by no job",
        ),
        (JOBS, &["--seats", "many"], "say a number, or `slurm`"),
    ] {
        let said = place(&fixture, jobs, options);
        let words = text(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{words}");
        assert!(words.contains(why), "{words}");
    }
    fixture.down();
}
