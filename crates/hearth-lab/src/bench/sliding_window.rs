//! A window of two pages slides over a shared file (Liao et al., section 4.1): byte-range locks
//! over the bare store against caches that are coherent by themselves.
//!
//! Ranks of the rivals open the store itself, with nothing of Hearth between. A modelled store is reached through
//! agents alone. There the rivals are mounts of agents that keep nothing, and are named so.

mod moves;

use super::fixture::is_model;
use super::mpi::{Mpi, Place, Program, Run, Runs, Source, Testbed, Told, Way};
use hearth_agent::Policy;
use hearth_set::failure::Failure;
use hearth_set::report::{BenchReport, rounded};
use hearth_set::signals::Signals;
use hearth_set::trial::matmul::System;

const SOURCE: Source = Source {
    name: "sliding_window",
    files: &[
        (
            "sliding_window.c",
            include_str!("../../../../workloads/sliding_window.c"),
        ),
        ("ranks.h", include_str!("../../../../workloads/ranks.h")),
    ],
};

/// How many times as long the file is over which messages are counted.
const LONGER: u32 = 4;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) store: &'a str,
    /// Rate of the links of test hosts, if not the rig's own.
    pub(crate) link: Option<&'a str>,
    pub(crate) mpi: Mpi,
    pub(crate) ranks: Vec<u32>,
    pub(crate) segments: u32,
    pub(crate) turns: usize,
}

/// A front end, and whether the program has to lock for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rival {
    way: Way,
    locking: Locking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locking {
    /// A lock around every call.
    Ranges,
    Nothing,
}

impl Rival {
    /// The store without a cache over it, with locks or without.
    fn bare(store: &str, locking: Locking) -> Rival {
        let way = match is_model(store) {
            true => Way::Mounts(System::NONE),
            false => Way::Mounts(System::Native),
        };
        Rival { way, locking }
    }

    /// All of them, in the order of a turn.
    fn all(store: &str) -> Vec<Rival> {
        let bare = [Locking::Ranges, Locking::Nothing].map(|locking| Rival::bare(store, locking));
        let single = System::Under(Policy::Single);
        let ways = Way::all(&[System::HINT, System::HOME, single], store).into_iter();
        let ours = ways.map(|way| Rival {
            way,
            locking: Locking::Nothing,
        });
        bare.into_iter().chain(ours).collect()
    }

    fn name(self) -> String {
        let name = match self.locking {
            Locking::Ranges => "locks".to_owned(),
            Locking::Nothing if self.is_bare() => "none".to_owned(),
            Locking::Nothing => self.way.name(),
        };
        if self.way == Way::Mounts(System::NONE) {
            return format!("mounted-{name}");
        }
        name
    }

    /// Whether nothing is kept between the ranks and the store.
    fn is_bare(self) -> bool {
        matches!(self.way, Way::Mounts(System::Native | System::NONE))
    }

    /// Whether every read must see whole pages, and the end be the last write to each. The store promises
    /// neither to programs that do not lock: where a request is cut in two, even sectors are of two writes.
    fn is_coherent(self) -> bool {
        self.locking == Locking::Ranges || !self.is_bare()
    }
}

/// Runs all systems in turns, for each number of ranks.
pub(crate) fn run(
    load: &Load<'_>,
    signals: &Signals,
    mut tell: impl FnMut(&str),
) -> Result<BenchReport, Failure> {
    tell("preparing");
    let most = load.ranks.iter().copied().max().unwrap_or(1);
    let testbed = Testbed::build(load.store, load.link, most, signals)?;
    let program = Program::build(&SOURCE, load.mpi, &testbed.workshop(), &[])?;
    let rivals = Rival::all(load.store);
    let mut runs = Runs::default();
    for turn in 0..load.turns {
        for &ranks in &load.ranks {
            for &rival in &rivals {
                let name = rival.name();
                tell(&format!(
                    "turn {} of {}: {ranks} ranks, {name}",
                    turn + 1,
                    load.turns
                ));
                let place = testbed.place(&format!("{name}-{ranks}-{turn}"))?;
                let race = Race {
                    segments: load.segments,
                    ranks,
                    rival,
                    pages: Pages::Raced,
                };
                let mut run = one(race, &testbed, &program, &place)?;
                run.turn = turn;
                runs.push(run);
            }
        }
    }
    tell("counting messages");
    for &ranks in &load.ranks {
        for run in count(load, &testbed, &program, ranks)? {
            runs.push(run);
        }
    }
    Ok(report(load, &rivals, &runs))
}

