//! The properties of a store that one client shows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::client::{Client, Miss, Told};
use super::op::{How, Kind, Mode, Op};
use super::value::{Findings, Value};

/// For how long a file is written to see how often the clock of its attributes ticks.
const CLOCK_SPAN: Duration = Duration::from_millis(300);

/// A stamp with a digit in each place of a second.
const STAMP: u64 = 1_000_000_000_123_456_789;

/// Blocks of a file that is all hole but for its end.
const HOLE: u64 = 1 << 20;

/// An access list that names user 1: version 2; rights of the owner, of user 1, of the group, mask, others.
const ACCESS_LIST: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 1, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255,
    255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];

/// Measures with one client, which stands below its own directory.
pub(super) fn measure(client: &mut Client, findings: &mut Findings) {
    for group in [names, kinds, content, locks, attributes, clocks] {
        group(client, findings);
        client.renew();
    }
}

fn names(client: &mut Client, findings: &mut Findings) {
    let number = Value::so(number_stays(client), "it changes with a rename");
    findings.add(
        "inode-stays",
        "inode number stays after a rename and an open",
        number,
    );
    let value = Value::works(open_file_survives(client, "over", |client| {
        client.make("over.new", "new")?;
        rename(client, "over.new", "over", How::Over)
    }));
    findings.add(
        "open-renamed-over",
        "open file readable after a rename over it",
        value,
    );
    let value = Value::works(open_file_survives(client, "gone", |client| {
        let gone = client.at("gone");
        client.run(&Op::Unlink(gone))
    }));
    findings.add(
        "open-unlinked",
        "open file readable and writable after its unlink",
        value,
    );
    let value = Value::works(exchange(client));
    findings.add("rename-exchange", "rename that exchanges two names", value);
    let value = match noreplace(client) {
        Ok(()) => Value::No("replaces".to_owned()),
        Err(Miss::Error(rustix::io::Errno::EXIST)) => Value::Yes,
        Err(miss) => Value::works::<()>(Err(miss)),
    };
    findings.add("rename-noreplace", "rename that replaces nothing", value);
}

fn number_stays(client: &mut Client) -> Told<bool> {
    client.make("number", "n")?;
    let before = client.facts("number")?.ino;
    rename(client, "number", "number.new", How::Over)?;
    client.open(1, "number.new", Mode::Read)?;
    let opened = client.facts_of(1)?.ino;
    client.close(1)?;
    Ok(before == opened && client.facts("number.new")?.ino == before && before != 0)
}

/// Opens a file, has its name taken away, and uses the descriptor.
fn open_file_survives(
    client: &mut Client,
    name: &str,
    take: impl FnOnce(&mut Client) -> Told<()>,
) -> Told<()> {
    client.make(name, "old")?;
    client.open(1, name, Mode::Update)?;
    take(client)?;
    let used = use_open(client, 1, "old");
    client.close(1)?;
    used
}

/// Reads, writes and syncs an open file; `EIO` if it has other bytes than these.
pub(super) fn use_open(client: &mut Client, slot: u32, old: &str) -> Told<()> {
    client.facts_of(slot)?;
    if client.read(slot, 0, old.len())? != old {
        return Err(Miss::Error(rustix::io::Errno::IO));
    }
    client.write(slot, 0, "mine")?;
    client.run(&Op::Fsync(slot))?;
    match client.read(slot, 0, 4)? == "mine" {
        true => Ok(()),
        false => Err(Miss::Error(rustix::io::Errno::IO)),
    }
}

pub(super) fn rename(client: &mut Client, from: &str, to: &str, how: How) -> Told<()> {
    let (from, to) = (client.at(from), client.at(to));
    client.run(&Op::Rename(from, to, how))
}

fn exchange(client: &mut Client) -> Told<()> {
    client.make("x", "x")?;
    client.make("y", "y")?;
    rename(client, "x", "y", How::Exchange)
}

fn noreplace(client: &mut Client) -> Told<()> {
    client.make("v", "v")?;
    client.make("w", "w")?;
    rename(client, "v", "w", How::Noreplace)
}

