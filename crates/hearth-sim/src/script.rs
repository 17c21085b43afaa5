//! Scripts: protocol stories with their full transcripts.
//!
//! A script is a text of lines. `#` begins a remark, four spaces begin a line of transcript, all else is an
//! order: to the world (`nodes`, `file`, `store fails`, `break` ...) or to the session of a node (`0 reads h0
//! 16 8`). Delays are zero, so that things happen in the order in which they were caused. The consequences of
//! an order are over before the next, unless its line ends with `...`. [`play`] carries out the orders and
//! returns the text with the transcript that really came.

use crate::plan::Plan;
use crate::tamper::Tamper;
use crate::world::World;
use crate::world::answers::Answer;
use crate::world::session::Action;
use hearth_proto::bank::{BankLost, BankOk, BankOrder, Daemon, Item, Key};
use hearth_proto::msg::{Body, Envelope, Use, Wanted};
use hearth_proto::{
    Allocation, BankConfig, CloseRule, Effect, FileId, Input, NodeId, Policy, Ranges, ReadInto,
    Replicas, Reply, Semantics, Span, Synced, WriteAt, errno,
};

/// A line that nobody understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear(pub String);

/// Carries out a script; returns it with the transcript that came, and what did not hold.
pub fn play(text: &str) -> Result<(String, World), Unclear> {
    let mut plan = quiet_plan();
    let mut world: Option<World> = None;
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.starts_with("    ")) {
        out.push_str(line);
        out.push('\n');
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || line.starts_with('#') {
            continue;
        }
        let unclear = || Unclear(line.to_owned());
        if set_up(&mut plan, &words).is_some() {
            continue;
        }
        let world = world.get_or_insert_with(|| begin(&plan));
        let meanwhile = words.pop_if(|word| *word == "...").is_some();
        order(world, &words).ok_or_else(unclear)?;
        if !meanwhile {
            world.go_quiet();
        }
        for told in std::mem::take(&mut world.story) {
            out.push_str(&format!("    {told}\n"));
        }
    }
    let world = world.unwrap_or_else(|| begin(&plan));
    Ok((out, world))
}

fn quiet_plan() -> Plan {
    let none = Span(0);
    Plan {
        nodes: 2,
        looks: false,
        asides: false,
        hands: false,
        policy: Policy::Home,
        allocation: Allocation::Slot,
        close: CloseRule::Flushed,
        chunk_pages: 4,
        frames: 64,
        store_io_bytes: 1024,
        window_bytes: 4096,
        net_delay: none,
        store_delay: none,
        local_delay: none,
        store_faults: false,
        link_faults: true,
        bank: BankConfig {
            daemons: 2,
            ..BankConfig::default()
        },
        outside: false,
        tamper: Tamper::Nothing,
        ..Plan::from_seed(0)
    }
}

fn begin(plan: &Plan) -> World {
    let mut world = World::new(plan.clone());
    world.scripted = true;
    for node in 0..plan.nodes {
        world.add_session(node as usize);
    }
    world
}

/// Lines that shape the world; they come first.
fn set_up(plan: &mut Plan, words: &[&str]) -> Option<()> {
    match words {
        ["nodes", count] => plan.nodes = count.parse().ok()?,
        ["chunk", pages] => plan.chunk_pages = pages.parse().ok()?,
        ["run", bytes] => plan.store_io_bytes = bytes.parse().ok()?,
        ["policy", name] => plan.policy = Policy::by_name(name)?,
        ["semantics", name] => plan.semantics = Semantics::by_name(name)?,
        ["ranges", name] => plan.ranges = Ranges::by_name(name)?,
        ["homes", "slot"] => plan.allocation = Allocation::Slot,
        ["homes", "first-touch"] => plan.allocation = Allocation::FirstTouch,
        ["homes", "round-robin"] => plan.allocation = Allocation::RoundRobin,
        ["replicas", name] => plan.replicas = Replicas::by_name(name)?,
        ["tier"] => (plan.tier, plan.synced) = (true, Synced::Tier),
        ["close", "flushed"] => plan.close = CloseRule::Flushed,
        ["close", "buffered"] => plan.close = CloseRule::Buffered,
        ["gateways", nodes @ ..] => {
            let nodes = nodes.iter().map(|node| node.parse().map(NodeId));
            plan.bank.gateways = nodes.collect::<Result<_, _>>().ok()?;
        }
        ["looks"] => plan.looks = true,
        ["views"] => plan.views = 1,
        ["frames", count] => plan.frames = count.parse().ok()?,
        ["daemons", count] => plan.bank.daemons = count.parse().ok()?,
        _ => return None,
    }
    Some(())
}

