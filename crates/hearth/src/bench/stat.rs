//! The stat experiment of IMCa: files are made, untimed; then every client asks for the attributes of
//! each in turn, and once more. Before each pass the operating system is made to forget names and
//! attributes, on all sides. Clients ask for the same files in the same order at the same time.

use super::crew::Crew;
use super::ground::{Field, Ground, System, Translators};
use super::report::{Report, median, rounded};
use super::{progress, progress_over};
use crate::failure::Failure;
use crate::options::Policy;
use crate::signals::Signals;
use std::time::{Duration, Instant};

/// Files and turns of one run.
pub(super) struct Effort {
    pub(super) files: usize,
    pub(super) turns: usize,
}

impl Effort {
    pub(super) const FULL: Effort = Effort {
        files: 1024,
        turns: 3,
    };
    pub(super) const QUICK: Effort = Effort {
        files: 128,
        turns: 1,
    };
}

/// A figure's name, how it is read off a sample, and its unit.
type Figure = (&'static str, fn(&Sample) -> f64, &'static str);

const FIGURES: [Figure; 6] = [
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
#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: [f64; 2],
    messages: [u64; 2],
    /// Requests for names and attributes that the store's servers took.
    asked: [u64; 2],
    right: bool,
}

/// Measures the systems one after another within each turn.
pub(super) fn run(
    store: &str,
    clients: &[u32],
    effort: &Effort,
    signals: &Signals,
) -> Result<Report, Failure> {
    let mut report = Report::new("stat", store);
    let most = clients.iter().copied().max().unwrap_or(1);
    let mut samples: Vec<(System, u32, Sample)> = Vec::new();
    let ground = Ground::prepare(store, most, Translators::AsShipped)?;
    // The first use of a mount by each client costs more than any later one.
    let span = settling(store);
    one(
        ground.field(System::Store, most, signals)?,
        effort.files,
        span,
    )?;
    for turn in 0..effort.turns {
        for &count in clients {
            for system in System::ALL {
                let of = effort.turns;
                progress(&format!(
                    "turn {} of {of}: {}, {count} clients",
                    turn + 1,
                    system.name()
                ));
                let sample = one(ground.field(system, count, signals)?, effort.files, span)?;
                samples.push((system, count, sample));
            }
        }
    }
    drop(ground);
    let off = alone(store, most, effort, signals)?;
    progress_over();
    tell(&mut report, &samples, clients, effort.files);
    if let Some(off) = off {
        report.row(
            "store, translators off",
            &case(most),
            "first pass",
            off.seconds[0],
            "s",
        );
    }
    sum_up(&mut report, &samples, most, effort.files);
    Ok(report)
}

/// GlusterFS without the caches of its own client.
fn alone(
    store: &str,
    most: u32,
    effort: &Effort,
    signals: &Signals,
) -> Result<Option<Sample>, Failure> {
    if store != "gluster" {
        return Ok(None);
    }
    progress("GlusterFS without its caching translators");
    let ground = Ground::prepare(store, most, Translators::Off)?;
    let span = settling(store);
    one(
        ground.field(System::Store, most, signals)?,
        effort.files,
        span,
    )?;
    one(
        ground.field(System::Store, most, signals)?,
        effort.files,
        span,
    )
    .map(Some)
}

/// How long a store's clients may take old attributes of new files for true: GlusterFS's metadata
/// cache believes what it has for a second, whoever wrote meanwhile.
fn settling(store: &str) -> Duration {
    match store {
        "gluster" => Duration::from_millis(1500),
        _ => Duration::ZERO,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the volume's client tells nobody when it forgets"
)]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

fn one(field: Field<'_>, files: usize, settling: Duration) -> Result<Sample, Failure> {
    let mut crew = Crew::start("stat", &field.points, files)?;
    crew.wait()?;
    pause(settling);
    let mut sample = Sample::default();
    for pass in 0..2 {
        field.begin_cold()?;
        let before = field.counts()?.messages_sent;
        field.name_requests()?;
        let begun = Instant::now();
        crew.go()?;
        crew.wait()?;
        sample.seconds[pass] = begun.elapsed().as_secs_f64();
        sample.asked[pass] = field.name_requests()?;
        sample.messages[pass] = field.counts()?.messages_sent - before;
    }
    crew.go()?;
    sample.right = crew.end()?.right;
    field.end()?;
    Ok(sample)
}

fn case(clients: u32) -> String {
    format!("{clients} clients")
}

/// The middle of a figure over the turns.
fn middle(
    samples: &[(System, u32, Sample)],
    (system, clients): (System, u32),
    figure: impl Fn(&Sample) -> f64,
) -> f64 {
    let chosen = samples
        .iter()
        .filter(|(of, count, _)| *of == system && *count == clients);
    let figures: Vec<f64> = chosen.map(|(_, _, sample)| figure(sample)).collect();
    median(&figures)
}

