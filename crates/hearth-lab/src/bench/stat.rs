//! The stat experiment of IMCa: files are made in the store, untimed; then every client asks for the attributes of
//! each in turn, and once more. Before each pass the operating system is made to forget names and
//! attributes, on all sides. Clients ask for the same files in the same order at the same time.

mod model;

use super::fixture::{Fixture, System, Translators, is_model};
use crate::workload;
use hearth_agent::Policy;
use hearth_set::failure::Failure;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::{BenchReport, median, rounded};
use hearth_set::signals::Signals;
use hearth_set::trial::workers::WorkerGroup;
use hearth_set::watch::{pause, stop_if_told};
use hearth_sim::Span;
use hearth_sim::thundering_herd::{Pace, Times};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Messages of which the time is measured: fewer than a herd's, so that clients are at work all the while.
const ROUND_TRIPS: usize = 200;

/// Files and turns of one run.
#[derive(Debug)]
pub(super) struct Effort {
    pub(super) files: usize,
    pub(super) turns: usize,
    /// Clients of all herds of a size together, at least: what one of few sends depends more on who comes first.
    in_herds: u32,
}

impl Effort {
    pub(super) const FULL: Effort = Effort {
        files: 1024,
        turns: 5,
        in_herds: 30,
    };
    pub(super) const QUICK: Effort = Effort {
        files: 128,
        turns: 1,
        in_herds: 0,
    };

    /// Herds of so many clients whose messages stand beside the model, beyond those of the turns.
    fn more_herds(&self, clients: u32) -> usize {
        let herds = if clients > 1 {
            self.in_herds / clients
        } else {
            0
        };
        (herds as usize).saturating_sub(self.turns)
    }
}

/// Parameters of a measurement.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) store: &'a str,
    /// How many clients, one run for each count.
    pub(super) clients: &'a [u32],
    /// The store first.
    pub(super) systems: Vec<System>,
    pub(super) effort: &'a Effort,
}

impl Load<'_> {
    /// Whether the store's servers count requests.
    fn is_counted(&self) -> bool {
        self.store == "gluster"
    }

    fn most(&self) -> u32 {
        self.clients.iter().copied().max().unwrap_or(1)
    }
}

/// A figure's name, how it is read off a sample, and its unit.
type Figure = (&'static str, fn(&Sample) -> f64, &'static str);

const FIGURES: [Figure; 4] = [
    ("first pass", |sample| sample.seconds[0], "s"),
    ("second pass", |sample| sample.seconds[1], "s"),
    (
        "messages of the first pass",
        |sample| sample.messages[0] as f64,
        "",
    ),
    (
        "messages of the second pass",
        |sample| sample.messages[1] as f64,
        "",
    ),
];

/// Figures where the store's servers count what they are asked.
const COUNTED: [Figure; 2] = [
    (
        "store requests of the first pass",
        |sample| sample.asked[0] as f64,
        "",
    ),
    (
        "store requests of the second pass",
        |sample| sample.asked[1] as f64,
        "",
    ),
];

/// One run of one system.
#[derive(Clone, Default)]
struct Sample {
    seconds: [f64; 2],
    messages: [u64; 2],
    /// Requests for names and attributes that the store's servers took.
    asked: [u64; 2],
    right: bool,
    /// Times of all looks: of the first client's first pass, of its second, of the next client's.
    calls_ns: Vec<Vec<u64>>,
}

impl Sample {
    /// Times of the looks of one pass, client by client.
    fn looks(&self, pass: usize) -> impl Iterator<Item = Vec<Span>> + '_ {
        let passes = self.calls_ns.iter().skip(pass).step_by(2);
        passes.map(|calls| calls.iter().copied().map(Span).collect())
    }
}

/// Measurements of steps alone, by the number of clients that were at work meanwhile.
type Steps = BTreeMap<u32, Alone>;

