//! Carrying out what kernels order, and the store.

use super::host::{Answer, Doing, Job, Order, Revoke, What, Who};
use super::{Flight, Parcel, Small};
use crate::check::Violation;
use crate::explore::Story;
use crate::script;
use hearth_proto::effect::Alarm;
use hearth_proto::{Effect, Input, NodeId, ReadInto, Reply, StoreOk, Ticket};
use std::rc::Rc;

impl Small {
    pub(super) fn carry_out(
        &mut self,
        node: u8,
        effect: Effect,
        story: &mut Story,
    ) -> Result<(), Violation> {
        let host = self.host(node);
        match effect {
            Effect::Send { to, envelope, data } => {
                let payload = host.gather(&data).map_err(Violation::contract)?;
                self.send(node, to, Parcel::new(envelope, payload))?;
            }
            Effect::Fill { frame, at, from } => {
                let bytes = host.gather(&[from]).map_err(Violation::contract)?;
                host.fill(frame.0, at, &bytes)
                    .map_err(Violation::contract)?;
            }
            Effect::Stash { buf, data } => {
                let bytes = host.gather(&data).map_err(Violation::contract)?;
                host.stash(buf, bytes).map_err(Violation::contract)?;
            }
            Effect::Free(buf) => {
                host.free(buf).map_err(Violation::contract)?;
            }
            Effect::StoreRead {
                op, offset, into, ..
            } => {
                self.order(node, Who::Kernel(op), Order::Read { offset, into });
            }
            Effect::StoreWrite {
                op, offset, data, ..
            } => {
                self.order(node, Who::Kernel(op), Order::Write { offset, data });
            }
            Effect::StorePieces { op, data, .. } => {
                self.order(node, Who::Kernel(op), Order::Pieces(data));
            }
            Effect::StoreThrough {
                op, offset, buf, ..
            } => {
                let bytes = host.free(buf).map_err(Violation::contract)?;
                self.order(node, Who::Kernel(op), Order::WriteBytes { offset, bytes });
            }
            Effect::StoreSync { op, .. } => self.order(node, Who::Kernel(op), Order::Sync),
            Effect::Bank { op, order, .. } => self.order_bank(node, op, order)?,
            strange @ (Effect::Encode { .. }
            | Effect::Restore { .. }
            | Effect::Restamp { .. }
            | Effect::StoreTruncate { .. }) => {
                return Err(Violation::contract(format!("{strange:?} is ordered")));
            }
            Effect::Reply { ticket, reply } => self.reply(node, ticket, reply, story)?,
            Effect::Direct { ticket } => self.direct(node, ticket)?,
            Effect::Revoke { id, pages, .. } => host.revokes.push_back(Revoke { id, pages }),
            Effect::Release { handle } => host.handles.retain(|&held| held != handle),
            Effect::Disconnect { peer } => return Err(given_up(node, peer)),
            Effect::Alarm(Alarm::BytesDropped(..)) => Rc::make_mut(&mut self.book).lose(),
            Effect::Alarm(_)
            | Effect::Forgotten { .. }
            | Effect::Reopen { .. }
            | Effect::TierCut { .. }
            | Effect::Recover
            | Effect::Offer { .. }
            | Effect::TakeBack { .. }
            | Effect::Refused(_) => {}
        }
        Ok(())
    }

    fn send(&mut self, from: u8, to: NodeId, parcel: Parcel) -> Result<(), Violation> {
        if to.0 == u32::from(from) || to.0 >= self.scope.nodes {
            return Err(Violation::contract(format!("node {from} sends to {to:?}")));
        }
        let to = to.0 as u8;
        if !self.is_broken(from, to) {
            let at = self
                .flights
                .partition_point(|f| (f.from, f.to) <= (from, to));
            let parcel = Rc::new(parcel);
            self.flights.insert(at, Flight { from, to, parcel });
        }
        Ok(())
    }

    fn order(&mut self, node: u8, who: Who, order: Order) {
        let done = None;
        self.host(node).jobs.push(Job { who, order, done });
    }