fn tell(report: &mut Report, samples: &[(System, u32, Sample)], clients: &[u32], files: usize) {
    for &count in clients {
        for system in System::ALL {
            for (metric, figure, unit) in FIGURES {
                let value = middle(samples, (system, count), figure);
                report.row(&system.name(), &case(count), metric, value, unit);
            }
            let right = samples
                .iter()
                .filter(|(of, clients, _)| (*of, *clients) == (system, count))
                .all(|(_, _, sample)| sample.right);
            report.row(&system.name(), &case(count), "right", f64::from(right), "");
            let asked = (files * count as usize) as f64;
            let each = middle(samples, (system, count), |sample| sample.seconds[0]);
            let rate = asked / each.max(f64::MIN_POSITIVE);
            report.row(
                &system.name(),
                &case(count),
                "attributes a second",
                rate,
                "",
            );
        }
    }
}

fn sum_up(report: &mut Report, samples: &[(System, u32, Sample)], most: u32, files: usize) {
    let verified = samples.iter().all(|(_, _, sample)| sample.right);
    report.sum_up("verified", verified);
    report.sum_up("files", files);
    report.sum_up("clients", most);
    let mut counts: Vec<u32> = samples.iter().map(|(_, count, _)| *count).collect();
    counts.sort_unstable();
    counts.dedup();
    for (pass, name) in ["improvement", "improvement_second_pass"]
        .iter()
        .enumerate()
    {
        let seconds = |of| middle(samples, of, |sample| sample.seconds[pass]);
        for policy in [Policy::Home, Policy::Bank, Policy::None] {
            for &count in &counts {
                let store = seconds((System::Store, count));
                let ours = seconds((System::Under(policy), count));
                let gain = rounded(1.0 - ours / store);
                report.sum_up(&format!("{name}_{policy}_{count}"), gain);
                if policy == Policy::Home && count == most {
                    report.sum_up(name, gain);
                }
            }
        }
    }
    let home = (System::Under(Policy::Home), most);
    let first = middle(samples, home, |sample| sample.messages[0] as f64);
    let second = middle(samples, home, |sample| sample.messages[1] as f64);
    report.sum_up("home_first_pass_messages", first);
    report.sum_up(
        "home_first_pass_messages_model",
        model::messages(files, most),
    );
    report.sum_up("home_second_pass_messages", second);
    for (key, of, expected) in [
        ("home_store_requests", home, model::requests_kept(files)),
        (
            "store_store_requests",
            (System::Store, most),
            model::requests_alone(files, most),
        ),
    ] {
        let counted = middle(samples, of, |sample| sample.asked[0] as f64);
        report.sum_up(key, counted);
        report.sum_up(&format!("{key}_model"), expected);
    }
    report.sum_up(
        "reason",
        "time of all clients to ask for every file, over GlusterFS with its caches as shipped; both \
         without what the operating system keeps. The gain of the first pass is that the store is \
         asked once for each file and not once for each client",
    );
}

/// What should be counted: the model of a stat storm in which names and attributes are given to whoever
/// asks, many at a time, until they are called back.
mod model {
    /// Files in one question.
    const BATCH: usize = 64;
    /// Two lookups in the directory and the one of its own name, before it is read as a whole: who manages
    /// the file, and how long it is.
    const ALONE: f64 = 3.0 * 4.0;
    /// Leave for the directory, from its registrar and its manager.
    const DIRECTORY: f64 = 4.0;
    /// While others read what is wanted: a question about it, one about a part of one's own, the report, and
    /// the question that waits. Twice, since names are not asked for in the order of the directory.
    const SHARING: f64 = 2.0 * 7.0;

    /// Messages of a first pass of `clients` clients, one of which manages all files: each asks every other
    /// as a registrar, once for all files, and all but one ask the manager, for one batch after another.
    pub(super) fn messages(files: usize, clients: u32) -> f64 {
        let (batches, others) = (files.div_ceil(BATCH) as f64, f64::from(clients - 1));
        let registrars = 2.0 * f64::from(clients);
        others * (registrars + ALONE + DIRECTORY + SHARING + 2.0 * batches)
    }

    /// Requests of the store where each file is looked at once for all clients.
    pub(super) fn requests_kept(files: usize) -> f64 {
        files as f64
    }

    /// Requests of the store where each client asks for each file's name and then for its attributes.
    pub(super) fn requests_alone(files: usize, clients: u32) -> f64 {
        2.0 * files as f64 * f64::from(clients)
    }
}
