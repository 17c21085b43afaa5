//! Critical seconds: how much of the job's wall time its I/O holds up.
//!
//! A trace does not say which thread waited for which. This can be said without:
//! - Threads whose lives do not overlap share a *lane*: they ran one after the other.
//! - Time without any I/O cuts the job into *phases*, each long enough that half of the lanes take
//!   part in it. Ranks that work in step meet at the end of a phase.
//! - A phase costs as much as its slowest lane spends in it. If lanes take turns, one of them in
//!   I/O nearly all the time and hardly ever two, it costs as much as they all spend.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hearth_trace::{StreamId, Tables};

use crate::strip::Strip;

/// A lane this near to the slowest counts as one that holds the job up.
const NEAR: f64 = 0.9;
/// Turns: nearly always somebody is in I/O, hardly ever two are, and no lane has most of it.
const TURNS_FILLED_MIN: f64 = 0.8;
const TURNS_OVERLAP_MAX: f64 = 0.15;
const TURNS_LONGEST_MAX: f64 = 0.6;

/// Time of one thread in one phase.
#[derive(Clone, Copy, Debug)]
struct Cell {
    phase: u32,
    lane: u32,
    stream: u32,
    took: f64,
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    to: usize,
    takes_turns: bool,
}

/// The lanes and phases of a job.
#[derive(Debug)]
pub(crate) struct Critical {
    /// By phase, then lane.
    cells: Vec<Cell>,
    phases: Vec<Phase>,
    pub(crate) lanes: usize,
    streams: usize,
}

impl Critical {
    pub(crate) fn new(strip: &Strip, tables: &Tables) -> Critical {
        let lane_of = lanes(strip, tables);
        let lanes = lane_of
            .iter()
            .flatten()
            .max()
            .map_or(0, |&lane| lane as usize + 1);
        let active = active(strip, &lane_of);
        let mut phases = phases(strip, &active, lanes);
        let mut lanes_in = vec![0; strip.bins.len()];
        active.iter().for_each(|(bin, _)| lanes_in[*bin] += 1);
        let mut cells = Vec::new();
        for (stream, row) in strip.rows.iter().enumerate() {
            let Some(lane) = lane_of[stream] else {
                continue;
            };
            cells.extend(stream_cells(strip, &phases, stream, lane));
            debug_assert!(row.total > 0);
        }
        cells.sort_by_key(|cell| (cell.phase, cell.lane));
        let mut from = 0;
        for (index, phase) in phases.iter_mut().enumerate() {
            phase.takes_turns = take_turns(&lanes_in[from..phase.to], &cells, index);
            from = phase.to;
        }
        Critical {
            cells,
            phases,
            lanes,
            streams: strip.rows.len(),
        }
    }

    /// Seconds that the job's I/O holds it up.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds_if(&|_| 1.0)
    }

    /// The same if each thread spent only a share of its time, by thread.
    pub(crate) fn seconds_if(&self, share: &dyn Fn(usize) -> f64) -> f64 {
        let mut total = 0.0;
        for phase in self.cells.chunk_by(|a, b| a.phase == b.phase) {
            let takes_turns = self.phases[phase[0].phase as usize].takes_turns;
            let lanes = phase.chunk_by(|a, b| a.lane == b.lane).map(|lane| {
                let took = lane
                    .iter()
                    .map(|cell| cell.took * share(cell.stream as usize));
                took.sum::<f64>()
            });
            total += if takes_turns {
                lanes.sum()
            } else {
                lanes.fold(0.0, f64::max)
            };
        }
        total / 1e9
    }

    /// Of each thread's time in I/O, the share that holds the job up; together they are
    /// [`Critical::seconds`].
    pub(crate) fn weights(&self) -> Vec<f64> {
        let mut critical = vec![0.0; self.streams];
        let mut total = vec![0.0; self.streams];
        for phase in self.cells.chunk_by(|a, b| a.phase == b.phase) {
            let takes_turns = self.phases[phase[0].phase as usize].takes_turns;
            let sum = |lane: &[Cell]| lane.iter().map(|cell| cell.took).sum::<f64>();
            let by_lane = || phase.chunk_by(|a, b| a.lane == b.lane);
            let slowest = by_lane().map(sum).fold(0.0, f64::max);
            let counts = |lane: &&[Cell]| takes_turns || sum(lane) >= NEAR * slowest;
            let near: f64 = by_lane().filter(counts).map(sum).sum();
            let cost = if takes_turns { near } else { slowest };
            for cell in by_lane().filter(counts).flatten() {
                critical[cell.stream as usize] += cell.took * cost / near.max(1.0);
            }
            for cell in phase {
                total[cell.stream as usize] += cell.took;
            }
        }
        let pairs = critical.iter().zip(&total);
        pairs
            .map(|(critical, total)| if *total > 0.0 { critical / total } else { 0.0 })
            .collect()
    }
}

