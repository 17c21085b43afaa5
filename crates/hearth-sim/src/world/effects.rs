//! Carrying out what a kernel orders.

use super::answers::Answer;
use super::host::Breach;
use super::kernel::Revoke;
use super::links::Parcel;
use super::store_ops::{Bytes, Job, What};
use super::{Event, World};
use crate::plan::delay;
use crate::tamper::Tamper;
use hearth_proto::effect::Alarm;
use hearth_proto::msg::{Body, Envelope, Service};
use hearth_proto::{
    Buf, Effect, FileId, Handle, Input, NodeId, Piece, ReadInto, Reply, Request, Src, StoreOpId,
    Ticket,
};

impl World {
    pub(crate) fn carry_out(&mut self, node: usize, effect: Effect) -> Result<(), Breach> {
        self.note_effect(node, &effect);
        match effect {
            Effect::Send { to, envelope, data } => self.send(node, to, envelope, &data)?,
            Effect::Fill { frame, at, from } => {
                let bytes = self.hosts[node].gather(&[from])?;
                if !self.tampers(Tamper::DropFill, 5) {
                    self.hosts[node].fill(frame.0, at, &bytes)?;
                }
            }
            Effect::Stash { buf, data } => {
                let bytes = self.hosts[node].gather(&data)?;
                self.hosts[node].stash(buf, bytes)?;
            }
            Effect::Free(buf) => self.free(node, buf)?,
            Effect::Encode { .. } | Effect::Restore { .. } => self.hosts[node].code(effect)?,
            Effect::StoreRead {
                op,
                file,
                offset,
                into,
            } => {
                if let ReadInto::Frames(pieces) = &into {
                    self.hosts[node].gather(pieces)?;
                }
                self.order(node, Job::by_file(op, file, What::Read { offset, into }));
            }
            Effect::StoreWrite {
                op,
                file,
                offset,
                data,
            } => {
                let runs = vec![(offset, self.hold_still(node, &data)?)];
                self.order(node, Job::by_file(op, file, What::Write { runs }));
            }
            Effect::StorePieces { op, file, data } => self.store_pieces(node, (op, file), data)?,
            Effect::StoreSync { op, file, .. } => {
                self.order(node, Job::by_file(op, file, What::Sync));
            }
            Effect::Recover => self.recover(node),
            Effect::TierCut { file, from, gone } => self.hosts[node].tier.cut(file, from, gone),
            Effect::StoreTruncate { op, ticket, size } => {
                self.store_truncate(node, op, ticket, size)?
            }
            Effect::StoreThrough {
                op,
                ticket,
                offset,
                buf,
            } => self.store_through(node, (op, ticket), offset, buf)?,
            Effect::Bank { op, daemon, order } => self.order_bank(node, op, daemon, order)?,
            Effect::Reply { ticket, reply } => self.reply(node, ticket, reply)?,
            Effect::Direct { ticket } => self.direct(node, ticket)?,
            Effect::Restamp { ticket } => self.restamp_open(node, ticket)?,
            Effect::Revoke { id, file, pages } => {
                self.queue_revoke(node, Revoke { id, file, pages })
            }
            Effect::Release { handle } => self.release(node, handle)?,
            Effect::Disconnect { peer } => self.disconnect(node as u32, peer.0),
            Effect::Forgotten { file } => self.forget(node, file),
            Effect::Reopen { file } => self.reopen(node, file),
            Effect::Refused(buf) => return Err(format!("{buf:?} is refused, and was left")),
            Effect::Alarm(alarm) => self.hear(node as u32, alarm),
            Effect::Offer { .. } | Effect::TakeBack { .. } => {}
        }
        Ok(())
    }

    fn forget(&mut self, node: usize, file: FileId) {
        self.hosts[node].forget(file);
        self.reopen(node, file);
    }

    fn release(&mut self, node: usize, handle: Handle) -> Result<(), Breach> {
        let released = self.hosts[node].handles.remove(&handle);
        let object = released.ok_or_else(|| format!("{handle:?} is not there to release"))?;
        self.store.objects[object].users -= 1;
        Ok(())
    }

    fn free(&mut self, node: usize, buf: Buf) -> Result<(), Breach> {
        if !self.tampers(Tamper::FreeNever, 3) {
            self.hosts[node].free(buf)?;
        }
        if self.tampers(Tamper::FreeTwice, 3) {
            self.hosts[node].free(buf)?;
        }
        Ok(())
    }

    /// One thread revokes, one order after another.
    fn queue_revoke(&mut self, node: usize, order: Revoke) {
        let kernel = &mut self.hosts[node].kernel;
        kernel.queue.push_back(order);
        if !std::mem::replace(&mut kernel.working, true) {
            let delay = self.local_delay();
            self.after(delay, Event::Revokes { node });
        }
    }

