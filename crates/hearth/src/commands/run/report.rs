//! The sources of the bytes of a command.

use std::fmt;
use std::path::Path;

use hearth_agent::{AgentStatus, Counters, Programs};
use hearth_client::words::counted;
use hearth_set::agent::status_of;
use hearth_set::control::ControlRequest;
use hearth_set::set::{Set, ask_all};
use hearth_set::size::Size;
use hearth_set::takedown;

/// Counts of all agents of a set together.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Counters, Programs);

impl Counts {
    /// As they are now; an agent that does not answer adds nothing.
    pub(super) fn ask(set: &Set) -> Counts {
        let answers = ask_all(&set.peers(), &ControlRequest::Status);
        let all = answers.into_iter().flatten().map(takedown::health);
        Counts::sum(all.map(|health| health.status()))
    }

    /// Sums the counts that the ranks of a job have left in a directory at their end.
    pub(super) fn of_ranks(reports: &Path) -> Counts {
        let entries = std::fs::read_dir(reports).into_iter().flatten().flatten();
        let texts = entries.filter_map(|entry| std::fs::read(entry.path()).ok());
        let told = texts.filter_map(|text| serde_json::from_slice(&text).ok());
        Counts::sum(told.map(status_of))
    }

    fn sum(all: impl Iterator<Item = AgentStatus>) -> Counts {
        all.fold(Counts::default(), |sum, one| {
            let with = u64::wrapping_add;
            Counts(
                join(&sum.0, &one.counters, with),
                join_programs(&sum.1, &one.programs, with),
            )
        })
    }

    /// The counts that were added since.
    pub(super) fn since(&self, before: &Counts) -> Counts {
        let with = u64::saturating_sub;
        Counts(
            join(&self.0, &before.0, with),
            join_programs(&self.1, &before.1, with),
        )
    }
}

fn join(a: &Counters, b: &Counters, with: fn(u64, u64) -> u64) -> Counters {
    Counters {
        read_bytes: with(a.read_bytes, b.read_bytes),
        written_bytes: with(a.written_bytes, b.written_bytes),
        own_bytes: with(a.own_bytes, b.own_bytes),
        peer_bytes: with(a.peer_bytes, b.peer_bytes),
        store_read_requests: with(a.store_read_requests, b.store_read_requests),
        store_read_bytes: with(a.store_read_bytes, b.store_read_bytes),
        store_write_requests: with(a.store_write_requests, b.store_write_requests),
        store_write_bytes: with(a.store_write_bytes, b.store_write_bytes),
        ..Counters::default()
    }
}

fn join_programs(a: &Programs, b: &Programs, with: fn(u64, u64) -> u64) -> Programs {
    Programs {
        programs: with(a.programs, b.programs),
        reads: with(a.reads, b.reads),
        bytes: with(a.bytes, b.bytes),
        stats: with(a.stats, b.stats),
        not_here: with(a.not_here, b.not_here),
        called_back: with(a.called_back, b.called_back),
        too_long: with(a.too_long, b.too_long),
        no_agent: with(a.no_agent, b.no_agent),
        flags: with(a.flags, b.flags),
        writes: with(a.writes, b.writes),
        written: with(a.written, b.written),
        not_offered: with(a.not_offered, b.not_offered),
        crowded: with(a.crowded, b.crowded),
        ..Programs::default()
    }
}

/// The bytes that programs read by themselves.
struct ByThemselves<'a>(&'a Programs);

impl fmt::Display for ByThemselves<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs = self.0;
        if programs.programs == 0 {
            return writeln!(f, "hearth: no program read in this node's memory by itself");
        }
        writeln!(
            f,
            "hearth: {} read {} in {} in this node's memory by themselves",
            counted(programs.programs, "program"),
            Size(programs.bytes),
            counted(programs.reads, "call")
        )?;
        if programs.stats > 0 {
            writeln!(
                f,
                "hearth: `stat` was answered again in this node's memory for {}",
                counted(programs.stats, "call")
            )?;
        }
        if programs.writes > 0 {
            writeln!(
                f,
                "hearth: {} were written in {} through this node's memory, {} passed by",
                Size(programs.written),
                counted(programs.writes, "call"),
                programs.not_offered + programs.crowded
            )?;
        }
        let rows = [
            (programs.not_here, "not in memory or past the end"),
            (programs.called_back, "written meanwhile"),
            (programs.too_long, "over too many pages"),
            (programs.no_agent, "agent gone"),
            (programs.flags, "opened for direct I/O"),
        ];
        let passed: Vec<String> = rows
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, why)| format!("{count} {why}"))
            .collect();
        match passed.is_empty() {
            true => Ok(()),
            false => writeln!(f, "hearth: passed by to the mount: {}", passed.join(", ")),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.0;
        writeln!(
            f,
            "hearth: programs read {} and wrote {} beyond what the kernel kept",
            Size(counts.read_bytes),
            Size(counts.written_bytes)
        )?;
        writeln!(
            f,
            "hearth: {} were here, {} came from other agents",
            Size(counts.own_bytes),
            Size(counts.peer_bytes)
        )?;
        writeln!(
            f,
            "hearth: the store gave {} in {} and took {} in {}",
            Size(counts.store_read_bytes),
            counted(counts.store_read_requests, "request"),
            Size(counts.store_write_bytes),
            counts.store_write_requests
        )?;
        ByThemselves(&self.1).fmt(f)
    }
}
