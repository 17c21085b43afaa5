//! How much each process read and wrote, over time. All operations count, kept as slices or not.

use std::io::{self, Write};

use hearth_trace::{Event, Layer, ProcessId, Tables};

use super::Writer;
use super::tracks::{Rate, Tracks, rate_track};
use super::wire::{Message, event};

/// Steps in time, at most, and sums in all, at most: many processes have fewer steps each.
const STEPS_MAX: usize = 1000;
const SUMS_MAX: usize = 8 << 20;

/// Bytes read and written per process and step.
pub(super) struct Rates {
    begin: i64,
    step: u64,
    steps: usize,
    read: Vec<u64>,
    written: Vec<u64>,
}

impl Rates {
    pub(super) fn new(tables: &Tables) -> Rates {
        let begin = super::super::window::beginning(tables);
        let ends = tables.processes.iter().map(|process| process.end);
        let whole = ends.max().unwrap_or(begin).abs_diff(begin).max(1);
        let processes = tables.processes.len().max(1);
        let steps = (SUMS_MAX / processes).clamp(1, STEPS_MAX);
        Rates {
            begin,
            step: whole.div_ceil(steps as u64),
            steps,
            read: vec![0; steps * processes],
            written: vec![0; steps * processes],
        }
    }

    pub(super) fn count(&mut self, process: usize, event: &Event) {
        if event.layer != Layer::App {
            return;
        }
        let since = u64::try_from(event.start.saturating_sub(self.begin)).unwrap_or(0);
        let step = usize::try_from(since / self.step).unwrap_or(usize::MAX);
        let at = process * self.steps + step.min(self.steps - 1);
        if event.op.is_read() {
            self.read[at] += event.bytes();
        } else if event.op.is_write() {
            self.written[at] += event.bytes();
        }
    }

    pub(super) fn put(
        &self,
        writer: &mut Writer<'_, impl Write>,
        tracks: &mut Tracks<'_>,
    ) -> io::Result<()> {
        for (rate, sums) in [(Rate::Read, &self.read), (Rate::Write, &self.written)] {
            for (number, steps) in (0..).zip(sums.chunks(self.steps)) {
                if steps.iter().any(|&bytes| bytes > 0) {
                    let process = ProcessId(number);
                    tracks.rate(writer, process, rate)?;
                    self.put_steps(writer, rate_track(process, rate), steps)?;
                }
            }
        }
        Ok(())
    }

    /// A value stands until the next, so only changes are written.
    fn put_steps(
        &self,
        writer: &mut Writer<'_, impl Write>,
        track: u64,
        steps: &[u64],
    ) -> io::Result<()> {
        let mut last = 0;
        let begins = (0..).map(|step| self.begin.saturating_add_unsigned(step * self.step));
        for (time, &bytes) in begins.zip(steps.iter().chain([&0])) {
            if bytes == last {
                continue;
            }
            last = bytes;
            let per_second = u128::from(bytes) * 1_000_000_000 / u128::from(self.step);
            let mut counter = Message::default();
            counter.number(event::TYPE, event::COUNTER);
            counter.number(event::TRACK, track);
            counter.number(event::COUNTER_VALUE, per_second as u64);
            writer.track_event(time, &counter)?;
        }
        Ok(())
    }
}