    /// People are told something.
    fn hear(&mut self, node: u32, alarm: Alarm) {
        match alarm {
            Alarm::BytesDropped(file, _) => self.lose(file, true),
            // Sealed bytes are not among those that are lost then.
            Alarm::BytesLost(file, _) if self.plan.replicas.shards().is_some() => {
                self.lose_unsealed(node, Some(file));
            }
            // Of a seal that was not finished a part may be there. Bytes that the store refused may be given
            // up with their file.
            Alarm::HomeLost(..)
                if self.plan.replicas.shards().is_some() && !self.plan.store_faults => {}
            // The end of that agent has made all files lossy.
            Alarm::HomeLost(file, _) | Alarm::BytesLost(file, _) => self.lose(file, false),
            Alarm::NodeLost(_) if self.plan.replicas.shards().is_some() => {}
            Alarm::NodeLost(_) => {
                let objects = self.store.objects.iter_mut();
                objects.for_each(|object| object.history.told = true);
            }
            Alarm::FlushFails(..) => {}
        }
    }

    /// The bytes that a node had written of a file, or of all, and not sealed are lost.
    pub(crate) fn lose_unsealed(&mut self, node: u32, file: Option<FileId>) {
        let now = self.tick();
        let objects = self.store.objects.iter_mut();
        let named = objects.filter(|object| file.is_none_or(|file| object.file == file));
        named.for_each(|object| object.history.unsealed_lost.push((node, now)));
    }

    /// Bytes of the file were given up, and people were told.
    fn lose(&mut self, file: FileId, dropped: bool) {
        let objects = self.store.objects.iter_mut();
        let lossy = objects.filter(|object| object.file == file);
        lossy.for_each(|object| {
            object.history.lossy |= dropped;
            object.history.told = true;
        });
    }

    fn send(
        &mut self,
        node: usize,
        to: NodeId,
        envelope: Envelope,
        data: &[Piece],
    ) -> Result<(), Breach> {
        if to.0 as usize == node || to.0 >= self.plan.nodes {
            return Err(format!("node {node} sends to {to:?}"));
        }
        if let Body::Forget {
            service: Service::StoreAfterLoss,
            ..
        } = envelope.body
        {
            self.lose(envelope.file, true);
        }
        let payload = self.hosts[node].gather(data)?;
        self.messages += 1;
        if self.tampers(Tamper::SwallowMessages, 40) {
            return Ok(());
        }
        let mut written = Vec::new();
        hearth_proto::wire::encode(&envelope, &mut written);
        if hearth_proto::wire::decode(&written).as_ref() != Ok(&envelope) {
            return Err(format!("{envelope:?} is not read as it was written"));
        }
        let wait = delay(&mut self.rng, self.plan.net_delay);
        let (from, to) = (node as u32, to.0);
        if let Some(number) = self.links.send((from, to), Parcel { envelope, payload }) {
            let packet = (self.links.life(from, to), number);
            self.send_packet(from, to, packet, wait);
        }
        Ok(())
    }

    /// An order for the store: bytes of buffers are taken now, those of frames when it runs, because
    /// an agent writes them in place.
    fn hold_still(&self, node: usize, data: &[Piece]) -> Result<Vec<Bytes>, Breach> {
        let hold = |piece: &Piece| {
            let bytes = self.hosts[node].gather(&[*piece])?;
            Ok(match piece.src {
                Src::Frame(_) => Bytes::InPlace(*piece),
                Src::Buf(_) | Src::Zero => Bytes::Held(bytes),
            })
        };
        data.iter().map(hold).collect()
    }

    fn store_pieces(
        &mut self,
        node: usize,
        (op, file): (StoreOpId, FileId),
        data: Vec<(u64, Piece)>,
    ) -> Result<(), Breach> {
        let held = |(offset, piece)| Ok((offset, self.hold_still(node, &[piece])?));
        let runs: Result<_, Breach> = data.into_iter().map(held).collect();
        self.order(node, Job::by_file(op, file, What::Write { runs: runs? }));
        Ok(())
    }

    fn store_truncate(
        &mut self,
        node: usize,
        op: StoreOpId,
        ticket: Ticket,
        size: u64,
    ) -> Result<(), Breach> {
        let call = self.hosts[node].calls.get(&ticket);
        let object = call
            .ok_or_else(|| format!("{ticket:?} is not there to truncate"))?
            .object;
        self.order(node, Job::by_handle(op, object, What::Truncate { size }));
        Ok(())
    }

    fn store_through(
        &mut self,
        node: usize,
        (op, ticket): (StoreOpId, Ticket),
        offset: u64,
        buf: Buf,
    ) -> Result<(), Breach> {
        let call = self.hosts[node].calls.get(&ticket);
        let object = call
            .ok_or_else(|| format!("{ticket:?} is not there to write"))?
            .object;
        let bytes = self.hosts[node].bufs.get(&buf).cloned();
        let bytes = bytes.ok_or_else(|| format!("{buf:?} of {ticket:?} is gone"))?;
        self.hosts[node].free(buf)?;
        let runs = vec![(offset, vec![Bytes::Held(bytes)])];
        self.order(node, Job::by_handle(op, object, What::Write { runs }));
        Ok(())
    }

