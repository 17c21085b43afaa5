//! Store operations: each runs at one instant, some time after it was ordered.

use super::answers::Answer;
use super::store::{ENOENT, Fault};
use super::{Event, World};
use crate::check::Violation;
use crate::plan::delay;
use crate::tamper::Tamper;
use hearth_proto::{
    FileId, Input, Piece, RawErrno, ReadInto, Span, Src, StoreOk, StoreOpId, Ticket, WriteAt, errno,
};

/// Bytes of a store write.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    /// In a frame, as they are when the write runs.
    InPlace(Piece),
    /// As they were when it was ordered.
    Held(Vec<u8>),
}

/// The work that is to be done.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Read { offset: u64, into: ReadInto },
    Write { runs: Vec<(u64, Vec<Bytes>)> },
    Sync,
    Truncate { size: u64 },
    DirectRead { offset: u64, len: u32 },
    DirectWrite { at: WriteAt, bytes: Vec<u8> },
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Kernel(StoreOpId),
    Session(Ticket),
    /// An agent that has died since.
    Nobody,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    File(FileId),
    Object(usize),
}

/// An operation on its way to the store.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    who: Who,
    target: Target,
    what: What,
}

impl Job {
    pub(crate) fn by_file(op: StoreOpId, file: FileId, what: What) -> Job {
        Job {
            who: Who::Kernel(op),
            target: Target::File(file),
            what,
        }
    }

    pub(crate) fn by_handle(op: StoreOpId, object: usize, what: What) -> Job {
        Job {
            who: Who::Kernel(op),
            target: Target::Object(object),
            what,
        }
    }

    pub(crate) fn direct(ticket: Ticket, object: usize, what: What) -> Job {
        Job {
            who: Who::Session(ticket),
            target: Target::Object(object),
            what,
        }
    }

    fn changes(&self) -> bool {
        match self.what {
            What::Write { .. } | What::Truncate { .. } | What::DirectWrite { .. } => true,
            What::Read { .. } | What::Sync | What::DirectRead { .. } => false,
        }
    }
}

impl World {
    /// Sends an operation on its way.
    pub(crate) fn order(&mut self, node: usize, job: Job) {
        self.store_busy += 1;
        let mut wait = delay(&mut self.rng, self.plan.store_delay);
        if self.plan.store_faults && !self.healed && self.rng.chance(1) {
            wait = Span::secs(3);
            self.faults.slow += 1;
        }
        if self.tampers(Tamper::LateStoreWrite, 3) && matches!(job.what, What::Write { .. }) {
            self.repeat(node, &job, Span(wait.0 + Span::secs(4).0));
        }
        let job = Box::new(job);
        self.after(wait, Event::StoreRuns { node, job });
    }

    /// The rest of an operation whose agent dies: a write may still be done, with the bytes of now. It goes
    /// to the object that the agent had open, whatever becomes of the name and the number.
    pub(crate) fn outlive(&mut self, node: usize, mut job: Job) -> Option<Job> {
        match &mut job.what {
            What::Write { runs } => *runs = self.as_they_are(node, runs).ok()?,
            What::Truncate { .. } | What::DirectWrite { .. } => {}
            What::Read { .. } | What::Sync | What::DirectRead { .. } => return None,
        }
        if let Target::File(file) = job.target {
            job.target = Target::Object(*self.store.current.get(&file)?);
        }
        job.who = Who::Nobody;
        Some(job)
    }

    /// The same write once more, with the bytes of now.
    fn repeat(&mut self, node: usize, job: &Job, wait: Span) {
        if let What::Write { runs } = &job.what
            && let Ok(runs) = self.as_they_are(node, runs)
        {
            self.store_busy += 1;
            let job = Job {
                what: What::Write { runs },
                ..job.clone()
            };
            let job = Box::new(job);
            self.after(wait, Event::StoreRuns { node, job });
        }
    }

