//! Frames: the unit in which traces are written, shipped, checked and recovered.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic |
//! | 4 | 1 | version |
//! | 5 | 1 | kind |
//! | 6 | 2 | check of the header: low half of the CRC32C of its other bytes up to 28 |
//! | 8 | 4 | length of the payload |
//! | 12 | 8 | session |
//! | 20 | 8 | number within the session, from 0 |
//! | 28 | 4 | CRC32C of the bytes before and of the payload |
//!
//! 1. A frame that passes both checks is taken as it was written; every other byte is damage.
//! 2. After damage the next frame is found by its magic. The header's own check comes first, so that
//!    a magic in the middle of other bytes costs no checksum of what follows.

use std::io::{self, Read};

/// Bytes before the payload.
pub const HEADER_LEN: usize = 32;
/// A longer frame is not written, and is damage where it is read.
pub const FRAME_LEN_MAX: usize = 1 << 20;
const MAGIC: [u8; 4] = [0x89, b'H', b'T', b'R'];
const VERSION: u8 = 1;
/// Bytes read at once.
const CHUNK_LEN: usize = 1 << 20;

/// One run of one log client; drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl SessionId {
    /// A number that no other session has.
    pub fn fresh() -> io::Result<SessionId> {
        let mut bytes = [0; 8];
        let flags = rustix::rand::GetRandomFlags::empty();
        rustix::rand::getrandom(&mut bytes, flags)?;
        Ok(SessionId(u64::from_le_bytes(bytes)))
    }
}

/// The kind of a frame's content. The codes are part of the format and never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// The identity of a session; its first frame.
    Session = 1,
    /// Records of one thread.
    Block = 2,
    /// Processes, threads, files, clocks, totals.
    Facts = 3,
    /// Nothing follows in this session.
    End = 4,
}

impl FrameKind {
    fn from_code(code: u8) -> Option<FrameKind> {
        [
            FrameKind::Session,
            FrameKind::Block,
            FrameKind::Facts,
            FrameKind::End,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == code)
    }
}

/// The header of a frame, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind of its content; `None` is a kind of a later version, to be passed over.
    pub kind: Option<FrameKind>,
    /// The session that it belongs to.
    pub session: SessionId,
    /// Its place in the session.
    pub number: u64,
}

/// Fills in the header of a frame. `frame` begins with [`HEADER_LEN`] bytes to be overwritten, the
/// payload follows.
pub fn seal(frame: &mut [u8], kind: FrameKind, session: SessionId, number: u64) {
    assert!(
        frame.len() <= FRAME_LEN_MAX,
        "writers cut what does not fit into a frame"
    );
    let len = frame.len().saturating_sub(HEADER_LEN);
    let len = u32::try_from(len).expect("a frame is at most 1 MiB");
    let (header, payload) = frame.split_at_mut(HEADER_LEN);
    header[0..4].copy_from_slice(&MAGIC);
    header[4] = VERSION;
    header[5] = kind as u8;
    header[8..12].copy_from_slice(&len.to_le_bytes());
    header[12..20].copy_from_slice(&session.0.to_le_bytes());
    header[20..28].copy_from_slice(&number.to_le_bytes());
    let check = header_check(header);
    header[6..8].copy_from_slice(&check.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..28]), payload);
    header[28..32].copy_from_slice(&crc.to_le_bytes());
}

fn header_check(header: &[u8]) -> u16 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..6]), &header[8..28]);
    crc as u16
}

/// A header whose own check is right, and the length of its payload.
fn open_header(header: &[u8]) -> Option<(Frame, usize)> {
    let word = |at: usize| {
        let bytes = header[at..at + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    };
    let check = u16::from_le_bytes([header[6], header[7]]);
    if header[..4] != MAGIC || header[4] != VERSION || check != header_check(header) {
        return None;
    }
    let len = word(8) as u32 as usize;
    let frame = Frame {
        kind: FrameKind::from_code(header[5]),
        session: SessionId(word(12)),
        number: word(20),
    };
    (len <= FRAME_LEN_MAX - HEADER_LEN).then_some((frame, len))
}

/// The frame that `bytes` begin with, and its length, if it is whole and its checksums are right.
pub fn first_frame(bytes: &[u8]) -> Option<(Frame, usize)> {
    let header = bytes.first_chunk::<HEADER_LEN>()?;
    let (frame, len) = open_header(header)?;
    let payload = bytes.get(HEADER_LEN..HEADER_LEN + len)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..28]), payload);
    let stated = u32::from_le_bytes([header[28], header[29], header[30], header[31]]);
    (crc == stated).then_some((frame, HEADER_LEN + len))
}

/// The content of one place of a file.
#[derive(Debug)]
pub enum FrameOrDamage<'a> {
    /// A whole frame.
    Frame {
        /// Its header.
        frame: Frame,
        /// The offset of its payload in the file.
        at: u64,
        /// Its payload.
        payload: &'a [u8],
    },
    /// Bytes that are no frame.
    Damage {
        /// Their offset in the file.
        at: u64,
        /// How many there are.
        len: u64,
    },
}

/// Reads frames one after another, and finds the next one after damage.
pub struct Frames<R> {
    input: R,
    buffer: Vec<u8>,
    /// Place in the buffer of the first byte that was not handed out.
    next: usize,
    /// Place in the file of the first byte of the buffer.
    base: u64,
    ended: bool,
}

impl<R: Read> Frames<R> {
    /// Reads from `input`, whose first byte is the file's.
    pub fn new(input: R) -> Frames<R> {
        Frames {
            input,
            buffer: Vec::new(),
            next: 0,
            base: 0,
            ended: false,
        }
    }