fn order(world: &mut World, words: &[&str]) -> Option<()> {
    match words {
        ["file", file, size] => {
            let file = FileId(file.parse().ok()?);
            world.create(file, size.parse().ok()?)?;
        }
        ["private", file, node] => {
            let file = FileId(file.parse().ok()?);
            world.private.insert(file, node.parse().ok()?);
        }
        ["store", "fails", kind] => {
            let errno = match *kind {
                "ENOSPC" => 28,
                "ESTALE" => errno::ESTALE,
                _ => errno::EIO,
            };
            world.fail_store(errno, Span::secs(1_000_000));
            world.store_always_fails = true;
        }
        ["store", "heals"] => world.store.fault = None,
        ["break", a, b] => world.break_link(a.parse().ok()?, b.parse().ok()?),
        ["mend", a, b] => world.mend(a.parse().ok()?, b.parse().ok()?),
        ["cut", node, "from", "daemon", daemon] => {
            world.cut_bank(node.parse().ok()?, Daemon(daemon.parse().ok()?));
        }
        ["join", "daemon", daemon] => world.bank_returns(Daemon(daemon.parse().ok()?)),
        ["view", number, "without", node] => {
            world.view_without(number.parse().ok()?, node.parse().ok()?);
        }
        ["wait", seconds] => world.wait(Span::secs(seconds.parse().ok()?)),
        [node, rest @ ..] => {
            let action = action(rest)?;
            world.begin(node.parse().ok()?, action);
        }
        [] => {}
    }
    Some(())
}

fn action(words: &[&str]) -> Option<Action> {
    let handle = |word: &str| word.strip_prefix('h')?.parse::<usize>().ok();
    let file = |word: &str| word.parse().ok().map(FileId);
    Some(match words {
        ["opens", name, how] => Action::Open {
            file: file(name)?,
            write: *how == "write",
        },
        ["reads", h, offset, len] => Action::Read {
            handle: handle(h)?,
            offset: offset.parse().ok()?,
            len: len.parse().ok()?,
        },
        ["writes", h, at, len] => Action::Write {
            handle: handle(h)?,
            at: match *at {
                "end" => WriteAt::End,
                offset => WriteAt::Offset(offset.parse().ok()?),
            },
            len: len.parse().ok()?,
        },
        ["flushes", h] => Action::Flush(handle(h)?),
        ["syncs", h] => Action::Sync(handle(h)?),
        ["exchanges", h] => Action::Exchange(handle(h)?),
        ["closes", h] => Action::Close(handle(h)?),
        ["asks", "size", name] => Action::Stat {
            file: file(name)?,
            ask: true,
        },
        ["truncates", name, size] => Action::Truncate {
            file: file(name)?,
            size: size.parse().ok()?,
        },
        ["unlinks", name] => Action::Unlink(file(name)?),
        ["creates", name, size] => Action::Create {
            file: file(name)?,
            size: size.parse().ok()?,
        },
        ["looks", "at", name] => Action::Look(file(name)?),
        ["changes", name] => Action::Restamp(file(name)?),
        ["laminates", name] => Action::Laminate(file(name)?),
        ["settles", name] => Action::Settle(file(name)?),
        ["hands", name, "to", heir] => Action::HandOver {
            file: file(name)?,
            heir: NodeId(heir.parse().ok()?),
        },
        ["outside", name, offset, len] => Action::Outside {
            file: file(name)?,
            offset: offset.parse().ok()?,
            len: len.parse().ok()?,
        },
        _ => return None,
    })
}