/// Times of steps while all clients ask the store.
#[derive(Clone, Default)]
struct Alone {
    /// Messages.
    ways: Times,
    /// Looks of who has read the names, with which GlusterFS sends attributes.
    prefetched: Times,
    /// Requests of the store for all names.
    listing: f64,
}

/// One run of a system with so many clients.
type Run = (System, u32, Sample);

/// Measures the systems one after another within each turn.
pub(super) fn run(load: &Load<'_>, signals: &Signals) -> Result<BenchReport, Failure> {
    let mut report = BenchReport::new("stat", load.store);
    let (samples, steps) = measure(load, signals)?;
    let off = untranslated(load, signals)?;
    progress_over();
    tell(&mut report, &samples, load);
    if let Some(off) = off {
        let case = case(load.most());
        let seconds = off.seconds[0];
        report.row("store, translators off", &case, "first pass", seconds, "s");
    }
    sum_up(&mut report, (&samples, &steps), load, signals)?;
    Ok(report)
}

fn measure(load: &Load<'_>, signals: &Signals) -> Result<(Vec<Run>, Steps), Failure> {
    let (most, files) = (load.most(), load.effort.files);
    let mut samples = Vec::new();
    let fixture = Fixture::prepare(load.store, most, Translators::AsShipped, signals)?;
    // The first use of a mount by each client costs more than any later one.
    let span = settling(load.store);
    one(&fixture, (System::Store, most), files, span, signals)?;
    let mut steps = Steps::new();
    for &count in load.clients.iter().filter(|_| load.store == "gluster") {
        progress(&format!("messages and looks of {count} clients"));
        steps.insert(count, alone(&fixture, count, files, signals)?);
    }
    for turn in 0..load.effort.turns {
        for &count in load.clients {
            for &system in &load.systems {
                let of = load.effort.turns;
                progress(&format!(
                    "turn {} of {of}: {}, {count} clients",
                    turn + 1,
                    system.name(load.store)
                ));
                let sample = one(&fixture, (system, count), files, span, signals)?;
                samples.push((system, count, sample));
            }
        }
    }
    let home = System::Under(Policy::Home);
    for &count in load.clients.iter().filter(|_| load.systems.contains(&home)) {
        for _ in 0..load.effort.more_herds(count) {
            progress(&format!("one more crowd of {count} clients"));
            let sample = one(&fixture, (home, count), files, span, signals)?;
            samples.push((home, count, sample));
        }
    }
    Ok((samples, steps))
}

/// How long a message takes while one client reads the names of the store and looks at each file, and such a look:
/// in a herd one node does so for all.
fn alone(
    fixture: &Fixture,
    clients: u32,
    files: usize,
    signals: &Signals,
) -> Result<Alone, Failure> {
    let make = |store: &Path| workload::stat::make(store, files as u64);
    let field = fixture.field_with(System::Store, clients, signals, make)?;
    let mut workers = WorkerGroup::start("stat-listed", &field.points[..1], files, signals)?;
    workers.wait()?;
    field.begin_cold()?;
    field.name_requests()?;
    workers.go()?;
    let trips = fixture.round_trips(ROUND_TRIPS)?.unwrap_or_default();
    workers.wait()?;
    let asked = field.name_requests()?;
    workers.phase_from_here()?;
    workers.go()?;
    let sample = Sample {
        calls_ns: workers.end()?.calls_ns,
        ..Sample::default()
    };
    field.end()?;
    let way = |trip: &Duration| Span(trip.as_nanos() as u64 / 2);
    Ok(Alone {
        ways: Times::new([trips.iter().map(way).collect()]),
        prefetched: Times::new(sample.looks(0)),
        listing: asked as f64,
    })
}

/// GlusterFS without the caches of its own client.
fn untranslated(load: &Load<'_>, signals: &Signals) -> Result<Option<Sample>, Failure> {
    if load.store != "gluster" {
        return Ok(None);
    }
    progress("GlusterFS without its caching translators");
    let (most, files) = (load.most(), load.effort.files);
    let fixture = Fixture::prepare(load.store, most, Translators::Off, signals)?;
    let span = settling(load.store);
    one(&fixture, (System::Store, most), files, span, signals)?;
    one(&fixture, (System::Store, most), files, span, signals).map(Some)
}

