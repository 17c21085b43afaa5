//! Carrying out what the kernel orders.

use crate::core::{After, Core, State, Writer};
use crate::intro::{Introduction, MESSAGE};
use crate::leave;
use crate::tickets::{Opening, Waiting};
use crate::workers::{FileJob, From, Job, Task};
use hearth_client::{Errno, FileKey, FileSize, OpenedFile, Outcome, PageRange, Written};
use hearth_net::PeerId;
use hearth_proto::effect::{Effect, Piece, ReadInto, Reply, Src};
use hearth_proto::msg::{Body, Envelope};
use hearth_proto::{FileId, Handle, Input, NodeId, OpenRequest, RevokeId, StoreOpId, Ticket, wire};
use hearth_shm::{FrameIndex, FramePart};
use std::io::IoSlice;
use std::sync::{Arc, LazyLock};

/// Zeros to lend; as many as the largest page has. Not a constant, which each program that has an agent would carry.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; 4 << 20]);

impl Core {
    pub(crate) fn carry(&self, state: &mut State, effect: Effect, after: &mut Vec<After>) {
        match effect {
            Effect::Send { to, envelope, data } => self.send(state, to, &envelope, &data),
            Effect::Fill { frame, at, from } => self.fill(state, FrameIndex(frame.0), at, from),
            Effect::Stash { buf, data } => {
                let bytes = self.with_pieces(state, &data, |slices| slices.concat());
                state.buffers.insert(buf, bytes);
            }
            Effect::Free(buf) => state.buffers.free(buf),
            Effect::Encode { data, parity } => self.encode(state, &data, parity),
            Effect::Restore {
                shards,
                len,
                at_hand,
                lost,
            } => self.restore(shards, len, &at_hand, &lost),
            Effect::StoreRead { .. }
            | Effect::StoreWrite { .. }
            | Effect::StorePieces { .. }
            | Effect::StoreSync { .. }
            | Effect::StoreTruncate { .. } => self.hand_to_worker(state, effect),
            Effect::StoreThrough {
                op,
                ticket,
                offset,
                buf,
            } => {
                let bytes = state.buffers.take(buf);
                let fd = match state.tickets.get(ticket) {
                    Some(Waiting::Write { handle, .. }) => state.files.handle(*handle),
                    Some(_) | None => None,
                };
                self.queue.push(Job::WriteThrough {
                    op,
                    fd,
                    offset,
                    bytes,
                });
            }
            Effect::Bank { op, daemon, order } => self.order(state, (op, daemon, order), after),
            Effect::Reply { ticket, reply } => self.reply(state, ticket, reply),
            Effect::Direct { ticket } => self.direct(state, ticket, after),
            Effect::Restamp { ticket } => self.restamp(state, ticket),
            Effect::Revoke { id, file, pages } => {
                self.forget(state, file, pages);
                after.push(After::Revoke(id, file, pages));
            }
            Effect::Release { handle } => release(state, handle),
            Effect::Reopen { file } => state.files.reopen(file),
            Effect::Forgotten { file } => {
                state.files.reopen(file);
                state.files.forget(file);
                self.store.forget_tier(file.0);
            }
            Effect::Offer {
                file,
                page,
                frame,
                limit,
            } => self.offered(state, (file, page), frame, limit),
            Effect::TakeBack { frame, .. } => self.took_back(state, frame),
            Effect::Refused(buf) => state.write_rings.refuse(buf),
            Effect::Recover => self.queue.push(Job::Recover),
            Effect::TierCut { file, from, gone } => self.store.cut_tier(file.0, from, gone),
            Effect::Disconnect { peer } => after.push(After::Disconnect(peer)),
            Effect::Alarm(alarm) => state.alarm_of(alarm),
        }
    }

