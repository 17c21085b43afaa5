//! The bytes that the agents of a running set hold now. The agents of this host are asked, as `hearth status` does.
//! They are also asked for the holdings of other hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::jobs::{Asked, Job};
use super::residency::{Amount, File, Node, Residency};
use crate::node;
use hearth_set::control::{CallError, ControlRequest, Peer, call};
use hearth_set::failure::Failure;
use hearth_set::set::{Choice, Set, choose};
use hearth_set::size::Size;

/// A set, and what its agents told.
pub(super) struct Live {
    pub(super) set: Set,
    pub(super) residency: Residency,
}

/// Questions to agents of other hosts that are under way at once.
const QUESTIONS: usize = 16;

/// Asks the agents of a set. `names` are those of their nodes, or they tell themselves.
pub(super) fn ask(choice: &Choice, names: &[String]) -> Result<Live, Failure> {
    let set = choose(choice)?.swap_remove(0);
    let members = set.file.members.len();
    check_names(&set, members, names)?;
    let peers = set.peers();
    let mut answers = at_once(peers.len(), peers.len(), |at| {
        let peer = &peers[at];
        (peer.node, told(peer, peer.node))
    });
    let relays = peers.iter().zip(&answers);
    let relays: Vec<&Peer> = relays
        .filter(|(_, (_, answer))| answer.is_ok())
        .map(|(peer, _)| peer)
        .collect();
    if relays.is_empty() {
        let what = format!("cannot ask what the agents of job {} hold", set.file.job);
        let none = Failure::new(what).cause("none of them on this host answers");
        return Err(none.hint("hearth status"));
    }
    let is_here = |node: u32| peers.iter().any(|peer| peer.node == node);
    let elsewhere: Vec<u32> = (0..members as u32).filter(|&node| !is_here(node)).collect();
    answers.extend(at_once(elsewhere.len(), QUESTIONS, |at| {
        let node = elsewhere[at];
        (node, told(relays[at % relays.len()], node))
    }));
    answers.sort_by_key(|(agent, _)| *agent);
    let mut parts = Vec::new();
    for (agent, answer) in answers {
        match answer {
            Ok(residency) => parts.push(part(&set, (agent, residency), names)),
            Err(why) => {
                hearth_client::say!("warning: {why}, so the node of agent {agent} gets no job")
            }
        }
    }
    let residency = Residency::join(parts);
    Ok(Live { set, residency })
}

fn check_names(set: &Set, members: usize, names: &[String]) -> Result<(), Failure> {
    let count = names.len();
    if count == 0 || count >= members {
        return Ok(());
    }
    let what = format!("cannot name the nodes of job {}", set.file.job);
    let why = format!("--nodes has {count} names, and none for agent {count}");
    Err(Failure::new(what).cause(why))
}

/// Does so many things in their order, and at most `threads` of them at once.
fn at_once<T: Send>(count: usize, threads: usize, each: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    // Only counted, nothing is published through it.
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < count);
    let work = || -> Vec<(usize, T)> {
        let all = std::iter::from_fn(take);
        all.map(|at| (at, each(at))).collect()
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(count)).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| worker.join());
        done.flat_map(|done| done.expect("a question does not panic"))
            .collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

/// Asks an agent for its residency, or for another's. The error says why there is none.
fn told(peer: &Peer, agent: u32) -> Result<node::Residency, String> {
    match call(peer, &ControlRequest::Residency { agent }) {
        Ok(value) => serde_json::from_value(value).map_err(|why| why.to_string()),
        Err(CallError::Gone(who)) => Err(format!("{who} is gone")),
        Err(CallError::Starting(who)) => Err(format!("{who} is being started again")),
        Err(CallError::Silent(who)) => Err(format!("{who} does not answer")),
        Err(CallError::Refused(failure)) => Err(failure.in_a_line()),
    }
}

fn part(set: &Set, (agent, told): (u32, node::Residency), names: &[String]) -> Residency {
    let node = names.get(agent as usize).cloned().unwrap_or(told.node);
    if told.unnamed > 0 {
        let bytes = Size(told.unnamed);
        hearth_client::say!("warning: agent {agent} holds {bytes} of files that it does not name");
    }
    let files = told.files.into_iter().map(|file| File {
        held: BTreeMap::from([(node.clone(), Amount(file.held.min(file.size)))]),
        path: file.path,
        size: Amount(file.size),
    });
    let store = set.file.store.display().to_string();
    Residency {
        files: files.collect(),
        roots: told.mount.into_iter().chain([store]).collect(),
        nodes: vec![Node {
            name: node,
            seats: 1,
            memory: Some(Amount(told.memory)),
            agents: [format!("{}/{agent}", set.file.job)].into(),
        }],
    }
}

/// Asks the store how large the files are that no agent holds.
pub(super) fn complete(asked: &mut Asked, residency: &Residency, store: &Path) {
    let held = residency.paths();
    let files: BTreeSet<String> = asked.jobs.iter().flat_map(Job::files).collect();
    for name in files {
        if held.contains(name.as_str()) || asked.sizes.contains_key(&name) {
            continue;
        }
        if let Some(size) = size_in(store, &name) {
            asked.sizes.insert(name, size);
        }
    }
}

fn size_in(store: &Path, name: &str) -> Option<Size> {
    let found = store.join(name).metadata().ok()?;
    found.is_file().then_some(Size(found.len()))
}
