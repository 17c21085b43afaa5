//! Real programs under the library: what they print and leave is the same, and what was recorded is
//! what they are known to do.

mod support;

use std::fs;

use hearth_trace::{Flags, Op};
use support::{Place, has};

#[test]
fn dd_makes_as_many_calls_as_it_was_told() {
    let place = Place::new();
    let out = place.text("out");
    let of = format!("of={out}");
    let line = [
        "dd",
        "if=/dev/zero",
        &of,
        "bs=4k",
        "count=100",
        "status=none",
    ];
    let traced = place.compare(&line).ok();
    let writes = traced.on(Op::Write, &out);
    assert_eq!(writes.len(), 100, "{}", traced.listing());
    for (index, write) in writes.iter().enumerate() {
        assert_eq!(write.record.offset, index as u64 * 4096);
        assert_eq!((write.record.asked, write.record.result), (4096, 4096));
        assert_eq!(write.has(Flags::SEQUENTIAL), index > 0);
    }
    assert_eq!(fs::metadata(&out).unwrap().len(), 409_600);
    assert!(has("", "dd"));
}
