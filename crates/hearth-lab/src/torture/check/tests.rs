//! Checkers fire on histories that no promise allows, and let those pass that one does.

use super::super::history::{By, Call, End, Op, Out, value_of};
use super::*;

const PAGE: u64 = 16 << 10;

fn call(worker: usize, begun: u64, ended: u64, op: Op, out: Out) -> Call {
    Call {
        worker,
        node: worker,
        begun: begun * SECOND,
        ended: (ended != 0).then_some(ended * SECOND),
        op,
        out,
    }
}

fn write(worker: usize, begun: u64, ended: u64, slot: u64, count: u64) -> Call {
    let value = value_of(worker as u64, begun);
    let (file, by) = ("register0".into(), By::Writer);
    call(
        worker,
        begun,
        ended,
        Op::Write {
            file,
            slot,
            count,
            value,
            by,
        },
        Out::Done,
    )
}

fn read(worker: usize, begun: u64, ended: u64, slot: u64, values: &[u64]) -> Call {
    let (file, by, count) = ("register0".into(), By::Writer, values.len() as u64);
    let out = Out::Values(values.iter().map(|value| Some(*value)).collect());
    call(
        worker,
        begun,
        ended,
        Op::Read {
            file,
            slot,
            count,
            by,
        },
        out,
    )
}

/// The same read through a descriptor for reading alone.
fn kept(mut read: Call) -> Call {
    if let Op::Read { by, .. } = &mut read.op {
        *by = By::Reader;
    }
    read
}

fn sync(worker: usize, begun: u64, ended: u64) -> Call {
    let (file, by) = ("register0".into(), By::Writer);
    call(worker, begun, ended, Op::Sync { file, by }, Out::Done)
}

fn history(calls: Vec<Call>) -> History {
    History {
        calls,
        promise: Promise {
            level: Level::Strict,
            close_brings: true,
            write_brings: false,
            pages_are_whole: true,
            outlives: false,
            calls_are_one: false,
        },
        breaks: None,
        faults: Vec::new(),
        snapshots: Vec::new(),
        page: PAGE,
    }
}

/// A fault from the start to a second, by which calls may fail with `EIO`.
fn failing(what: &str, ended: u64) -> Fault {
    let errors: &[i32] = &[libc::EIO];
    Fault {
        what: what.into(),
        begun: 0,
        ended: ended * SECOND,
        errors,
    }
}

/// Findings of the checkers, in words.
fn found(history: &History) -> String {
    let checked = check(history);
    assert_eq!(checked.undecided, 0);
    let words: Vec<String> = checked
        .findings
        .into_iter()
        .map(|finding| finding.what)
        .collect();
    words.join("; ")
}

fn assert_found(calls: Vec<Call>, what: &str) {
    let found = found(&history(calls));
    assert!(found.contains(what), "found `{found}`");
}

fn stored(begun: u64, file: &str, bytes: Vec<u8>) -> Snapshot {
    let begun = begun * SECOND;
    Snapshot {
        begun,
        ended: begun + 1,
        files: [(file.to_owned(), bytes)].into(),
        is_final: false,
    }
}

#[test]
fn s1_older_bytes_after_newer_ones_are_found() {
    let right = vec![write(0, 1, 2, 0, 1), read(1, 3, 4, 0, &[value_of(0, 1)])];
    assert_eq!(found(&history(right)), "");
    let stale = vec![write(0, 1, 2, 0, 1), read(1, 3, 4, 0, &[0])];
    assert_found(stale, "no order");
}

#[test]
fn s1_a_mixture_within_a_page_is_found_and_one_over_pages_is_allowed() {
    let value = value_of(0, 1);
    let within = vec![
        write(0, 1, 5, 0, 4),
        read(1, 2, 3, 0, &[value, 0, value, value]),
    ];
    assert_found(within, "no order");
    let over = vec![write(0, 1, 5, 3, 2), read(1, 2, 3, 3, &[value, 0])];
    assert_eq!(found(&history(over)), "");
}

#[test]
fn s16_a_store_may_mix_writes_within_a_page_and_shows_no_old_slot() {
    let value = value_of(0, 1);
    let mut mixed = history(vec![
        write(0, 1, 5, 0, 4),
        read(1, 2, 3, 0, &[value, 0, value, value]),
    ]);
    mixed.promise.pages_are_whole = false;
    assert_eq!(found(&mixed), "");
    mixed.calls.push(read(1, 6, 7, 0, &[value, 0]));
    assert!(found(&mixed).contains("no order"));
}

