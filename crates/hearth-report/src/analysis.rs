//! One pass over a trace: every event is looked at once, and memory does not grow with their number.

use hearth_trace::{Event, Flags, Layer, Op, Source, StreamId, Tables};

use crate::access::{Accesses, Kin};
use crate::callers::Callers;
use crate::latency::Latency;
use crate::mix::{MixMap, mix};
use crate::profile::{Systems, size_sort};
use crate::requests::Requests;
use crate::reuse::{CLASSES_MAX, Curves, Use, class_name};
use crate::strip::{Group, Strip};
use crate::work::Work;

/// Places whose writers are remembered, and how large they are.
const PLACES: usize = 1 << 16;
const PLACE_BYTES: u64 = 64 << 10;
const UNKNOWN: u16 = u16::MAX;
/// Sizes by power of two.
const SIZES: usize = 48;

/// All that one pass gathers.
#[derive(Debug)]
pub(crate) struct Analysis {
    pub(crate) strip: Strip,
    /// By thread, the time of the agents' own work.
    pub(crate) accesses: Accesses,
    pub(crate) curves: Curves,
    pub(crate) classes: Vec<String>,
    pub(crate) systems: Systems,
    pub(crate) requests: Requests,
    callers: Callers,
    pub(crate) works: Vec<Work>,
    pub(crate) ops: Ops,
    /// Reads that the cache of the node served, by size.
    pub(crate) hits: Vec<Latency>,
    pub(crate) events: u64,
    places: Vec<Place>,
    class_of: Vec<u16>,
    class_names: MixMap<u64, u16>,
    streams: Vec<u32>,
}

/// Operations by layer and code.
#[derive(Debug)]
pub(crate) struct Ops {
    cells: Vec<Option<Box<OpStats>>>,
}

/// Operations of one kind in one layer.
#[derive(Clone, Debug)]
pub(crate) struct OpStats {
    pub(crate) latency: Latency,
    pub(crate) bytes: u64,
    pub(crate) failed: u64,
    /// Calls and nanoseconds by power of two of the bytes.
    pub(crate) sizes: [(u64, u64); SIZES],
}

/// The writer of a place: a tag of the place, a bit if there are several writers, and the process.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    tag: u32,
    writer: u32,
}

const SHARED: u32 = 1 << 31;

impl Default for OpStats {
    fn default() -> OpStats {
        OpStats {
            latency: Latency::default(),
            bytes: 0,
            failed: 0,
            sizes: [(0, 0); SIZES],
        }
    }
}

impl Ops {
    fn new() -> Ops {
        let mut cells = Vec::new();
        cells.resize_with(Layer::ALL.len() << 8, || None);
        Ops { cells }
    }

    fn add(&mut self, event: &Event) {
        let index = (event.layer as usize) << 8 | event.op as usize;
        let stats = self.cells[index].get_or_insert_default();
        stats.latency.add(event.took);
        stats.failed += u64::from(event.failed());
        let bytes = moved(event);
        stats.bytes += bytes;
        let size = &mut stats.sizes[size_sort(bytes).min(SIZES - 1)];
        *size = (size.0 + 1, size.1 + event.took);
    }

    pub(crate) fn get(&self, layer: Layer, op: Op) -> Option<&OpStats> {
        self.cells[(layer as usize) << 8 | op as usize].as_deref()
    }
}

/// Bytes that an operation moved, those of agents included.
fn moved(event: &Event) -> u64 {
    if event.layer == Layer::App || event.op.moves_bytes() {
        event.bytes()
    } else {
        u64::try_from(event.result).unwrap_or(0).min(event.asked)
    }
}

impl Analysis {
    fn new(tables: &Tables) -> Analysis {
        let rest = "(other files)".to_owned();
        Analysis {
            strip: Strip::new(tables),
            accesses: Accesses::new(tables.streams.len()),
            curves: Curves::default(),
            classes: vec![rest],
            systems: Systems::default(),
            requests: Requests::default(),
            callers: Callers::new(tables),
            works: vec![Work::default(); tables.processes.len()],
            ops: Ops::new(),
            hits: vec![Latency::default(); SIZES],
            events: 0,
            places: vec![Place::default(); PLACES],
            class_of: vec![UNKNOWN; tables.files.len()],
            class_names: MixMap::default(),
            streams: tables
                .streams
                .iter()
                .map(|stream| stream.process.0)
                .collect(),
        }
    }

