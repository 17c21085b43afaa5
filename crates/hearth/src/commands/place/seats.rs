//! How many jobs each node takes now: a number, or as many as Slurm says it has idle processors.
//!
//! Slurm takes a list of nodes for a demand. A job that is bound to a busy node waits for it, so only
//! nodes that can take a job now have seats.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::str::FromStr;

use super::residency::Residency;
use hearth_set::failure::{Failure, OrFail};

/// The source of the number of jobs that a node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seats {
    Each(u32),
    Slurm,
}

impl FromStr for Seats {
    type Err = String;

    fn from_str(text: &str) -> Result<Seats, String> {
        match text {
            "slurm" => Ok(Seats::Slurm),
            _ => text
                .parse()
                .map(Seats::Each)
                .map_err(|_| "say a number, or `slurm`".to_owned()),
        }
    }
}

impl Seats {
    /// Gives all nodes their seats.
    pub(super) fn fill(self, residency: &mut Residency) -> Result<(), Failure> {
        match self {
            Seats::Each(seats) => {
                residency
                    .nodes
                    .iter_mut()
                    .for_each(|node| node.seats = seats);
                Ok(())
            }
            Seats::Slurm => fill_from_slurm(residency),
        }
    }
}

fn fill_from_slurm(residency: &mut Residency) -> Result<(), Failure> {
    let config = said("scontrol", &["show", "config"])?;
    let nodes = said("sinfo", &["--noheader", "--Node", "--format=%N|%C|%t"])?;
    let seats = seats_in(&nodes, takes_whole_nodes(&config));
    if !residency
        .nodes
        .iter()
        .any(|node| seats.contains_key(&node.name))
    {
        let names = residency
            .nodes
            .iter()
            .map(|node| format!("`{}`", node.name));
        let names = names.collect::<Vec<_>>().join(", ");
        return Err(Failure::new("cannot ask Slurm which nodes are free")
            .cause(format!("it knows none of {names}"))
            .hint("--nodes names the nodes of the agents"));
    }
    for node in &mut residency.nodes {
        node.seats = seats.get(&node.name).copied().unwrap_or(0);
    }
    Ok(())
}

fn takes_whole_nodes(config: &str) -> bool {
    let is_select = |line: &&str| line.starts_with("SelectType ");
    let select = config.lines().find(is_select);
    select.is_some_and(|line| line.ends_with("select/linear"))
}

/// Reads the answer of `sinfo`. It has a line for each node, and again for each partition: name, processors in use,
/// idle, of no use and in all, state. A node that does not answer has a mark behind its state.
fn seats_in(nodes: &str, whole: bool) -> BTreeMap<String, u32> {
    let seats = nodes.lines().filter_map(|line| {
        let mut fields = line.split('|');
        let (name, processors, state) = (fields.next()?, fields.next()?, fields.next()?);
        let idle: u32 = processors.split('/').nth(1)?.parse().ok()?;
        let free = match state {
            "idle" if whole => idle.min(1),
            "idle" | "mix" if !whole => idle,
            _ => 0,
        };
        Some((name.to_owned(), free))
    });
    seats.collect()
}

fn said(program: &str, words: &[&str]) -> Result<String, Failure> {
    let what = || "cannot ask Slurm which nodes are free".to_owned();
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .or_fail(|| format!("cannot run `{program}`"))
        .map_err(|cause| Failure::new(what()).after(cause))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::new(what()).cause(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "n1|3/1/0/4|mix\nn2|0/4/0/4|idle\nn3|0/0/4/4|down*\nn4|0/4/0/4|idle*\n\
                        n5|0/4/0/4|drain\nn1|3/1/0/4|mix\n";

    #[test]
    fn seats_are_where_a_job_can_begin_now() {
        let of = |whole| seats_in(SAID, whole).into_values().collect::<Vec<_>>();
        assert_eq!(of(false), [1, 4, 0, 0, 0]);
        assert_eq!(of(true), [0, 1, 0, 0, 0]);
    }

    #[test]
    fn whole_nodes_are_told_by_the_settings() {
        assert!(takes_whole_nodes(
            "A = b\nSelectType              = select/linear\n"
        ));
        assert!(!takes_whole_nodes(
            "SelectType              = select/cons_tres\n"
        ));
    }
}
