//! The first layer: a job for each node, whose files lie where chance left them.

use hearth_plan::place::{Placement, Situation, cheapest, literal, paper};
use hearth_plan::{Bytes, FileIndex, NodeIndex};
use hearth_sim::rng::Rng;

use super::random::sizes;
use super::{Args, Said, by_files, row};
use hearth_set::output::{progress, progress_over};

const PURPOSE: u64 = 200;

const BELOW: &str = "\
One seat a node; half of a job's files lie on one node, the others anywhere. `improved` is the optimum.";

/// Prints a row for each number of files per job.
pub(super) fn run(args: &Args, said: &mut Said) {
    let mut lines = vec![row(&[
        "files/job",
        "as printed",
        "paper",
        "improved",
        "paper/optimum",
        "moved of all",
    ])];
    let mut figures = Vec::new();
    for files in &args.files_per_node {
        progress(&format!("{} jobs of {files} files", args.nodes));
        let situation = drawn(args, *files);
        let moved = |how: fn(&Situation) -> Placement| situation.moved(&how(&situation));
        let (as_printed, as_meant, least) = (moved(literal), moved(paper), moved(cheapest));
        let all: Bytes = (0..situation.jobs.len())
            .map(|job| situation.reads(job))
            .sum();
        let over = as_meant.0 as f64 / least.0.max(1) as f64;
        let gigabytes = |bytes: Bytes| format!("{:.1} GB", bytes.0 as f64 / 1e9);
        lines.push(vec![
            files.to_string(),
            gigabytes(as_printed),
            gigabytes(as_meant),
            gigabytes(least),
            format!("{over:.3}"),
            format!("{:.0} %", 100.0 * least.0 as f64 / all.0 as f64),
        ]);
        let case = format!("{} jobs of {files} files", args.nodes);
        for (system, bytes) in [
            ("literal", as_printed),
            ("paper", as_meant),
            ("improved", least),
        ] {
            said.report.row(system, &case, "moved", bytes.0 as f64, "B");
        }
        figures.push((*files, over));
    }
    progress_over();
    said.table(
        &format!("Bytes moved to place {} jobs", args.nodes),
        &lines,
        BELOW,
    );
    said.report
        .sum_up("placement_paper_over_optimum", by_files(&figures));
}

fn drawn(args: &Args, files_per_job: u32) -> Situation {
    let mut rng = Rng::new(args.seed, PURPOSE + u64::from(files_per_job));
    let nodes = u64::from(args.nodes);
    let mut situation = Situation {
        seats: vec![1; args.nodes as usize],
        ..Situation::default()
    };
    for _ in 0..nodes {
        let home = rng.below(nodes);
        let mut job = Vec::new();
        for size in sizes(&mut rng, files_per_job) {
            let node = if rng.chance(50) {
                home
            } else {
                rng.below(nodes)
            };
            job.push(FileIndex(situation.sizes.len() as u32));
            situation.sizes.push(size);
            situation.held.push(vec![(NodeIndex(node as u32), size)]);
        }
        situation.jobs.push(job);
    }
    situation
}
