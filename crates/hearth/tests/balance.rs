//! Files go from agents whose memory is full to others with room (S20).

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, LIMIT, sh, skipped, until};

/// Files of 1 MiB that one agent writes: twice what its pool holds, and less than all pools.
const FILES: u64 = 32;

/// A count of each agent.
fn counts(fixture: &Fixture, name: &str) -> Vec<u64> {
    let (agents, _) = fixture.status();
    let count = |agent: &serde_json::Value| agent["node"]["counters"][name].as_u64();
    let counts = agents.iter().map(|agent| count(agent).expect("a count"));
    counts.collect()
}

/// Has the first agent's programs write more than its pool holds; returns the sum of what they wrote.
fn overflows(fixture: &Fixture, balance: &str) -> String {
    let options = ["--policy", "local", "--pool", "16MiB", "--balance", balance];
    fixture.up(4, &options);
    let here = fixture.mount(0);
    for file in 0..FILES {
        sh(
            &here,
            &format!("head -c 1M /dev/urandom > f{file:02}; sync f{file:02}"),
        );
    }
    sh(&fixture.store(), "cat f* | md5sum")
}

#[test]
fn what_one_agent_has_no_room_for_is_found_in_the_memory_of_others() {
    let name = "what_one_agent_has_no_room_for_is_found_in_the_memory_of_others";
    if skipped(name, &[]) {
        return;
    }
    let fixture = Fixture::new();
    let written = overflows(&fixture, "on");
    let all = |name| counts(&fixture, name).iter().sum::<u64>();
    until("what was handed over has arrived", LIMIT, || {
        all("handed_pages") == all("inherited_pages")
    });
    let (handed, inherited) = (
        counts(&fixture, "handed_pages"),
        counts(&fixture, "inherited_pages"),
    );
    assert!(handed[0] > 0 && handed[1..] == [0, 0, 0], "{handed:?}");
    assert!(
        inherited[1..].iter().any(|&pages| pages > 0),
        "{inherited:?}"
    );
    // The agent that has a file now can say which it is.
    let told = fixture.run(&["place", "--as", "residency"]);
    let words = fixture::text(&told.stderr);
    assert!(
        told.status.success() && !words.contains("does not name"),
        "{words}"
    );
    let before = all("store_read_bytes");
    assert_eq!(sh(&fixture.mount(3), "cat f* | md5sum"), written);
    let read = all("store_read_bytes") - before;
    // The first pool has room for half; of the rest as much is in memory as was handed over.
    let most = (FILES << 20) - handed[0] * (256 << 10);
    assert!(read <= most, "{read} bytes of {most} came from the store");
    // The agent that has a file now writes it, and others see that.
    sh(
        &fixture.mount(2),
        "for file in f*; do printf new | dd of=$file conv=notrunc status=none; done",
    );
    assert_eq!(
        sh(&fixture.mount(1), "head -qc 3 f*"),
        "new".repeat(FILES as usize)
    );
    fixture.down();
}

#[test]
fn nothing_is_handed_over_where_nobody_wants_that() {
    if skipped("nothing_is_handed_over_where_nobody_wants_that", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let written = overflows(&fixture, "off");
    assert_eq!(sh(&fixture.mount(3), "cat f* | md5sum"), written);
    assert_eq!(counts(&fixture, "handed_pages"), [0; 4]);
    fixture.down();
}