    /// The store does an operation, or fails to.
    pub(crate) fn run_job(&mut self, node: usize, job: Job) {
        let object = match job.target {
            Target::Object(object) => Some(object),
            Target::File(file) => self.store.current.get(&file).copied(),
        };
        let failing = self.store.failing(self.now, job.changes());
        let failing = failing.filter(|_| self.store_always_fails || self.rng.chance(70));
        let to_tier = self.has_tier(node)
            && matches!((job.who, &job.what), (Who::Kernel(_), What::Write { .. }));
        let failing = failing.filter(|_| !to_tier);
        let answer = match (object, failing) {
            (None, _) => Err(ENOENT),
            (Some(_), Some(errno)) => {
                self.faults.refused += 1;
                self.hold_unread(node, &job.what);
                if let (What::Sync, Target::File(file)) = (&job.what, job.target) {
                    self.hosts[node].tier.hold(file);
                }
                Err(errno)
            }
            (Some(object), None) if to_tier => self.put(node, object, &job.what),
            (Some(object), None) => self.perform(node, object, &job.what),
        };
        match (job.who, answer) {
            (Who::Kernel(op), answer) => {
                let result = answer.map(|done| done.ok);
                let wait = delay(&mut self.rng, Span(self.plan.store_delay.0 / 4));
                self.after(wait, Event::StoreTells { node, op, result });
            }
            (Who::Nobody, _) => {
                self.store_busy -= 1;
                self.faults.late += 1;
            }
            (Who::Session(ticket), answer) => {
                self.store_busy -= 1;
                let answer = answer.map_or_else(Answer::Failed, |done| done.answer);
                if let Err(breach) = self.answer(node, ticket, answer) {
                    self.violate(Violation::contract(breach));
                }
                if self.plan.has_views() {
                    self.step(node, Input::Directed(ticket));
                }
            }
        }
    }

    /// A buffer that was ordered is there even if nothing could be read into it.
    fn hold_unread(&mut self, node: usize, what: &What) {
        if let What::Read {
            into: ReadInto::Buf(buf, len),
            ..
        } = what
            && let Err(breach) = self.hosts[node].stash(*buf, vec![0; *len as usize])
        {
            self.violate(Violation::contract(breach));
        }
    }

    /// A flush that ends at the tier.
    fn put(&mut self, node: usize, object: usize, what: &What) -> Result<Done, RawErrno> {
        if let What::Write { runs } = what {
            let (file, stamp) = {
                let object = &self.store.objects[object];
                (object.file, object.stamp)
            };
            for (offset, data) in runs {
                let bytes = self.bytes_of(node, data)?;
                self.hosts[node].tier.put((file, stamp), *offset, &bytes);
            }
        }
        self.settle_at_leisure(node, object);
        Ok(Done::default())
    }

    /// Bytes of the store as the node's agent sees them, its tier laid over them.
    fn seen(&mut self, node: usize, object: usize, offset: u64, len: u64) -> Vec<u8> {
        self.settle_at_leisure(node, object);
        let mut bytes = self.read_by_client(node, object, offset, len);
        let file = self.store.objects[object].file;
        self.hosts[node]
            .tier
            .lay_over(file, offset, len, &mut bytes);
        bytes
    }