#[test]
fn s1_what_an_operating_system_keeps_is_read_slot_by_slot() {
    let value = value_of(0, 1);
    let mixed = read(1, 2, 3, 0, &[0, 0, value, value]);
    let whole = history(vec![write(0, 1, 5, 0, 4), mixed.clone()]);
    assert!(found(&whole).contains("no order"));
    let mut apart = history(vec![write(0, 1, 5, 0, 4), kept(mixed)]);
    assert_eq!(found(&apart), "");
    apart.calls.push(kept(read(1, 6, 7, 0, &[value, 0])));
    assert!(found(&apart).contains("no order"));
}

#[test]
fn s4_a_store_without_synced_bytes_is_found() {
    let mut history = history(vec![write(0, 1, 2, 0, 1), sync(1, 3, 4)]);
    history.snapshots = vec![stored(5, "register0", vec![0; 3 * PAGE as usize])];
    assert!(found(&history).contains("was confirmed"));
    history.snapshots[0].begun = 3 * SECOND;
    assert_eq!(found(&history), "", "nothing was confirmed yet");
}

#[test]
fn s5_close_confirms_what_its_own_node_wrote_unless_close_is_buffered() {
    let (file, by) = ("register0".into(), By::Writer);
    let close = call(0, 3, 4, Op::Close { file, by }, Out::Done);
    let mut history = history(vec![write(0, 1, 2, 0, 1), close]);
    history.snapshots = vec![stored(5, "register0", vec![0; 3 * PAGE as usize])];
    assert!(found(&history).contains("was confirmed"));
    history.promise.close_brings = false;
    assert_eq!(found(&history), "");
}

#[test]
fn s13_after_a_death_unconfirmed_bytes_may_go_and_confirmed_ones_may_not() {
    let gap = Break {
        begun: 5 * SECOND,
        ended: 6 * SECOND,
        victims: vec![2],
        is_death: false,
    };
    let mut history = history(vec![write(0, 1, 2, 0, 1), read(1, 7, 8, 0, &[0])]);
    history.breaks = Some(gap);
    assert_eq!(found(&history), "");
    history.calls.insert(1, sync(0, 3, 4));
    assert!(found(&history).contains("was confirmed"));
    history.calls[1].out = Out::Failed(libc::EIO);
    history.calls[1].begun = 5 * SECOND;
    history.calls[1].ended = Some(6 * SECOND);
    history.calls.insert(2, sync(0, 6, 7));
    history.faults = vec![failing("kill", 9)];
    assert_eq!(found(&history), "", "the loss was told");
    history.calls[2] = sync(1, 5, 6);
    history.calls[1].begun = 7 * SECOND;
    history.calls[1].ended = Some(8 * SECOND);
    assert_eq!(
        found(&history),
        "",
        "it is told later, and a sync of another cannot"
    );
    history.calls[1].node = 1;
    assert!(
        found(&history).contains("was confirmed"),
        "nobody told the writer"
    );
    history.calls.drain(1..3);
    history.promise.outlives = true;
    assert!(found(&history).contains("was confirmed"), "S35");
}

#[test]
fn s13_a_descriptor_that_was_opened_after_a_death_says_nothing_of_what_was_lost() {
    let (file, by) = ("register0".to_owned(), By::Writer);
    let open = Op::Open {
        file: file.clone(),
        by,
    };
    let close = Op::Close { file, by };
    let of_node_0 = |call: Call| Call { node: 0, ..call };
    let told = Call {
        out: Out::Failed(libc::EIO),
        ..sync(0, 10, 11)
    };
    let mut history = history(vec![
        write(0, 1, 2, 0, 1),
        of_node_0(call(1, 7, 8, open, Out::Done)),
        of_node_0(call(1, 8, 9, close, Out::Done)),
        told,
        read(1, 12, 13, 0, &[0]),
    ]);
    history.breaks = Some(Break {
        begun: 5 * SECOND,
        ended: 6 * SECOND,
        victims: vec![2],
        is_death: true,
    });
    history.faults = vec![failing("kill", 19)];
    assert_eq!(found(&history), "");
    history.calls[1].begun = 3 * SECOND;
    assert!(found(&history).contains("was confirmed"), "opened before");
    history.calls[1].begun = 7 * SECOND;
    history.calls.remove(3);
    assert!(found(&history).contains("was confirmed"), "nobody told it");
}

