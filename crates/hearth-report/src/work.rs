//! How much each process had to do, and how long it took for it.

use hearth_trace::{Event, Op};

use crate::strip::Group;

/// Sizes by power of four.
const SIZES: usize = 16;
const SORTS: usize = Group::ALL.len() * SIZES;
/// Calls of a sort before their mean says something, unless so many processes have some.
const CALLS_MIN: u32 = 5;
const PROCESSES_MIN: usize = 3;

/// The calls of one process by group and size.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    calls: [u32; SORTS],
    took: [u64; SORTS],
    /// Nanoseconds of calls that bring written bytes to the store, which cost by those bytes.
    flushed: u64,
    written: u64,
    pub(crate) bytes: u64,
    pub(crate) total: u64,
}

impl Default for Work {
    fn default() -> Work {
        Work {
            calls: [0; SORTS],
            took: [0; SORTS],
            flushed: 0,
            written: 0,
            bytes: 0,
            total: 0,
        }
    }
}

impl Work {
    pub(crate) fn add(&mut self, group: Group, event: &Event) {
        let size = (event.bytes().max(1).ilog2() as usize / 2).min(SIZES - 1);
        let sort = group as usize * SIZES + size;
        self.calls[sort] = self.calls[sort].saturating_add(1);
        self.bytes += event.bytes();
        self.total += event.took;
        if event.op.is_write() {
            self.written += event.bytes();
        }
        if self.written > 0 && (event.op == Op::Close || event.op.is_sync()) {
            self.flushed += event.took;
        } else {
            self.took[sort] += event.took;
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.calls.iter().map(|&calls| u64::from(calls)).sum()
    }
}

/// Nanoseconds that each process would have taken at the pace that is usual among them.
///
/// Usual is the median, over the processes, of the mean of their calls of the same sort; of two the
/// faster one. Nobody is held to a pace that only it kept.
pub(crate) fn expected(works: &[&Work]) -> Vec<f64> {
    let mut expected = flushes(works);
    for sort in 0..SORTS {
        let mean = |work: &Work| work.took[sort] as f64 / f64::from(work.calls[sort].max(1));
        let some = works.iter().filter(|work| work.calls[sort] > 0).count();
        let calls_min = if some >= PROCESSES_MIN { 1 } else { CALLS_MIN };
        let known = works.iter().filter(|work| work.calls[sort] >= calls_min);
        let usual = usual(known.map(|work| mean(work)).collect());
        for (expected, work) in expected.iter_mut().zip(works) {
            *expected += f64::from(work.calls[sort]) * usual.unwrap_or_else(|| mean(work));
        }
    }
    expected
}

/// The same for flushes alone, by the bytes that were written.
fn flushes(works: &[&Work]) -> Vec<f64> {
    let writers = works.iter().filter(|work| work.written > 0);
    let usual = usual(
        writers
            .map(|work| work.flushed as f64 / work.written as f64)
            .collect(),
    );
    let expected = works.iter().map(|work| match usual {
        Some(usual) if work.written > 0 => usual * work.written as f64,
        _ => work.flushed as f64,
    });
    expected.collect()
}

/// The median, of two the lower one.
fn usual(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(calls: u32, each: u64) -> Work {
        let mut work = Work::default();
        work.calls[3] = calls;
        work.took[3] = u64::from(calls) * each;
        work
    }

    #[test]
    fn a_slow_process_is_held_to_the_pace_of_the_others() {
        let works = [work(100, 10), work(100, 11), work(100, 50), work(200, 10)];
        let works: Vec<&Work> = works.iter().collect();
        let expected = expected(&works);
        assert_eq!(expected, [1000.0, 1000.0, 1000.0, 2000.0]);
    }

    #[test]
    fn what_only_one_does_is_taken_as_it_is() {
        let works = [work(100, 10), Work::default()];
        let works: Vec<&Work> = works.iter().collect();
        assert_eq!(expected(&works), [1000.0, 0.0]);
    }
}
