//! Perfetto's protocol buffers: a track per thread, a slice per operation, and rates per process.
//!
//! The viewer holds a trace in memory, so slices are bounded: when there are more operations than
//! room, the longest ones stay. The rates and the marks of lost records always tell of all of them.
//!
//! Slices of one track must not overlap. A thread's operations do not, but what an agent's thread
//! reports may, so a stream has as many lanes as its slices need.

mod rates;
mod tracks;
mod wire;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io::{self, Write};

use hearth_trace::{Event, Gap, Source, StreamId, Tables};

use super::{ExportError, Exported, each_event};
use rates::Rates;
use tracks::{Tracks, lane_track};
use wire::{Message, annotation, event, interned, packet, trace};

/// As many slices as the viewer shows without trouble.
pub const SLICES_MAX: usize = 2_000_000;

/// The one sequence of packets of the file.
const SEQUENCE: u64 = 1;

/// Writes a trace of at most `slices_max` slices.
pub fn perfetto<S: Source>(
    mut source: S,
    out: &mut impl Write,
    slices_max: usize,
) -> Result<Exported, ExportError<S::Error>> {
    let mut exported = Exported::of(source.tables());
    let mut longest = Longest::new(slices_max);
    let mut rates = Rates::new(source.tables());
    let processes: Vec<usize> = (source.tables().streams.iter())
        .map(|stream| stream.process.0 as usize)
        .collect();
    each_event(&mut source, |stream, event| {
        rates.count(processes[stream.0 as usize], event);
        exported.left_out += longest.offer(stream, event);
        Ok(())
    })?;
    let slices = longest.by_stream();
    exported.kept = slices.len() as u64;
    if exported.left_out > 0 {
        exported.remarks.push(format!(
            "only the {} longest operations are slices; the rates count all of them",
            exported.kept
        ));
    }
    write(source.tables(), &slices, &rates, out)?;
    Ok(exported)
}

fn write(tables: &Tables, slices: &[Slice], rates: &Rates, out: &mut impl Write) -> io::Result<()> {
    let mut writer = Writer::new(tables, out);
    writer.begin()?;
    let mut tracks = Tracks::new(tables);
    for run in slices.chunk_by(|a, b| a.stream == b.stream) {
        tracks.thread(&mut writer, run[0].stream)?;
        put_run(&mut writer, run)?;
    }
    for gap in &tables.gaps {
        tracks.lost(&mut writer, gap.stream)?;
        put_gap(&mut writer, gap)?;
    }
    rates.put(&mut writer, &mut tracks)?;
    writer.out.flush()
}

/// Puts slices of one stream, in order of their starts, into lanes.
fn put_run(writer: &mut Writer<'_, impl Write>, run: &[Slice]) -> io::Result<()> {
    let mut busy_until: Vec<i64> = Vec::new();
    for slice in run {
        let start = slice.event.start;
        let free = busy_until.iter().position(|&end| end <= start);
        let lane = free.unwrap_or(busy_until.len());
        if free.is_none() {
            busy_until.push(start);
            tracks::lane(writer, slice.stream, lane)?;
        }
        busy_until[lane] = slice.event.end();
        let track = lane_track(slice.stream, lane);
        writer.slice(track, &slice.event)?;
    }
    Ok(())
}

fn put_gap(writer: &mut Writer<'_, impl Write>, gap: &Gap) -> io::Result<()> {
    let track = tracks::lost_track(gap.stream);
    let name = writer.intern(Kind::Name, "records lost")?;
    let category = writer.intern(Kind::Category, "loss")?;
    let count = writer.annotate("records", gap.count)?;
    let mut begin = Message::default();
    begin.number(event::TYPE, event::SLICE_BEGIN);
    begin.number(event::TRACK, track);
    begin.number(event::NAME, name);
    begin.number(event::CATEGORY, category);
    begin.message(event::ANNOTATION, &count);
    writer.track_event(gap.from, &begin)?;
    writer.end(track, gap.to.max(gap.from))
}

/// An operation that becomes a slice. Ordered by how long it took.
#[derive(Clone, Copy)]
struct Slice {
    stream: StreamId,
    event: Event,
}

impl Slice {
    fn key(&self) -> (u64, Reverse<i64>, Reverse<StreamId>, Reverse<u64>) {
        let Event {
            took, start, seq, ..
        } = self.event;
        (took, Reverse(start), Reverse(self.stream), Reverse(seq))
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Slice) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Slice {}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Slice) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Slice) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The longest operations so far, as many as there is room for.
struct Longest {
    max: usize,
    kept: BinaryHeap<Reverse<Slice>>,
}

impl Longest {
    fn new(max: usize) -> Longest {
        Longest {
            max: max.max(1),
            kept: BinaryHeap::new(),
        }
    }

    /// Returns how many operations have no room now.
    fn offer(&mut self, stream: StreamId, event: &Event) -> u64 {
        let slice = Slice {
            stream,
            event: *event,
        };
        if self.kept.len() < self.max {
            self.kept.push(Reverse(slice));
            return 0;
        }
        let mut shortest = self.kept.peek_mut().expect("there is room for one");
        if slice > shortest.0 {
            *shortest = Reverse(slice);
        }
        1
    }

    fn by_stream(self) -> Vec<Slice> {
        let mut slices: Vec<Slice> = (self.kept.into_iter())
            .map(|Reverse(slice)| slice)
            .collect();
        slices.sort_unstable_by_key(|slice| (slice.stream, slice.event.start, slice.event.seq));
        slices
    }
}

/// The kinds of text that are written once and then called by a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Name,
    Category,
    AnnotationName,
}