    fn reply(
        &mut self,
        node: u8,
        ticket: Ticket,
        reply: Reply,
        story: &mut Story,
    ) -> Result<(), Violation> {
        let host = self.host(node);
        let waits = host
            .doing
            .as_ref()
            .is_some_and(|doing| doing.ticket == ticket);
        if !waits {
            let what = format!("{ticket:?} is answered, and nobody waits for it");
            return Err(Violation::contract(what));
        }
        let answer = match reply {
            Reply::Opened { handle, direct, .. } => Answer::Opened { handle, direct },
            Reply::Data(pieces) => Answer::Data {
                bytes: host.gather(&pieces).map_err(Violation::contract)?,
                cached: true,
            },
            Reply::Written { .. } => Answer::Written,
            Reply::Size { .. } | Reply::Leaves(_) | Reply::Names { .. } | Reply::Done => {
                Answer::Done
            }
            Reply::Failed(errno) => Answer::Failed(errno),
        };
        self.answered(node, answer, story)
    }

    /// A session has its answer.
    pub(super) fn answered(
        &mut self,
        node: u8,
        answer: Answer,
        story: &mut Story,
    ) -> Result<(), Violation> {
        let Some(Doing { what, began, .. }) = self.host(node).doing.take() else {
            return Ok(());
        };
        match (what, answer) {
            (_, Answer::Failed(errno)) => story.line(|| format!("{node} = error {errno}")),
            (What::Open, Answer::Opened { handle, direct }) => {
                let keep = self.scope.keep && !direct;
                let host = self.host(node);
                if host.handles.is_empty() {
                    host.reading = (handle, keep);
                }
                host.writing = handle;
                host.handles.push(handle);
            }
            (What::Read { page, keep }, Answer::Data { bytes, cached }) => {
                story.line(|| format!("{node} = {}", script::runs(&bytes)));
                if keep && cached {
                    self.host(node).kept[page as usize] = Some(bytes.clone());
                }
                let page_bytes = self.scope.page_bytes;
                let (offset, len) = self.place_of(page);
                if bytes.len() as u32 != len {
                    let what = format!("a read of page {page} has {} bytes", bytes.len());
                    return Err(Violation::new("size", what));
                }
                let book = Rc::make_mut(&mut self.book);
                book.end_read((u32::from(node), offset), began, bytes, page_bytes)?;
            }
            (What::Write { change, .. }, Answer::Written) => {
                story.line(|| format!("{node} = written"));
                Rc::make_mut(&mut self.book).end_write(change);
            }
            (What::Sync, Answer::Done) => {
                story.line(|| format!("{node} = synced"));
                let store = self.store.clone();
                Rc::make_mut(&mut self.book).end_sync(u32::from(node), began, &store)?;
            }
            (what, answer) => {
                let what = format!("{what:?} was answered with {answer:?}");
                return Err(Violation::contract(what));
            }
        }
        Ok(())
    }

    fn direct(&mut self, node: u8, ticket: Ticket) -> Result<(), Violation> {
        let place = |page| self.place_of(page);
        let doing = self.hosts[node as usize].doing.as_ref();
        let read = doing.and_then(|doing| match doing.what {
            What::Read { page, .. } => Some(place(page)),
            What::Write { .. } | What::Sync | What::Open => None,
        });
        let (offset, len) = read.unwrap_or_default();
        let host = self.host(node);
        let doing = host.doing.as_ref().filter(|doing| doing.ticket == ticket);
        let order = match doing.map(|doing| doing.what.clone()) {
            Some(What::Read { .. }) => Order::DirectRead { offset, len },
            Some(What::Write { at, buf, .. }) => Order::DirectWrite {
                offset: u64::from(at),
                bytes: host.free(buf).map_err(Violation::contract)?,
            },
            other => {
                let what = format!("{other:?} cannot be done directly");
                return Err(Violation::contract(what));
            }
        };
        self.order(node, Who::Session(ticket), order);
        Ok(())
    }