#[test]
fn s13_strangers_to_a_break_agree_again_after_it() {
    let gap = Break {
        begun: 5 * SECOND,
        ended: 6 * SECOND,
        victims: vec![2],
        is_death: false,
    };
    let (old, new) = (0, value_of(0, 1));
    let calls = vec![
        write(0, 1, 2, 0, 1),
        read(1, 7, 8, 0, &[old]),
        read(0, 9, 10, 0, &[new]),
    ];
    let mut history = history(calls);
    history.breaks = Some(gap);
    assert!(found(&history).contains("no order"));
}

#[test]
fn s13_what_an_agent_writes_alone_may_show_late() {
    let mut history = history(vec![write(2, 1, 2, 0, 1), read(1, 4, 5, 0, &[0])]);
    history.promise.write_brings = true;
    history.breaks = Some(Break {
        begun: SECOND / 2,
        ended: 6 * SECOND,
        victims: vec![2],
        is_death: false,
    });
    assert_eq!(found(&history), "");
    history.calls[0].worker = 0;
    assert!(found(&history).contains("no order"), "of another agent");
    history.calls[0] = write(2, 7, 8, 0, 1);
    history.calls[1] = read(1, 9, 10, 0, &[0]);
    assert!(found(&history).contains("no order"), "it is met again");
}

#[test]
fn s13_kept_pages_of_a_file_whose_manager_is_out_of_reach_may_be_a_second_old() {
    let read_at = |seconds: u64| {
        let late = read(1, seconds, seconds + 1, 0, &[0]);
        let mut history = history(vec![write(0, 2, 3, 0, 1), late]);
        history.promise.write_brings = true;
        history.breaks = Some(Break {
            begun: SECOND,
            ended: 8 * SECOND,
            victims: vec![2],
            is_death: false,
        });
        found(&history)
    };
    assert_eq!(read_at(4), "");
    assert!(read_at(5).contains("no order"), "two seconds old");
    assert!(read_at(9).contains("no order"), "all are met again");
}

#[test]
fn s16_a_store_may_mix_a_slot_while_it_is_written_and_at_no_other_time() {
    let torn = |begun, ended| {
        let mut torn = read(1, begun, ended, 0, &[0]);
        torn.out = Out::Mixed("torn".into());
        let mut history = history(vec![write(0, 3, 5, 0, 1), torn]);
        history.promise.pages_are_whole = false;
        history
    };
    assert_eq!(found(&torn(4, 6)), "");
    assert!(found(&torn(6, 7)).contains("a part of a write"));
    let mut cached = torn(4, 6);
    cached.promise.pages_are_whole = true;
    assert!(found(&cached).contains("a part of a write"));
}

#[test]
fn s30_writes_of_several_nodes_have_no_order_before_they_are_synced() {
    let calls = vec![
        write(0, 1, 2, 0, 1),
        write(1, 3, 4, 0, 1),
        sync(1, 5, 6),
        sync(0, 7, 8),
    ];
    let mut history = history(calls);
    history.promise.level = Level::Synced;
    let mut page = vec![0; 3 * PAGE as usize];
    page[..8].copy_from_slice(&value_of(0, 1).to_le_bytes());
    let files = [("register0".to_owned(), page)];
    history.snapshots = vec![Snapshot {
        begun: 9 * SECOND,
        ended: 10 * SECOND,
        files: files.into(),
        is_final: false,
    }];
    assert_eq!(found(&history), "");
    history.calls[3].begun = 2 * SECOND;
    history.calls[3].ended = Some(3 * SECOND - 1);
    assert!(found(&history).contains("was confirmed"));
}

#[test]
fn s9_a_version_that_is_replaced_may_lose_what_a_failing_store_refused() {
    let empty = (Out::Mixed("empty".into()), "a part of a write");
    let zeros = (Out::Version { value: 0, words: 8 }, "no order");
    for (seen, wrong) in [empty, zeros] {
        let calls = vec![publish(0, 1, 2), publish(0, 4, 6), fetch(5, 7, seen)];
        let mut history = history(calls);
        history.promise.close_brings = false;
        assert!(found(&history).contains(wrong));
        history.faults = vec![failing("store", 0)];
        assert_eq!(found(&history), "");
        history.promise.close_brings = true;
        assert!(found(&history).contains(wrong));
        history.promise.close_brings = false;
        history.calls[1].begun = 8 * SECOND;
        history.calls[1].ended = Some(9 * SECOND);
        assert!(found(&history).contains(wrong), "nobody replaces it");
    }
}

