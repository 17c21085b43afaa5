//! The I/O of BTIO in its four ways (Coopc-PVFS, section 5.2; Liao et al., section 4.2).

use super::matmul::System;
use super::mpi::{Mpi, Place, Program, Run, Runs, Site, Source};
use super::report::Report;
use crate::failure::Failure;
use crate::options::Policy;
use crate::signals::Signals;

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

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) store: &'a str,
    pub(crate) mpi: Mpi,
    pub(crate) ranks: Vec<u32>,
    pub(crate) points: u32,
    pub(crate) dumps: u32,
    pub(crate) turns: usize,
}

const MODES: [&str; 4] = ["full", "simple", "fortran", "epio"];

const SYSTEMS: [System; 5] = [
    System::Native,
    System::NONE,
    System::HINT,
    System::HOME,
    System::Under(Policy::Single),
];

/// Runs all systems in turns, for each way and each number of ranks.
pub(crate) fn run(
    load: &Load<'_>,
    signals: &Signals,
    mut tell: impl FnMut(&str),
) -> Result<Report, Failure> {
    load.ranks
        .iter()
        .try_for_each(|&ranks| check_ranks(ranks, load.points))?;
    tell("preparing");
    let most = load.ranks.iter().copied().max().unwrap_or(1);
    let site = Site::build(load.store, most, signals)?;
    let program = Program::build(&SOURCE, load.mpi, &site.workshop(), &[])?;
    let mut runs = Runs::default();
    for turn in 0..load.turns {
        for &ranks in &load.ranks {
            for mode in MODES {
                for system in SYSTEMS {
                    let name = system.name();
                    tell(&format!(
                        "turn {} of {}: {mode}, {ranks} ranks, {name}",
                        turn + 1,
                        load.turns
                    ));
                    let place = site.place(&format!("{mode}-{name}-{ranks}-{turn}"))?;
                    let mut run = one(load, &site, &program, (mode, system, ranks), &place)?;
                    run.turn = turn;
                    runs.push(run);
                }
            }
        }
    }
    Ok(report(load, &runs))
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

fn case(mode: &str, ranks: u32) -> String {
    format!("{mode}, {ranks} ranks")
}

fn one(
    load: &Load<'_>,
    site: &Site<'_>,
    program: &Program,
    (mode, system, ranks): (&str, System, u32),
    place: &Place,
) -> Result<Run, Failure> {
    let (points, dumps) = (load.points.to_string(), load.dumps.to_string());
    let size = ["--n", &points, "--dumps", &dumps];
    let stand = site.stand(system, ranks, place)?;
    let told = stand.run(program, &[&["run", mode, stand.dirs()], &size[..]].concat())?;
    let counts = stand.counts()?;
    stand.end()?;
    let store = place.store().display().to_string();
    let of = ["--of", &ranks.to_string()];
    let right = program.agrees(&[&["check", mode, &store], &size[..], &of[..]].concat())?;
    Ok(Run {
        turn: 0,
        case: case(mode, ranks),
        system: system.name(),
        told,
        counts,
        verified: right && told.wrong == 0,
    })
}

/// A figure of one run.
type Figure = (&'static str, &'static str, fn(&Run) -> f64);

const FIGURES: [Figure; 7] = [
    ("write time", "s", write_s),
    ("read time", "s", |run| run.told.read_s),
    ("writes", "", |run| run.told.writes as f64),
    ("store write requests", "", store_writes),
    ("store read requests", "", |run| {
        run.counts.store_read_requests as f64
    }),
    ("messages", "", |run| run.counts.messages_sent as f64),
    ("messages a call", "", Run::messages_per_call),
];

fn report(load: &Load<'_>, runs: &Runs) -> Report {
    let mut report = Report::new("btio", load.store);
    for &ranks in &load.ranks {
        for mode in MODES {
            add_case(&mut report, runs, mode, ranks);
        }
    }
    let cases = |mode: &'static str| load.ranks.iter().map(move |&ranks| case(mode, ranks));
    let least = |modes: &[&'static str], figure: fn(&Run) -> f64, below: &str| {
        let cases = modes.iter().flat_map(|&mode| cases(mode));
        let ratios = cases.map(|case| runs.ratio(&case, figure, "none", below));
        ratios.fold(f64::INFINITY, f64::min)
    };
    report.sum_up("verified", runs.are_verified());
    report.sum_up("min_home_over_none", least(&MODES, Run::io_s, "home"));
    report.sum_up("min_single_over_none", least(&MODES, Run::io_s, "single"));
    for mode in ["simple", "fortran"] {
        let speedup = least(&[mode], write_s, "home");
        report.sum_up(&format!("{mode}_write_speedup"), speedup);
    }
    report
}

fn add_case(report: &mut Report, runs: &Runs, mode: &str, ranks: u32) {
    let case = &case(mode, ranks);
    for system in SYSTEMS {
        let name = &system.name();
        for (metric, unit, figure) in FIGURES {
            report.row(name, case, metric, runs.of(case, name, figure), unit);
        }
        let writes = runs.of(case, name, store_writes);
        let key = format!("store_write_requests_{name}_{mode}_{ranks}");
        report.sum_up(&key, writes);
    }
    for (name, formula) in messages_a_call(mode, ranks) {
        report.row("formula", case, name, formula, "");
    }
    for name in ["home", "single"] {
        let speedup = |figure| runs.ratio(case, figure, "none", name);
        let key = format!("{name}_over_none_{mode}_{ranks}");
        report.sum_up(&key, speedup(Run::io_s));
        let key = format!("{name}_write_speedup_{mode}_{ranks}");
        report.sum_up(&key, speedup(write_s));
    }
}

fn write_s(run: &Run) -> f64 {
    run.told.write_s
}

fn store_writes(run: &Run) -> f64 {
    run.counts.store_write_requests as f64
}

/// Where a call moves one line: a request to its home and an answer, for all lines but those that are
/// at home here. Under `home` only writes cost that, half of the calls; of what is read, a page comes
/// with its first line. Ways with other calls have no such form.
fn messages_a_call(mode: &str, ranks: u32) -> Vec<(&'static str, f64)> {
    let round_trip = 2.0 * (1.0 - 1.0 / f64::from(ranks));
    match mode {
        "simple" => vec![
            ("messages a call of home", round_trip / 2.0),
            ("messages a call of single", round_trip),
        ],
        _ => Vec::new(),
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
