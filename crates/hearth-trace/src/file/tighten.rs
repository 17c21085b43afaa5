//! Moves the clocks of machines so that no request is served before it is sent.

use std::collections::HashMap;
use std::sync::Arc;

use super::assemble::{Placed, Trace};
use crate::codec;
use crate::merge::{Bends, Pairs};
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
    let (bends, wrong) = pairs.solve(machines);
    let mut moved = false;
    for (machine, host) in (0..).zip(&mut trace.tables.hosts) {
        let by = bends.most(machine);
        moved |= by > 0;
        if by > 0 {
            host.clock_bound = host.clock_bound.map(|bound| bound + by);
            trace.tables.remarks.push(format!(
                "{}: its clock is moved by up to {by} ns, so that nothing is served before it is asked",
                host.name
            ));
        }
    }
    if wrong > 0 {
        trace.tables.remarks.push(format!(
            "{wrong} requests between hosts contradict others about time; order is a guess there"
        ));
    }
    if moved {
        shift(trace, &bends);
    }
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
fn shift(trace: &mut Trace, bends: &Bends) {
    let by = |host: HostId, time: i64| bends.at(host.0, time);
    for meaning in &mut trace.meanings {
        let bent = meaning
            .timeline
            .bent(bends.times(), |time| by(meaning.host, time));
        meaning.timeline = Arc::new(bent);
    }
    for process in &mut trace.tables.processes {
        process.start += by(process.host, process.start);
        process.end += by(process.host, process.end);
    }
    let tables = &mut trace.tables;
    for gap in &mut tables.gaps {
        let process = tables.streams[gap.stream.0 as usize].process;
        let host = tables.processes[process.0 as usize].host;
        gap.from += by(host, gap.from);
        gap.to += by(host, gap.to);
    }
    for block in &mut trace.blocks {
        block.start += by(trace.meanings[block.meaning].host, block.start);
    }
    trace.blocks.sort_by_key(|block| block.start);
}