fn case(ranks: u32) -> String {
    format!("{ranks} ranks")
}

/// A case in which pages are dealt to ranks before the race: a short file and a long one.
fn dealt(ranks: u32) -> [String; 2] {
    ["", ", long file"].map(|length| format!("{ranks} ranks, dealt{length}"))
}

/// Runs `single` over dealt pages with ranks in turn, and again over a longer file: what that has more in messages
/// is calls alone. In the race neighbouring pages come to have one home, and chance decides who writes a page last.
fn count(
    load: &Load<'_>,
    testbed: &Testbed<'_>,
    program: &Program,
    ranks: u32,
) -> Result<Vec<Run>, Failure> {
    let single = Rival {
        way: Way::Mounts(System::Under(Policy::Single)),
        locking: Locking::Nothing,
    };
    let lengths = [load.segments, load.segments * LONGER];
    let cases = dealt(ranks).into_iter().zip(lengths);
    let run = |(case, segments): (String, u32)| {
        let place = testbed.place(&format!("dealt-{segments}-{ranks}"))?;
        let race = Race {
            segments,
            ranks,
            rival: single,
            pages: Pages::Dealt,
        };
        let run = one(race, testbed, program, &place)?;
        Ok(Run { case, ..run })
    };
    cases.map(run).collect()
}

/// The rank that touches a page first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    /// Any rank: they race.
    Raced,
    /// The rank whose turn it is; and ranks whose windows touch wait for each other.
    Dealt,
}

/// One run of the program.
#[derive(Clone, Copy)]
struct Race {
    segments: u32,
    ranks: u32,
    rival: Rival,
    pages: Pages,
}

fn one(
    race: Race,
    testbed: &Testbed<'_>,
    program: &Program,
    place: &Place,
) -> Result<Run, Failure> {
    let Race {
        segments,
        ranks,
        rival,
        pages,
    } = race;
    let (of, segments) = (ranks.to_string(), segments.to_string());
    let store = place.store().display().to_string();
    let whole = ["--of", &of, "--segments", &segments];
    program.alone(&[&["init", &store], &whole[..]].concat())?;
    let stand = testbed.stand(rival.way, ranks, place)?;
    // A lock costs no more than it must: it is taken in the store itself.
    let locks = testbed.bare_dirs(place);
    let mut words = vec!["run", stand.dirs(), "--segments", &segments];
    if rival.locking == Locking::Ranges {
        words.extend(["--locks", &locks]);
    }
    if pages == Pages::Dealt {
        words.extend(["--dealt", "1"]);
    }
    let told = stand.run(program, &words)?;
    let counts = stand.counts()?;
    stand.end()?;
    let is_right = !rival.is_coherent() || {
        let is_final = program.agrees(&[&["check", &store], &whole[..]].concat())?;
        is_final && told.stale + told.torn == 0
    };
    if !is_right {
        let Told { stale, torn, .. } = told;
        eprintln!(
            "wrong: {}, {ranks} ranks: {stale} stale and {torn} torn",
            rival.name()
        );
    }
    Ok(Run {
        turn: 0,
        case: case(ranks),
        system: rival.name(),
        told,
        counts,
        verified: is_right,
    })
}

/// Bytes moved in a second, all ranks together.
fn bandwidth(run: &Run) -> f64 {
    (run.told.bytes_read + run.told.bytes_written) as f64 / run.told.seconds
}

fn store_requests(run: &Run) -> f64 {
    (run.counts.store_read_requests + run.counts.store_write_requests) as f64
}

/// A figure of one run.
type Figure = (&'static str, &'static str, fn(&Run) -> f64);

/// Figures of the ranks.
const TOLD: [Figure; 4] = [
    ("bandwidth", "MB/s", |run| bandwidth(run) / 1e6),
    ("time", "s", |run| run.told.seconds),
    ("stale pages", "", |run| run.told.stale as f64),
    ("torn pages", "", |run| run.told.torn as f64),
];

