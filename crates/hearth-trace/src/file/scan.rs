//! Reads what files hold but the records: facts, and where the blocks are.
//!
//! 1. A frame that was seen before, by session and number, is passed over. So files may be joined,
//!    and a server may store a frame twice.
//! 2. Facts are taken as they come; that one is missing never makes another unreadable.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

use super::block::{Head, Sum};
use super::fact::Fact;
use super::frame::{Frame, FrameKind, FrameOrDamage, Frames, SessionId};

/// The facts about a session.
#[derive(Default)]
pub(super) struct Session {
    pub(super) host: Vec<u8>,
    pub(super) boot: u128,
    pub(super) processes: BTreeMap<u32, Process>,
    pub(super) streams: BTreeMap<u32, Stream>,
    pub(super) gaps: Vec<Gap>,
    pub(super) clocks: Vec<ClockPoint>,
    pub(super) pings: Vec<Ping>,
    pub(super) remarks: Vec<String>,
    pub(super) blocks: Vec<Block>,
    pub(super) costs: Option<Costs>,
    pub(super) seen: Numbers,
    pub(super) ended: bool,
    /// Frames whose payload made no sense.
    pub(super) malformed: u64,
}

#[derive(Default)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) start_time: u64,
    pub(super) image: u32,
    pub(super) clock: u8,
    pub(super) start: u64,
    pub(super) end: Option<u64>,
    pub(super) exe: Vec<u8>,
    pub(super) rank: Option<u32>,
    pub(super) files: HashMap<u32, File>,
    /// Lost and kept, by the code of the operation.
    pub(super) lost: BTreeMap<u8, Sum>,
    pub(super) kept: BTreeMap<u8, Sum>,
}

#[derive(Default)]
pub(super) struct File {
    pub(super) path: Vec<u8>,
    pub(super) fs: Vec<u8>,
    pub(super) stripe: Option<(u32, u64)>,
}

#[derive(Default)]
pub(super) struct Stream {
    pub(super) process: u32,
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) tid: u32,
    pub(super) attempted: u64,
    pub(super) torn: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Gap {
    pub(super) stream: u32,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// One moment as the clocks of a machine saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockPoint {
    pub(crate) clock: u8,
    pub(crate) ticks: u64,
    pub(crate) raw: u64,
    pub(crate) real: u64,
    pub(crate) window: u64,
}

/// One question to the log server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ping {
    pub(crate) server: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) answered: u64,
    pub(crate) returned: u64,
}

/// The cost of a log client itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Nanoseconds of processor time.
    pub cpu: u64,
    /// Bytes of frames made.
    pub bytes: u64,
    /// Most records that waited in one ring.
    pub waiting_max: u64,
    /// Most bytes that waited for the server.
    pub unsent_max: u64,
}

/// The place of a block.
pub(super) struct Block {
    /// Index of the file.
    pub(super) file: usize,
    /// Place and length of its encoded records.
    pub(super) at: u64,
    pub(super) len: usize,
    pub(super) head: Head,
    /// Holds what machines asked of each other.
    pub(super) between: bool,
}

/// Everything that was found in some files.
#[derive(Default)]
pub(super) struct Scan {
    pub(super) sessions: BTreeMap<SessionId, Session>,
    /// Damaged places: index of the file, first byte, bytes.
    pub(super) damages: Vec<(usize, u64, u64)>,
    /// Bytes of all the files.
    pub(super) bytes: u64,
    /// Whole frames in all the files.
    pub(super) frames: u64,
}

impl Scan {
    /// Reads a whole file.
    pub(super) fn file(&mut self, file: usize, input: impl Read) -> io::Result<()> {
        let mut frames = Frames::new(input);
        while let Some(found) = frames.read()? {
            match found {
                FrameOrDamage::Frame { frame, at, payload } => {
                    self.frame(file, (frame, at), payload)
                }
                FrameOrDamage::Damage { at, len } => self.damages.push((file, at, len)),
            }
        }
        self.bytes += frames.place();
        Ok(())
    }

    fn frame(&mut self, file: usize, (frame, at): (Frame, u64), payload: &[u8]) {
        self.frames += 1;
        let session = self.sessions.entry(frame.session).or_default();
        if !session.seen.insert(frame.number) {
            return;
        }
        let understood = match frame.kind {
            Some(FrameKind::Block) => session.block(file, at, payload),
            Some(FrameKind::Session | FrameKind::Facts) => session.facts(payload),
            Some(FrameKind::End) => {
                session.ended = true;
                true
            }
            None => true,
        };
        session.malformed += u64::from(!understood);
    }
}

impl Scan {
    /// The costs of the log clients, as far as they said.
    pub(super) fn costs(&self) -> Vec<Costs> {
        let sessions = self.sessions.values();
        sessions.filter_map(|session| session.costs).collect()
    }
}

impl Session {
    fn block(&mut self, file: usize, at: u64, payload: &[u8]) -> bool {
        let mut rest = payload;
        let Ok(mut head) = Head::take(&mut rest) else {
            return false;
        };
        let between = head.sums.iter().any(|sum| is_between(sum.op));
        let process = self.processes.entry(head.process).or_default();
        for sum in head.sums.drain(..) {
            add(process.kept.entry(sum.op).or_default(), sum);
        }
        self.streams.entry(head.stream).or_default().process = head.process;
        self.blocks.push(Block {
            file,
            at: at + (payload.len() - rest.len()) as u64,
            len: rest.len(),
            head,
            between,
        });
        true
    }