/// How long a store's clients may take old attributes of new files for true: GlusterFS's metadata
/// cache believes what it has for a second, whoever wrote meanwhile.
fn settling(store: &str) -> Duration {
    match store {
        "gluster" => Duration::from_millis(1500),
        _ => Duration::ZERO,
    }
}

fn one(
    fixture: &Fixture,
    (system, clients): (System, u32),
    files: usize,
    settling: Duration,
    signals: &Signals,
) -> Result<Sample, Failure> {
    stop_if_told(signals)?;
    let make = |store: &Path| workload::stat::make(store, files as u64);
    let field = fixture.field_with(system, clients, signals, make)?;
    let mut workers = WorkerGroup::start("stat", &field.points, files, signals)?;
    workers.wait()?;
    // The volume's client tells nobody when it forgets.
    pause(settling, signals)?;
    let mut sample = Sample::default();
    for pass in 0..2 {
        field.begin_cold()?;
        let before = field.counts()?.messages_sent;
        field.name_requests()?;
        let begun = Instant::now();
        workers.go()?;
        workers.wait()?;
        sample.seconds[pass] = begun.elapsed().as_secs_f64();
        sample.asked[pass] = field.name_requests()?;
        sample.messages[pass] = field.counts()?.messages_sent - before;
    }
    workers.go()?;
    let told = workers.end()?;
    (sample.right, sample.calls_ns) = (told.right, told.calls_ns);
    field.end()?;
    Ok(sample)
}

fn case(clients: u32) -> String {
    format!("{clients} clients")
}

/// The middle of a figure over the turns.
fn middle(
    samples: &[Run],
    (system, clients): (System, u32),
    figure: impl Fn(&Sample) -> f64,
) -> f64 {
    let chosen = samples
        .iter()
        .filter(|(of, count, _)| *of == system && *count == clients);
    let figures: Vec<f64> = chosen.map(|(_, _, sample)| figure(sample)).collect();
    median(&figures)
}

fn tell(report: &mut BenchReport, samples: &[Run], load: &Load<'_>) {
    for &count in load.clients {
        let case = case(count);
        for &system in &load.systems {
            let (name, at) = (system.name(load.store), (system, count));
            let all = FIGURES
                .iter()
                .chain(COUNTED.iter().filter(|_| load.is_counted()));
            for &(metric, figure, unit) in all {
                let value = middle(samples, at, figure);
                report.row(&name, &case, metric, value, unit);
            }
            let right = samples
                .iter()
                .filter(|(of, clients, _)| (*of, *clients) == at)
                .all(|(_, _, sample)| sample.right);
            report.row(&name, &case, "right", f64::from(right), "");
            let asked = (load.effort.files * count as usize) as f64;
            let each = middle(samples, at, |sample| sample.seconds[0]);
            let rate = asked / each.max(f64::MIN_POSITIVE);
            report.row(&name, &case, "attributes a second", rate, "");
        }
    }
}

fn sum_up(
    report: &mut BenchReport,
    (samples, steps): (&[Run], &Steps),
    load: &Load<'_>,
    signals: &Signals,
) -> Result<(), Failure> {
    let verified = samples.iter().all(|(_, _, sample)| sample.right);
    report.sum_up("verified", verified);
    report.sum_up("files", load.effort.files);
    report.sum_up("clients", load.most());
    // If all take longer than a store's client keeps attributes that came along, some looks are counted with the
    // requests for names. So the least count is taken.
    let listings = steps.values().map(|alone| alone.listing);
    let listing = listings.reduce(f64::min);
    for &count in load.clients {
        let pace = pace(samples, count, steps);
        for &system in &load.systems {
            stop_if_told(signals)?;
            // A directory past a model is no rival of it.
            if system != System::Store && !is_model(load.store) {
                compare(report, samples, (system, count), load);
            }
            if system == System::Store && !load.is_counted() {
                continue;
            }
            if let Some(counts) =
                model::Counts::of(system, (load.effort.files, count), &pace, listing)
            {
                count_out(report, samples, (system, count), &counts, load);
            }
        }
    }
    report.sum_up("reason", reason(load));
    Ok(())
}