    /// Reads the next content of the file; `None` at its end.
    pub fn read(&mut self) -> io::Result<Option<FrameOrDamage<'_>>> {
        let mut damage: Option<u64> = None;
        loop {
            if let Some((frame, len)) = self.frame_here()? {
                if let Some(at) = damage {
                    let len = self.place() - at;
                    return Ok(Some(FrameOrDamage::Damage { at, len }));
                }
                let at = self.place() + HEADER_LEN as u64;
                let start = self.next + HEADER_LEN;
                self.next = start + len;
                let payload = &self.buffer[start..self.next];
                return Ok(Some(FrameOrDamage::Frame { frame, at, payload }));
            }
            if self.next == self.buffer.len() && self.ended {
                let end = self.place();
                let found = damage.map(|at| FrameOrDamage::Damage { at, len: end - at });
                return Ok(found);
            }
            damage.get_or_insert(self.place());
            self.skip_to_magic();
        }
    }

    /// Bytes handed out so far.
    pub fn place(&self) -> u64 {
        self.base + self.next as u64
    }

    /// The frame that begins at the next byte, if one does.
    fn frame_here(&mut self) -> io::Result<Option<(Frame, usize)>> {
        self.want(HEADER_LEN)?;
        let Some(header) = self.buffer[self.next..].first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let Some((_, len)) = open_header(header) else {
            return Ok(None);
        };
        self.want(HEADER_LEN + len)?;
        let found = first_frame(&self.buffer[self.next..]);
        Ok(found.map(|(frame, len)| (frame, len - HEADER_LEN)))
    }

    /// Passes at least one byte, and then all up to the next place where a frame may begin.
    fn skip_to_magic(&mut self) {
        let rest = &self.buffer[self.next..];
        let found = rest.windows(MAGIC.len()).skip(1).position(|w| w == MAGIC);
        self.next += match found {
            Some(at) => at + 1,
            None if self.ended => rest.len(),
            // The last bytes may be the beginning of a magic.
            None => (rest.len() - (MAGIC.len() - 1)).max(1),
        };
    }

    /// Reads on until `len` bytes are there, or the file ends.
    fn want(&mut self, len: usize) -> io::Result<()> {
        while self.buffer.len() - self.next < len && !self.ended {
            self.buffer.drain(..self.next);
            self.base += self.next as u64;
            self.next = 0;
            let kept = self.buffer.len();
            self.buffer.resize(kept + CHUNK_LEN, 0);
            let count = loop {
                match self.input.read(&mut self.buffer[kept..]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result,
                }
            };
            self.buffer.truncate(kept + *count.as_ref().unwrap_or(&0));
            self.ended = count? == 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(7);

    fn file(lens: &[usize]) -> Vec<u8> {
        let mut file = Vec::new();
        for (number, len) in lens.iter().enumerate() {
            let mut frame = vec![number as u8; HEADER_LEN + len];
            seal(&mut frame, FrameKind::Block, SESSION, number as u64);
            file.extend_from_slice(&frame);
        }
        file
    }

    /// Numbers of the frames, and the damaged places.
    fn read(bytes: &[u8]) -> (Vec<u64>, Vec<(u64, u64)>) {
        let mut frames = Frames::new(bytes);
        let (mut numbers, mut damages) = (Vec::new(), Vec::new());
        while let Some(found) = frames.read().expect("reading memory does not fail") {
            match found {
                FrameOrDamage::Frame { frame, payload, .. } => {
                    assert!(payload.iter().all(|byte| u64::from(*byte) == frame.number));
                    numbers.push(frame.number);
                }
                FrameOrDamage::Damage { at, len } => damages.push((at, len)),
            }
        }
        (numbers, damages)
    }

    #[test]
    fn frames_come_back() {
        let lens = [0, 1, 4000, FRAME_LEN_MAX - HEADER_LEN, 17];
        assert_eq!(read(&file(&lens)), (vec![0, 1, 2, 3, 4], vec![]));
        assert_eq!(read(&[]), (vec![], vec![]));
    }

    #[test]
    fn a_changed_byte_costs_its_frame_and_no_other() {
        let whole = file(&[50, 60, 70]);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let hurt = if at < 82 {
                0
            } else if at < 82 + 92 {
                1
            } else {
                2
            };
            let (numbers, damages) = read(&bytes);
            assert_eq!(
                numbers,
                [0, 1, 2]
                    .into_iter()
                    .filter(|n| *n != hurt)
                    .collect::<Vec<_>>()
            );
            assert_eq!(damages.len(), 1);
        }
    }

    #[test]
    fn a_cut_file_gives_every_whole_frame() {
        let whole = file(&[50, 60, 70]);
        for len in 0..whole.len() {
            let (numbers, damages) = read(&whole[..len]);
            let expected = [82, 174].iter().filter(|end| **end <= len).count();
            assert_eq!(numbers.len(), expected);
            let lost = len - [0, 82, 174][expected];
            assert_eq!(
                damages.iter().map(|(_, len)| *len).sum::<u64>(),
                lost as u64
            );
        }
    }

    #[test]
    fn bytes_between_frames_are_passed_over() {
        let mut bytes = b"no frame, but \x89HTR and \x89HT".to_vec();
        let stray = bytes.len() as u64;
        bytes.extend_from_slice(&file(&[3, 4]));
        assert_eq!(read(&bytes), (vec![0, 1], vec![(0, stray)]));
    }
}
