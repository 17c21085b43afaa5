//! A thread that makes records faster than its drain comes wakes it.

use std::path::Path;
use std::time::SystemTime;

use hearth_trace::ring::{Options, look, tracer};

use crate::support::script::Script;
use crate::support::{is_alone, private_directory};

const CAPACITY: u64 = 64;
/// The part of a ring that may wait without a knock.
const QUIET: u64 = CAPACITY / 4;

/// A knock is a new time of the area's file.
#[test]
fn a_thread_knocks_when_a_quarter_of_its_ring_waits() {
    if !is_alone("knock::a_thread_knocks_when_a_quarter_of_its_ring_waits") {
        return;
    }
    let directory = private_directory();
    let options = Options {
        directory: directory.path().to_owned(),
        capacity: CAPACITY as u32,
        ..Options::default()
    };
    tracer::start(options).expect("a private directory takes an area");
    let name = tracer::area().expect("this process is traced").to_string();
    let area = directory.path().join(name);
    let script = Script { seed: 5 };
    // With the first record the ring gets its pages.
    script.act(1);
    forget(&area);
    (2..=QUIET).for_each(|number| script.act(number));
    assert!(is_quiet(&area), "{QUIET} records can wait");
    script.act(QUIET + 1);
    assert!(!is_quiet(&area), "one more is worth a knock");
    forget(&area);
    (QUIET + 2..=CAPACITY).for_each(|number| script.act(number));
    assert!(!is_quiet(&area), "nobody has come, so it knocks again");
    forget(&area);
    (CAPACITY + 1..=4 * CAPACITY).for_each(|number| script.act(number));
    assert!(is_quiet(&area), "what is dropped is not worth one");
    let counts = look(directory.path()).expect("it is ours")[0].counts();
    assert_eq!(
        (counts.attempted, counts.dropped),
        (4 * CAPACITY, 3 * CAPACITY)
    );
}

fn forget(area: &Path) {
    let file = std::fs::File::options().append(true).open(area);
    let times = file.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH));
    times.expect("the area is ours");
}

fn is_quiet(area: &Path) -> bool {
    let metadata = std::fs::metadata(area).expect("the area is there");
    metadata.modified().expect("files have times") == SystemTime::UNIX_EPOCH
}
