//! The output of `hearth place`.

use std::collections::BTreeSet;

use hearth_plan::NodeIndex;
use serde_json::json;

use super::Form;
use super::arrange::{Arranged, Unit};
use hearth_set::failure::Failure;
use hearth_set::output::table;
use hearth_set::size::Size;

/// The data.
pub(super) fn lines(arranged: &Arranged, form: Form, job: Option<&str>) -> Result<String, Failure> {
    let units = arranged.units_of(job);
    if let Some(job) = job.filter(|_| units.is_empty()) {
        return Err(Failure::new(format!("there is no job `{job}`")));
    }
    Ok(match form {
        Form::Table => for_people(arranged, &units),
        Form::Nodelist => slurm_options(arranged, &units, job, ("--nodelist=", ",")),
        Form::Prefer => slurm_options(arranged, &units, job, ("--prefer=", "|")),
        Form::Hostfile => hostfile(arranged, &units),
        Form::Json => for_machines(arranged, &units),
        Form::Residency => unreachable!("it was printed before jobs were placed"),
    })
}

fn for_people(arranged: &Arranged, units: &[&Unit]) -> String {
    let head = ["job", "wave", "node", "reads", "there", "moved"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for unit in units {
        rows.push(vec![
            match unit.ranks {
                1 => unit.job.clone(),
                _ => format!("{} rank {}", unit.job, unit.rank),
            },
            unit.wave.to_string(),
            unit.node
                .map_or("any", |node| arranged.nodes[node.index()].as_str())
                .to_owned(),
            Size(unit.reads.0).to_string(),
            Size(unit.held.0).to_string(),
            Size((unit.reads - unit.held).0).to_string(),
        ]);
    }
    table(&rows)
}

/// The bytes to be moved, as a sentence.
pub(super) fn sentence(arranged: &Arranged) -> String {
    let reads = arranged
        .units
        .iter()
        .map(|unit| unit.reads)
        .sum::<hearth_plan::Bytes>();
    let (moved, paper) = (Size(arranged.moved.0), Size(arranged.moved_paper.0));
    let bound = arranged.bound.map_or(String::new(), |bound| {
        format!("; no placement moves less than {}", Size(bound.0))
    });
    let reads = Size(reads.0);
    format!(
        "{moved} of {reads} have to be moved, shared on a node once; {paper} by the published method{bound}"
    )
}

/// A job that has nothing anywhere is not bound to a node.
fn slurm_options(
    arranged: &Arranged,
    units: &[&Unit],
    job: Option<&str>,
    (option, between): (&str, &str),
) -> String {
    let mut text = String::new();
    let mut names: Vec<&str> = units.iter().map(|unit| unit.job.as_str()).collect();
    names.dedup();
    for name in names {
        let good = units
            .iter()
            .filter(|unit| unit.job == name && unit.held.0 > 0);
        let nodes: BTreeSet<NodeIndex> = good.filter_map(|unit| unit.node).collect();
        let nodes: Vec<&str> = nodes
            .iter()
            .map(|node| arranged.nodes[node.index()].as_str())
            .collect();
        let words = match nodes.as_slice() {
            [] => String::new(),
            nodes => format!("{option}{}", nodes.join(between)),
        };
        match job {
            Some(_) => text.push_str(&format!("{words}\n")),
            None => text.push_str(format!("{name} {words}").trim_end()),
        }
        if job.is_none() {
            text.push('\n');
        }
    }
    text
}

/// A line for each rank. One that no seat was left for goes where the fewest are.
fn hostfile(arranged: &Arranged, units: &[&Unit]) -> String {
    let mut load = vec![0; arranged.nodes.len()];
    for node in units.iter().filter_map(|unit| unit.node) {
        load[node.index()] += 1;
    }
    let hosts = units.iter().map(|unit| {
        let node = unit.node.map(NodeIndex::index).unwrap_or_else(|| {
            let least = (0..load.len()).min_by_key(|node| load[*node]);
            let least = least.expect("a residency names nodes");
            load[least] += 1;
            least
        });
        format!("{}\n", arranged.nodes[node])
    });
    hosts.collect()
}

fn for_machines(arranged: &Arranged, units: &[&Unit]) -> String {
    let mut text = String::new();
    for unit in units {
        let node = unit.node.map(|node| &arranged.nodes[node.index()]);
        let line = json!({
            "job": unit.job, "rank": unit.rank, "wave": unit.wave, "node": node,
            "reads": unit.reads.0, "there": unit.held.0,
        });
        text.push_str(&format!("{line}\n"));
    }
    let summary = json!({
        "moved": arranged.moved.0, "moved_paper": arranged.moved_paper.0,
        "bound": arranged.bound.map(|bound| bound.0),
    });
    text.push_str(&format!(
        "{}\n",
        json!({ "place": "summary", "summary": summary })
    ));
    text
}