fn kinds(client: &mut Client, findings: &mut Findings) {
    let value = Value::so(hard_link(client), "other numbers or counts");
    findings.add("hard-links", "hard links", value);
    let value = Value::works(symbolic_link(client));
    findings.add(
        "symlinks",
        "symbolic links, also removed and renamed over",
        value,
    );
    let value = Value::works(fifo(client));
    findings.add("fifos", "fifos, also removed and renamed over", value);
    let nameless = client.run(&Op::Open(1, ".".to_owned(), Mode::Nameless));
    findings.add(
        "tmpfile",
        "files without a name (O_TMPFILE)",
        Value::works(nameless),
    );
    client.close(1).ok();
    let value = match handle(client) {
        Err(Miss::Error(rustix::io::Errno::PERM)) => Value::Unknown("only root may".to_owned()),
        told => Value::works(told),
    };
    findings.add("handles", "open by handle", value);
}

fn hard_link(client: &mut Client) -> Told<bool> {
    client.make("link", "l")?;
    let (from, to) = (client.at("link"), client.at("link.2"));
    client.run(&Op::Link(from, to))?;
    let (one, two) = (client.facts("link")?, client.facts("link.2")?);
    Ok(one.ino == two.ino && one.links == 2)
}

fn symbolic_link(client: &mut Client) -> Told<()> {
    let path = client.at("symlink");
    client.run(&Op::Symlink("nowhere".to_owned(), path.clone()))?;
    client.run(&Op::ReadLink(path.clone()))?;
    client.run(&Op::Unlink(path.clone()))?;
    client.run(&Op::Symlink("nowhere".to_owned(), path))?;
    client.make("symlink.new", "f")?;
    rename(client, "symlink.new", "symlink", How::Over)
}

fn fifo(client: &mut Client) -> Told<()> {
    let path = client.at("fifo");
    client.run(&Op::MakeFifo(path.clone()))?;
    client.run(&Op::Unlink(path.clone()))?;
    client.run(&Op::MakeFifo(path))?;
    client.make("fifo.new", "f")?;
    rename(client, "fifo.new", "fifo", How::Over)
}

fn handle(client: &mut Client) -> Told<()> {
    client.make("handle", "h")?;
    let path = client.at("handle");
    client.run(&Op::Handle(path))
}

fn content(client: &mut Client, findings: &mut Findings) {
    let value = Value::so(appends(client), "bytes stand elsewhere");
    findings.add("append", "O_APPEND", value);
    let value = Value::so(mapped(client, None), "other bytes");
    findings.add("mmap-read", "shared mapping, read", value);
    let value = Value::so(
        mapped(client, Some("mapped")),
        "bytes do not reach the file",
    );
    findings.add("mmap-write", "shared mapping, written", value);
    let value = Value::works(direct(client));
    findings.add("direct", "O_DIRECT", value);
    let value = Value::so(sparse(client), "they take room");
    findings.add("holes", "holes take no room", value);
    let value = Value::so(told_hole(client), "not told");
    findings.add("seek-hole", "holes are told (SEEK_HOLE)", value);
}

fn appends(client: &mut Client) -> Told<bool> {
    client.open(1, "append", Mode::Append)?;
    client.open(2, "append", Mode::Append)?;
    for slot in [1, 2, 1, 2] {
        client.run(&Op::Append(slot, format!("{slot}")))?;
    }
    client.close(1)?;
    client.close(2)?;
    Ok(client.content("append")? == "1212")
}

fn mapped(client: &mut Client, store: Option<&str>) -> Told<bool> {
    let name = if store.is_some() { "map.w" } else { "map.r" };
    client.make(name, "of file")?;
    client.open(1, name, Mode::Update)?;
    let shown = client.call(&Op::Map(1, 6, store.map(str::to_owned)));
    client.close(1)?;
    let shown = match shown? {
        super::op::Answer::Text(text) => text,
        _ => return Err(Miss::Silent),
    };
    let expected = store.unwrap_or("of fil");
    Ok(shown == expected && client.content(name)?.starts_with(expected))
}

fn direct(client: &mut Client) -> Told<()> {
    client.make("direct", &"d".repeat(4096))?;
    client.open(1, "direct", Mode::Direct)?;
    let read = client.read(1, 0, 4096);
    client.close(1)?;
    read.map(drop)
}

fn sparse(client: &mut Client) -> Told<bool> {
    client.open(1, "sparse", Mode::Create)?;
    client.write(1, HOLE, "end")?;
    client.run(&Op::Fsync(1))?;
    let blocks = client.facts_of(1)?.blocks;
    client.close(1)?;
    Ok(blocks * 512 < HOLE)
}