    fn perform(&mut self, node: usize, object: usize, what: &What) -> Result<Done, RawErrno> {
        let mut done = Done::default();
        match what {
            What::Read { offset, into } => {
                done.ok.bytes = self.read_into(node, object, *offset, into)?;
            }
            What::Write { runs } => {
                let skips = self.tampers(Tamper::SkipStoreWrite, 3);
                for (offset, data) in runs {
                    let bytes = self.bytes_of(node, data)?;
                    if !skips {
                        self.write_by_client(node, object, *offset, &bytes);
                    }
                }
            }
            What::Sync => self.settle(node, object),
            What::Truncate { size } => {
                self.hosts[node].store_client.forget(object);
                self.store.truncate(object, *size);
            }
            What::DirectRead { offset, len } => {
                // Past the homes nothing is promised between nodes (S9): no reason to find that clients keep pages.
                self.hosts[node].store_client.forget(object);
                done.answer = Answer::Data {
                    bytes: self.seen(node, object, *offset, u64::from(*len)),
                    cached: false,
                };
            }
            What::DirectWrite { at, bytes } => {
                let offset = match at {
                    WriteAt::Offset(offset) => *offset,
                    WriteAt::End => self.store.objects[object].data.len() as u64,
                };
                self.settle(node, object);
                let file = self.store.objects[object].file;
                let len = bytes.len() as u64;
                self.hosts[node].tier.pass_by(file, offset, len);
                self.write_by_client(node, object, offset, bytes);
                let size = self.store.objects[object].data.len() as u64;
                done.answer = Answer::Written { offset, size };
            }
        }
        done.ok.stamp = self.store.objects[object].stamp;
        Ok(done)
    }

    fn read_into(
        &mut self,
        node: usize,
        object: usize,
        offset: u64,
        into: &ReadInto,
    ) -> Result<u32, RawErrno> {
        let breach = |world: &mut World, what| {
            world.violate(Violation::contract(what));
            errno::EIO
        };
        match into {
            ReadInto::Frames(pieces) => {
                let len = pieces.iter().map(|piece| u64::from(piece.len)).sum();
                let bytes = self.seen(node, object, offset, len);
                let mut rest = bytes.as_slice();
                for piece in pieces {
                    let Src::Frame(frame) = piece.src else {
                        return Err(breach(self, format!("{piece:?} is not a frame")));
                    };
                    let (part, after) = rest.split_at(rest.len().min(piece.len as usize));
                    rest = after;
                    if let Err(what) = self.hosts[node].fill(frame.0, piece.at, part) {
                        return Err(breach(self, what));
                    }
                }
                Ok(bytes.len() as u32)
            }
            ReadInto::Buf(buf, len) => {
                let mut bytes = self.seen(node, object, offset, u64::from(*len));
                let got = bytes.len() as u32;
                bytes.resize(*len as usize, 0);
                match self.hosts[node].stash(*buf, bytes) {
                    Ok(()) => Ok(got),
                    Err(what) => Err(breach(self, what)),
                }
            }
        }
    }

    /// Runs with their bytes of now.
    fn as_they_are(
        &mut self,
        node: usize,
        runs: &[(u64, Vec<Bytes>)],
    ) -> Result<Vec<(u64, Vec<Bytes>)>, RawErrno> {
        let held = |(offset, data): &(u64, Vec<Bytes>)| {
            let bytes = self.bytes_of(node, data)?;
            Ok((*offset, vec![Bytes::Held(bytes)]))
        };
        runs.iter().map(held).collect()
    }

    fn bytes_of(&mut self, node: usize, data: &[Bytes]) -> Result<Vec<u8>, RawErrno> {
        let mut bytes = Vec::new();
        for part in data {
            match part {
                Bytes::Held(held) => bytes.extend(held),
                Bytes::InPlace(piece) => match self.hosts[node].gather(&[*piece]) {
                    Ok(found) => bytes.extend(found),
                    Err(what) => {
                        self.violate(Violation::contract(what));
                        return Err(errno::EIO);
                    }
                },
            }
        }
        Ok(bytes)
    }

    /// The store fails from now on, for a while.
    pub(crate) fn fail_store(&mut self, errno: RawErrno, span: Span) {
        let until = self.now + span;
        self.store.fault = Some(Fault { errno, until });
    }
}

/// The result of an operation, for the kernel and for a session.
struct Done {
    ok: StoreOk,
    answer: Answer,
}

impl Default for Done {
    fn default() -> Done {
        Done {
            ok: StoreOk::default(),
            answer: Answer::Done,
        }
    }
}
