//! Requests of other agents, and views that this one asks them for.

use super::types::Request;
use super::voter::Voter;
use crate::membership::Membership;
use crate::wire::{AnswerSlot, bytes, read};
use openraft::raft::AppendEntriesResponse;
use std::sync::Arc;
use std::time::Duration;

impl Voter {
    /// Asks another agent for views that this one lacks. Whatever an agent has was decided.
    pub(super) async fn look(&self, turn: usize, span: Duration) {
        let Some(voter) = self.guess(2 * turn) else {
            return;
        };
        let request = Request::Views(self.history.newest().number());
        let views = self
            .asking
            .ask::<Vec<Membership>>(voter.id, &request, span)
            .await;
        self.learn(views.into_iter().flatten());
    }

    /// Takes a request of another agent. One that makes no sense gets no answer.
    pub(super) async fn hear(self: &Arc<Voter>, request: &[u8], answer: AnswerSlot) {
        let Some(request) = read::<Request>(request) else {
            return;
        };
        match request {
            Request::Propose(..) | Request::Renew(_) => {
                answer.put(bytes(&self.here(&request).await))
            }
            Request::Vouch(member, view) => {
                answer.put(bytes(&self.leases.vouches(self, member, view)));
            }
            Request::Views(after) => {
                let views = self.history.after(after);
                let views: Vec<&Membership> = views.iter().map(AsRef::as_ref).collect();
                answer.put(bytes(&views));
            }
            Request::Stop(at, how) => answer.put(bytes(&self.hear_stop(at, how).await)),
            Request::Founded(view) => {
                self.learn([*view]);
                answer.put(bytes(&true));
            }
            Request::Append(to, _) | Request::Vote(to, _) | Request::Snapshot(to, ..) => {
                if to == self.seat() {
                    self.hear_voter(request, answer).await;
                }
            }
        }
    }

    async fn hear_voter(&self, request: Request, answer: AnswerSlot) {
        let raft = &self.raft;
        let reply = match request {
            Request::Append(_, request) => {
                let reply = raft.append_entries(request).await;
                if matches!(&reply, Ok(reply) if !matches!(reply, AppendEntriesResponse::HigherVote(_)))
                {
                    self.elections.heard();
                }
                reply.ok().map(|reply| bytes(&reply))
            }
            Request::Vote(_, request) => {
                let reply = raft.vote(request).await;
                if matches!(&reply, Ok(reply) if reply.vote_granted) {
                    self.elections.heard();
                }
                reply.ok().map(|reply| bytes(&reply))
            }
            Request::Snapshot(_, vote, meta, snapshot) => {
                let snapshot = openraft::Snapshot { meta, snapshot };
                let installed = raft.install_full_snapshot(vote, snapshot).await;
                installed.ok().map(|reply| bytes(&reply))
            }
            Request::Propose(..)
            | Request::Renew(_)
            | Request::Views(_)
            | Request::Stop(..)
            | Request::Founded(_)
            | Request::Vouch(..) => None,
        };
        if let Some(reply) = reply {
            answer.put(reply);
        }
    }
}
