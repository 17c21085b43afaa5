//! Carrying out what the kernel orders.

use crate::core::{After, Core, State};
use crate::jobs::{Job, Source, Target, Told, Work, part_of};
use crate::mount::{Answer, Call, Waiting};
use crate::world::BrokenMemory;
use crate::{FrameIndex, FramePart};
use hearth_proto::{Effect, Piece, ReadInto, Reply, Src, Ticket};

impl Core {
    pub(crate) fn carry(&self, state: &mut State, effect: Effect, after: &mut Vec<After>) {
        match effect {
            Effect::Send { to, envelope, data } => {
                let bytes = self.bytes_of(state, &data);
                self.net.send(self.me.0, to.0, (envelope, bytes));
            }
            Effect::Fill { frame, at, from } => self.fill(state, FrameIndex(frame.0), at, from),
            Effect::Stash { buf, data } => {
                let bytes = self.bytes_of(state, &data);
                state.buffers.insert(buf, bytes);
            }
            Effect::Free(buf) => state.buffers.free(buf),
            Effect::Reply { ticket, reply } => self.reply(state, ticket, reply),
            Effect::Direct { ticket } => self.past(state, ticket),
            Effect::Revoke { id, file, pages } => {
                std::tally("pages called back");
                match self.fault {
                    Some(BrokenMemory::PagesStayShown) => {}
                    _ => self.hide(file, pages),
                }
                after.push(After::Revoke(id));
            }
            Effect::Release { handle } => drop(state.files.0.remove(&handle)),
            Effect::Offer {
                file,
                page,
                frame,
                limit,
            } => {
                std::tally("pages offered");
                self.offered(state, (file, page), frame, limit);
            }
            Effect::TakeBack { frame, .. } => self.took_back(state, frame),
            Effect::Refused(buf) => {
                std::tally("writes refused");
                state.write_rings.refuse(buf);
            }
            Effect::Reopen { .. } | Effect::Forgotten { .. } => {}
            order => self.order(state, order),
        }
    }

    /// Work of the store.
    fn order(&self, state: &State, effect: Effect) {
        let (op, file, work) = match effect {
            Effect::StoreSync { op, file, .. } => (op, file, Work::Look),
            Effect::StoreRead {
                op,
                file,
                offset,
                into,
            } => {
                let (len, into) = match into {
                    ReadInto::Frames(pieces) => {
                        let parts: Vec<FramePart> = pieces.iter().filter_map(part_of).collect();
                        let len = parts.iter().map(|part| part.len as u32).sum();
                        (len, Target::Frames(parts))
                    }
                    ReadInto::Buf(buf, len) => (len, Target::Buf(buf)),
                };
                (op, file, Work::Read(offset, len, into))
            }
            Effect::StoreWrite {
                op,
                file,
                mut offset,
                data,
            } => {
                let mut parts = Vec::new();
                for piece in data {
                    parts.push((offset, self.source_of(state, &piece)));
                    offset += u64::from(piece.len);
                }
                (op, file, Work::Write(parts))
            }
            Effect::StorePieces { op, file, data } => {
                let parts = data
                    .iter()
                    .map(|(at, piece)| (*at, self.source_of(state, piece)));
                (op, file, Work::Write(parts.collect()))
            }
            Effect::StoreThrough {
                op,
                ticket,
                offset,
                buf,
            } => {
                let bytes = state.buffers.get(buf).to_vec();
                let file = state
                    .waiting
                    .get(&ticket)
                    .and_then(|waiting| match waiting.call {
                        Call::Write { handle, .. } => state.files.file_of(handle),
                        _ => None,
                    });
                let Some(file) = file else {
                    return std::find("a write through of no file");
                };
                (op, file, Work::Write(vec![(offset, Source::Bytes(bytes))]))
            }
            other => return std::find(format!("node {} wants {other:?}", self.me.0)),
        };
        let told = Told::Kernel(op);
        self.push(Job { file, work, told });
    }

    fn source_of(&self, state: &State, piece: &Piece) -> Source {
        match part_of(piece) {
            Some(part) => Source::Frame(part),
            None => Source::Bytes(self.bytes_of(state, std::slice::from_ref(piece))),
        }
    }

    /// A read or write of the store itself.
    fn past(&self, state: &mut State, ticket: Ticket) {
        let Some(Waiting { tell, call }) = state.waiting.remove(&ticket) else {
            return;
        };
        let (handle, work) = match call {
            Call::Read {
                handle,
                offset,
                len,
                ..
            } => (handle, Work::Read(offset, len, Target::Call)),
            Call::Write {
                handle,
                offset,
                buf,
            } => {
                let bytes = state.buffers.take(buf);
                (handle, Work::Write(vec![(offset, Source::Bytes(bytes))]))
            }
            Call::Open(_) | Call::Plain => {
                return std::find("a call that goes past the cache is neither");
            }
        };
        match state.files.file_of(handle) {
            Some(file) => {
                let told = Told::Call(tell);
                self.push(Job { file, work, told });
            }
            None => std::find("a call without a file"),
        }
    }

    fn fill(&self, state: &State, frame: FrameIndex, at: u32, from: Piece) {
        let (start, len) = (from.at as usize, from.len as usize);
        match from.src {
            Src::Buf(buf) if self.fill_left(state, frame, at, buf) => {}
            Src::Buf(buf) => {
                let bytes = &state.buffers.get(buf)[start..start + len];
                self.pool.write(frame, at as usize, bytes);
            }
            Src::Zero => self.pool.zero(frame, at as usize..at as usize + len),
            Src::Frame(_) => {
                let part = part_of(&from).expect("it is of a frame");
                self.pool.copy(part, frame, at as usize);
            }
        }
    }

    fn bytes_of(&self, state: &State, pieces: &[Piece]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in pieces {
            let range = piece.at as usize..(piece.at + piece.len) as usize;
            match piece.src {
                Src::Buf(buf) => bytes.extend_from_slice(&state.buffers.get(buf)[range]),
                Src::Zero => bytes.resize(bytes.len() + range.len(), 0),
                Src::Frame(frame) => self.pool.with(FrameIndex(frame.0), range, |lent| {
                    bytes.extend_from_slice(lent);
                }),
            }
        }
        bytes
    }

    fn reply(&self, state: &mut State, ticket: Ticket, reply: Reply) {
        let Some(Waiting { tell, call }) = state.waiting.remove(&ticket) else {
            return;
        };
        let answer = match (call, reply) {
            (Call::Open(file), Reply::Opened { handle, .. }) => {
                state.files.0.insert(handle, file);
                Answer::Opened(handle)
            }
            (
                Call::Read {
                    handle,
                    offset,
                    keep,
                    ..
                },
                Reply::Data(pieces),
            ) => {
                if keep {
                    self.show(state, handle, offset, &pieces);
                }
                Answer::Bytes(self.bytes_of(state, &pieces))
            }
            (Call::Write { .. }, Reply::Written { .. }) | (Call::Plain, Reply::Done) => {
                Answer::Done
            }
            (_, Reply::Failed(errno)) => Answer::Failed(errno),
            (_, reply) => return std::find(format!("an answer that nobody asked for: {reply:?}")),
        };
        // A program that is gone needs none.
        let _ = tell.send(answer);
    }
}