    /// Queues what blocks on the store.
    fn hand_to_worker(&self, state: &mut State, effect: Effect) {
        if let Effect::StoreRead { op, .. }
        | Effect::StoreWrite { op, .. }
        | Effect::StorePieces { op, .. }
        | Effect::StoreSync { op, .. }
        | Effect::StoreTruncate { op, .. } = effect
        {
            state.trace_ordered(op);
        }
        match effect {
            Effect::StoreRead {
                op,
                file,
                offset,
                into,
            } => {
                let task = match into {
                    ReadInto::Frames(data) => Task::Read {
                        offset,
                        parts: frame_parts(&data),
                    },
                    ReadInto::Buf(buf, len) => Task::ReadBuf { offset, buf, len },
                };
                let job = FileJob::new(state, (op, file), task);
                self.queue.push(Job::File(job));
            }
            Effect::StoreWrite {
                op,
                file,
                offset,
                data,
            } => {
                let from = bytes_of(state, &data);
                let job = write_job(state, (op, file), offset, from);
                match state.writer {
                    Writer::Session => state.writer = Writer::Chosen(Box::new(job)),
                    Writer::Workers | Writer::Chosen(_) => self.queue.push(job),
                }
            }
            Effect::StorePieces { op, file, data } => {
                self.queue.push(job_of_pieces(state, (op, file), data))
            }
            Effect::StoreSync { op, file, sync } => {
                let job = FileJob::new(state, (op, file), Task::Sync { sync });
                self.queue.push(Job::File(job));
            }
            Effect::StoreTruncate { op, ticket, size } => {
                if let Some(Waiting::Truncate { fd, .. }) = state.tickets.get(ticket) {
                    let fd = Arc::clone(fd);
                    self.queue.push(Job::Truncate { op, fd, size });
                }
            }
            _ => unreachable!("only store operations are handed to workers"),
        }
    }

    fn send(&self, state: &mut State, to: NodeId, envelope: &Envelope, data: &[Piece]) {
        let Some(transport) = self.transport.get() else {
            return;
        };
        let peer = PeerId(to.0);
        let at_home = matches!(
            envelope.body,
            Body::Read { .. }
                | Body::Write { .. }
                | Body::Scatter { .. }
                | Body::Flush(_)
                | Body::Stage { .. }
                | Body::Hold { .. }
                | Body::Copy { .. }
                | Body::Shard { .. }
                | Body::Mark
                | Body::Hand { .. }
        );
        if at_home && let Some(path) = state.files.introduction(to, envelope.file) {
            self.send_head(to, &Introduction::encode(envelope.file, &path));
        }
        let bytes = data.iter().map(|piece| u64::from(piece.len)).sum();
        state.trace_sent(to, envelope, (self.pool.frame_bytes() as u64, bytes));
        let mut head = Vec::with_capacity(96);
        head.push(MESSAGE);
        wire::encode(envelope, &mut head);
        self.with_pieces(state, data, |slices| {
            let payload: Vec<IoSlice<'_>> =
                slices.iter().map(|bytes| IoSlice::new(bytes)).collect();
            if let Err(error) = transport.send(peer, &head, &payload) {
                log::debug!("{error}");
            }
        });
    }

    /// Sends a frame without payload. To a peer that is gone nothing is sent; `on_down` says so.
    pub(crate) fn send_head(&self, to: NodeId, head: &[u8]) {
        if let Some(transport) = self.transport.get()
            && let Err(error) = transport.send(PeerId(to.0), head, &[])
        {
            log::debug!("{error}");
        }
    }

    fn fill(&self, state: &State, frame: FrameIndex, at: u32, from: Piece) {
        let (start, len) = (from.at as usize, from.len as usize);
        match from.src {
            Src::Buf(buf) if self.fill_left(state, frame, at, buf) => {}
            Src::Buf(buf) => {
                self.pool.write(
                    frame,
                    at as usize,
                    &state.buffers.get(buf)[start..start + len],
                );
            }
            Src::Zero => self.pool.zero(frame, at as usize..at as usize + len),
            Src::Frame(source) => {
                let part = FramePart {
                    frame: FrameIndex(source.0),
                    offset: start,
                    len,
                };
                self.pool.copy(part, frame, at as usize);
            }
        }
    }

    /// Lends the bytes of pieces, in order.
    pub(crate) fn with_pieces<T>(
        &self,
        state: &State,
        pieces: &[Piece],
        f: impl FnOnce(&[&[u8]]) -> T,
    ) -> T {
        self.lend(state, pieces, Vec::with_capacity(pieces.len()), f)
    }