/// An effect in a line, if it is part of the story.
pub(crate) fn tell(node: usize, effect: &Effect) -> Option<String> {
    let line = match effect {
        Effect::Send { to, envelope, .. } => format!("{node} -> {}  {}", to.0, say(envelope)),
        Effect::StoreRead { offset, into, .. } => {
            let len: u32 = match into {
                ReadInto::Frames(pieces) => pieces.iter().map(|piece| piece.len).sum(),
                ReadInto::Buf(_, len) => *len,
            };
            format!("{node} store read {offset}+{len}")
        }
        Effect::StoreWrite { offset, data, .. } => {
            let len: u32 = data.iter().map(|piece| piece.len).sum();
            format!("{node} store write {offset}+{len}")
        }
        Effect::StorePieces { data, .. } => {
            let pieces = data.iter();
            let pieces = pieces.map(|(offset, piece)| format!(" {offset}+{}", piece.len));
            format!("{node} store write{}", pieces.collect::<String>())
        }
        Effect::StoreThrough { offset, .. } => format!("{node} store write through {offset}"),
        Effect::StoreSync { sync: Some(_), .. } => format!("{node} store fsync"),
        Effect::StoreSync { sync: None, .. } => format!("{node} store stamp"),
        Effect::StoreTruncate { size, .. } => format!("{node} store truncate {size}"),
        Effect::Recover => format!("{node} recovers its tier"),
        Effect::TierCut { from, .. } => format!("{node} tier cut {from}.."),
        Effect::Revoke { pages, .. } => match pages {
            Some((first, u32::MAX)) => format!("{node} revokes pages {first}.."),
            Some((first, count)) => format!("{node} revokes pages {first}+{count}"),
            None => format!("{node} revokes attributes"),
        },
        Effect::Direct { .. } => format!("{node} goes to the store"),
        Effect::Restamp { .. } => format!("{node} opens once more"),
        Effect::Bank { daemon, order, .. } => {
            format!("{node} => daemon {}  {}", daemon.0, ask(order))
        }
        Effect::Disconnect { peer } => format!("{node} gives up {}", peer.0),
        Effect::Release { .. } => format!("{node} closes its descriptor"),
        Effect::Alarm(alarm) => format!("{node} alarm {alarm:?}"),
        Effect::Reply { reply, .. } => match reply {
            Reply::Data(_) | Reply::Opened { .. } | Reply::Written { .. } => return None,
            Reply::Size { .. } | Reply::Leaves(_) | Reply::Names { .. } => return None,
            Reply::Done | Reply::Failed(_) => return None,
        },
        Effect::Fill { .. }
        | Effect::Stash { .. }
        | Effect::Free(_)
        | Effect::Encode { .. }
        | Effect::Restore { .. }
        | Effect::Offer { .. }
        | Effect::TakeBack { .. }
        | Effect::Refused(_)
        | Effect::Forgotten { .. }
        | Effect::Reopen { .. } => return None,
    };
    Some(line)
}

/// An order to a daemon in words.
fn ask(order: &BankOrder) -> String {
    let blocks = |keys: &[Key]| keys.iter().map(|key| key.block).collect::<Vec<u64>>();
    match order {
        BankOrder::Get(keys) => format!("get {:?}", blocks(keys)),
        BankOrder::Set { key, .. } => format!("set [{}]", key.block),
        BankOrder::Delete(keys) if keys.iter().all(|key| key.block == Key::ATTRIBUTES) => {
            "delete attributes".to_owned()
        }
        BankOrder::Delete(keys) => format!("delete {:?}", blocks(keys)),
        BankOrder::Look(keys) => format!("look at attributes of {} files", keys.len()),
        BankOrder::Tell { .. } => "set attributes".to_owned(),
    }
}

/// The outcome of an order to a daemon, in words.
fn told(result: &Result<BankOk, BankLost>) -> String {
    match result {
        Ok(BankOk::Done) => "done".to_owned(),
        Ok(BankOk::Found { items, .. }) => {
            let found = |item: &Option<Item>| if item.is_some() { "hit" } else { "miss" };
            let found: Vec<&str> = items.iter().map(found).collect();
            found.join(", ")
        }
        Ok(BankOk::Looked(found)) => {
            let word = |told: &Option<_>| if told.is_some() { "hit" } else { "miss" };
            let found: Vec<&str> = found.iter().map(word).collect();
            found.join(", ")
        }
        Err(BankLost) => "no answer".to_owned(),
    }
}

