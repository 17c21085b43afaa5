//! Areas as earlier builds left them are still read. The layout is in `docs/formats/trace-ring.md`;
//! the sample is what `area_of_this_process` in `garbage.rs` answers.

use hearth_trace::ring::{Drain, WhenFull};

use crate::support::script::Script;
use crate::support::{Collected, private_directory};

const VERSION_1: &[u8] = include_bytes!("samples/area-1.bin");

#[test]
fn an_area_of_version_1_is_read() {
    let directory = private_directory();
    // Of another boot, so that no process of this one is asked.
    let name = format!("{:032x}-77-88", 1);
    std::fs::write(directory.path().join(name), VERSION_1).expect("it is ours");
    let mut drain = Drain::open(directory.path()).expect("it is ours");
    assert_eq!(drain.scan().expect("it can be listed"), 1);
    let mut got = Collected::default();
    drain.pass(&mut got).expect("a collection takes everything");

    assert_eq!(got.began[0].1.policy, WhenFull::Drop);
    assert!(got.names.contains(&"file 1 /scratch/file-0".to_owned()));
    let stream = &got.streams[0];
    let account = stream.account.as_ref().expect("its process is over");
    assert_eq!(
        (account.attempted, account.stored, account.dropped),
        (70, 64, 6)
    );
    assert_eq!(account.drops.count(), 6);
    stream
        .records
        .iter()
        .for_each(|record| Script { seed: 1 }.check(record));
    assert_eq!(got.ended.len(), 1);
}
