//! The voters' messages, over the wire that the agent lends.

use super::types::{RaftTypes, Request, Seat};
use crate::membership::{Founding, MemberId, MemberKey};
use crate::wire::{AnswerSlot, ViewWire, WireClass, bytes, read};
use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend, Snapshot, Vote};
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The agent's wire, for one thread that waits for many answers at once.
#[derive(Clone)]
pub(super) struct Asking(pub(super) Arc<dyn ViewWire>);

/// The ways to the voters of one log.
pub(super) struct VoterWires(pub(super) Asking, pub(super) Founding);

/// The way to one voter.
pub(super) struct VoterWire {
    asking: Asking,
    seat: Seat,
}

/// No answer came in time, or none that makes sense.
#[derive(Debug, thiserror::Error)]
#[error("no answer of agent {0}")]
struct Unanswered(MemberId);

type RpcError = RPCError<MemberKey, EmptyNode, RaftError<MemberKey>>;

impl Asking {
    /// The answer to a request, if one comes within the span.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        to: MemberId,
        request: &Request,
        span: Duration,
    ) -> Option<T> {
        let (sender, answer) = oneshot::channel();
        // An answer after the span finds nobody.
        let slot = AnswerSlot::new(move |answer| drop(sender.send(answer)));
        let class = match request {
            Request::Vouch(..) => WireClass::Vouch,
            Request::Append(..)
            | Request::Stop(..)
            | Request::Founded(_)
            | Request::Vote(..)
            | Request::Snapshot(..)
            | Request::Propose(..)
            | Request::Renew(_)
            | Request::Views(_) => WireClass::Order,
        };
        self.0.ask(to, class, bytes(request), slot);
        let answer = tokio::time::timeout(span, answer).await;
        read(&answer.ok()?.ok()?)
    }
}

impl VoterWire {
    async fn ask<T: DeserializeOwned>(
        &self,
        request: &Request,
        span: Duration,
    ) -> Result<T, Unreachable> {
        let answer = self.asking.ask(self.seat.voter.id, request, span).await;
        answer.ok_or_else(|| Unreachable::new(&Unanswered(self.seat.voter.id)))
    }
}

impl RaftNetworkFactory<RaftTypes> for VoterWires {
    type Network = VoterWire;

    async fn new_client(&mut self, voter: MemberKey, _: &EmptyNode) -> VoterWire {
        let (asking, log) = (self.0.clone(), self.1);
        let seat = Seat { voter, log };
        VoterWire { asking, seat }
    }
}

impl RaftNetwork<RaftTypes> for VoterWire {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<RaftTypes>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<MemberKey>, RpcError> {
        let request = Request::Append(self.seat, request);
        Ok(self.ask(&request, option.hard_ttl()).await?)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<MemberKey>,
        option: RPCOption,
    ) -> Result<VoteResponse<MemberKey>, RpcError> {
        let request = Request::Vote(self.seat, request);
        Ok(self.ask(&request, option.hard_ttl()).await?)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<MemberKey>,
        snapshot: Snapshot<RaftTypes>,
        _: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<MemberKey>, StreamingError<RaftTypes, Fatal<MemberKey>>> {
        // A view is one message, so there is nothing between to be called off.
        let request = Request::Snapshot(self.seat, vote, snapshot.meta, snapshot.snapshot);
        Ok(self.ask(&request, option.hard_ttl()).await?)
    }

    fn backoff(&self) -> openraft::network::Backoff {
        openraft::network::Backoff::new(std::iter::repeat(BACKOFF))
    }
}

/// How long a voter that does not answer is left alone.
const BACKOFF: Duration = Duration::from_millis(100);