    /// Frames are lent for the time of a call, so many pieces are as many nested calls.
    fn lend<'a, T, F: FnOnce(&[&[u8]]) -> T>(
        &'a self,
        state: &'a State,
        pieces: &[Piece],
        mut lent: Vec<&'a [u8]>,
        f: F,
    ) -> T {
        let mut rest = pieces;
        while let Some((piece, more)) = rest.split_first() {
            let range = piece.at as usize..(piece.at + piece.len) as usize;
            match piece.src {
                Src::Buf(buf) => lent.push(&state.buffers.get(buf)[range]),
                Src::Zero => lent.push(&ZEROS[range]),
                Src::Frame(frame) => {
                    return self.pool.with(FrameIndex(frame.0), range, |bytes| {
                        let mut lent: Vec<&[u8]> = lent;
                        lent.push(bytes);
                        self.lend(state, more, lent, f)
                    });
                }
            }
            rest = more;
        }
        f(&lent)
    }

    fn reply(&self, state: &mut State, ticket: Ticket, reply: Reply) {
        state.trace_reply(ticket, &reply);
        let Some(waiting) = state.tickets.take(ticket) else {
            return;
        };
        match (waiting, reply) {
            (
                Waiting::Open(open),
                Reply::Opened {
                    handle,
                    direct,
                    kept_valid,
                    size,
                    left,
                },
            ) => {
                let handle = hearth_client::SessionHandle(handle.0);
                let answer = OpenedFile {
                    handle,
                    direct,
                    kept_valid,
                    size,
                    left,
                };
                self.opened(state, open, answer);
            }
            (
                Waiting::Read {
                    handle,
                    offset,
                    keep,
                    done,
                    ..
                },
                Reply::Data(pieces),
            ) => {
                if keep {
                    self.show(state, handle, offset, &pieces);
                }
                self.with_pieces(state, &pieces, |slices| done(Outcome::Serve(slices)));
            }
            (Waiting::Write { done, .. }, Reply::Written { offset, size }) => {
                done(Outcome::Serve(Written { offset, size }));
            }
            (Waiting::Size(done), reply @ Reply::Size { .. }) => {
                done(Outcome::Serve(size_in(&reply)));
            }
            (Waiting::Leave(done), Reply::Leaves(leaves)) => {
                done(Outcome::Serve(leave::all_for_front_end(leaves)));
            }
            (Waiting::Names(done), Reply::Names { leave, names }) => {
                done(Outcome::Serve(leave::names_for_front_end(leave, names)));
            }
            (Waiting::HandOver(file), reply) => {
                state.balance.over(self.now(), file, &reply);
            }
            (Waiting::Plain(done) | Waiting::Truncate { done, .. }, Reply::Done) => {
                done(Outcome::Serve(()));
            }
            (waiting, Reply::Failed(errno)) => waiting.fail(Errno(errno)),
            (waiting, _) => waiting.fail(Errno(hearth_proto::errno::EIO)),
        }
    }

    fn opened(&self, state: &mut State, open: Opening, answer: OpenedFile) {
        let Opening {
            request: OpenRequest { file, write, .. },
            fd,
            same_stamp,
            done,
        } = open;
        let handle = hearth_proto::Handle(answer.handle.0);
        state.files.opened(handle, file, fd, write);
        if !answer.kept_valid {
            self.pool.hide(file.0, 0..u64::MAX);
            self.pool.file_changed(file.0);
        }
        let cached = self.kernel_cache;
        done(Outcome::Serve(OpenedFile {
            direct: answer.direct && !cached,
            kept_valid: if cached {
                same_stamp
            } else {
                answer.kept_valid
            },
            ..answer
        }));
    }

    fn restamp(&self, state: &State, ticket: Ticket) {
        if let Some(Waiting::Open(open)) = state.tickets.get(ticket) {
            let fd = Arc::clone(&open.fd);
            self.queue.push(Job::Restamp { ticket, fd });
        }
    }

    fn direct(&self, state: &mut State, ticket: Ticket, after: &mut Vec<After>) {
        let Some(waiting) = state.tickets.take(ticket) else {
            return;
        };
        match waiting {
            Waiting::Read {
                handle,
                offset,
                len,
                done,
                ..
            } => match state.files.past_cache(handle) {
                Some(from) => self.queue.push(Job::DirectRead {
                    ticket,
                    from,
                    offset,
                    len,
                    done,
                }),
                None => {
                    after.push(After::Directed(ticket));
                    done(Outcome::Fail(Errno(hearth_proto::errno::EBADF)));
                }
            },
            Waiting::Write {
                handle,
                at,
                buf,
                done,
            } => {
                let bytes = state.buffers.take(buf);
                match state.files.handle(handle) {
                    Some(fd) => self.queue.push(Job::DirectWrite {
                        ticket,
                        fd,
                        at,
                        bytes,
                        done,
                    }),
                    None => {
                        after.push(After::Directed(ticket));
                        done(Outcome::Fail(Errno(hearth_proto::errno::EBADF)));
                    }
                }
            }
            other => other.fail(Errno(hearth_proto::errno::EIO)),
        }
    }

    /// Programs and the front end find nothing of these any more. This thread may be held up before it revokes them, and
    /// others answer meanwhile.
    fn forget(&self, state: &State, file: FileId, pages: Option<(u64, u32)>) {
        self.hide(file, pages);
        if let Some(revoker) = &state.revoker {
            revoker.forget(FileKey { ino: file.0 });
        }
    }

    /// Makes the front ends drop what they keep. They may answer at once, so no lock is held.
    pub(crate) fn revoke(&self, id: RevokeId, file: FileId, pages: Option<(u64, u32)>) {
        let revoker = self.lock().revoker.clone();
        let Some(revoker) = revoker else {
            return self.drive(Input::Revoked(id));
        };
        let page = self.pool.frame_bytes() as u64;
        let range = pages.map(|(first, count)| PageRange {
            offset: first * page,
            len: if count == u32::MAX {
                u64::MAX
            } else {
                u64::from(count) * page
            },
        });
        let core = self.arc();
        let done = Box::new(move || core.drive(Input::Revoked(id)));
        revoker.revoke(FileKey { ino: file.0 }, range, done);
    }
}