fn told_hole(client: &mut Client) -> Told<bool> {
    client.open(1, "sparse", Mode::Read)?;
    let hole = client.number(&Op::Hole(1));
    client.close(1)?;
    Ok(hole? == 0)
}

fn locks(client: &mut Client, findings: &mut Findings) {
    let kinds = [
        (Kind::Process, "lock-posix", "lock of a process (fcntl)"),
        (
            Kind::Description,
            "lock-ofd",
            "lock of an open file (fcntl, OFD)",
        ),
        (Kind::Flock, "lock-flock", "flock"),
    ];
    for (kind, property, words) in kinds {
        findings.add(
            property,
            words,
            Value::works(lock_once(client, property, kind)),
        );
    }
}

fn lock_once(client: &mut Client, name: &str, kind: Kind) -> Told<()> {
    client.make(name, "l")?;
    client.open(1, name, Mode::Update)?;
    let taken = client.lock(1, kind, true);
    let returned = client.lock(1, kind, false);
    client.close(1)?;
    taken.and(returned)
}

fn attributes(client: &mut Client, findings: &mut Findings) {
    let value = Value::works(attribute(client));
    findings.add("xattr-user", "extended attributes of users", value);
    let value = Value::works(access_list(client));
    findings.add("acl", "POSIX access lists", value);
    let value = match client.number(&Op::Space(".".to_owned())) {
        Ok(0) => Value::No("it says that there is none".to_owned()),
        told => Value::works(told),
    };
    findings.add("statfs", "room that is told", value);
}

fn attribute(client: &mut Client) -> Told<()> {
    client.make("xattr", "x")?;
    let (path, name) = (client.at("xattr"), "user.hearth.doctor".to_owned());
    client.run(&Op::SetAttribute(path.clone(), name.clone(), b"v".to_vec()))?;
    client.run(&Op::Attribute(path, name))
}

fn access_list(client: &mut Client) -> Told<()> {
    client.make("acl", "a")?;
    let (path, name) = (client.at("acl"), "system.posix_acl_access".to_owned());
    client.run(&Op::SetAttribute(
        path.clone(),
        name.clone(),
        ACCESS_LIST.to_vec(),
    ))?;
    client.run(&Op::Attribute(path, name))
}

fn clocks(client: &mut Client, findings: &mut Findings) {
    let value = match kept_stamp(client) {
        Ok(kept) => Value::Is(grain(kept).to_owned()),
        Err(miss) => Value::works::<()>(Err(miss)),
    };
    findings.add("mtime-grain", "times are kept to", value);
    let value = match ticks(client) {
        Ok(Some(step)) => Value::Is(format!("{:.2} ms", step.as_secs_f64() * 1e3)),
        Ok(None) => Value::No(format!("it stood for {} ms", CLOCK_SPAN.as_millis())),
        Err(miss) => Value::works::<()>(Err(miss)),
    };
    findings.add("ctime-tick", "ctime ticks every, or with each write", value);
}

fn kept_stamp(client: &mut Client) -> Told<u64> {
    client.make("stamp", "s")?;
    let path = client.at("stamp");
    client.run(&Op::Touch(path, STAMP))?;
    Ok(client.facts("stamp")?.mtime)
}

fn grain(kept: u64) -> &'static str {
    let grains = [
        (1, "1 ns"),
        (100, "100 ns"),
        (1000, "1 us"),
        (1_000_000, "1 ms"),
    ];
    let found = grains.iter().find(|(unit, _)| STAMP / unit * unit == kept);
    found.map_or("1 s", |(_, words)| words)
}

/// Shortest time between two writes that ctime tells apart, if it tells any apart.
fn ticks(client: &mut Client) -> Told<Option<Duration>> {
    client.open(1, "clock", Mode::Create)?;
    let begun = Instant::now();
    let mut seen = BTreeSet::new();
    while begun.elapsed() < CLOCK_SPAN {
        client.write(1, 0, "tick")?;
        seen.insert(client.facts_of(1)?.ctime);
    }
    client.close(1)?;
    let steps = seen.iter().zip(seen.iter().skip(1));
    Ok(steps
        .map(|(one, two)| Duration::from_nanos(two - one))
        .min())
}
