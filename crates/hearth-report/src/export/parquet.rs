//! Parquet: events in one file that needs no other, and [`Side`] tables for what is known beside
//! them.
//!
//! Rows stand in the order of the source: runs of one thread, which pack better than a strict order
//! of time, and are near enough to it for the statistics of a group of rows to be of use.

mod columns;
mod side;

use std::io::Write;

use hearth_trace::{Event, Flags, Layer, Op, Source, StreamId, Tables};
use parquet::data_type::ByteArray;

use super::{ExportError, Exported, each_event};
use columns::{Column, Kind, Table, Values};
pub use side::Side;

/// Rows that are gathered before they are written.
const GROUP_ROWS: usize = 256 << 10;

/// Writes every event as a row.
pub fn parquet<S: Source>(
    mut source: S,
    out: impl Write + Send,
) -> Result<Exported, ExportError<S::Error>> {
    let mut exported = Exported::of(source.tables());
    let words = Words::of(source.tables());
    let columns: Vec<Column> = COLUMNS.iter().map(|(column, _)| *column).collect();
    let mut table = Table::new(&columns, facts(source.tables()), out)?;
    let mut rows: Vec<(StreamId, Event)> = Vec::with_capacity(GROUP_ROWS);
    each_event(&mut source, |stream, event| {
        rows.push((stream, *event));
        exported.kept += 1;
        if rows.len() == GROUP_ROWS {
            table.group(COLUMNS.iter().map(|(_, values)| values(&words, &rows)))?;
            rows.clear();
        }
        Ok(())
    })?;
    if !rows.is_empty() {
        table.group(COLUMNS.iter().map(|(_, values)| values(&words, &rows)))?;
    }
    table.close()?;
    Ok(exported)
}

/// The facts that the file tells about itself.
fn facts(tables: &Tables) -> Vec<(&'static str, String)> {
    let sum = |what: fn(&hearth_trace::Stream) -> u64| {
        let all: u64 = tables.streams.iter().map(what).sum();
        all.to_string()
    };
    vec![
        ("hearth.attempted", sum(|stream| stream.attempted)),
        ("hearth.stored", sum(|stream| stream.stored)),
        ("hearth.dropped", sum(|stream| stream.dropped)),
        ("hearth.torn", sum(|stream| stream.torn)),
        ("hearth.remarks", tables.remarks.join("\n")),
    ]
}

/// Texts, each made once.
struct Words {
    ops: Vec<Option<ByteArray>>,
    layers: [ByteArray; Layer::ALL.len()],
    streams: Vec<Place>,
    paths: Vec<ByteArray>,
}

/// The host, rank and process of a thread.
struct Place {
    host: ByteArray,
    rank: Option<i32>,
    pid: i64,
    tid: i64,
}

impl Words {
    fn of(tables: &Tables) -> Words {
        let mut ops = vec![None; 256];
        for &op in Op::ALL {
            ops[op as usize] = Some(ByteArray::from(op.name()));
        }
        let hosts: Vec<ByteArray> = (tables.hosts.iter())
            .map(|host| ByteArray::from(host.name.as_str()))
            .collect();
        let place = |stream: &hearth_trace::Stream| {
            let process = &tables.processes[stream.process.0 as usize];
            Place {
                host: hosts[process.host.0 as usize].clone(),
                rank: process.rank.map(|rank| rank as i32),
                pid: i64::from(process.pid),
                tid: i64::from(stream.tid),
            }
        };
        Words {
            ops,
            layers: Layer::ALL.map(|layer| ByteArray::from(layer.name())),
            streams: tables.streams.iter().map(place).collect(),
            paths: (tables.files.iter())
                .map(|file| ByteArray::from(file.path.as_str()))
                .collect(),
        }
    }

    fn place(&self, stream: StreamId) -> &Place {
        &self.streams[stream.0 as usize]
    }

    fn op(&self, op: Op) -> ByteArray {
        self.ops[op as usize].clone().unwrap_or_default()
    }
}

/// A function that makes a column of the rows.
type Make = fn(&Words, &[(StreamId, Event)]) -> Values;