/// By thread its lane, if it did any I/O.
fn lanes(strip: &Strip, tables: &Tables) -> Vec<Option<u32>> {
    let mut streams_of = vec![0u32; tables.processes.len()];
    for stream in &tables.streams {
        streams_of[stream.process.0 as usize] += 1;
    }
    let mut lives: Vec<(i64, i64, usize)> = Vec::new();
    for (index, row) in strip
        .rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.total > 0)
    {
        let Some((mut first, mut last)) = row.seen else {
            continue;
        };
        let process = tables.process_of(StreamId(index as u32));
        if streams_of[tables.streams[index].process.0 as usize] == 1 && process.end > process.start
        {
            (first, last) = (first.min(process.start), last.max(process.end));
        }
        lives.push((first, last, index));
    }
    lives.sort_unstable();
    let mut lane_of = vec![None; strip.rows.len()];
    let mut free: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
    let mut count = 0;
    for (first, last, stream) in lives {
        let lane = match free.peek() {
            Some(&Reverse((end, lane))) if end <= first => {
                free.pop();
                lane
            }
            _ => {
                count += 1;
                count - 1
            }
        };
        free.push(Reverse((last, lane)));
        lane_of[stream] = Some(lane);
    }
    lane_of
}

/// Bins and the lanes that are in I/O in them, in order.
fn active(strip: &Strip, lane_of: &[Option<u32>]) -> Vec<(usize, u32)> {
    let mut active: Vec<(usize, u32)> = Vec::new();
    for (row, lane) in strip.rows.iter().zip(lane_of) {
        let Some(lane) = lane else { continue };
        let busy = row.cells.iter().enumerate().filter(|(_, took)| **took > 0);
        active.extend(busy.map(|(index, _)| (row.first + index, *lane)));
    }
    active.sort_unstable();
    active.dedup();
    active
}

/// Cuts time where nobody does I/O, once half of the lanes took part since the last cut.
fn phases(strip: &Strip, active: &[(usize, u32)], lanes: usize) -> Vec<Phase> {
    let wanted = lanes.div_ceil(2);
    let mut last_cut = vec![0usize; lanes];
    let (mut phases, mut taking_part, mut cuts) = (Vec::new(), 0, 1);
    let mut previous = None;
    for &(bin, lane) in active {
        let is_gap = previous.is_some_and(|previous| bin > previous + 1);
        if is_gap && taking_part >= wanted {
            phases.push(Phase {
                to: bin,
                takes_turns: false,
            });
            cuts += 1;
            taking_part = 0;
        }
        if last_cut[lane as usize] != cuts {
            last_cut[lane as usize] = cuts;
            taking_part += 1;
        }
        previous = Some(bin);
    }
    match phases.last_mut() {
        // Too few took part in what came after the last cut.
        Some(last) if taking_part < wanted => last.to = strip.bins.len(),
        _ => phases.push(Phase {
            to: strip.bins.len(),
            takes_turns: false,
        }),
    }
    phases
}

fn stream_cells(strip: &Strip, phases: &[Phase], stream: usize, lane: u32) -> Vec<Cell> {
    let row = &strip.rows[stream];
    let mut cells: Vec<Cell> = Vec::new();
    let mut phase = phases.partition_point(|phase| phase.to <= row.first);
    for (index, &took) in row.cells.iter().enumerate().filter(|(_, took)| **took > 0) {
        while phases[phase].to <= row.first + index {
            phase += 1;
        }
        match cells.last_mut() {
            Some(cell) if cell.phase == phase as u32 => cell.took += took as f64,
            _ => cells.push(Cell {
                phase: phase as u32,
                lane,
                stream: stream as u32,
                took: took as f64,
            }),
        }
    }
    cells
}