    fn reply(&mut self, node: usize, ticket: Ticket, reply: Reply) -> Result<(), Breach> {
        let answer = match reply {
            Reply::Opened {
                handle,
                direct,
                kept_valid,
                size,
                left: _,
            } => {
                let call = self.hosts[node].calls.get(&ticket);
                let object = call
                    .ok_or_else(|| format!("{ticket:?} is not there to open"))?
                    .object;
                self.hosts[node].handles.insert(handle, object);
                self.store.objects[object].users += 1;
                Answer::Opened {
                    handle,
                    direct,
                    kept_valid,
                    size,
                }
            }
            Reply::Data(pieces) => Answer::Data {
                bytes: self.hosts[node].gather(&pieces)?,
                cached: true,
            },
            Reply::Written { offset, size } => Answer::Written { offset, size },
            Reply::Size {
                size,
                mtime_ns,
                keep,
            } => Answer::Size {
                size,
                mtime_ns,
                keep,
            },
            Reply::Leaves(leaves) => Answer::Leaves(leaves),
            Reply::Names { leave, names } => Answer::Names(leave, names),
            Reply::Done => Answer::Done,
            Reply::Failed(errno) => Answer::Failed(errno),
        };
        self.answer(node, ticket, answer)
    }

    /// Hands an answer to the session that waits for the ticket.
    pub(crate) fn answer(
        &mut self,
        node: usize,
        ticket: Ticket,
        answer: Answer,
    ) -> Result<(), Breach> {
        let host = &mut self.hosts[node];
        let Some(call) = host.calls.remove(&ticket) else {
            let what = if host.answered.contains(&ticket) {
                "twice"
            } else {
                "unasked"
            };
            return Err(format!("{ticket:?} is answered {what}"));
        };
        host.answered.insert(ticket);
        let call = Box::new(call);
        let delay = self.local_delay();
        self.after(delay, Event::Answered { call, answer });
        Ok(())
    }

    /// The front end takes the stamp of what it opens once more, and asks again.
    fn restamp_open(&mut self, node: usize, ticket: Ticket) -> Result<(), Breach> {
        let view = self.hosts[node].member.stamp_view();
        let call = self.hosts[node].calls.get_mut(&ticket);
        let call = call.ok_or_else(|| format!("{ticket:?} is not there to open"))?;
        let Request::Open(open) = &mut call.request else {
            return Err(format!("{ticket:?} opens nothing"));
        };
        (open.stamp, open.view) = (self.store.objects[call.object].stamp, view);
        let delay = self.local_delay();
        self.after(delay, Event::Asked { node, ticket });
        Ok(())
    }

    fn direct(&mut self, node: usize, ticket: Ticket) -> Result<(), Breach> {
        let call = self.hosts[node].calls.get(&ticket);
        let call = call.ok_or_else(|| format!("{ticket:?} is not there to do directly"))?;
        let (object, request) = (call.object, call.request.clone());
        let what = match request {
            Request::Read { offset, len, .. } => What::DirectRead { offset, len },
            Request::Write { at, buf, .. } => {
                let bytes = self.hosts[node].bufs.get(&buf);
                let bytes = bytes.ok_or_else(|| format!("{buf:?} of {ticket:?} is gone"))?;
                let bytes = bytes.clone();
                self.hosts[node].free(buf)?;
                self.passes_gateways(object, &bytes);
                What::DirectWrite { at, bytes }
            }
            other => return Err(format!("{other:?} cannot be done directly")),
        };
        self.order(node, Job::direct(ticket, object, what));
        Ok(())
    }

    /// A node goes past the gateways because it was told that the last name of the file goes. If an agent
    /// died meanwhile the name may stay, and others know nothing of it.
    fn passes_gateways(&mut self, object: usize, bytes: &[u8]) {
        let history = &mut self.store.objects[object].history;
        if self.plan.policy.rules().bank.is_some() && history.lossy {
            let mut changes = history.changes.iter_mut();
            let change = changes.find(|change| Some(&change.value) == bytes.first());
            change.into_iter().for_each(|change| change.redone = true);
        }
    }

    /// True if this is the time to do wrong: every `nth` chance.
    pub(crate) fn tampers(&mut self, how: Tamper, nth: u64) -> bool {
        if self.plan.tamper != how {
            return false;
        }
        self.tampered += 1;
        self.tampered.is_multiple_of(nth)
    }

    /// Answers an invalidation in the name of its receiver, before it has seen it.
    pub(crate) fn forge_inval_ok(&mut self, from: NodeId, to: u32, order: &Envelope) {
        if self.plan.tamper != Tamper::EarlyInvalOk {
            return;
        }
        let envelope = Envelope {
            body: Body::InvalOk,
            ..order.clone()
        };
        let input = Box::new(Input::Message {
            from: NodeId(to),
            envelope,
            data: None,
        });
        let to = from.0 as usize;
        self.after(hearth_proto::Span(0), Event::Forged { to, input });
    }
}