    fn facts(&mut self, mut payload: &[u8]) -> bool {
        while !payload.is_empty() {
            match Fact::take(&mut payload) {
                Ok(Some(fact)) => self.learn(fact),
                Ok(None) => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn learn(&mut self, fact: Fact<'_>) {
        match fact {
            Fact::Host { name, boot } => {
                self.host = name.to_vec();
                self.boot = boot;
            }
            Fact::Process { process, .. }
            | Fact::Exe { process, .. }
            | Fact::Args { process, .. }
            | Fact::Rank { process, .. }
            | Fact::File { process, .. }
            | Fact::Stripe { process, .. }
            | Fact::Lost { process, .. }
            | Fact::Ended { process, .. } => self.process(process).learn(fact),
            Fact::Stream { stream, .. } | Fact::Counts { stream, .. } => {
                self.streams.entry(stream).or_default().learn(fact);
            }
            Fact::Gap {
                stream,
                first,
                count,
                from,
                to,
            } => {
                self.gaps.push(Gap {
                    stream,
                    first,
                    count,
                    from,
                    to,
                });
            }
            Fact::Clock { .. } | Fact::Ping { .. } => self.learn_clock(fact),
            Fact::Remark { text } => self
                .remarks
                .push(String::from_utf8_lossy(text).into_owned()),
            Fact::Cost {
                cpu,
                bytes,
                waiting_max,
                unsent_max,
            } => {
                self.costs = Some(Costs {
                    cpu,
                    bytes,
                    waiting_max,
                    unsent_max,
                });
            }
        }
    }

    fn learn_clock(&mut self, fact: Fact<'_>) {
        match fact {
            Fact::Clock {
                clock,
                ticks,
                raw,
                real,
                window,
            } => {
                self.clocks.push(ClockPoint {
                    clock,
                    ticks,
                    raw,
                    real,
                    window,
                });
            }
            Fact::Ping {
                server,
                sent,
                received,
                answered,
                returned,
            } => {
                self.pings.push(Ping {
                    server,
                    sent,
                    received,
                    answered,
                    returned,
                });
            }
            _ => {}
        }
    }

    fn process(&mut self, process: u32) -> &mut Process {
        self.processes.entry(process).or_default()
    }
}

impl Process {
    fn learn(&mut self, fact: Fact<'_>) {
        match fact {
            Fact::Process {
                pid,
                start_time,
                image,
                clock,
                start,
                ..
            } => {
                (self.pid, self.start_time, self.image) = (pid, start_time, image);
                (self.clock, self.start) = (clock, start);
            }
            Fact::Exe { path, .. } => self.exe = path.to_vec(),
            Fact::Rank { rank, .. } => self.rank = Some(rank),
            Fact::File { file, path, fs, .. } => {
                let known = self.files.entry(file).or_default();
                (known.path, known.fs) = (path.to_vec(), fs.to_vec());
            }
            Fact::Stripe {
                file, count, bytes, ..
            } => {
                self.files.entry(file).or_default().stripe = Some((count, bytes));
            }
            Fact::Ended { ticks, .. } => self.end = Some(ticks),
            Fact::Lost {
                op,
                count,
                bytes,
                ticks,
                ..
            } => {
                self.lost.insert(
                    op,
                    Sum {
                        op,
                        count,
                        bytes,
                        ticks,
                    },
                );
            }
            // Arguments are for people who look at the file; the others are not about processes.
            _ => {}
        }
    }
}

impl Stream {
    fn learn(&mut self, fact: Fact<'_>) {
        match fact {
            Fact::Stream {
                process,
                slot,
                generation,
                tid,
                ..
            } => {
                (self.process, self.slot) = (process, slot);
                (self.generation, self.tid) = (generation, tid);
            }
            Fact::Counts {
                attempted, torn, ..
            } => {
                (self.attempted, self.torn) = (attempted, torn);
            }
            _ => {}
        }
    }
}

/// Whether an operation is a request of one machine to another, on either side.
fn is_between(op: u8) -> bool {
    use crate::Op;
    matches!(
        Op::from_code(op),
        Some(Op::PeerGet | Op::PeerPut | Op::ServeGet | Op::ServePut | Op::Recall)
    )
}

/// Adds a sum to another of the same operation.
pub(super) fn add(sum: &mut Sum, more: Sum) {
    sum.op = more.op;
    sum.count = sum.count.saturating_add(more.count);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.ticks = sum.ticks.saturating_add(more.ticks);
}

/// A set of numbers that mostly come one after another.
#[derive(Default)]
pub(super) struct Numbers {
    /// First of each run, and the one after its last.
    runs: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Whether the number is new.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let Some(behind) = number.checked_add(1) else {
            return false;
        };
        let before = self.runs.range(..=number).next_back();
        let before = before.map(|(first, end)| (*first, *end));
        let first = match before {
            Some((_, end)) if number < end => return false,
            Some((first, end)) if number == end => first,
            _ => number,
        };
        let end = self.runs.remove(&behind);
        self.runs.insert(first, end.unwrap_or(behind));
        true
    }

    /// How many numbers below the greatest are missing.
    pub(super) fn missing(&self) -> u64 {
        let present: u64 = self.runs.iter().map(|(first, end)| end - first).sum();
        let end = self.runs.values().next_back().copied().unwrap_or(0);
        end.saturating_sub(present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_new_once_and_holes_are_counted() {
        let mut numbers = Numbers::default();
        for number in [0, 1, 5, 3, 4, 9] {
            assert!(numbers.insert(number));
            assert!(!numbers.insert(number));
        }
        assert_eq!(numbers.missing(), 4, "2, 6, 7, 8");
        assert!(!numbers.insert(u64::MAX), "no writer comes so far");
        assert!(numbers.insert(u64::MAX - 1));
        assert!(numbers.insert(2));
        assert_eq!(numbers.missing(), u64::MAX - 8);
    }
}
