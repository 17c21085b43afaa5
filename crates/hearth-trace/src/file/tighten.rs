//! Moves the clocks of machines so that no request is served before it is sent.

use std::collections::HashMap;
use std::sync::Arc;

use super::assemble::{Placed, Trace};
use crate::codec;
use crate::merge::Pairs;
use crate::{HostId, Layer};

/// Requests that are remembered while their other half is looked for.
const OPEN_MAX: usize = 1 << 20;
/// Blocks that are looked at.
const BLOCKS_MAX: usize = 20_000;

/// One half of a request: where, from, to.
type Half = (HostId, i64, i64);

/// Looks at the requests between machines, and moves clocks where these say so. `read` gives the
/// encoded records of a block, if it can.
pub(super) fn tighten(trace: &mut Trace, read: &mut dyn FnMut(&Placed) -> Option<Vec<u8>>) {
    let machines = trace.tables.hosts.len();
    if machines < 2 {
        return;
    }
    let pairs = pairs(trace, read);
    let (moves, wrong) = pairs.solve(machines);
    for (host, by) in trace.tables.hosts.iter_mut().zip(&moves) {
        if *by != 0 {
            host.clock_bound = host.clock_bound.map(|bound| bound + by.unsigned_abs());
            trace.tables.remarks.push(format!(
                "{}: its clock is moved by {by} ns, so that nothing is served before it is asked",
                host.name
            ));
        }
    }
    if wrong > 0 {
        trace.tables.remarks.push(format!(
            "{wrong} pairs of hosts contradict each other about time; order between them is a guess"
        ));
    }
    shift(trace, &moves);
}

fn pairs(trace: &Trace, read: &mut dyn FnMut(&Placed) -> Option<Vec<u8>>) -> Pairs {
    let mut pairs = Pairs::default();
    let mut asked: HashMap<u64, Half> = HashMap::new();
    let mut served: HashMap<u64, Half> = HashMap::new();
    let between = trace.blocks.iter().filter(|block| block.between);
    for block in between.take(BLOCKS_MAX) {
        let Some(bytes) = read(block) else { continue };
        let meaning = &trace.meanings[block.meaning];
        // A block that does not decode says nothing.
        let _ = codec::decode(&bytes, block.count, |record| {
            let layer = Layer::from_code(record.layer);
            let mine = match layer {
                Some(Layer::PeerClient) => true,
                Some(Layer::PeerServer) => false,
                _ => return,
            };
            if record.request == 0 {
                return;
            }
            let end = record.start.saturating_add(record.ticks());
            let half = (
                meaning.host,
                meaning.timeline.at(record.start),
                meaning.timeline.at(end),
            );
            let (own, other) = if mine {
                (&mut asked, &mut served)
            } else {
                (&mut served, &mut asked)
            };
            match other.remove(&record.request) {
                Some(found) if found.0 != half.0 => {
                    let (ask, serve) = if mine { (half, found) } else { (found, half) };
                    pairs.add((ask.0.0, serve.0.0), (ask.1, ask.2), (serve.1, serve.2));
                }
                _ if own.len() < OPEN_MAX => drop(own.insert(record.request, half)),
                _ => {}
            }
        });
    }
    pairs
}

/// Moves everything that happened on each machine.
fn shift(trace: &mut Trace, moves: &[i64]) {
    let by = |host: HostId| moves[host.0 as usize];
    if moves.iter().all(|by| *by == 0) {
        return;
    }
    for meaning in &mut trace.meanings {
        meaning.timeline = Arc::new(meaning.timeline.moved(by(meaning.host)));
    }
    for process in &mut trace.tables.processes {
        process.start += by(process.host);
        process.end += by(process.host);
    }
    let tables = &mut trace.tables;
    for gap in &mut tables.gaps {
        let process = tables.streams[gap.stream.0 as usize].process;
        let by = by(tables.processes[process.0 as usize].host);
        (gap.from, gap.to) = (gap.from + by, gap.to + by);
    }
    for block in &mut trace.blocks {
        block.start += by(trace.meanings[block.meaning].host);
    }
    trace.blocks.sort_by_key(|block| block.start);
}
