//! Huge pages under the pool: few entries of the processor's tables then cover all of it, where a read
//! at a random place would else wait for the tables longer than for the bytes.
//!
//! The operating system is asked to gather memory that is full already (`MADV_COLLAPSE`, Linux 6.1). So
//! no memory is taken that pages of files do not fill, and what the machine has set for shared memory in
//! general, mostly "never", does not matter. Programs' mappings follow by themselves, where they begin
//! at a multiple of a huge page.
//!
//! - H1: a *unit*, two megabytes of the pool or one frame if that is more, is gathered once each of its
//!   frames has been shown full. That is asked for [`TRIES_MAX`] times at most; the pool is right without.
//! - H2: a thread of its own gathers. It copies the unit meanwhile, and nobody waits for that but a
//!   process that touches it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use crate::segment::{HUGE_BYTES, Segment};

/// A unit that cannot be gathered is asked for no more than this.
const TRIES_MAX: u8 = 4;

/// The thread that gathers the units of a pool; ends when dropped.
#[derive(Debug)]
pub(crate) struct Gatherer {
    state: Arc<Mutex<State>>,
    frames_per_unit: usize,
    /// Closed to end the thread.
    ask: Option<mpsc::Sender<usize>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    /// Frames that were shown full.
    full: Vec<bool>,
    units: Vec<Unit>,
    gathered: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    full: usize,
    tries: u8,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Apart,
    Asked,
    Gathered,
}

impl Gatherer {
    /// Starts for the frames of these segments, all but the last of which are multiples of a unit.
    pub(crate) fn start(segments: Arc<[Segment]>, frame_bytes: usize) -> io::Result<Gatherer> {
        let frames_per_unit = (HUGE_BYTES / frame_bytes).max(1);
        let frames: usize = segments.iter().map(Segment::frames).sum();
        let state = Arc::new(Mutex::new(State {
            full: vec![false; frames],
            // Frames left over at the end are no unit.
            units: vec![Unit::default(); frames / frames_per_unit],
            gathered: 0,
        }));
        let (ask, asked) = mpsc::channel();
        let theirs = Arc::clone(&state);
        let thread = thread::Builder::new()
            .name("gather".to_owned())
            .spawn(move || gather_all(&segments, &theirs, frames_per_unit, &asked))?;
        Ok(Gatherer {
            state,
            frames_per_unit,
            ask: Some(ask),
            thread: Some(thread),
        })
    }

    /// A frame is shown all of which is in use.
    pub(crate) fn shown_full(&self, frame: usize) {
        let mut state = lock(&self.state);
        let number = frame / self.frames_per_unit;
        let is_new = !std::mem::replace(&mut state.full[frame], true);
        let Some(unit) = state.units.get_mut(number) else {
            return;
        };
        unit.full += usize::from(is_new);
        let is_due = unit.full == self.frames_per_unit && unit.stage == Stage::Apart;
        if !is_due || unit.tries == TRIES_MAX {
            return;
        }
        unit.stage = Stage::Asked;
        unit.tries += 1;
        if let Some(ask) = &self.ask {
            // Had the thread ended, huge pages are not to be had.
            let _ = ask.send(number);
        }
    }

    /// Units that lie in huge pages.
    pub(crate) fn gathered(&self) -> usize {
        lock(&self.state).gathered
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gather_all(
    segments: &[Segment],
    state: &Mutex<State>,
    frames_per_unit: usize,
    asked: &mpsc::Receiver<usize>,
) {
    for number in asked {
        let first = number * frames_per_unit;
        let per_segment = segments[0].frames();
        let done = segments[first / per_segment].gather(first % per_segment, frames_per_unit);
        if done
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
        {
            // This system does not know the request.
            return;
        }
        let mut state = lock(state);
        state.gathered += usize::from(done.is_ok());
        state.units[number].stage = if done.is_ok() {
            Stage::Gathered
        } else {
            Stage::Apart
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameIndex, PageName, Pool, PoolConfig};

    const FRAME: usize = 256 << 10;

    /// Shows pages in the frames, and waits until the thread has nothing more to do.
    fn gathered(frames: u32, shown: impl Iterator<Item = (u32, usize)>) -> usize {
        let pool = Pool::new(PoolConfig::new(FRAME, frames)).unwrap();
        let mut gatherer = Gatherer::start(pool.shared_segments(), FRAME).unwrap();
        for (frame, extent) in shown {
            pool.write(FrameIndex(frame), 0, &vec![1; extent]);
            if extent == FRAME {
                gatherer.shown_full(frame as usize);
            }
        }
        gatherer.ask = None;
        gatherer.thread.take().unwrap().join().unwrap();
        let page = PageName { file: 1, page: 1 };
        pool.publish(page, FrameIndex(0), FRAME);
        assert!(pool.with(FrameIndex(0), 0..FRAME, |bytes| {
            bytes.iter().all(|it| *it == 1)
        }));
        gatherer.gathered()
    }

    #[test]
    fn a_unit_is_gathered_when_all_of_its_frames_were_full() {
        if gathered(8, (0..8).map(|frame| (frame, FRAME))) == 0 {
            println!("skipped: a_unit_is_gathered_when_all_of_its_frames_were_full: huge pages");
            return;
        }
        let one_is_not = (0..8).map(|frame| (frame, if frame == 5 { 100 } else { FRAME }));
        assert_eq!(gathered(8, one_is_not), 0);
        let one_comes_twice = (0..7).chain([3]).map(|frame| (frame, FRAME));
        assert_eq!(gathered(8, one_comes_twice), 0);
        let with_a_rest = (0..20).map(|frame| (frame, FRAME));
        assert_eq!(gathered(20, with_a_rest), 2);
    }
}
