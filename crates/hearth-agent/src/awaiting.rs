//! The words of a start that waits for other agents.

use crate::agent::StartError;
use hearth_net::{Link, PeerState, Refusal};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// Agents that have another secret are not waited for any longer: those who start together have said so by then.
pub(crate) const SECRETS_SPAN: Duration = Duration::from_secs(1);

/// Nobody who has the same secret has come by then: one that has another says enough.
const LONELY_SPAN: Duration = Duration::from_secs(10);

/// A wait is told of when it has lasted so long.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// And once more after so long, if it is for others.
const TOLD_AGAIN: Duration = Duration::from_secs(8);

/// Agents that are named; there may be many.
const NAMED_MAX: usize = 3;

/// The last word of a wait.
#[derive(Default)]
pub(crate) struct Told(Option<(Duration, Vec<u32>)>);

impl Told {
    /// True if a person is to be told of a wait now, for these agents.
    pub(crate) fn is_due(&mut self, waited: Duration, missing: &[u32]) -> bool {
        let is_due = match &self.0 {
            None => waited >= TOLD_AFTER,
            Some((last, whom)) => waited >= *last + TOLD_AGAIN && whom != missing,
        };
        if is_due {
            self.0 = Some((waited, missing.to_vec()));
        }
        is_due
    }
}

/// The agents that are waited for, and why each is not there. The last refusal may be of one that did not say who it is.
pub(crate) fn awaited(peers: &[PeerState], missing: &[u32], refusals: &[Refusal]) -> String {
    let absent = || {
        let is_missing = |peer: &&PeerState| missing.contains(&peer.id.0);
        peers.iter().filter(is_missing)
    };
    let named: Vec<String> = absent().take(NAMED_MAX).map(named).collect();
    let more = match absent().count().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; and for {more} more"),
    };
    let last = refusals.last().map(|refusal| refusal.why.as_str());
    let last = last.filter(|why| !named.iter().any(|name| name.ends_with(why)));
    let last = last.map(|why| format!("; the last refusal: {why}"));
    named.join("; ") + &more + &last.unwrap_or_default()
}

fn named(peer: &PeerState) -> String {
    let addr = peer.addr.map(|addr| format!(" at {addr}"));
    let why = match &peer.link {
        Link::Up { .. } => "it is about to join",
        Link::Down { why } => why,
    };
    format!("agent {}{}: {why}", peer.id.0, addr.unwrap_or_default())
}

/// Fails if more than half of the others have another secret, or one has when nobody has come for long. So one that has a
/// wrong one does not stop the rest, nor does a stranger that says it is a member.
pub(crate) fn check_secrets(
    members: &[SocketAddr],
    refusals: &[Refusal],
    waited: Duration,
) -> Result<(), StartError> {
    let about = refusals.iter().filter(|refusal| refusal.is_about_secrets);
    let by: BTreeSet<u32> = about
        .filter_map(|refusal| Some(refusal.claimed?.0))
        .collect();
    let first = by
        .first()
        .and_then(|&by| Some((by, *members.get(by as usize)?)));
    match first {
        Some((by_one, at)) if waited > LONELY_SPAN || by.len() * 2 > members.len() - 1 => {
            Err(StartError::Secrets { by: by_one, at })
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_net::PeerId;

    fn absent(id: u32) -> PeerState {
        PeerState {
            id: PeerId(id),
            addr: Some(([10, 0, 0, id as u8], 7000).into()),
            link: Link::Down {
                why: "cannot connect".to_owned(),
            },
            queued_bytes: 0,
            bytes_in: 0,
            bytes_out: 0,
            way: String::new(),
        }
    }

    #[test]
    fn a_long_wait_is_told_and_told_again_if_it_is_for_others() {
        let mut told = Told::default();
        let seconds = Duration::from_secs;
        assert!(!told.is_due(seconds(1), &[1, 2]));
        assert!(told.is_due(seconds(2), &[1, 2]));
        assert!(!told.is_due(seconds(11), &[1, 2]));
        assert!(told.is_due(seconds(12), &[2]));
        assert!(!told.is_due(seconds(13), &[]));
    }

    #[test]
    fn one_of_another_secret_does_not_stop_the_others() {
        let members: Vec<SocketAddr> = (0..3).map(|id| ([10, 0, 0, id], 7000).into()).collect();
        let of = |id| Refusal {
            addr: members[0],
            claimed: Some(PeerId(id)),
            why: String::new(),
            is_about_secrets: true,
        };
        assert!(check_secrets(&members, &[of(1), of(1)], SECRETS_SPAN).is_ok());
        assert!(check_secrets(&members, &[of(1), of(2)], SECRETS_SPAN).is_err());
        let long = LONELY_SPAN + SECRETS_SPAN;
        assert!(check_secrets(&members, &[of(1)], long).is_err());
        assert!(check_secrets(&members[..2], &[of(1)], SECRETS_SPAN).is_err());
    }

    #[test]
    fn some_of_those_that_are_missing_are_named() {
        let peers: Vec<PeerState> = (1..6).map(absent).collect();
        let words = awaited(&peers, &[1], &[]);
        assert_eq!(words, "agent 1 at 10.0.0.1:7000: cannot connect");
        let words = awaited(&peers, &[1, 2, 3, 4, 5], &[]);
        assert!(
            words.ends_with("agent 3 at 10.0.0.3:7000: cannot connect; and for 2 more"),
            "{words}"
        );
    }
}