/// Every column of the table of events.
const COLUMNS: &[(Column, Make)] = &[
    (("start", Kind::Time), |_, rows| {
        numbers(rows, |event| event.start)
    }),
    (("took", Kind::Varied), |_, rows| {
        numbers(rows, |event| event.took as i64)
    }),
    (("host", Kind::Text), |words, rows| {
        Values::Texts(places(words, rows, |place| place.host.clone()))
    }),
    (("rank", Kind::SmallOrNone), |words, rows| {
        Values::SmallOrNone(places(words, rows, |place| place.rank))
    }),
    (("pid", Kind::Repeated), |words, rows| {
        Values::Numbers(places(words, rows, |place| place.pid))
    }),
    (("tid", Kind::Repeated), |words, rows| {
        Values::Numbers(places(words, rows, |place| place.tid))
    }),
    (("stream", Kind::Repeated), |_, rows| {
        Values::Numbers(rows.iter().map(|(stream, _)| i64::from(stream.0)).collect())
    }),
    (("op", Kind::Text), |words, rows| {
        Values::Texts(rows.iter().map(|(_, event)| words.op(event.op)).collect())
    }),
    (("layer", Kind::Text), |words, rows| {
        let layers = rows
            .iter()
            .map(|(_, event)| words.layers[event.layer as usize].clone());
        Values::Texts(layers.collect())
    }),
    (("path", Kind::TextOrNone), |words, rows| {
        let path = |event: &Event| event.file.map(|file| words.paths[file.0 as usize].clone());
        Values::TextsOrNone(rows.iter().map(|(_, event)| path(event)).collect())
    }),
    (("offset", Kind::Varied), |_, rows| {
        numbers(rows, |event| event.offset as i64)
    }),
    (("asked", Kind::Repeated), |_, rows| {
        numbers(rows, |event| event.asked as i64)
    }),
    (("result", Kind::Repeated), |_, rows| {
        numbers(rows, |event| event.result)
    }),
    (("bytes", Kind::Repeated), |_, rows| {
        numbers(rows, |event| event.bytes() as i64)
    }),
    (("near", Kind::Repeated), |_, rows| {
        numbers(rows, |event| event.near as i64)
    }),
    (("request", Kind::VariedOrNone), |_, rows| {
        let request = |event: &Event| (event.request != 0).then_some(event.request as i64);
        Values::NumbersOrNone(rows.iter().map(|(_, event)| request(event)).collect())
    }),
    (("peer", Kind::Repeated), |_, rows| {
        numbers(rows, |event| i64::from(event.peer))
    }),
    (("depth", Kind::Repeated), |_, rows| {
        numbers(rows, |event| i64::from(event.depth))
    }),
    (("seq", Kind::Varied), |_, rows| {
        numbers(rows, |event| event.seq as i64)
    }),
    (("hit", Kind::Truth), |_, rows| truths(rows, Flags::HIT)),
    (("miss", Kind::Truth), |_, rows| truths(rows, Flags::MISS)),
    (("peer_hit", Kind::Truth), |_, rows| {
        truths(rows, Flags::PEER)
    }),
    (("readahead", Kind::Truth), |_, rows| {
        truths(rows, Flags::READAHEAD)
    }),
    (("sequential", Kind::Truth), |_, rows| {
        truths(rows, Flags::SEQUENTIAL)
    }),
    (("sync", Kind::Truth), |_, rows| truths(rows, Flags::SYNC)),
    (("failed", Kind::Truth), |_, rows| {
        truths(rows, Flags::ERROR)
    }),
    (("direct", Kind::Truth), |_, rows| {
        truths(rows, Flags::DIRECT)
    }),
    (("buffered", Kind::Truth), |_, rows| {
        truths(rows, Flags::BUFFERED)
    }),
    (("many", Kind::Truth), |_, rows| truths(rows, Flags::MANY)),
];

fn numbers(rows: &[(StreamId, Event)], what: impl Fn(&Event) -> i64) -> Values {
    Values::Numbers(rows.iter().map(|(_, event)| what(event)).collect())
}

fn truths(rows: &[(StreamId, Event)], flag: Flags) -> Values {
    Values::Truths(
        rows.iter()
            .map(|(_, event)| event.flags.has(flag))
            .collect(),
    )
}

fn places<T>(words: &Words, rows: &[(StreamId, Event)], what: impl Fn(&Place) -> T) -> Vec<T> {
    rows.iter()
        .map(|(stream, _)| what(words.place(*stream)))
        .collect()
}
