//! FLASH I/O through parallel HDF5 (Liao et al., section 4.3): its files are compared with those
//! that the same program writes without Hearth.

use super::mpi::{Mpi, Place, Program, Run, Runs, Source, Testbed, Told, Way};
use super::rig::run as run_command;
use hearth_agent::Policy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::report::BenchReport;
use hearth_set::signals::Signals;
use std::process::{Command, Stdio};

const SOURCE: Source = Source {
    name: "flash_io",
    files: &[
        (
            "flash_io.c",
            include_str!("../../../../workloads/flash_io.c"),
        ),
        ("ranks.h", include_str!("../../../../workloads/ranks.h")),
    ],
};

/// Files that the program writes.
const FILES: [&str; 3] = ["flash_chk", "flash_plt_cnt", "flash_plt_crn"];

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) store: &'a str,
    /// Rate of the links of test hosts, if not the rig's own.
    pub(crate) link: Option<&'a str>,
    pub(crate) mpi: Mpi,
    pub(crate) policies: &'a [Policy],
    pub(crate) ranks: Vec<u32>,
    /// Cells of a block in each direction.
    pub(crate) sides: Vec<u32>,
    /// About as many has each rank.
    pub(crate) blocks: u32,
    pub(crate) turns: usize,
}

/// Ranks, and the side of a block.
#[derive(Clone, Copy, Debug)]
struct Size {
    ranks: u32,
    side: u32,
}

impl Size {
    fn case(self) -> String {
        format!("{0}x{0}x{0}, {1} ranks", self.side, self.ranks)
    }
}

/// State that all runs share.
struct Bench<'a> {
    load: &'a Load<'a>,
    testbed: &'a Testbed<'a>,
    program: Program,
}

/// Runs all systems in turns, for each size.
pub(crate) fn run(
    load: &Load<'_>,
    signals: &Signals,
    mut tell: impl FnMut(&str),
) -> Result<BenchReport, Failure> {
    tell("preparing");
    check_tools()?;
    let most = load.ranks.iter().copied().max().unwrap_or(1);
    let testbed = &Testbed::build(load.store, load.link, most, signals)?;
    let program = Program::build(&SOURCE, load.mpi, &testbed.workshop(), &hdf5(load.mpi)?)?;
    let bench = Bench {
        load,
        testbed,
        program,
    };
    let ways = Way::chosen(load.policies, load.store);
    let mut runs = Runs::default();
    for size in load.sizes() {
        let reference = bench.reference(size)?;
        for turn in 0..load.turns {
            for &way in &ways {
                let (of, name) = (load.turns, way.name());
                tell(&format!(
                    "turn {} of {of}: {}, {name}",
                    turn + 1,
                    size.case()
                ));
                let mut run = bench.one(way, size, &reference)?;
                run.turn = turn;
                runs.push(run);
            }
        }
    }
    Ok(report(load, &ways, &runs))
}

impl Load<'_> {
    fn sizes(&self) -> Vec<Size> {
        let of = |&ranks: &u32| self.sides.iter().map(move |&side| Size { ranks, side });
        self.ranks.iter().flat_map(of).collect()
    }
}

/// How the compiler finds parallel HDF5.
fn hdf5(mpi: Mpi) -> Result<Vec<String>, Failure> {
    let mut finder = Command::new("pkg-config");
    finder.args(["--cflags", "--libs", &format!("hdf5-{}", mpi.name())]);
    let package = format!("libhdf5-{}-dev", mpi.name());
    let found = run_command(&mut finder).map_err(|failure| {
        failure.hint(format!("apt-get install pkg-config {package} (as root)"))
    })?;
    Ok(found.split_whitespace().map(str::to_owned).collect())
}

fn check_tools() -> Result<(), Failure> {
    run_command(Command::new("h5diff").arg("--version"))
        .map(drop)
        .map_err(|failure| failure.hint("apt-get install hdf5-tools (as root)"))
}

