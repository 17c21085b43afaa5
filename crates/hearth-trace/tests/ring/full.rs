//! A full file system under the areas: the program counts, and never notices.

use std::path::Path;
use std::process::Command;

use hearth_trace::ring::{Drain, NotTraced, Options, tracer};

use crate::support::script::Script;
use crate::support::{Collected, private_directory};

const SMALL_VARIABLE: &str = "HEARTH_TEST_SMALL";
const ATTEMPTS: u64 = 5_000;

#[test]
fn a_thread_without_memory_for_its_ring_is_counted_exactly() {
    let name = "a_thread_without_memory_for_its_ring_is_counted_exactly";
    // Head and names, and one ring of 4096 records; not two.
    if let Some(directory) = on_small_file_system(name, "768k") {
        count_what_has_no_ring(Path::new(&directory));
    }
}

#[test]
fn a_process_without_memory_for_an_area_is_told_so() {
    let name = "a_process_without_memory_for_an_area_is_told_so";
    if let Some(directory) = on_small_file_system(name, "128k") {
        let error = tracer::start(options(Path::new(&directory))).expect_err("there is no room");
        assert!(matches!(error, NotTraced::Area { .. }), "{error:?}");
        let left = std::fs::read_dir(directory).expect("it is ours").count();
        assert_eq!(left, 0, "half an area is cleared away");
        assert_eq!(tracer::enter(), None);
    }
}

fn count_what_has_no_ring(directory: &Path) {
    tracer::start(options(directory)).expect("the head of an area fits");
    let record = || (1..=ATTEMPTS).for_each(|number| Script { seed: 3 }.act(number));
    let started = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let one = || {
            Script { seed: 3 }.act(1);
            // Both have looked for a ring before one ends.
            started.wait();
            record();
        };
        // Joined, not only left to the scope: a thread gives its ring back after its closure.
        for thread in [scope.spawn(one), scope.spawn(one)] {
            thread.join().expect("no panic");
        }
    });
    let mut got = Collected::default();
    let mut drain = Drain::open(directory).expect("it is ours");
    drain.scan().expect("it can be listed");
    drain.pass(&mut got).expect("a collection takes everything");
    let [stream] = &got.streams[..] else {
        panic!("one ring fits: {:?}", got.streams);
    };
    let account = stream.account.as_ref().expect("its thread is over");
    assert_eq!(account.attempted, ATTEMPTS + 1);
    assert_eq!(account.stored + account.dropped, account.attempted);
    let looks = hearth_trace::ring::look(directory).expect("it is ours");
    let without = looks[0].counts();
    assert_eq!(
        (without.attempted, without.dropped),
        (ATTEMPTS + 1, ATTEMPTS + 1)
    );
}

fn options(directory: &Path) -> Options {
    Options {
        directory: directory.to_owned(),
        ..Options::default()
    }
}

/// The directory, in a process that sees a small file system there; elsewhere runs that process.
fn on_small_file_system(test: &str, size: &str) -> Option<String> {
    if let Ok(directory) = std::env::var(SMALL_VARIABLE) {
        return Some(directory);
    }
    let directory = private_directory();
    let place = directory.path().display();
    let this = std::env::current_exe().expect("the system knows this program");
    let mount = format!("mount -t tmpfs -o mode=0700,size={size} none {place}");
    let run = Command::new("unshare")
        .args([
            "-rm",
            "sh",
            "-c",
            &format!("{mount} || exit 99; exec \"$@\""),
        ])
        .args(["sh".as_ref(), this.as_os_str()])
        .args([&format!("full::{test}"), "--exact", "--nocapture"])
        .env(SMALL_VARIABLE, directory.path())
        .output();
    match run {
        Ok(run) if run.status.success() => {}
        Ok(run) if !String::from_utf8_lossy(&run.stdout).contains("running 1 test") => {
            eprintln!("skipped: {test}: a mount namespace of its own");
        }
        Ok(run) => panic!("{}: {}", run.status, String::from_utf8_lossy(&run.stderr)),
        Err(error) => eprintln!("skipped: {test}: unshare: {error}"),
    }
    None
}