fn release(state: &mut State, handle: Handle) {
    let file = state.files.file_of(handle);
    let keeps = file.is_some_and(|file| state.node().keeps(file));
    state.files.closed(handle, keeps);
}

fn write_job(state: &mut State, (op, file): (StoreOpId, FileId), offset: u64, from: From) -> Job {
    Job::File(FileJob::new(
        state,
        (op, file),
        Task::Write { offset, from },
    ))
}

/// One job for all of them.
fn job_of_pieces(state: &mut State, of: (StoreOpId, FileId), data: Vec<(u64, Piece)>) -> Job {
    let part = |(offset, piece)| Some((offset, frame_part(&piece)?));
    let parts: Vec<(u64, FramePart)> = data.into_iter().filter_map(part).collect();
    let offset = parts.first().map_or(0, |&(offset, _)| offset);
    write_job(state, of, offset, From::Pieces(parts))
}

/// The place of the bytes of a store write: frames, or one piece of a message that went past them.
fn bytes_of(state: &State, data: &[Piece]) -> From {
    match data {
        [
            Piece {
                src: Src::Buf(buf),
                at,
                len,
            },
        ] => From::Buf(
            state.buffers.lend(*buf),
            *at as usize..(*at + *len) as usize,
        ),
        _ => From::Frames(frame_parts(data)),
    }
}

fn frame_parts(pieces: &[Piece]) -> Vec<FramePart> {
    pieces.iter().filter_map(frame_part).collect()
}

fn frame_part(piece: &Piece) -> Option<FramePart> {
    match piece.src {
        Src::Frame(frame) => Some(FramePart {
            frame: FrameIndex(frame.0),
            offset: piece.at as usize,
            len: piece.len as usize,
        }),
        Src::Buf(_) | Src::Zero => None,
    }
}

/// The size that a reply tells.
fn size_in(reply: &Reply) -> FileSize {
    match *reply {
        Reply::Size {
            size,
            mtime_ns,
            keep,
        } => FileSize {
            size,
            mtime_ns,
            keep,
        },
        _ => FileSize {
            size: None,
            mtime_ns: None,
            keep: false,
        },
    }
}

impl Waiting {
    fn fail(self, errno: Errno) {
        match self {
            Waiting::Open(Opening { done, .. }) => done(Outcome::Fail(errno)),
            Waiting::Read { done, .. } => done(Outcome::Fail(errno)),
            Waiting::Write { done, .. } => done(Outcome::Fail(errno)),
            Waiting::Size(done) => done(Outcome::Fail(errno)),
            Waiting::Leave(done) => done(Outcome::Fail(errno)),
            Waiting::Names(done) => done(Outcome::Fail(errno)),
            Waiting::Truncate { done, .. } | Waiting::Plain(done) => done(Outcome::Fail(errno)),
            Waiting::HandOver(_) => {}
        }
    }
}
