//! Requests of programs that have waited for long, in words: what is waited for, of which file, and which agents owe an
//! answer about it.
//!
//! Nothing waits for 10 s without such a word. A wait for an agent that is silent is told before that agent is given up;
//! one for the store, or for a lock of its programs, may be right, and is told later. A word is shown for as long as its
//! request waits, and logged once. It is made without a call on the store, which may be what is late.

use crate::core::State;
use crate::files::Files;
use hearth_client::LateCall;
use hearth_proto::{FileId, Node, NodeId, Request, Span, Ticket, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Requests are looked at so often while there are any.
pub(crate) const LOOK: Span = Span::secs(1);
/// A request that waits so long for another agent is told.
const AGENT_LATE: Span = Span::secs(4);
/// And one that waits so long for the store, or for something of this agent.
pub(crate) const STORE_LATE: Span = Span::secs(8);
/// Words that are shown; more say nothing new.
const WORDS_MAX: usize = 8;

/// The subject of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    since: Time,
    what: &'static str,
    /// The file, or the first of several.
    file: Option<FileId>,
}

impl About {
    pub(crate) fn new(since: Time, request: &Request, files: &Files) -> About {
        let (what, file) = told(request, files);
        About { since, what, file }
    }
}

/// Words for what is late, with the requests that wait; and for answers that other agents owe this one as a home or
/// manager.
pub(crate) fn words(state: &State, now: Time) -> Vec<(Option<Ticket>, String)> {
    let asked = state.tickets.abouts();
    let name = |file| state.files.called(file);
    let set = (state.node(), state.member.waits_for());
    words_of(asked, set, now, name)
}

/// The other agents that this one reaches, where it needs some to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Enough.
    Majority,
    /// Too few: calls wait.
    TooFew,
}

/// Words for calls that the front end has had for long. The agent has a word of its own for a file that its requests
/// are about.
pub(crate) fn words_of_calls(
    state: &State,
    calls: Vec<LateCall>,
    (now, reach): (Time, Reach),
) -> Vec<String> {
    let why = match (reach, state.member.waits_for()) {
        (Reach::TooFew, _) => "this agent does not reach a majority of the others".to_owned(),
        (Reach::Majority, Some(awaited)) => goes_over(awaited),
        (Reach::Majority, None) => "the store is slow, or another program has a lock".to_owned(),
    };
    let waited = |about: &About| Span(now.0.saturating_sub(about.since.0));
    let late = state.tickets.abouts().map(|(_, about)| about);
    let late = late.filter(|about| waited(about) >= AGENT_LATE);
    let told: BTreeSet<FileId> = late.filter_map(|about| about.file).collect();
    let file_of = |call: &LateCall| call.file.map(|file| FileId(file.ino));
    let untold = calls
        .iter()
        .filter(|call| !file_of(call).is_some_and(|file| told.contains(&file)));
    let word = |call: &LateCall| {
        let file = file_of(call).map(|file| format!(" of {}", state.files.called(file)));
        format!(
            "{WAITS} {} s for {}{}: {why}",
            call.waited.as_secs(),
            call.what,
            file.unwrap_or_default(),
        )
    };
    untold.take(WORDS_MAX).map(word).collect()
}

/// Logs what was not logged yet.
pub(crate) fn look(state: &mut State, now: Time) {
    if !state.tickets.are_due(now) {
        return;
    }
    for (ticket, word) in words(state, now) {
        if ticket.is_some_and(|ticket| state.tickets.tell_once(ticket)) {
            log::warn!("{word}");
        }
    }
}

fn words_of(
    asked: impl Iterator<Item = (Ticket, About)>,
    (node, awaited): (&Node, Option<&str>),
    now: Time,
    name: impl Fn(FileId) -> String,
) -> Vec<(Option<Ticket>, String)> {
    let waited = |since: Time| Span(now.0.saturating_sub(since.0));
    let owed: Vec<(NodeId, FileId, Time)> = node.owed().collect();
    let mut late: Vec<(Ticket, About)> = asked
        .filter(|(_, about)| waited(about.since) >= AGENT_LATE)
        .collect();
    late.sort_unstable_by_key(|(ticket, about)| (about.since, *ticket));
    let mut words = Vec::new();
    for (ticket, about) in late {
        let of_it = |&&(_, file, _): &&(NodeId, FileId, Time)| about.file == Some(file);
        let mut agents: Vec<u32> = owed.iter().filter(of_it).map(|owed| owed.0.0).collect();
        agents.sort_unstable();
        agents.dedup();
        if agents.is_empty() && waited(about.since) < STORE_LATE {
            continue;
        }
        let file = about
            .file
            .map_or(String::new(), |file| format!(" of {}", name(file)));
        let seconds = waited(about.since).0 / Span::secs(1).0;
        let word = format!(
            "{} {seconds} s for {}{file}: {}",
            WAITS,
            about.what,
            owers(&agents, awaited)
        );
        words.push((Some(ticket), word));
    }
    words.extend(owed_long(&owed, waited, name).map(|word| (None, word)));
    words.truncate(WORDS_MAX);
    words
}

/// How the word of a request begins.
const WAITS: &str = "a program has waited";

/// The members change, and this agent has not gone over.
fn goes_over(awaited: &str) -> String {
    format!("the set goes over to other members, and this agent waits for {awaited}")
}

fn owers(agents: &[u32], awaited: Option<&str>) -> String {
    let listed: Vec<String> = agents.iter().map(u32::to_string).collect();
    match (agents, awaited) {
        ([], Some(awaited)) => goes_over(awaited),
        ([], None) => "no other agent owes an answer, so its own store is slow, or what it shares with other programs of this host is in use".to_owned(),
        ([one], _) => format!("agent {one} owes an answer"),
        _ => format!("agents {} owe answers", listed.join(", ")),
    }
}

