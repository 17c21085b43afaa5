//! The properties of a store that two clients show: how soon, and whether at all, one sees the other's changes.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::alone::{rename, use_open};
use super::client::{Client, Miss, Told};
use super::op::{How, Kind, Mode, Op};
use super::value::{Findings, Value};

/// For how long a change is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// Between two looks at what has not been seen yet.
const PAUSE: Duration = Duration::from_millis(10);

/// After that a client that keeps names for a second has nothing older than this.
const FRESH: Duration = Duration::from_millis(1100);

/// Lines that each of two clients appends.
const LINES: usize = 8;

/// Measures between the client that changes and one that looks.
pub(super) fn measure(one: &mut Client, other: &mut Client, findings: &mut Findings) {
    for group in [changes, open_files, bytes, locks, syncs] {
        group(one, other, findings);
        one.renew();
        other.renew();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a change by another client has no event to wait for"
)]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Whether a file has one number everywhere.
pub(super) fn same_numbers(one: &mut Client, others: &mut [Client]) -> Told<bool> {
    one.make("same", "s")?;
    let number = one.facts("same")?.ino;
    for other in others {
        if wait_for(other, "same")?.ino != number {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A new name may take a while to show.
pub(super) fn wait_for(client: &mut Client, path: &str) -> Told<super::op::Facts> {
    let begun = Instant::now();
    loop {
        match client.facts(path) {
            Err(Miss::Error(Errno::NOENT)) if begun.elapsed() < PATIENCE => {
                pause(PAUSE);
            }
            told => return told,
        }
    }
}

/// A change that one client makes and another looks for.
struct Change {
    property: &'static str,
    words: &'static str,
    /// Makes the files that are there before, and that both have seen.
    prepare: fn(&mut Client) -> Told<()>,
    /// The look that the other has taken before, and takes until it sees the change.
    sees: fn(&mut Client) -> Told<bool>,
    change: fn(&mut Client) -> Told<()>,
}

const CHANGES: [Change; 8] = [
    Change {
        property: "seen-rename",
        words: "a rename over a name shows after",
        prepare: |one| {
            one.make("ren", "old")?;
            one.make("ren.new", "newer")
        },
        sees: |other| Ok(other.facts("ren")?.size == 5),
        change: |one| rename(one, "ren.new", "ren", How::Over),
    },
    Change {
        property: "seen-replaced",
        words: "unlink and create of a name show after",
        prepare: |one| one.make("rep", "old"),
        sees: |other| Ok(other.facts("rep").is_ok_and(|facts| facts.size == 5)),
        change: |one| {
            let path = one.at("rep");
            one.run(&Op::Unlink(path))?;
            one.make("rep", "newer")
        },
    },
    Change {
        property: "seen-created",
        words: "a name that was looked for in vain shows after",
        prepare: |_| Ok(()),
        sees: |other| present(other, "cre"),
        change: |one| one.make("cre", "new"),
    },
    Change {
        property: "seen-removed",
        words: "a removed name is gone after",
        prepare: |one| one.make("rem", "old"),
        sees: |other| present(other, "rem").map(|there| !there),
        change: |one| {
            let path = one.at("rem");
            one.run(&Op::Unlink(path))
        },
    },
    Change {
        property: "seen-listed",
        words: "a new name is listed after",
        prepare: |one| {
            let path = one.at("list");
            one.run(&Op::MakeDir(path))?;
            one.make("list/old", "o")
        },
        sees: |other| {
            let path = other.at("list");
            Ok(other.number(&Op::Lists(path, "new".to_owned()))? == 1)
        },
        change: |one| one.make("list/new", "n"),
    },
    Change {
        property: "seen-size",
        words: "a size shows after",
        prepare: |one| one.make("size", "old"),
        sees: |other| Ok(other.facts("size")?.size == 9),
        change: |one| {
            one.open(1, "size", Mode::Update)?;
            one.write(1, 0, "much more")?;
            one.close(1)
        },
    },
    Change {
        property: "seen-mtime",
        words: "a time shows after",
        prepare: |one| one.make("time", "old"),
        sees: |other| Ok(other.facts("time")?.mtime / 1_000_000_000 == 1_000_000_000),
        change: |one| {
            let path = one.at("time");
            one.run(&Op::Touch(path, 1_000_000_000_000_000_000))
        },
    },
    Change {
        property: "seen-mode",
        words: "changed rights show after",
        prepare: |one| one.make("mode", "old"),
        sees: |other| Ok(other.facts("mode")?.mode == 0o600),
        change: |one| {
            let path = one.at("mode");
            one.run(&Op::Chmod(path, 0o600))
        },
    },
];

fn present(client: &mut Client, path: &str) -> Told<bool> {
    match client.facts(path) {
        Ok(_) => Ok(true),
        Err(Miss::Error(Errno::NOENT)) => Ok(false),
        Err(miss) => Err(miss),
    }
}

/// A change on its way to the other client.
struct Pending {
    made: Told<Instant>,
    value: Option<Value>,
}

/// All at the same time, so that the waiting is done once.
fn changes(one: &mut Client, other: &mut Client, findings: &mut Findings) {
    let prepared = CHANGES.each_ref().map(|change| (change.prepare)(one));
    // Names that the other lacks yet would be looked for in vain, and kept so.
    wait_for(other, "mode").ok();
    pause(FRESH);
    for change in &CHANGES {
        (change.sees)(other).ok();
    }
    let mut pending = prepared.map(|prepared| Pending {
        made: prepared.map(|()| Instant::now()),
        value: None,
    });
    for (change, pending) in CHANGES.iter().zip(&mut pending) {
        if pending.made.is_ok() {
            // The look that counts is fresh: what is kept is kept from now on.
            (change.sees)(other).ok();
            pending.made = (change.change)(one).map(|()| Instant::now());
        }
        look(change, pending, other);
    }
    while pending.iter().any(|pending| pending.value.is_none()) {
        pause(PAUSE);
        for (change, pending) in CHANGES.iter().zip(&mut pending) {
            look(change, pending, other);
        }
    }
    for (change, pending) in CHANGES.iter().zip(pending) {
        let value = pending.value.unwrap_or(Value::NotWithin(PATIENCE));
        findings.add(change.property, change.words, value);
    }
}

fn look(change: &Change, pending: &mut Pending, other: &mut Client) {
    if pending.value.is_some() {
        return;
    }
    let made = match pending.made {
        Ok(made) => made,
        Err(miss) => {
            pending.value = Some(Value::works::<()>(Err(miss)));
            return;
        }
    };
    let seen = (change.sees)(other);
    pending.value = match seen {
        Ok(true) => Some(Value::After(made.elapsed())),
        _ if made.elapsed() >= PATIENCE => Some(Value::NotWithin(PATIENCE)),
        Err(Miss::Silent) => Some(Value::Unknown(Miss::Silent.to_string())),
        _ => None,
    };
}

fn open_files(one: &mut Client, other: &mut Client, findings: &mut Findings) {
    let rename_over: Take = |one, name| {
        let new = format!("{name}.new");
        one.make(&new, "new")?;
        rename(one, &new, name, How::Over)
    };
    let unlink: Take = |one, name| {
        let path = one.at(name);
        one.run(&Op::Unlink(path))
    };
    let rows: [(&str, &str, Take, bool); 4] = [
        (
            "others-rename-over",
            "open file usable after another client's rename over it",
            rename_over,
            false,
        ),
        (
            "others-unlink",
            "open file usable after another client's unlink",
            unlink,
            false,
        ),
        (
            "others-rename-over-written",
            "the same, if it was written before the rename",
            rename_over,
            true,
        ),
        (
            "others-unlink-written",
            "the same, if it was written before the unlink",
            unlink,
            true,
        ),
    ];
    for (property, words, take, write_first) in rows {
        let value = Value::works(taken_away(one, other, property, (take, write_first)));
        findings.add(property, words, value);
    }
}

/// Takes the name from a file that another client has open.
type Take = fn(&mut Client, &str) -> Told<()>;

fn taken_away(
    one: &mut Client,
    other: &mut Client,
    name: &str,
    (take, write_first): (Take, bool),
) -> Told<()> {
    one.make(name, "old")?;
    wait_for(other, name)?;
    other.open(1, name, Mode::Update)?;
    if write_first {
        other.write(1, 0, "old")?;
    }
    take(one, name)?;
    let used = use_open(other, 1, "old");
    other.close(1).ok();
    used
}

fn bytes(one: &mut Client, other: &mut Client, findings: &mut Findings) {
    let value = measured(reopened(one, other));
    let words = "an open shows what another client closed before after";
    findings.add("seen-reopened", words, value);
    let value = measured(written(one, other));
    let words = "a size shows after a write, before a sync or close, after";
    findings.add("seen-written", words, value);
    let value = measured(overwritten(one, other));
    findings.add(
        "seen-bytes",
        "an open file shows another client's synced bytes after",
        value,
    );
    let value = Value::so(appended(one, other), "lines are lost");
    findings.add("others-append", "O_APPEND of two clients", value);
    let value = measured(mapped(one, other));
    findings.add(
        "others-mmap",
        "bytes of a synced mapping show elsewhere after",
        value,
    );
}

/// Last, as some stores let a reader wait while another client has the file open for writing.
fn syncs(one: &mut Client, other: &mut Client, findings: &mut Findings) {
    let value = match fsync_covers(one, other) {
        Err(Miss::Silent) => Value::No("the reader waits".to_owned()),
        told => Value::so(told, "not seen after it"),
    };
    let words = "fsync, then a read, shows bytes that another client has written and not closed";
    findings.add("fsync-of-others", words, value);
}

fn measured(told: Told<Value>) -> Value {
    told.unwrap_or_else(|miss| Value::works::<()>(Err(miss)))
}

/// Time until something shows.
fn until(mut shows: impl FnMut() -> Told<bool>) -> Told<Value> {
    let made = Instant::now();
    while made.elapsed() < PATIENCE {
        if shows()? {
            return Ok(Value::After(made.elapsed()));
        }
        pause(PAUSE);
    }
    Ok(Value::NotWithin(PATIENCE))
}

fn reopened(one: &mut Client, other: &mut Client) -> Told<Value> {
    one.make("cto", "old")?;
    wait_for(other, "cto")?;
    let mut worst = Value::After(Duration::ZERO);
    for text in ["new", "nex"] {
        other.content("cto")?;
        one.open(1, "cto", Mode::Update)?;
        one.write(1, 0, text)?;
        one.close(1)?;
        match (until(|| Ok(other.content("cto")? == text))?, &worst) {
            (Value::After(span), Value::After(before)) if span <= *before => {}
            (found, _) => worst = found,
        }
    }
    Ok(worst)
}

fn written(one: &mut Client, other: &mut Client) -> Told<Value> {
    other.make("written", "")?;
    wait_for(one, "written")?;
    one.open(1, "written", Mode::Update)?;
    one.write(1, 0, "hello")?;
    let seen = until(|| Ok(other.facts("written")?.size == 5));
    one.close(1)?;
    seen
}

fn overwritten(one: &mut Client, other: &mut Client) -> Told<Value> {
    one.make("bytes", "old")?;
    wait_for(other, "bytes")?;
    other.open(1, "bytes", Mode::Read)?;
    other.read(1, 0, 3)?;
    one.open(1, "bytes", Mode::Update)?;
    one.write(1, 0, "new")?;
    one.run(&Op::Fsync(1))?;
    let seen = until(|| Ok(other.read(1, 0, 3)? == "new"));
    other.close(1)?;
    one.close(1)?;
    seen
}

/// Nobody can look at the store's disks; but bytes that another client reads have left their writer.
///
/// Far behind the beginning, which clients keep, and read by nobody before.
fn fsync_covers(one: &mut Client, other: &mut Client) -> Told<bool> {
    const FAR: u64 = 200_000;
    one.open(1, "sync", Mode::Create)?;
    one.write(1, 2 * FAR, "end")?;
    one.run(&Op::Fsync(1))?;
    wait_for(other, "sync")?;
    one.write(1, FAR, "new")?;
    other.open(1, "sync", Mode::Update)?;
    other.run(&Op::Fsync(1))?;
    let seen = other.read(1, FAR, 3)?;
    other.close(1)?;
    one.close(1)?;
    Ok(seen == "new")
}

fn appended(one: &mut Client, other: &mut Client) -> Told<bool> {
    one.make("lines", "")?;
    wait_for(other, "lines")?;
    one.open(1, "lines", Mode::Append)?;
    other.open(1, "lines", Mode::Append)?;
    for line in 0..LINES {
        one.run(&Op::Append(1, format!("a{line:03}\n")))?;
        other.run(&Op::Append(1, format!("b{line:03}\n")))?;
    }
    one.close(1)?;
    other.close(1)?;
    let all = |text: &str| {
        let has = |who, line| text.lines().any(|found| found == format!("{who}{line:03}"));
        (0..LINES).all(|line| has("a", line) && has("b", line))
    };
    // A client may go on to show what it had kept; what is lost stays lost.
    let seen = until(|| Ok(all(&one.content("lines")?) || all(&other.content("lines")?)))?;
    Ok(matches!(seen, Value::After(_)))
}

fn mapped(one: &mut Client, other: &mut Client) -> Told<Value> {
    one.make("map", "of file")?;
    wait_for(other, "map")?;
    other.content("map")?;
    one.open(1, "map", Mode::Update)?;
    let stored = one.run(&Op::Map(1, 6, Some("mapped".to_owned())));
    one.close(1)?;
    stored?;
    until(|| Ok(other.content("map")?.starts_with("mapped")))
}

fn locks(one: &mut Client, other: &mut Client, findings: &mut Findings) {
    let kinds = [
        (
            Kind::Process,
            "others-lock-posix",
            "fcntl locks exclude other clients",
        ),
        (
            Kind::Description,
            "others-lock-ofd",
            "OFD locks exclude other clients",
        ),
        (
            Kind::Flock,
            "others-lock-flock",
            "flock excludes other clients",
        ),
    ];
    for (kind, property, words) in kinds {
        let value = Value::so(excludes(one, other, property, kind), "both have it");
        findings.add(property, words, value);
    }
    let value = Value::so(lock_orders(one, other), "old bytes under the lock");
    findings.add(
        "lock-orders",
        "a lock brings what was written under it",
        value,
    );
}

fn excludes(one: &mut Client, other: &mut Client, name: &str, kind: Kind) -> Told<bool> {
    one.make(name, "l")?;
    wait_for(other, name)?;
    one.open(1, name, Mode::Update)?;
    other.open(1, name, Mode::Update)?;
    let taken = one.lock(1, kind, true);
    let second = other.lock(1, kind, true);
    one.close(1)?;
    other.close(1)?;
    taken?;
    match second {
        Ok(()) => Ok(false),
        Err(Miss::Error(Errno::AGAIN | Errno::ACCESS)) => Ok(true),
        Err(miss) => Err(miss),
    }
}

fn lock_orders(one: &mut Client, other: &mut Client) -> Told<bool> {
    one.make("locked", "old")?;
    wait_for(other, "locked")?;
    one.open(1, "locked", Mode::Update)?;
    other.open(1, "locked", Mode::Update)?;
    other.read(1, 0, 3)?;
    one.lock(1, Kind::Process, true)?;
    one.write(1, 0, "new")?;
    one.lock(1, Kind::Process, false)?;
    other.lock(1, Kind::Process, true)?;
    let seen = other.read(1, 0, 3)?;
    other.lock(1, Kind::Process, false)?;
    one.close(1)?;
    other.close(1)?;
    Ok(seen == "new")
}
