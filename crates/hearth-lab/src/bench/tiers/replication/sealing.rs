//! The cost of a seal for the writer that closes: six test hosts write and close a file each, with shards on others and
//! without, over a store that is slower than links. Beside it are the means that give the same elsewhere: copies on two
//! others, and a sync.

use super::{Desk, End, over, side_by_side};
use crate::bench::hosts::HostAgents;
use crate::bench::rig::{Host, Rig, run as output_of};
use hearth_agent::Policy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::progress;
use hearth_set::report::{BenchReport, median, rounded};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Data and parity shards.
const DATA: usize = 4;
const PARITY: usize = 2;

/// As many hosts as there are shards: fewer would wait for the store.
const NODES: usize = DATA + PARITY;

/// Rate of a link each way: all together carry less than two processors move.
const LINK: &str = "250mbit";

/// An agent's share of a store that takes from all agents as much as one link carries.
const BACKING: &str = "model:servers=1,service_us=500,bandwidth_mb=5,stripe_kb=256";

/// A page, as agents have them unless told otherwise.
const PAGE_BYTES: usize = 256 << 10;

/// Systems that are measured: name, value of `--replicas`, and end of a file. Others are measured against the first.
const SYSTEMS: [(&str, &str, End); 4] = [
    ("none", "none", End::Closed),
    ("store", "none", End::Synced),
    ("sync2", "sync:2", End::Closed),
    ("erasure", "erasure:4,2", End::Closed),
];

/// Seconds that writers took, bytes that a host sent for each that it wrote, and bytes per second that links carry.
#[derive(Default)]
struct Found {
    took: Vec<Vec<f64>>,
    sent: Vec<Vec<f64>>,
    link: Vec<f64>,
    whole: bool,
}

/// Measures every system, turn by turn, and adds to the report.
pub(super) fn run(
    report: &mut BenchReport,
    dir: &Path,
    (bytes, turns): (u64, usize),
) -> Result<(), Failure> {
    progress("building test hosts");
    let rig = Rig::start_with(NODES as u32, &["--storage", "0", "--rate", LINK])?;
    let desk = Desk {
        rig: &rig,
        nodes: NODES,
        dir,
        bytes,
    };
    let mut found = Found {
        took: vec![Vec::new(); SYSTEMS.len()],
        sent: vec![Vec::new(); SYSTEMS.len()],
        link: Vec::new(),
        whole: true,
    };
    for turn in 0..turns {
        for at in 0..SYSTEMS.len() {
            let system = (turn + at) % SYSTEMS.len();
            let name = SYSTEMS[system].0;
            progress(&format!("turn {} of {turns}: {name}, closed", turn + 1));
            one(&desk, (turn, system), &mut found)?;
        }
    }
    tell(report, &found, bytes)
}

/// One system: agents, writers at once, and whether the store has all in the end.
fn one(desk: &Desk<'_>, (turn, system): (usize, usize), found: &mut Found) -> Result<(), Failure> {
    let store = desk.dir.join(format!("sealed-{turn}-{system}"));
    std::fs::create_dir(&store).or_fail(|| "cannot make a directory".to_owned())?;
    let (_, replicas, end) = SYSTEMS[system];
    let options = [
        "--pool",
        super::POOL,
        "--backing",
        BACKING,
        "--replicas",
        replicas,
    ];
    let stores = vec![store.clone(); NODES];
    let agents = HostAgents::start_over(desk.rig, stores, Policy::Local, &options)?;
    let points: Vec<PathBuf> = desk.points();
    let before = sent(desk)?;
    let rate = desk.write(&points, end)?;
    found.took[system].push(desk.bytes as f64 / rate);
    let bytes = (NODES as u64 * desk.bytes) as f64;
    found.sent[system].push((sent(desk)? - before) as f64 / bytes);
    if system == 0 {
        found.link.push(desk.read(&points)?);
    }
    agents.end()?;
    found.whole &= desk.is_whole(&store)?;
    std::fs::remove_dir_all(&store).or_fail(|| "cannot remove a directory".to_owned())
}

/// Bytes that links have carried away from all hosts.
fn sent(desk: &Desk<'_>) -> Result<u64, Failure> {
    let hosts = desk.rig.hosts()[..NODES].iter();
    hosts.map(|host| sent_by(desk.rig, host)).sum()
}

fn sent_by(rig: &Rig, host: &Host) -> Result<u64, Failure> {
    let mut look = rig.on(host, Path::new("cat"));
    let table = output_of(look.arg("/proc/self/net/dev"))?;
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    let links = lines.filter(|(name, _)| name.trim() != "lo");
    // Eight columns are of what came.
    let sent = links.map(|(_, counts)| counts.split_whitespace().nth(8)?.parse::<u64>().ok());
    let sum: Option<u64> = sent.sum();
    sum.ok_or_else(|| Failure::new("cannot read what links carried"))
}

/// Seconds that a processor takes to make the parity of so many bytes.
fn coding_seconds(bytes: u64) -> Result<f64, Failure> {
    let page: Vec<u8> = (0..PAGE_BYTES).map(|at| (at % 251) as u8).collect();
    let stripe = [page.as_slice(); DATA];
    let stripes = (bytes as usize / PAGE_BYTES).div_ceil(DATA);
    let begun = Instant::now();
    for _ in 0..stripes {
        let made = hearth_erasure::parity_of(black_box(&stripe), PARITY);
        black_box(made.or_fail(|| "cannot make parity".to_owned())?);
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn tell(report: &mut BenchReport, found: &Found, bytes: u64) -> Result<(), Failure> {
    let case = "write and close";
    for (at, (name, _, _)) in SYSTEMS.iter().enumerate() {
        let took = &found.took[at];
        report.row(name, case, "of a node", median(took), "s");
        report.row(
            name,
            case,
            "sent over written",
            median(&found.sent[at]),
            "x",
        );
        if at > 0 {
            // Time over time is bandwidth over bandwidth, the other way round.
            let ratios = over(&found.took[0], took);
            side_by_side(report, &format!("closed_{name}_over_none"), ratios);
        }
    }
    for (at, name) in [(1, "store"), (2, "sync2")] {
        let ratios = over(&found.took[at], &found.took[3]);
        side_by_side(report, &format!("closed_erasure_over_{name}"), ratios);
    }
    // The first of the data shards stays where it is.
    let moved = (NODES - 1) as f64 / DATA as f64;
    let (none, link) = (median(&found.took[0]), median(&found.link));
    let (over_link, coding) = (bytes as f64 / link, coding_seconds(bytes)?);
    let after = |seconds: f64| none / (none + seconds);
    report.sum_up("erasure_sent_over_written", rounded(median(&found.sent[3])));
    report.sum_up("sync2_sent_over_written", rounded(median(&found.sent[2])));
    report.sum_up("model_erasure_sent_over_written", rounded(moved));
    report.sum_up(
        "model_closed_erasure",
        rounded(after(moved * over_link + coding)),
    );
    report.sum_up("model_closed_sync2", rounded(after(2.0 * over_link)));
    report.sum_up("coding_over_sending", rounded(coding / (moved * over_link)));
    report.sum_up("closed_verified", found.whole);
    Ok(())
}