/// Packets, written one after the other.
struct Writer<'a, W> {
    tables: &'a Tables,
    out: &'a mut W,
    /// The few words of each kind; a word's number is its place.
    words: Vec<(Kind, &'static str)>,
    /// The files whose path has been written.
    paths: Vec<bool>,
    packet: Message,
    whole: Message,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(tables: &'a Tables, out: &'a mut W) -> Writer<'a, W> {
        Writer {
            tables,
            out,
            words: Vec::new(),
            paths: vec![false; tables.files.len()],
            packet: Message::default(),
            whole: Message::default(),
        }
    }

    /// The state of the sequence, and what the times mean.
    fn begin(&mut self) -> io::Result<()> {
        let time = super::window::beginning(self.tables).max(0) as u64;
        let mut snapshot = Message::default();
        for id in [wire::clock::BOOTTIME, wire::clock::REALTIME] {
            let mut clock = Message::default();
            clock.number(wire::clock::ID, id);
            clock.number(wire::clock::TIMESTAMP, time);
            snapshot.message(wire::clock::CLOCKS, &clock);
        }
        self.packet.message(packet::CLOCK_SNAPSHOT, &snapshot);
        self.packet.number(packet::TIMESTAMP, time);
        self.packet
            .number(packet::SEQUENCE_FLAGS, packet::STATE_CLEARED);
        self.put()
    }

    fn slice(&mut self, track: u64, of: &Event) -> io::Result<()> {
        let name = self.intern(Kind::Name, of.op.name())?;
        let category = self.intern(Kind::Category, of.layer.name())?;
        let annotations = self.annotations(of)?;
        let mut begin = Message::default();
        begin.number(event::TYPE, event::SLICE_BEGIN);
        begin.number(event::TRACK, track);
        begin.number(event::NAME, name);
        begin.number(event::CATEGORY, category);
        for annotation in &annotations {
            begin.message(event::ANNOTATION, annotation);
        }
        if of.request != 0 {
            begin.fixed(event::FLOW, of.request);
        }
        self.track_event(of.start, &begin)?;
        self.end(track, of.end())
    }

    fn end(&mut self, track: u64, time: i64) -> io::Result<()> {
        let mut end = Message::default();
        end.number(event::TYPE, event::SLICE_END);
        end.number(event::TRACK, track);
        self.track_event(time, &end)
    }

    fn annotations(&mut self, of: &Event) -> io::Result<Vec<Message>> {
        let mut all = Vec::with_capacity(5);
        if let Some(file) = of.file {
            self.intern_path(file.0)?;
            let mut path = Message::default();
            path.number(annotation::NAME, self.intern(Kind::AnnotationName, "file")?);
            path.number(annotation::TEXT, u64::from(file.0) + 1);
            all.push(path);
        }
        if of.op.moves_bytes() || of.offset != 0 {
            all.push(self.annotate("offset", of.offset)?);
            all.push(self.annotate("asked", of.asked)?);
        }
        let mut result = Message::default();
        result.number(
            annotation::NAME,
            self.intern(Kind::AnnotationName, "result")?,
        );
        result.number(annotation::SIGNED, of.result as u64);
        all.push(result);
        if of.near != 0 {
            all.push(self.annotate("near", of.near)?);
        }
        Ok(all)
    }

    fn annotate(&mut self, name: &'static str, value: u64) -> io::Result<Message> {
        let mut message = Message::default();
        message.number(annotation::NAME, self.intern(Kind::AnnotationName, name)?);
        message.number(annotation::UNSIGNED, value);
        Ok(message)
    }

    /// The number of a word, which is written when it is new. There are so few that looking through
    /// all of them is quickest.
    fn intern(&mut self, kind: Kind, word: &'static str) -> io::Result<u64> {
        if let Some(at) = self.words.iter().position(|known| *known == (kind, word)) {
            return Ok(at as u64 + 1);
        }
        self.words.push((kind, word));
        let id = self.words.len() as u64;
        let field = match kind {
            Kind::Name => interned::NAMES,
            Kind::Category => interned::CATEGORIES,
            Kind::AnnotationName => interned::ANNOTATION_NAMES,
        };
        self.put_interned(field, id, word)?;
        Ok(id)
    }

    fn intern_path(&mut self, file: u32) -> io::Result<()> {
        if !std::mem::replace(&mut self.paths[file as usize], true) {
            let path = &self.tables.files[file as usize].path;
            self.put_interned(interned::ANNOTATION_TEXTS, u64::from(file) + 1, path)?;
        }
        Ok(())
    }

    fn put_interned(&mut self, field: u32, id: u64, text: &str) -> io::Result<()> {
        let mut entry = Message::default();
        entry.number(interned::ID, id);
        entry.text(interned::TEXT, text);
        let mut data = Message::default();
        data.message(field, &entry);
        self.packet.message(packet::INTERNED, &data);
        self.packet
            .number(packet::SEQUENCE_FLAGS, packet::STATE_NEEDED);
        self.put()
    }

    fn track_event(&mut self, time: i64, what: &Message) -> io::Result<()> {
        self.packet.number(packet::TIMESTAMP, time.max(0) as u64);
        self.packet.message(packet::TRACK_EVENT, what);
        self.packet
            .number(packet::SEQUENCE_FLAGS, packet::STATE_NEEDED);
        self.put()
    }

    fn track(&mut self, descriptor: &Message) -> io::Result<()> {
        self.packet.message(packet::TRACK, descriptor);
        self.put()
    }

    fn put(&mut self) -> io::Result<()> {
        self.packet.number(packet::SEQUENCE, SEQUENCE);
        self.whole.clear();
        self.whole.message(trace::PACKET, &self.packet);
        self.packet.clear();
        self.out.write_all(&self.whole.bytes)
    }
}