#[test]
fn s13_a_read_over_pages_of_which_one_is_a_dead_agents_has_the_others_as_they_are() {
    let (old, new) = (0, value_of(0, 7));
    let calls = |slot, seen: &[u64]| {
        let calls = vec![
            write(0, 7, 8, 3, 1),
            read(1, 9, 10, 3, &[new]),
            read(1, 11, 12, slot, seen),
        ];
        let mut history = history(calls);
        history.breaks = Some(Break {
            begun: 5 * SECOND,
            ended: 6 * SECOND,
            victims: vec![2],
            is_death: true,
        });
        history
    };
    assert_eq!(found(&calls(3, &[new, 0])), "");
    assert!(found(&calls(3, &[old, 0])).contains("no order"));
    assert!(found(&calls(3, &[old])).contains("no order"));
}

fn append(worker: usize, begun: u64, ended: u64) -> Call {
    let value = value_of(worker as u64, begun);
    call(
        worker,
        begun,
        ended,
        Op::Append {
            file: "log0".into(),
            value,
        },
        Out::Done,
    )
}

fn records(worker: usize, begun: u64, ended: u64, values: &[u64]) -> Call {
    let out = Out::Records(values.to_vec(), End::Reached);
    call(
        worker,
        begun,
        ended,
        Op::Records {
            file: "log0".into(),
            from: 0,
        },
        out,
    )
}

#[test]
fn s2_appends_that_overlap_swap_or_are_missed_are_found() {
    let (one, two) = (value_of(0, 1), value_of(1, 3));
    let both = |values: &[u64]| vec![append(0, 1, 2), append(1, 3, 4), records(2, 5, 6, values)];
    assert_eq!(found(&history(both(&[one, two]))), "");
    assert_found(both(&[two, one]), "behind one that began after it");
    assert_found(both(&[0, two]), "a hole");
    let mut moved = both(&[one, two]);
    moved.push(records(2, 7, 8, &[two]));
    assert_found(moved, "record 0 is");
    let mut short = both(&[one, two]);
    short.push(records(2, 7, 8, &[one]));
    assert_found(short, "found the end at 1");
}

#[test]
fn s4_a_confirmed_record_that_the_store_lacks_is_found() {
    let (file, by) = ("log0".into(), By::Writer);
    let synced = call(0, 3, 4, Op::Sync { file, by }, Out::Done);
    let mut history = history(vec![append(0, 1, 2), synced]);
    history.snapshots = vec![stored(5, "log0", Vec::new())];
    assert!(found(&history).contains("0 times"));
}

#[test]
fn s7_names_that_come_back_are_found() {
    let file = || "names/0".to_owned();
    let create = call(0, 1, 2, Op::Create { file: file() }, Out::Done);
    let remove = call(1, 3, 4, Op::Remove { file: file() }, Out::Done);
    let look = |out: Out| call(2, 5, 6, Op::Look { file: file() }, out);
    assert_eq!(
        found(&history(vec![
            create.clone(),
            remove.clone(),
            look(Out::Absent)
        ])),
        ""
    );
    assert_found(vec![create.clone(), remove, look(Out::Present)], "no order");
    let again = call(1, 3, 4, Op::Create { file: file() }, Out::Done);
    assert_found(vec![create, again], "no order");
}

#[test]
fn s7_a_link_may_be_refused_beside_a_removal_in_its_mount() {
    let file = |name: u32| format!("names/{name}");
    let create = call(0, 1, 2, Op::Create { file: file(0) }, Out::Done);
    let (from, to) = (file(0), file(1));
    let link = call(0, 5, 7, Op::Link { from, file: to }, Out::Absent);
    let mut remove = call(1, 4, 6, Op::Remove { file: file(2) }, Out::Absent);
    let calls = |remove: &Call| vec![create.clone(), remove.clone(), link.clone()];
    assert_found(calls(&remove), "no order");
    remove.node = 0;
    assert_eq!(found(&history(calls(&remove))), "");
    remove.ended = Some(4 * SECOND + 1);
    assert_found(calls(&remove), "no order");
}

#[test]
fn s13_a_file_that_is_refused_may_show_until_it_is_taken_back() {
    let file = || "names/0".to_owned();
    let create = call(0, 1, 4, Op::Create { file: file() }, Out::Failed(libc::EIO));
    let look = |begun: u64, out: Out| call(2, begun, begun + 1, Op::Look { file: file() }, out);
    let seen = [Out::Present, Out::Absent, Out::Present];
    let looks = [5, 7, 9].into_iter().zip(seen);
    let mut calls = vec![create];
    calls.extend(looks.map(|(begun, out)| look(begun, out)));
    let mut told = history(calls);
    told.faults = vec![failing("kill", 20)];
    assert!(found(&told).contains("no order"), "it comes back");
    told.calls.pop();
    assert_eq!(found(&told), "");
}