impl Bench<'_> {
    /// Files that were written without Hearth.
    fn reference(&self, size: Size) -> Result<Place, Failure> {
        let place = self
            .testbed
            .place(&format!("reference-{}-{}", size.ranks, size.side))?;
        let dirs = self.testbed.bare_dirs(&place);
        self.write(size, &dirs, |words| {
            self.testbed.run(&self.program, size.ranks, words)
        })?;
        Ok(place)
    }

    /// Runs the program over the directories.
    fn write(
        &self,
        size: Size,
        dirs: &str,
        run: impl FnOnce(&[&str]) -> Result<Told, Failure>,
    ) -> Result<Told, Failure> {
        let (side, blocks) = (size.side.to_string(), self.load.blocks.to_string());
        run(&["run", dirs, "--side", &side, "--blocks", &blocks])
    }

    fn one(&self, way: Way, size: Size, reference: &Place) -> Result<Run, Failure> {
        let name = way.name();
        let place = self.testbed.place(&name)?;
        let stand = self.testbed.stand(way, size.ranks, &place)?;
        let told = self.write(size, stand.dirs(), |words| stand.run(&self.program, words))?;
        let counts = stand.counts()?;
        stand.end()?;
        Ok(Run {
            turn: 0,
            case: size.case(),
            system: name,
            told,
            counts,
            verified: are_same(reference, &place)?,
        })
    }
}

/// Whether two runs wrote the same data sets.
fn are_same(one: &Place, other: &Place) -> Result<bool, Failure> {
    for file in FILES {
        let paths = [one.store().join(file), other.store().join(file)];
        let mut differ = Command::new("h5diff");
        let done = differ.args(&paths).stdin(Stdio::null()).output();
        let done = done.or_fail(|| "cannot run `h5diff`".to_owned())?;
        match done.status.code() {
            Some(0) => {}
            Some(1) => {
                let said = String::from_utf8_lossy(&done.stdout);
                eprintln!("wrong: `{}` differs: {}", paths[1].display(), said.trim());
                return Ok(false);
            }
            Some(_) | None => {
                let words = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                let what = format!("cannot compare `{}`", paths[1].display());
                return Err(Failure::new(what).cause(words));
            }
        }
    }
    Ok(true)
}

fn bandwidth(run: &Run) -> f64 {
    run.told.bytes_written as f64 / run.told.write_s
}

fn store_writes(run: &Run) -> f64 {
    run.counts.store_write_requests as f64
}

/// A figure of one run.
type Figure = (&'static str, &'static str, fn(&Run) -> f64);

/// Figures of the ranks.
const TOLD: [Figure; 2] = [
    ("bandwidth", "MB/s", |run| bandwidth(run) / 1e6),
    ("write time", "s", |run| run.told.write_s),
];

/// Figures of their agents.
const COUNTED: [Figure; 4] = [
    ("store write requests", "", store_writes),
    ("store write bytes", "B", |run| {
        run.counts.store_write_bytes as f64
    }),
    ("store read requests", "", |run| {
        run.counts.store_read_requests as f64
    }),
    ("messages a call", "", Run::messages_per_call),
];

fn report(load: &Load<'_>, ways: &[Way], runs: &Runs) -> BenchReport {
    let mut report = BenchReport::new("flash-io", load.store);
    let mut least = f64::INFINITY;
    for size in load.sizes() {
        let case = size.case();
        for way in ways {
            let name = way.name();
            let counted = COUNTED.iter().filter(|_| way.has_agents(load.store));
            for (metric, unit, figure) in TOLD.iter().chain(counted) {
                let value = runs.of(&case, &name, *figure);
                report.row(&name, &case, metric, value, unit);
            }
            if way.is_gathering() {
                let speedup = runs.ratio(&case, bandwidth, &name, "none");
                let key = format!("{name}_over_none_{}_{}", size.side, size.ranks);
                report.sum_up(&key, speedup);
            }
        }
        least = least.min(runs.ratio(&case, bandwidth, "home", "none"));
    }
    if let Some(size) = load.sizes().last() {
        for way in ways.iter().filter(|way| way.has_agents(load.store)) {
            let writes = runs.of(&size.case(), &way.name(), store_writes);
            report.sum_up(&format!("store_write_requests_{}", way.name()), writes);
        }
    }
    report.sum_up("verified", runs.are_verified());
    report.sum_up("identical", runs.are_verified());
    report.sum_up("speedup", least);
    report
}