    /// A store operation takes effect.
    pub(super) fn run_job(&mut self, node: u8, at: u8, story: &mut Story) -> Result<(), Violation> {
        let Job { who, order, .. } = self.hosts[node as usize].jobs[at as usize].clone();
        let mut ok = StoreOk::default();
        let mut answer = None;
        match order {
            Order::Read { offset, into } => {
                let bytes = self.read_into(node, offset, &into)?;
                story.line(|| format!("{node} store reads {}", script::runs(&bytes)));
                ok.bytes = bytes.len() as u32;
            }
            Order::Write { offset, data } => {
                let bytes = self.host(node).gather(&data).map_err(Violation::contract)?;
                self.write_store(node, offset, &bytes, story);
            }
            Order::Pieces(pieces) => {
                for (offset, piece) in pieces {
                    let bytes = self.host(node).gather(&[piece]);
                    let bytes = bytes.map_err(Violation::contract)?;
                    self.write_store(node, offset, &bytes, story);
                }
            }
            Order::PieceBytes(pieces) => {
                for (offset, bytes) in pieces {
                    self.write_store(node, offset, &bytes, story);
                }
            }
            Order::WriteBytes { offset, bytes } => self.write_store(node, offset, &bytes, story),
            Order::Sync => {}
            Order::DirectRead { offset, len } => {
                let bytes = self.store_bytes(offset, len);
                answer = Some(Answer::Data {
                    bytes,
                    cached: false,
                });
            }
            Order::DirectWrite { offset, bytes } => {
                self.write_store(node, offset, &bytes, story);
                answer = Some(Answer::Written);
            }
        }
        ok.stamp = self.stamp();
        let sync = matches!(
            self.hosts[node as usize].jobs[at as usize].order,
            Order::Sync
        );
        match (who, answer) {
            (Who::Session(_), Some(answer)) => {
                self.host(node).jobs.remove(at as usize);
                self.answered(node, answer, story)
            }
            (Who::Kernel(_), _) => {
                self.host(node).jobs[at as usize].done = Some(ok);
                match sync {
                    true => self.tell_job(node, at, story),
                    false => Ok(()),
                }
            }
            (Who::Session(_) | Who::Nobody, _) => {
                self.host(node).jobs.remove(at as usize);
                Ok(())
            }
        }
    }

    /// The kernel is told that a store operation is over.
    pub(super) fn tell_job(
        &mut self,
        node: u8,
        at: u8,
        story: &mut Story,
    ) -> Result<(), Violation> {
        let Job { who, done, .. } = self.host(node).jobs.remove(at as usize);
        match (who, done) {
            (Who::Kernel(op), Some(ok)) => self.step(node, Input::StoreDone(op, Ok(ok)), story),
            _ => Ok(()),
        }
    }

    fn store_bytes(&self, offset: u64, len: u32) -> Vec<u8> {
        let end = self.store.len().min((offset + u64::from(len)) as usize);
        let from = end.min(offset as usize);
        self.store[from..end].to_vec()
    }

    fn write_store(&mut self, node: u8, offset: u64, bytes: &[u8], story: &mut Story) {
        story.line(|| format!("{node} store has {} at {offset}", script::runs(bytes)));
        let from = offset as usize;
        self.store[from..from + bytes.len()].copy_from_slice(bytes);
        self.stamps += 1;
    }

    fn read_into(&mut self, node: u8, offset: u64, into: &ReadInto) -> Result<Vec<u8>, Violation> {
        match into {
            ReadInto::Frames(pieces) => {
                let len = pieces.iter().map(|piece| piece.len).sum();
                let bytes = self.store_bytes(offset, len);
                let mut rest = bytes.as_slice();
                for piece in pieces {
                    let (part, after) = rest.split_at(rest.len().min(piece.len as usize));
                    rest = after;
                    let hearth_proto::Src::Frame(frame) = piece.src else {
                        return Err(Violation::contract(format!("{piece:?} is not a frame")));
                    };
                    let filled = self.host(node).fill(frame.0, piece.at, part);
                    filled.map_err(Violation::contract)?;
                }
                Ok(bytes)
            }
            ReadInto::Buf(buf, len) => {
                let bytes = self.store_bytes(offset, *len);
                let mut whole = bytes.clone();
                whole.resize(*len as usize, 0);
                let stashed = self.host(node).stash(*buf, whole);
                stashed.map_err(Violation::contract)?;
                Ok(bytes)
            }
        }
    }
}

fn given_up(node: u8, peer: NodeId) -> Violation {
    Violation::liveness(format!("node {node} gives up {}, which is well", peer.0))
}