fn reason(load: &Load<'_>) -> &'static str {
    if load.is_counted() {
        return "time of all clients to ask for every file, over GlusterFS with its caches as shipped; both \
                without what the operating system keeps. The gain of the first pass is that the store is \
                asked once for all clients, and not once for each";
    }
    match is_model(load.store) {
        true => {
            "agents alone reach a model. So rows of `directory` are of a directory on this machine, and \
             nothing is compared with them"
        }
        false => {
            "time of all clients to ask for every file, over a directory on this machine; both without what \
             the operating system keeps"
        }
    }
}

/// How fast this machine was with so many clients: in their first passes over the store itself, and in second ones under
/// `home`, when all is in memory.
fn pace(samples: &[Run], clients: u32, steps: &Steps) -> Pace {
    let times = |system: System, pass: usize| {
        let runs = samples
            .iter()
            .filter(move |(of, count, _)| (*of, *count) == (system, clients));
        Times::new(runs.flat_map(|(_, _, sample)| sample.looks(pass)))
    };
    let alone = steps.get(&clients).cloned().unwrap_or_default();
    Pace {
        looks: times(System::Store, 0),
        hits: times(System::Under(Policy::Home), 1),
        prefetched: alone.prefetched,
        ways: alone.ways,
    }
}

/// Share of the store's time that a system saves.
fn compare(
    report: &mut BenchReport,
    samples: &[Run],
    (system, count): (System, u32),
    load: &Load<'_>,
) {
    let keys = ["improvement", "improvement_second_pass"];
    for (pass, key) in keys.iter().enumerate() {
        let seconds = |of| middle(samples, of, |sample| sample.seconds[pass]);
        let (store, ours) = (seconds((System::Store, count)), seconds((system, count)));
        let gain = rounded(1.0 - ours / store);
        report.sum_up(&format!("{key}_{}_{count}", system.name(load.store)), gain);
        if system == System::Under(Policy::Home) && count == load.most() {
            report.sum_up(key, gain);
        }
    }
}

/// Counts of the first pass, beside those of the model.
fn count_out(
    report: &mut BenchReport,
    samples: &[Run],
    at: (System, u32),
    model: &model::Counts,
    load: &Load<'_>,
) {
    let (name, count) = (at.0.name(load.store), at.1);
    let messages = middle(samples, at, |sample| sample.messages[0] as f64);
    let asked = middle(samples, at, |sample| sample.asked[0] as f64);
    let counts = [
        ("messages", messages, model.messages),
        ("store_requests", asked, model.store_requests),
    ];
    let told = counts.len() - usize::from(!load.is_counted());
    for (key, counted, due) in counts.into_iter().take(told) {
        report.sum_up(&format!("{name}_{key}_{count}"), counted);
        if due == 0.0 {
            continue;
        }
        report.sum_up(&format!("{name}_{key}_model_{count}"), due.round());
        report.sum_up(
            &format!("{name}_{key}_over_model_{count}"),
            rounded(counted / due),
        );
    }
    if let Some((least, most)) = model.spread {
        report.sum_up(&format!("{name}_messages_model_least_{count}"), least);
        report.sum_up(&format!("{name}_messages_model_most_{count}"), most);
    }
    if at.0 != System::Store {
        let second = middle(samples, at, |sample| sample.messages[1] as f64);
        report.sum_up(&format!("{name}_second_pass_messages_{count}"), second);
    }
}
