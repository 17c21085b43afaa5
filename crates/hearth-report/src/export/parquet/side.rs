//! The facts of a trace beside its events, as tables of their own.

use std::io::{self, Write};

use hearth_trace::{StreamId, Tables, Tally};
use parquet::data_type::ByteArray;

use super::columns::{Column, Kind, Table, Values};

/// One of the tables beside the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Threads: where they ran, and how many of their records are there.
    Streams,
    /// Files: where they are, on what.
    Files,
    /// Records that are missing.
    Gaps,
    /// Sums per process and operation, of records that are there and of those that are not.
    Totals,
}

impl Side {
    /// All of them.
    pub const ALL: [Side; 4] = [Side::Streams, Side::Files, Side::Gaps, Side::Totals];

    /// The word in the file's name.
    pub fn name(self) -> &'static str {
        match self {
            Side::Streams => "streams",
            Side::Files => "files",
            Side::Gaps => "gaps",
            Side::Totals => "totals",
        }
    }

    /// Writes the table.
    pub fn write(self, tables: &Tables, out: impl Write + Send) -> io::Result<()> {
        let columns = match self {
            Side::Streams => streams(tables),
            Side::Files => files(tables),
            Side::Gaps => gaps(tables),
            Side::Totals => totals(tables),
        };
        let (names, values): (Vec<Column>, Vec<Values>) = columns.into_iter().unzip();
        let mut table = Table::new(&names, Vec::new(), out)?;
        table.group(values.into_iter())?;
        table.close()
    }
}

fn numbers<T>(of: &[T], what: impl Fn(&T) -> u64) -> Values {
    Values::Numbers(of.iter().map(|one| what(one) as i64).collect())
}

fn texts<'a, T>(of: &'a [T], what: impl Fn(&'a T) -> &'a str) -> Values {
    Values::Texts(of.iter().map(|one| ByteArray::from(what(one))).collect())
}

fn index<T>(of: &[T]) -> Values {
    Values::Numbers((0..of.len() as i64).collect())
}

fn streams(tables: &Tables) -> Vec<(Column, Values)> {
    let streams = &tables.streams;
    let of: Vec<_> = (0..streams.len() as u32)
        .map(|number| tables.process_of(StreamId(number)))
        .collect();
    let hosts: Vec<_> = of
        .iter()
        .map(|process| &tables.hosts[process.host.0 as usize])
        .collect();
    let bounds = hosts
        .iter()
        .map(|host| host.clock_bound.map(|bound| bound as i64));
    let ranks = of
        .iter()
        .map(|process| process.rank.map(|rank| rank as i32));
    vec![
        (("stream", Kind::Varied), index(streams)),
        (("host", Kind::Text), texts(&hosts, |host| &host.name)),
        (
            ("clock_bound_ns", Kind::VariedOrNone),
            Values::NumbersOrNone(bounds.collect()),
        ),
        (
            ("rank", Kind::SmallOrNone),
            Values::SmallOrNone(ranks.collect()),
        ),
        (
            ("pid", Kind::Varied),
            numbers(&of, |process| u64::from(process.pid)),
        ),
        (
            ("tid", Kind::Varied),
            numbers(streams, |stream| u64::from(stream.tid)),
        ),
        (("exe", Kind::Text), texts(&of, |process| &process.exe)),
        (
            ("start", Kind::Time),
            numbers(&of, |process| process.start as u64),
        ),
        (
            ("end", Kind::Time),
            numbers(&of, |process| process.end as u64),
        ),
        (
            ("attempted", Kind::Varied),
            numbers(streams, |stream| stream.attempted),
        ),
        (
            ("stored", Kind::Varied),
            numbers(streams, |stream| stream.stored),
        ),
        (
            ("dropped", Kind::Varied),
            numbers(streams, |stream| stream.dropped),
        ),
        (
            ("torn", Kind::Varied),
            numbers(streams, |stream| stream.torn),
        ),
    ]
}

fn files(tables: &Tables) -> Vec<(Column, Values)> {
    let files = &tables.files;
    let stripe = |part: fn((u32, u64)) -> u64| {
        let parts = files
            .iter()
            .map(|file| file.stripe.map(|stripe| part(stripe) as i64));
        Values::NumbersOrNone(parts.collect())
    };
    vec![
        (("path", Kind::Text), texts(files, |file| &file.path)),
        (("fs", Kind::Text), texts(files, |file| &file.fs)),
        (
            ("stripe_targets", Kind::VariedOrNone),
            stripe(|(targets, _)| u64::from(targets)),
        ),
        (
            ("stripe_bytes", Kind::VariedOrNone),
            stripe(|(_, bytes)| bytes),
        ),
    ]
}

fn gaps(tables: &Tables) -> Vec<(Column, Values)> {
    let gaps = &tables.gaps;
    vec![
        (
            ("stream", Kind::Repeated),
            numbers(gaps, |gap| u64::from(gap.stream.0)),
        ),
        (("first", Kind::Varied), numbers(gaps, |gap| gap.first)),
        (("count", Kind::Varied), numbers(gaps, |gap| gap.count)),
        (("after", Kind::Time), numbers(gaps, |gap| gap.from as u64)),
        (("before", Kind::Time), numbers(gaps, |gap| gap.to as u64)),
    ]
}

/// Sums of each process; those of records that are missing stand without a process.
fn totals(tables: &Tables) -> Vec<(Column, Values)> {
    let processes = tables.processes.iter().enumerate();
    let kept = processes.flat_map(|(number, process)| {
        let totals = process.totals.iter();
        totals.map(move |tally| (Some(number), tally))
    });
    let lost = tables.lost.iter().map(|tally| (None, tally));
    let rows: Vec<(Option<usize>, &Tally)> = kept.chain(lost).collect();
    let process = |part: &dyn Fn(usize) -> Option<i32>| {
        let parts = rows.iter().map(|(number, _)| number.and_then(part));
        Values::SmallOrNone(parts.collect())
    };
    let pid = |number: usize| i32::try_from(tables.processes[number].pid).ok();
    let rank = |number: usize| tables.processes[number].rank.map(|rank| rank as i32);
    let is_lost = rows.iter().map(|(number, _)| number.is_none());
    vec![
        (("pid", Kind::SmallOrNone), process(&pid)),
        (("rank", Kind::SmallOrNone), process(&rank)),
        (
            ("op", Kind::Text),
            texts(&rows, |(_, tally)| tally.op.name()),
        ),
        (("lost", Kind::Truth), Values::Truths(is_lost.collect())),
        (
            ("count", Kind::Varied),
            numbers(&rows, |(_, tally)| tally.count),
        ),
        (
            ("bytes", Kind::Varied),
            numbers(&rows, |(_, tally)| tally.bytes),
        ),
        (
            ("took", Kind::Varied),
            numbers(&rows, |(_, tally)| tally.took),
        ),
    ]
}