fn say(envelope: &Envelope) -> String {
    let cut = envelope.generation.cut;
    match &envelope.body {
        Body::Open { write: true, .. } => "open to write".to_owned(),
        Body::Open { write: false, .. } => "open to read".to_owned(),
        Body::OpenOk { .. } => opened(&envelope.body),
        Body::Read { .. } | Body::Write { .. } => asked(&envelope.body),
        Body::Close {
            write,
            wrote,
            stamp,
            ..
        } => {
            let end = if *write { "writer" } else { "reader" };
            let news = match (wrote, stamp) {
                (false, _) => "nothing written",
                (true, Some(_)) => "all in the store",
                (true, None) => "not all in the store",
            };
            format!("close of a {end}, {news}")
        }
        Body::Grant {
            first,
            lens,
            good,
            origin,
            ..
        } => {
            let good = match good {
                Use::Own(_) => "Own".to_owned(),
                Use::Copy | Use::Once => format!("{good:?}"),
            };
            format!("grant {first} {lens:?} {good} from {origin:?}")
        }
        Body::Extend { end, append, .. } => match append {
            Some(start) => format!("append {start}..{end}"),
            None => format!("extend to {end}"),
        },
        Body::Peek { first, count, .. } => format!("peek {first}+{count}"),
        Body::Peeked { first, lens, .. } => format!("peeked {first} {lens:?}"),
        Body::Window {
            at: Some(offset),
            len,
        } => format!("window {offset}+{len}"),
        Body::Window { at: None, len } => format!("window at the end, {len}"),
        Body::WindowOk(size) => format!("window closed, {size} bytes"),
        Body::WindowGo { offset, .. } => format!("write at {offset}"),
        Body::WindowOver(Ok(_)) => "written in the store".to_owned(),
        Body::Inval {
            first,
            count: u32::MAX,
            ..
        } => format!("drop pages {first}.."),
        Body::Inval { first, count, .. } => format!("drop pages {first}+{count}"),
        Body::FlushOk(_) => "flushed".to_owned(),
        Body::Truncated(Ok(_)) => "truncated in the store".to_owned(),
        Body::Forget { size, service, .. } if *size == u64::MAX => format!("forget, {service:?}"),
        Body::Forget { size, service, .. } => format!("forget, at most {size}, {service:?}"),
        Body::SizeIs { size, keep, .. } => format!("size is {size:?}, keep {keep}"),
        Body::Size { .. } => "size".to_owned(),
        Body::ForgetOk(_) => "forgetOk".to_owned(),
        Body::OldGeneration => format!("old generation, now cut {cut}"),
        other => say_range(other),
    }
}

/// The words for operations over several homes.
fn say_range(body: &Body) -> String {
    match body {
        Body::Stage { offset, len, .. } => format!("stage {offset}+{len}"),
        Body::Hold { first, count, .. } => format!("hold {first}+{count}"),
        Body::Staged { .. } => "staged".to_owned(),
        Body::Apply { .. } => "apply".to_owned(),
        Body::Release { .. } => "release".to_owned(),
        Body::Wound { .. } => "give way".to_owned(),
        other => say_own(other),
    }
}

/// The words for pages that a node writes by itself.
fn say_own(body: &Body) -> String {
    match body {
        Body::WriteOwn { page, .. } => format!("writeOk, page {page} is yours"),
        Body::Push { page, len, .. } => format!("push page {page} [{len}]"),
        Body::PushNo { page, .. } => format!("page {page} is of no use"),
        Body::Claim { page, .. } => format!("claim page {page}"),
        Body::WriteHere => "send the bytes".to_owned(),
        Body::Elsewhere(pages) => {
            let pages = pages
                .iter()
                .map(|moved| format!("{} at {}", moved.page, moved.node.0));
            let pages: Vec<String> = pages.collect();
            format!("elsewhere: {}", pages.join(", "))
        }
        Body::Fetch { page, .. } => format!("fetch page {page}"),
        Body::TakeBack { page, wanted, .. } => {
            let why = match wanted {
                Wanted::Bytes => "",
                Wanted::Part => ", it is written",
                Wanted::All => ", all of it is written",
            };
            format!("take back page {page}{why}")
        }
        Body::Return {
            page, ranges, left, ..
        } => {
            let ranges = ranges.chunks_exact(2);
            let ranges: Vec<String> = ranges.map(|r| format!("{}+{}", r[0], r[1])).collect();
            format!("return page {page} [{}], keeps {left:?}", ranges.join(" "))
        }
        other => lower(&format!("{other:?}")),
    }
}

