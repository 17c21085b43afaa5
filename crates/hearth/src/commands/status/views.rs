//! The members of a set that agrees on them, as `hearth status` tells them in words.

use hearth_agent::{AgentStatus, PeerStatus, ViewStatus};
use hearth_client::words::span;
use std::collections::BTreeMap;

/// A line for each view that agents of this host know, and one for each agent that waits; nothing without views.
pub(super) fn describe(agents: &[AgentStatus]) -> String {
    let viewed = || {
        let viewed = agents.iter();
        viewed.filter_map(|agent| agent.view.as_ref().map(|view| (agent, view)))
    };
    let mut known: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (agent, view) in viewed() {
        let knowing = known.entry(members(agent, view)).or_default();
        knowing.push(agent.node);
    }
    let mut lines = String::new();
    let is_one = known.len() == 1;
    for (words, agents) in &known {
        let listed: Vec<String> = agents.iter().map(u32::to_string).collect();
        let listed = listed.join(", ");
        lines += &match (is_one, agents.len()) {
            (true, _) => format!("{words}\n"),
            (false, 1) => format!("{words}, as agent {listed} knows it\n"),
            (false, _) => format!("{words}, as agents {listed} know it\n"),
        };
    }
    lines.extend(viewed().flat_map(|(agent, view)| waits(agent.node, view)));
    lines
}

/// The view, and each agent that is missing in it.
fn members(agent: &AgentStatus, view: &ViewStatus) -> String {
    let (members, all) = (view.members.len(), agent.peers.len() + 1);
    let missing = agent.peers.iter();
    let missing = missing.filter(|peer| !view.members.contains(&peer.node));
    let missing: Vec<String> = missing.map(absence).collect();
    format!(
        "view {}: {members} of {all} agents{}",
        view.number,
        missing.concat()
    )
}

fn absence(peer: &PeerStatus) -> String {
    let node = peer.node;
    match (peer.gone_s, peer.left) {
        (Some(gone), true) => format!("; agent {node} left {} ago", span(gone)),
        (Some(gone), false) => format!("; agent {node} has been missing for {}", span(gone)),
        (None, _) if peer.up => format!("; agent {node} is about to join"),
        (None, _) => format!("; agent {node} is missing"),
    }
}

/// The event that an agent waits for, and the lease that it lacks.
fn waits(node: u32, view: &ViewStatus) -> Vec<String> {
    let change = view.waits_for.as_ref();
    let change =
        change.map(|wait| format!("agent {node} goes over to that view: it waits for {wait}\n"));
    let lease = view
        .lacks_lease
        .then(|| format!("agent {node} holds no lease: calls there wait for a majority\n"));
    change.into_iter().chain(lease).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(node: u32, number: u32, peers: &[PeerStatus]) -> AgentStatus {
        AgentStatus {
            node,
            peers: peers.to_vec(),
            view: Some(ViewStatus {
                number,
                members: vec![0, 1],
                ..ViewStatus::default()
            }),
            ..AgentStatus::default()
        }
    }

    fn peer(node: u32, gone_s: Option<u64>) -> PeerStatus {
        PeerStatus {
            node,
            gone_s,
            up: gone_s.is_none(),
            ..PeerStatus::default()
        }
    }

    #[test]
    fn a_view_is_told_once_with_who_is_missing_and_since_when() {
        let gone = peer(2, Some(200));
        let agents = [
            agent(0, 3, &[peer(1, None), gone.clone()]),
            agent(1, 3, &[peer(0, None), gone.clone()]),
        ];
        let told = "view 3: 2 of 3 agents; agent 2 has been missing for 3 min\n";
        assert_eq!(describe(&agents), told);
        let left = PeerStatus { left: true, ..gone };
        let agents = [agent(0, 3, &[peer(1, None), left])];
        assert_eq!(
            describe(&agents),
            "view 3: 2 of 3 agents; agent 2 left 3 min ago\n"
        );
        assert_eq!(describe(&[AgentStatus::default()]), "");
    }

    #[test]
    fn agents_that_know_other_views_or_wait_are_named() {
        let peers = [peer(1, None), peer(2, None)];
        let mut agents = [agent(0, 3, &peers), agent(1, 4, &peers)];
        let view = agents[1].view.as_mut().expect("it has one");
        view.waits_for = Some("others to begin".to_owned());
        view.lacks_lease = true;
        let told = describe(&agents);
        for line in [
            "view 3: 2 of 3 agents; agent 2 is about to join, as agent 0 knows it\n",
            "as agent 1 knows it\n",
            "agent 1 goes over to that view: it waits for others to begin\n",
            "agent 1 holds no lease: calls there wait for a majority\n",
        ] {
            assert!(told.contains(line), "{told}");
        }
    }
}
