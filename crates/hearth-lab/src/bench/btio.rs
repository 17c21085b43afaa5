//! The I/O of BTIO in its four ways (Coopc-PVFS, section 5.2; Liao et al., section 4.2).

use super::mpi::{Mpi, Program, Run, Runs, Source, Testbed, Way};
use hearth_agent::Policy;
use hearth_set::failure::Failure;
use hearth_set::report::BenchReport;
use hearth_set::signals::Signals;

const SOURCE: Source = Source {
    name: "btio",
    files: &[
        ("btio.c", include_str!("../../../../workloads/btio.c")),
        (
            "btio_fortran.f90",
            include_str!("../../../../workloads/btio_fortran.f90"),
        ),
        ("ranks.h", include_str!("../../../../workloads/ranks.h")),
    ],
};

/// A size of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Class {
    /// 12^3 points, 12 dumps
    #[value(name = "S")]
    S,
    /// 24^3 points, 40 dumps
    #[value(name = "W")]
    W,
    /// 64^3 points, 40 dumps
    #[value(name = "A")]
    A,
}

impl Class {
    /// Points in each direction, and dumps.
    pub(crate) fn size(self) -> (u32, u32) {
        match self {
            Class::S => (12, 12),
            Class::W => (24, 40),
            Class::A => (64, 40),
        }
    }
}

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) store: &'a str,
    /// Rate of the links of test hosts, if not the rig's own.
    pub(crate) link: Option<&'a str>,
    pub(crate) mpi: Mpi,
    pub(crate) policies: &'a [Policy],
    pub(crate) modes: &'a [Mode],
    pub(crate) ranks: Vec<u32>,
    pub(crate) points: u32,
    pub(crate) dumps: u32,
    pub(crate) turns: usize,
}

/// A way to write and read the dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    Full,
    Simple,
    Fortran,
    Epio,
}

const MODES: [Mode; 4] = [Mode::Full, Mode::Simple, Mode::Fortran, Mode::Epio];

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Full => "full",
            Mode::Simple => "simple",
            Mode::Fortran => "fortran",
            Mode::Epio => "epio",
        }
    }

    /// Few large calls are soon done, and a slow moment shows in them.
    fn turns(self, turns: usize) -> usize {
        match self {
            Mode::Full | Mode::Epio => turns,
            Mode::Simple | Mode::Fortran => 1,
        }
    }

    /// Whether a front end sees its files: Fortran opens them without MPI.
    fn is_seen_by(self, way: Way) -> bool {
        self != Mode::Fortran || !matches!(way, Way::Ranks(_) | Way::LooseRanks(_))
    }
}

/// State that all runs share.
struct Bench<'a> {
    load: &'a Load<'a>,
    testbed: Testbed<'a>,
    program: Program,
    ways: Vec<Way>,
}

/// Runs all systems in turns, for each way and each number of ranks.
pub(crate) fn run(
    load: &Load<'_>,
    signals: &Signals,
    mut tell: impl FnMut(&str),
) -> Result<BenchReport, Failure> {
    load.ranks
        .iter()
        .try_for_each(|&ranks| check_ranks(ranks, load.points))?;
    tell("preparing");
    let most = load.ranks.iter().copied().max().unwrap_or(1);
    let testbed = Testbed::build(load.store, load.link, most, signals)?;
    let program = Program::build(&SOURCE, load.mpi, &testbed.workshop(), &[])?;
    let bench = Bench {
        load,
        testbed,
        program,
        ways: Way::chosen(load.policies, load.store),
    };
    let mut runs = Runs::default();
    for case in load.cases() {
        for turn in 0..case.mode.turns(load.turns) {
            for &way in bench.ways.iter().filter(|&&way| case.mode.is_seen_by(way)) {
                tell(&format!(
                    "{}: {}, turn {}",
                    case.name(),
                    way.name(),
                    turn + 1
                ));
                let mut run = bench.one(case, way)?;
                run.turn = turn;
                runs.push(run);
            }
        }
    }
    Ok(report(load, &bench.ways, &runs))
}

/// A mode under a number of ranks.
#[derive(Clone, Copy, Debug)]
struct Case {
    mode: Mode,
    ranks: u32,
}

impl Case {
    fn name(self) -> String {
        format!("{}, {} ranks", self.mode.name(), self.ranks)
    }

    /// As keys of the summary end.
    fn key(self) -> String {
        format!("{}_{}", self.mode.name(), self.ranks)
    }
}

impl Load<'_> {
    fn modes(&self) -> &[Mode] {
        match self.modes {
            [] => &MODES,
            asked => asked,
        }
    }

    fn cases(&self) -> Vec<Case> {
        let of = |&ranks: &u32| self.modes().iter().map(move |&mode| Case { mode, ranks });
        self.ranks.iter().flat_map(of).collect()
    }
}

fn check_ranks(ranks: u32, points: u32) -> Result<(), Failure> {
    let side = ranks.isqrt();
    if side * side != ranks || side > points {
        let what = format!("cannot deal {points}^3 points to {ranks} ranks");
        return Err(Failure::new(what)
            .cause("BTIO cuts its grid for a square number of ranks")
            .hint("--ranks 4,16"));
    }
    Ok(())
}

