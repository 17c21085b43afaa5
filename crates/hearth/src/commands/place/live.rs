//! What the agents of a running set hold now. Those of this host are asked, as `hearth status` does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::jobs::{Asked, Job};
use super::residency::{Amount, File, Node, Residency};
use crate::agent::Holdings;
use crate::control::{CallError, Peer, Request};
use crate::failure::Failure;
use crate::set::{Choice, Set, ask_all, choose};
use crate::size::Size;

/// A set, and what its agents told.
pub(super) struct Live {
    pub(super) set: Set,
    pub(super) residency: Residency,
}

/// Asks the agents of a set. `names` are those of their nodes, or they tell themselves.
pub(super) fn ask(choice: &Choice, names: &[String]) -> Result<Live, Failure> {
    let set = choose(choice)?.swap_remove(0);
    let peers = set.peers();
    check_names(&set, &peers, names)?;
    let answers = ask_all(&peers, &Request::Residency);
    let mut parts = Vec::new();
    for (peer, answer) in peers.iter().zip(answers) {
        match told(answer) {
            Ok(holdings) => parts.push(part(&set, (peer, holdings), names)),
            Err(why) => eprintln!("care: {why}, so its node gets no job"),
        }
    }
    if parts.is_empty() {
        let what = format!("cannot ask what the agents of job {} hold", set.file.job);
        let none = Failure::new(what).cause("none of them answers");
        return Err(none.hint("hearth status"));
    }
    let elsewhere = set.file.members.len() - peers.len();
    if elsewhere > 0 {
        eprintln!(
            "care: {elsewhere} agents on other hosts were not asked; hearth place --help says how"
        );
    }
    let residency = Residency::join(parts);
    Ok(Live { set, residency })
}

fn check_names(set: &Set, peers: &[Peer], names: &[String]) -> Result<(), Failure> {
    let mut nameless = peers
        .iter()
        .filter(|peer| names.len() <= peer.node as usize);
    match nameless.next().filter(|_| !names.is_empty()) {
        None => Ok(()),
        Some(peer) => {
            let what = format!("cannot name the nodes of job {}", set.file.job);
            let why = format!("--nodes has {} names, and none for {peer}", names.len());
            Err(Failure::new(what).cause(why))
        }
    }
}

/// What an agent says, or why it says nothing.
fn told(answer: Result<Value, CallError>) -> Result<Holdings, String> {
    match answer {
        Ok(value) => serde_json::from_value(value).map_err(|why| why.to_string()),
        Err(CallError::Gone(who)) => Err(format!("{who} is gone")),
        Err(CallError::Silent(who)) => Err(format!("{who} does not answer")),
        Err(CallError::Refused(failure)) => Err(failure.to_string()),
    }
}

fn part(set: &Set, (peer, holdings): (&Peer, Holdings), names: &[String]) -> Residency {
    let node = names.get(peer.node as usize).cloned();
    let node = node.unwrap_or(holdings.node);
    if holdings.residency.unnamed > 0 {
        let bytes = Size(holdings.residency.unnamed);
        eprintln!("care: {peer} holds {bytes} of files that it does not name");
    }
    let files = holdings.residency.files.into_iter().map(|file| File {
        held: BTreeMap::from([(node.clone(), Amount(file.held.min(file.size)))]),
        path: file.path,
        size: Amount(file.size),
    });
    let roots = holdings.mount.into_iter().chain([set.file.store.clone()]);
    Residency {
        files: files.collect(),
        roots: roots.map(|root| root.display().to_string()).collect(),
        nodes: vec![Node {
            name: node,
            seats: 1,
            memory: Some(Amount(holdings.residency.memory)),
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
