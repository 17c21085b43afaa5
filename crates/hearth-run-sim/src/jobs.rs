//! Work of the store, which a thread of each agent does.

use crate::FramePart;
use crate::core::Core;
use crate::mount::Answer;
use hearth_proto::{Buf, FileId, Input, Piece, Src, StoreOk, StoreOpId};
use std::sync::mpsc;

/// Bytes are copied to the store in such parts.
const STORE_PART: usize = 1024;

/// Work of the store.
pub(crate) struct Job {
    pub(crate) file: FileId,
    pub(crate) work: Work,
    pub(crate) told: Told,
}

/// Those who hear of it.
pub(crate) enum Told {
    Kernel(StoreOpId),
    Call(mpsc::Sender<Answer>),
}

/// Something to be done with a file in the store.
pub(crate) enum Work {
    /// Nothing, but its stamp is wanted.
    Look,
    /// From an offset on, so many bytes.
    Read(u64, u32, Target),
    /// Each at its offset.
    Write(Vec<(u64, Source)>),
}

/// The place that bytes of the store go to.
pub(crate) enum Target {
    Frames(Vec<FramePart>),
    Buf(Buf),
    Call,
}

/// The place that bytes for the store come from.
pub(crate) enum Source {
    Frame(FramePart),
    Bytes(Vec<u8>),
}

impl Job {
    /// Does it, and tells of it.
    pub(crate) fn run(self, core: &Core) {
        let Job { file, work, told } = self;
        let read = match work {
            Work::Look => (Vec::new(), None),
            Work::Read(offset, len, target) => read(core, file, (offset, len), target),
            Work::Write(parts) => {
                for (offset, source) in parts {
                    write(core, file, offset, source);
                }
                (Vec::new(), None)
            }
        };
        match told {
            Told::Kernel(op) => tell_kernel(core, (op, file), read),
            // A program that is gone needs none.
            Told::Call(tell) => drop(tell.send(Answer::Bytes(read.0))),
        }
    }
}

/// The kernel hears of it, and has the bytes in a buffer if it wanted them there.
fn tell_kernel(
    core: &Core,
    (op, file): (StoreOpId, FileId),
    (read, into): (Vec<u8>, Option<(Buf, u32)>),
) {
    let ok = StoreOk {
        bytes: read.len() as u32,
        stamp: core.store.stamp(file.0),
    };
    core.drive_with(|state| {
        if let Some((buf, len)) = into {
            let mut bytes = read;
            bytes.resize(len as usize, 0);
            state.buffers.insert(buf, bytes);
        }
        Input::StoreDone(op, Ok(ok))
    });
}

fn read(
    core: &Core,
    file: FileId,
    (offset, len): (u64, u32),
    target: Target,
) -> (Vec<u8>, Option<(Buf, u32)>) {
    let bytes = core.store.read(file.0, offset, len as usize);
    let into = match target {
        Target::Frames(parts) => {
            let mut rest = &bytes[..];
            for part in parts {
                let (here, more) = rest.split_at(rest.len().min(part.len));
                core.pool.write(part.frame, part.offset, here);
                rest = more;
            }
            None
        }
        Target::Buf(buf) => Some((buf, len)),
        Target::Call => None,
    };
    (bytes, into)
}

fn write(core: &Core, file: FileId, offset: u64, source: Source) {
    let part = match source {
        Source::Bytes(bytes) => return core.store.write(file.0, offset, &bytes),
        Source::Frame(part) => part,
    };
    for at in (0..part.len).step_by(STORE_PART) {
        let mut bytes = vec![0; STORE_PART.min(part.len - at)];
        core.pool.read(part.frame, part.offset + at, &mut bytes);
        core.store.write(file.0, offset + at as u64, &bytes);
    }
}

/// The part of a frame that a piece is.
pub(crate) fn part_of(piece: &Piece) -> Option<FramePart> {
    match piece.src {
        Src::Frame(frame) => Some(FramePart {
            frame: crate::FrameIndex(frame.0),
            offset: piece.at as usize,
            len: piece.len as usize,
        }),
        Src::Buf(_) | Src::Zero => None,
    }
}
