//! Things that need care, and the members of the set, in lines.

use crate::column::name;
use crate::watch::{Watch, Watched};
use hearth_agent::PeerStatus;
use hearth_client::words::span;

/// All that needs care.
pub(crate) fn care(watch: &Watch) -> Vec<String> {
    let told = watch.agents().flat_map(|(key, agent)| {
        let name = name(watch, key);
        let told = of_agent(agent).into_iter();
        told.map(move |word| format!("agent {name}: {word}"))
    });
    told.collect()
}

/// The same, then the members as each agent knows them, then what needed care before.
pub(crate) fn lines(watch: &Watch) -> Vec<String> {
    let mut lines = care(watch);
    if lines.is_empty() {
        lines.push("nothing needs care".to_owned());
    }
    let viewed = watch.agents().filter_map(|(key, agent)| {
        let view = agent.status.view.as_ref()?;
        let members: Vec<String> = view.members.iter().map(u32::to_string).collect();
        let name = name(watch, key);
        let (number, members) = (view.number, members.join(", "));
        Some(format!("agent {name}: view {number} of agents {members}"))
    });
    lines.extend(viewed);
    let past = watch.agents().flat_map(|(key, agent)| {
        let name = name(watch, key);
        let past = agent.status.past_alarms.iter();
        past.map(move |alarm| {
            let over = span(alarm.over_s);
            format!("agent {name}: over for {over}: {}", alarm.text)
        })
    });
    lines.extend(past);
    lines
}

fn of_agent(agent: &Watched) -> Vec<String> {
    let status = &agent.status;
    let mut told: Vec<String> = agent.lost.iter().cloned().collect();
    let first_wait = status.alarms.len().saturating_sub(status.long_waits);
    let (alarms, waits) = status.alarms.split_at(first_wait);
    // Waits come first: they go by themselves, or need help soon.
    told.extend(waits.iter().cloned());
    // The alarm about a death has its reason.
    let is_told = |node: u32| {
        let gone = format!("agent {node} is gone: ");
        alarms.iter().any(|alarm| alarm.starts_with(&gone))
    };
    // Those that go on without it need nothing of one that left.
    let is_spared = |peer: &PeerStatus| peer.left && status.view.is_some();
    let is_missed = |peer: &&PeerStatus| !(peer.up || is_spared(peer));
    let down = status.peers.iter().filter(is_missed);
    let down = down.filter(|peer| !is_told(peer.node));
    told.extend(down.map(|peer| format!("agent {} is not connected", peer.node)));
    if status.at_risk_files > 0 {
        let files = status.at_risk_files;
        told.push(format!("files with too few replicas: {files}"));
    }
    told.extend(alarms.iter().cloned());
    told
}