impl Bench<'_> {
    fn one(&self, case: Case, way: Way) -> Result<Run, Failure> {
        let (points, dumps) = (self.load.points.to_string(), self.load.dumps.to_string());
        let size = ["--n", &points, "--dumps", &dumps];
        let mode = case.mode.name();
        let place = self.testbed.place(&way.name())?;
        let stand = self.testbed.stand(way, case.ranks, &place)?;
        let words = [&["run", mode, stand.dirs()], &size[..]].concat();
        let told = stand.run(&self.program, &words)?;
        let counts = stand.counts()?;
        stand.end()?;
        let store = place.store().display().to_string();
        let of = ["--of", &case.ranks.to_string()];
        let words = [&["check", mode, &store], &size[..], &of[..]].concat();
        let right = self.program.agrees(&words)?;
        Ok(Run {
            turn: 0,
            case: case.name(),
            system: way.name(),
            told,
            counts,
            verified: right && told.wrong == 0,
        })
    }
}

/// A figure of one run.
type Figure = (&'static str, &'static str, fn(&Run) -> f64);

/// Figures of the ranks.
const TOLD: [Figure; 3] = [
    ("write time", "s", write_s),
    ("read time", "s", |run| run.told.read_s),
    ("writes", "", |run| run.told.writes as f64),
];

/// Figures of their agents.
const COUNTED: [Figure; 4] = [
    ("store write requests", "", store_writes),
    ("store read requests", "", |run| {
        run.counts.store_read_requests as f64
    }),
    ("messages", "", |run| run.counts.messages_sent as f64),
    ("messages a call", "", Run::messages_per_call),
];

fn report(load: &Load<'_>, ways: &[Way], runs: &Runs) -> BenchReport {
    let mut report = BenchReport::new("btio", load.store);
    for case in load.cases() {
        add_case(&mut report, (load.store, ways), runs, case);
    }
    let least = |modes: &[Mode], figure: fn(&Run) -> f64, below: &str| {
        let cases = load.cases().into_iter();
        let cases = cases.filter(|case| modes.contains(&case.mode));
        let ratios = cases.map(|case| runs.ratio(&case.name(), figure, "none", below));
        ratios.fold(f64::INFINITY, f64::min)
    };
    report.sum_up("verified", runs.are_verified());
    for name in ["home", "single"] {
        if ways.iter().any(|way| way.name() == name) {
            let worst = least(&MODES, Run::io_s, name);
            report.sum_up(&format!("min_{name}_over_none"), worst);
        }
    }
    for mode in [Mode::Simple, Mode::Fortran] {
        if load.modes().contains(&mode) {
            let speedup = least(&[mode], write_s, "home");
            report.sum_up(&format!("{}_write_speedup", mode.name()), speedup);
        }
    }
    report
}

fn add_case(report: &mut BenchReport, (store, ways): (&str, &[Way]), runs: &Runs, case: Case) {
    let (title, key) = (&case.name(), case.key());
    for &way in ways.iter().filter(|&&way| case.mode.is_seen_by(way)) {
        let name = &way.name();
        let counted = COUNTED.iter().filter(|_| way.has_agents(store));
        for (metric, unit, figure) in TOLD.iter().chain(counted) {
            report.row(name, title, metric, runs.of(title, name, *figure), unit);
        }
        if way.has_agents(store) {
            let writes = runs.of(title, name, store_writes);
            report.sum_up(&format!("store_write_requests_{name}_{key}"), writes);
        }
        if way.is_gathering() {
            let speedup = |figure| runs.ratio(title, figure, "none", name);
            report.sum_up(&format!("{name}_over_none_{key}"), speedup(Run::io_s));
            report.sum_up(&format!("{name}_write_speedup_{key}"), speedup(write_s));
        }
    }
    for (name, formula) in messages_a_call(case) {
        report.row("formula", title, name, formula, "");
    }
}

fn write_s(run: &Run) -> f64 {
    run.told.write_s
}

fn store_writes(run: &Run) -> f64 {
    run.counts.store_write_requests as f64
}

/// Messages of a call that moves one line: a request to its home and an answer, for all lines but those
/// that are at home here. Under `home` only writes cost that, half of the calls; a read of the first line
/// of a page brings the whole page. Ways with other calls have no such form.
fn messages_a_call(case: Case) -> Vec<(&'static str, f64)> {
    let round_trip = 2.0 * (1.0 - 1.0 / f64::from(case.ranks));
    match case.mode {
        Mode::Simple => vec![
            ("messages a call of home", round_trip / 2.0),
            ("messages a call of single", round_trip),
        ],
        Mode::Full | Mode::Fortran | Mode::Epio => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_cut_no_grid_are_refused() {
        assert!(check_ranks(4, 12).is_ok());
        assert!(check_ranks(16, 4).is_ok());
        let text = check_ranks(8, 12).unwrap_err().to_string();
        assert!(
            text.contains("8 ranks") && text.contains("--ranks 4,16"),
            "{text}"
        );
        assert!(check_ranks(25, 4).is_err());
    }
}