/// The words of the answer to an open.
fn opened(body: &Body) -> String {
    let Body::OpenOk {
        size,
        shared,
        homes,
        holders,
        semantics,
        ..
    } = body
    else {
        return String::new();
    };
    let shared = if *shared { ", shared" } else { "" };
    let known = match holders.is_empty() {
        true => String::new(),
        false => format!(", held by {holders:?}"),
    };
    let level = match semantics {
        Semantics::Posix => String::new(),
        other => format!(", {}", other.name()),
    };
    format!("opened, {size} bytes{shared}, homes {homes:?}{known}{level}")
}

/// The words of a question to a home about bytes.
fn asked(body: &Body) -> String {
    match *body {
        Body::Read {
            first,
            count,
            keep,
            record,
            ..
        } => {
            let read = format!("read {{ first: {first}, count: {count}, keep: {keep} }}");
            unless_recorded(read, record)
        }
        Body::Write {
            offset,
            len,
            dropped,
            record,
            ..
        } => {
            let write = format!("write {{ offset: {offset}, len: {len}, dropped: {dropped} }}");
            unless_recorded(write, record)
        }
        _ => String::new(),
    }
}

/// Homes record readers, unless it is said.
fn unless_recorded(text: String, record: bool) -> String {
    match record {
        true => text,
        false => format!("{text}, not recorded"),
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// An input in a line, if it is part of the story.
pub(crate) fn tell_input(node: usize, input: &Input) -> Option<String> {
    match input {
        Input::Message { from, envelope, .. } => {
            Some(format!("{node} <- {}  {}", from.0, say(envelope)))
        }
        Input::StoreDone(_, Ok(ok)) => Some(format!("{node} store done, {} bytes read", ok.bytes)),
        Input::StoreDone(_, Err(errno)) => Some(format!("{node} store error {errno}")),
        Input::Revoked(_) => Some(format!("{node} has revoked")),
        Input::Tick => Some(format!("{node} wakes")),
        Input::BankDone(_, result) => Some(format!("{node} bank: {}", told(result))),
        Input::BankUp(daemon) => Some(format!("{node} has daemon {}", daemon.0)),
        Input::BankDown(daemon) => Some(format!("{node} has lost daemon {}", daemon.0)),
        Input::Locals(writes) => Some(format!("{node} is brought {} writes", writes.len())),
        Input::Wanted(peer) => Some(format!("{node} wants something of node {}", peer.0)),
        Input::Shed => Some(format!("{node} drops its oldest clean page")),
        Input::View { view, .. } => Some(format!("{node} goes over to view {}", view.0)),
        Input::Request(..) | Input::PeerUp(_) | Input::PeerDown(_) => None,
        Input::Recovered => Some(format!("{node} has recovered its tier")),
        Input::Hush | Input::Settle | Input::Directed(_) => None,
    }
}

/// An answer in a line.
pub(crate) fn tell_answer(node: usize, answer: &Answer) -> String {
    match answer {
        Answer::Opened {
            direct,
            kept_valid,
            size,
            ..
        } => {
            let how = if *direct { "direct" } else { "kept" };
            let before = if *kept_valid {
                ""
            } else {
                ", nothing kept is good"
            };
            format!("{node} = open, {size} bytes, {how}{before}")
        }
        Answer::Data { bytes, .. } => format!("{node} = {}", runs(bytes)),
        Answer::Written { offset, size } => {
            format!("{node} = written at {offset}, {size} bytes now")
        }
        Answer::Names(leave, names) => format!("{node} = names {leave:?} {names:?}"),
        Answer::Leaves(leaves) => format!("{node} = leave {leaves:?}"),
        Answer::Size {
            size: Some(size), ..
        } => format!("{node} = {size} bytes"),
        Answer::Size { size: None, .. } => format!("{node} = as the store says"),
        Answer::Done => format!("{node} = done"),
        Answer::Failed(errno) => format!("{node} = error {errno}"),
    }
}

/// Bytes as value and count.
pub(crate) fn runs(bytes: &[u8]) -> String {
    let same = bytes.chunk_by(|a, b| a == b);
    let runs: Vec<String> = same
        .map(|run| format!("{}*{}", run[0], run.len()))
        .collect();
    match runs.is_empty() {
        true => "nothing".to_owned(),
        false => runs.join(" "),
    }
}