fn publish(worker: usize, begun: u64, ended: u64) -> Call {
    let value = value_of(worker as u64, begun);
    let op = Op::Publish {
        file: "version0".into(),
        value,
        words: 8,
        synced: true,
    };
    call(worker, begun, ended, op, Out::Done)
}

fn fetch(begun: u64, ended: u64, out: Out) -> Call {
    call(
        2,
        begun,
        ended,
        Op::Fetch {
            file: "version0".into(),
        },
        out,
    )
}

#[test]
fn s7_versions_that_are_old_short_empty_or_fail_are_found() {
    let version = |at: u64, words| Out::Version {
        value: value_of(0, at),
        words,
    };
    let after = |out: Out| vec![publish(0, 1, 2), publish(0, 3, 4), fetch(5, 6, out)];
    assert_eq!(found(&history(after(version(3, 8)))), "");
    assert_found(after(version(1, 8)), "no order");
    assert_found(after(version(3, 7)), "short");
    assert_found(after(Out::Mixed("empty".into())), "a part of a write");
    assert_found(after(Out::Failed(libc::ESTALE)), "no fault explains");
    assert_found(after(Out::Absent), "no order");
}

#[test]
fn s12_an_addition_that_is_lost_is_found() {
    let add = |worker, begun, before| {
        let op = Op::Add {
            file: "counter0".into(),
            synced: true,
        };
        call(worker, begun, begun + 1, op, Out::Count(before))
    };
    assert_eq!(found(&history(vec![add(0, 1, 0), add(1, 3, 1)])), "");
    assert_found(vec![add(0, 1, 0), add(1, 3, 0)], "add up");
}

#[test]
fn s3_s8_bytes_and_sizes_of_before_a_cut_are_found() {
    let file = || "cut0".to_owned();
    let op = Op::Write {
        file: file(),
        slot: 1,
        count: 1,
        value: value_of(0, 1),
        by: By::Writer,
    };
    let wrote = call(0, 1, 2, op, Out::Done);
    let cut = call(
        1,
        3,
        4,
        Op::Truncate {
            file: file(),
            slots: 0,
        },
        Out::Done,
    );
    let size = |slots| call(2, 5, 6, Op::Size { file: file() }, Out::Count(slots));
    assert_eq!(
        found(&history(vec![wrote.clone(), cut.clone(), size(0)])),
        ""
    );
    assert_found(
        vec![wrote.clone(), cut.clone(), size(2)],
        "sizes have no order",
    );
    let op = Op::Read {
        file: file(),
        slot: 1,
        count: 1,
        by: By::Writer,
    };
    let seen = call(2, 5, 6, op, Out::Values(vec![Some(value_of(0, 1))]));
    assert_found(vec![wrote, cut, seen], "a cut and reads");
}

#[test]
fn a_call_that_waits_for_longer_than_its_fault_is_found() {
    let slow = || vec![write(0, 1, 20, 0, 1)];
    assert_found(slow(), "waited for 19.0 s");
    let mut history = history(slow());
    let fault = Fault {
        what: "stop".into(),
        begun: SECOND,
        ended: 12 * SECOND,
        errors: &[],
    };
    history.faults = vec![fault];
    assert_eq!(found(&history), "");
}

#[test]
fn s30_an_open_that_misses_what_was_closed_is_found() {
    let open = |begun| {
        let (file, by) = ("register0".into(), By::Reader);
        call(1, begun, begun + 1, Op::Open { file, by }, Out::Done)
    };
    let (file, by) = ("register0".into(), By::Writer);
    let close = call(0, 3, 4, Op::Close { file, by }, Out::Done);
    let stale = kept(read(1, 20, 21, 0, &[0]));
    let mut late = history(vec![
        write(0, 1, 2, 0, 1),
        close.clone(),
        open(5),
        stale.clone(),
    ]);
    late.promise.level = Level::Opened;
    assert!(found(&late).contains("published before"));
    let mut early = history(vec![open(0), write(0, 1, 2, 0, 1), close, stale]);
    early.promise.level = Level::Opened;
    assert_eq!(found(&early), "");
}