/// The oldest answer that each agent owes, where that is long due.
fn owed_long(
    owed: &[(NodeId, FileId, Time)],
    waited: impl Fn(Time) -> Span,
    name: impl Fn(FileId) -> String,
) -> impl Iterator<Item = String> {
    let mut oldest: BTreeMap<NodeId, (Time, FileId)> = BTreeMap::new();
    for &(peer, file, since) in owed.iter().filter(|owed| owed.1 != FileId::default()) {
        let entry = oldest.entry(peer).or_insert((since, file));
        *entry = (*entry).min((since, file));
    }
    let late = oldest.into_iter().filter_map(move |(peer, (since, file))| {
        let span = waited(since);
        let seconds = span.0 / Span::secs(1).0;
        let word = || {
            format!(
                "agent {} has owed an answer about {} for {seconds} s",
                peer.0,
                name(file)
            )
        };
        (span >= AGENT_LATE).then(word)
    });
    late.collect::<Vec<String>>().into_iter()
}

/// A request in words, and its file.
fn told(request: &Request, files: &Files) -> (&'static str, Option<FileId>) {
    let of = |handle| files.file_of(handle);
    match request {
        Request::Open(open) => ("an open", Some(open.file)),
        Request::Close(handle) => ("a close", of(*handle)),
        Request::Read { handle, .. } => ("a read", of(*handle)),
        Request::Write { handle, .. } | Request::Finish { handle, .. } => ("a write", of(*handle)),
        Request::Flush(handle) => ("what its close promises", of(*handle)),
        Request::Sync(handle) => ("a sync", of(*handle)),
        Request::Exchange(handle) => ("what its lock promises", of(*handle)),
        Request::Size { file, .. } => ("the size", Some(*file)),
        Request::Truncate { file, .. } => ("a truncation", Some(*file)),
        Request::Detach(file) | Request::Detached { file, .. } => {
            ("the end of the last name", Some(*file))
        }
        Request::Settle(file) => ("all bytes to be in the store", Some(*file)),
        Request::Laminate { file, .. } => ("word that nobody writes any more", Some(*file)),
        Request::HandOver { file, .. } => ("another home", Some(*file)),
        Request::Restamp { file, .. } | Request::Mapped(file) => ("word", Some(*file)),
        Request::Leave(files) => ("leave to keep attributes", files.first().copied()),
        Request::Await(files) => ("attributes that an agent reads", files.first().copied()),
        Request::Names(dir) | Request::Listed { dir, .. } => ("names", Some(*dir)),
        Request::Locate(files) => ("who manages files, the first", files.first().copied()),
        Request::Learned(learned) => ("word", learned.first().map(|one| one.file)),
        Request::Change(file) | Request::Changed { file, .. } => {
            ("a change of names or attributes", Some(*file))
        }
        Request::FlushAll => ("a flush of all files", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_proto::{Config, Effect, Input, Outbox};

    const BEGIN: Time = Time(1_000_000_000_000);

    /// Node 0, which waits for leave that only node 1 can give, since `BEGIN`; and the file.
    fn asks() -> (Node, Request, FileId) {
        let ask = |file: u64| {
            let mut node = Node::new(Config::new(NodeId(0), 2));
            let request = Request::Leave(vec![FileId(file)]);
            let mut out = Outbox::new();
            node.step(BEGIN, Input::Request(Ticket(1), request.clone()), &mut out);
            let sent = out
                .iter()
                .any(|effect| matches!(effect, Effect::Send { .. }));
            sent.then_some((node, request, FileId(file)))
        };
        (1..64)
            .find_map(ask)
            .expect("node 1 is the registrar of some file")
    }

    fn told_after(
        node: &Node,
        request: &Request,
        file: Option<FileId>,
        seconds: u64,
    ) -> Vec<String> {
        let what = match request {
            Request::Leave(_) => "leave to keep attributes",
            _ => "a sync",
        };
        let about = About {
            since: BEGIN,
            what,
            file,
        };
        let asked = [(Ticket(1), about)].into_iter();
        let name = |file: FileId| format!("inode {}", file.0);
        let words = words_of(asked, (node, None), BEGIN + Span::secs(seconds), name);
        words.into_iter().map(|(_, word)| word).collect()
    }

    #[test]
    fn an_agent_that_owes_an_answer_is_named_before_it_is_given_up() {
        let (node, request, file) = asks();
        assert_eq!(
            told_after(&node, &request, Some(file), 3),
            Vec::<String>::new()
        );
        let words = told_after(&node, &request, Some(file), 4);
        let of = format!("inode {}", file.0);
        assert_eq!(
            words,
            [
                format!(
                    "a program has waited 4 s for leave to keep attributes of {of}: agent 1 owes an answer"
                ),
                format!("agent 1 has owed an answer about {of} for 4 s"),
            ]
        );
        assert!(AGENT_LATE.0 + LOOK.0 < Config::new(NodeId(0), 2).give_up_after.0);
    }

    #[test]
    fn a_wait_for_the_store_is_told_within_ten_seconds() {
        let node = Node::new(Config::new(NodeId(0), 2));
        let sync = Request::FlushAll;
        assert_eq!(
            told_after(&node, &sync, Some(FileId(7)), 7),
            Vec::<String>::new()
        );
        let words = told_after(&node, &sync, Some(FileId(7)), 8);
        assert!(
            words
                .iter()
                .all(|word| word.contains("8 s for a sync of inode 7: no other agent"))
        );
        assert_eq!(words.len(), 1);
        assert!(STORE_LATE.0 + LOOK.0 < Span::secs(10).0);
    }
}