/// `lanes_in` says how many lanes are in I/O, by bin.
fn take_turns(lanes_in: &[u32], cells: &[Cell], phase: usize) -> bool {
    let from = cells.partition_point(|cell| (cell.phase as usize) < phase);
    let to = cells.partition_point(|cell| cell.phase as usize <= phase);
    let lanes = cells[from..to].chunk_by(|a, b| a.lane == b.lane);
    let lanes = lanes.map(|lane| lane.iter().map(|cell| cell.took).sum::<f64>());
    let (total, longest) = lanes.fold((0.0, 0.0), |(total, longest), took| {
        (total + took, f64::max(longest, took))
    });
    let is_busy = |lanes: &u32| *lanes > 0;
    let Some(first) = lanes_in.iter().position(is_busy) else {
        return false;
    };
    let last = lanes_in.iter().rposition(is_busy).unwrap_or(first);
    let busy = lanes_in.iter().copied().filter(|lanes| *lanes > 0).count() as f64;
    let crowded = lanes_in.iter().filter(|lanes| **lanes > 1).count() as f64;
    longest <= TURNS_LONGEST_MAX * total
        && busy >= TURNS_FILLED_MIN * (last - first + 1) as f64
        && crowded <= TURNS_OVERLAP_MAX * busy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strip::Group;
    use hearth_trace::{HostId, ProcessId, Stream, TracedProcess};

    fn tables(lives: &[(i64, i64)]) -> Tables {
        let mut tables = Tables::default();
        for (index, &(start, end)) in lives.iter().enumerate() {
            tables.processes.push(TracedProcess {
                host: HostId(0),
                pid: 100 + index as u32,
                rank: Some(index as u32),
                exe: "/bin/solver".to_owned(),
                start,
                end,
                totals: Vec::new(),
            });
            tables.streams.push(Stream {
                process: ProcessId(index as u32),
                tid: 100 + index as u32,
                attempted: 0,
                stored: 0,
                dropped: 0,
                torn: 0,
            });
        }
        tables
    }

    const MS: i64 = 1_000_000;

    fn critical(lives: &[(i64, i64)], io: &[(usize, i64, i64)]) -> Critical {
        let tables = tables(lives);
        let mut strip = Strip::new(&tables);
        for &(stream, start, took) in io {
            strip.add(stream, Group::Read, start * MS, (took * MS) as u64, 0);
        }
        Critical::new(&strip, &tables)
    }

    fn is(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() < 1e-6
    }

    #[test]
    fn a_phase_costs_what_its_slowest_lane_spends() {
        let lives = [(0, 1000 * MS); 2];
        let job = critical(
            &lives,
            &[(0, 100, 100), (1, 100, 300), (0, 600, 200), (1, 600, 100)],
        );
        assert_eq!(job.phases.len(), 2);
        assert!(is(job.seconds(), 0.5), "{}", job.seconds());
        let faster = job.seconds_if(&|stream| if stream == 1 { 0.1 } else { 1.0 });
        assert!(is(faster, 0.3), "the other lane holds it up: {faster}");
        let weights = job.weights();
        assert!(is(weights[0] * 0.3 + weights[1] * 0.4, 0.5), "{weights:?}");
    }

    #[test]
    fn processes_that_follow_each_other_share_a_lane() {
        let lives = [(0, 100 * MS), (100 * MS, 200 * MS), (200 * MS, 300 * MS)];
        let job = critical(&lives, &[(0, 10, 50), (1, 110, 50), (2, 210, 50)]);
        assert_eq!(job.lanes, 1);
        assert!(is(job.seconds(), 0.15));
    }

    #[test]
    fn lanes_that_are_out_of_step_do_not_add_up() {
        let lives = [(0, 1000 * MS); 4];
        let io: Vec<_> = (0..40)
            .map(|turn| (turn % 4, turn as i64 * 20, 5))
            .collect();
        let job = critical(&lives, &io);
        assert!(job.seconds() < 0.11, "{}", job.seconds());
        assert!(job.seconds() >= 0.05);
    }

    #[test]
    fn lanes_that_take_turns_add_up() {
        let lives = [(0, 400 * MS); 4];
        let io: Vec<_> = (0..40)
            .map(|turn| (turn % 4, turn as i64 * 10, 10))
            .collect();
        let job = critical(&lives, &io);
        assert!(is(job.seconds(), 0.4), "{}", job.seconds());
    }

    #[test]
    fn a_job_without_io_has_no_critical_seconds() {
        let job = critical(&[(0, MS)], &[]);
        assert!(is(job.seconds(), 0.0));
    }
}