/// Figures of their agents.
const COUNTED: [Figure; 4] = [
    ("store read requests", "", |run| {
        run.counts.store_read_requests as f64
    }),
    ("store write requests", "", |run| {
        run.counts.store_write_requests as f64
    }),
    ("store bytes", "B", |run| {
        (run.counts.store_read_bytes + run.counts.store_write_bytes) as f64
    }),
    ("messages a call", "", Run::messages_per_call),
];

fn report(load: &Load<'_>, rivals: &[Rival], runs: &Runs) -> BenchReport {
    let mut report = BenchReport::new("sliding-window", load.store);
    for &ranks in &load.ranks {
        let case = case(ranks);
        for rival in rivals {
            let name = rival.name();
            let counted = COUNTED.iter().filter(|_| rival.way.has_agents(load.store));
            for (metric, unit, figure) in TOLD.iter().chain(counted) {
                let value = runs.of(&case, &name, *figure);
                report.row(&name, &case, metric, value, unit);
            }
        }
        add_messages(&mut report, load, runs, ranks);
        add_gains(&mut report, rivals, runs, ranks);
    }
    let most = load.ranks.iter().copied().max().unwrap_or(1);
    for rival in rivals
        .iter()
        .filter(|rival| rival.way.has_agents(load.store))
    {
        let requests = runs.of(&case(most), &rival.name(), store_requests);
        report.sum_up(&format!("store_requests_{}", rival.name()), requests);
    }
    report.sum_up("verified", runs.are_verified());
    for locking in [Locking::Ranges, Locking::Nothing] {
        let below = Rival::bare(load.store, locking).name();
        let gain = runs.ratio(&case(most), bandwidth, "single", &below);
        report.sum_up(&format!("single_over_{below}"), gain);
        if locking == Locking::Ranges {
            report.sum_up("bound_fraction", rounded(gain / gain_bound(most)));
        }
    }
    report
}

/// Messages of a call of `single`, beside those that are due.
fn add_messages(report: &mut BenchReport, load: &Load<'_>, runs: &Runs, ranks: u32) {
    let case = case(ranks);
    let [few, more] = dealt(ranks).map(|case| runs.traffic(&case, "single"));
    let steady = (more.messages - few.messages) / (more.calls - few.calls);
    let formula = moves::messages_a_call(ranks, [load.segments, load.segments * LONGER]);
    let metric = "messages a call, pages dealt, openings aside";
    report.row("single", &case, metric, steady, "");
    report.row("formula", &case, metric, formula, "");
    let paper = messages_of_paper(ranks);
    report.row("formula", &case, "messages a call, as published", paper, "");
    let key = format!("messages_over_formula_{ranks}");
    report.sum_up(&key, rounded(steady / formula));
}

/// Bandwidth of what gathers writes over that of each rival, with the least and the most of the turns.
fn add_gains(report: &mut BenchReport, rivals: &[Rival], runs: &Runs, ranks: u32) {
    let case = case(ranks);
    let (bare, ours): (Vec<&Rival>, Vec<&Rival>) =
        rivals.iter().partition(|rival| !rival.way.is_gathering());
    let rivals = bare.iter().filter(|rival| rival.is_bare());
    for (rival, system) in rivals.flat_map(|rival| ours.iter().map(move |ours| (rival, ours))) {
        let (above, below) = (system.name(), rival.name());
        let key = format!("{above}_over_{below}_{ranks}");
        let (least, gain, most) = runs.ratio_spread(&case, bandwidth, &above, &below);
        report.sum_up(&key, gain);
        report.sum_up(&format!("{key}_least"), least);
        report.sum_up(&format!("{key}_most"), most);
    }
}

/// Each page is read and written twice by every rank; a cache brings it once, and takes it once.
/// So where the store is what takes the time, no cache gains more than this.
fn gain_bound(ranks: u32) -> f64 {
    2.0 * f64::from(ranks)
}

/// As the paper has it, a call locks two pages, one after the other, and moves two: four round
/// trips, each to another rank but for one time in `ranks`.
fn messages_of_paper(ranks: u32) -> f64 {
    8.0 * (1.0 - 1.0 / f64::from(ranks))
}