    /// Takes every event of a source. If reading stops early, all that was gathered before stands.
    pub(crate) fn of<S: Source>(
        source: &mut S,
        tables: &Tables,
    ) -> (Analysis, Result<(), S::Error>) {
        let mut analysis = Analysis::new(tables);
        let result = source.each_run(&mut |stream, events| {
            if (stream.0 as usize) < analysis.streams.len() {
                events
                    .iter()
                    .for_each(|event| analysis.add(tables, stream, event));
            }
        });
        analysis.accesses.finish();
        analysis.curves.finish();
        let Analysis {
            callers, requests, ..
        } = &mut analysis;
        std::mem::take(callers).join(|share| requests.called(share));
        (analysis, result)
    }

    fn add(&mut self, tables: &Tables, stream: StreamId, event: &Event) {
        self.events += 1;
        self.ops.add(event);
        self.requests.add(event);
        self.callers.add(stream, event);
        if event.layer != Layer::App {
            return;
        }
        let stream = stream.0 as usize;
        let group = Group::of(event.op);
        self.strip
            .add(stream, group, event.start, event.took, event.bytes());
        self.works[self.streams[stream] as usize].add(group, event);
        let known = event
            .file
            .filter(|file| (file.0 as usize) < tables.files.len());
        let Some(file) = known else { return };
        let place = self.accesses.find(stream, file, || {
            let system = self.systems.of(&tables.files[file.0 as usize]);
            let class = class(
                &mut self.class_of[file.0 as usize],
                &mut self.class_names,
                &mut self.classes,
                &tables.files[file.0 as usize].path,
            );
            let is_remote = self.systems.is_remote(system);
            Kin {
                system,
                class,
                is_remote,
            }
        });
        self.accesses.add(place, event);
        if event.bytes() > 0 {
            self.add_bytes(stream, place, event);
        }
    }

    /// Counts a program's read or write for the place and the pages that it touches.
    fn add_bytes(&mut self, stream: usize, place: usize, event: &Event) {
        let Some(file) = event.file else { return };
        if event.op.is_write() && self.is_contested(self.streams[stream], file.0, event.offset) {
            self.accesses.contest(place, event);
        }
        if event.flags.has(Flags::HIT) && event.op.is_read() {
            self.hits[size_sort(event.bytes()).min(SIZES - 1)].add(event.took);
        }
        let access = &mut self.accesses.all[place];
        let used = Use {
            start: event.start,
            class: access.class,
            file: file.0,
            offset: event.offset,
            bytes: event.bytes(),
            took: event.took,
            is_read: event.op.is_read(),
        };
        self.curves.add(used, &mut access.page);
    }

    /// Whether several processes write to where this write begins.
    fn is_contested(&mut self, process: u32, file: u32, offset: u64) -> bool {
        let hash = mix(u64::from(file) << 32 ^ (offset / PLACE_BYTES));
        let place = &mut self.places[hash as usize % PLACES];
        // Never 0, so that an empty place is nobody's.
        let tag = (hash >> 32) as u32 | 1;
        if place.tag != tag {
            *place = Place {
                tag,
                writer: process,
            };
        } else if place.writer != process {
            place.writer |= SHARED;
        }
        place.writer & SHARED != 0
    }
}

/// The class of a file, which may be the one of all that came too late.
fn class(
    known: &mut u16,
    names: &mut MixMap<u64, u16>,
    classes: &mut Vec<String>,
    path: &str,
) -> u16 {
    if *known == UNKNOWN {
        let name = class_name(path);
        let hash = name
            .bytes()
            .fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        *known = match names.get(&hash) {
            Some(&class) => class,
            None if classes.len() < CLASSES_MAX => {
                classes.push(name);
                names.insert(hash, classes.len() as u16 - 1);
                classes.len() as u16 - 1
            }
            None => 0,
        };
    }
    *known
}
