//! Counts of an agent, and how fast they grow.

use std::ops::Add;
use std::time::Duration;

use hearth_agent::AgentStatus;

/// Counts since the start of an agent, or within a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads of programs.
    pub reads: u64,
    /// Writes of programs.
    pub writes: u64,
    /// Bytes that programs wrote.
    pub written: u64,
    /// Bytes that programs read, by source.
    pub sources: [u64; ByteSource::ALL.len()],
    /// Pages that left the pool.
    pub evictions: u64,
    /// Messages to other agents.
    pub messages: u64,
}

/// The places at which bytes that programs read are found, near ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteSource {
    /// The agent's own memory.
    Pool,
    /// Another agent's.
    Peers,
    /// A daemon of the bank.
    Bank,
    /// The store.
    Store,
}

impl ByteSource {
    /// Every one.
    pub const ALL: [ByteSource; 4] = [
        ByteSource::Pool,
        ByteSource::Peers,
        ByteSource::Bank,
        ByteSource::Store,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            ByteSource::Pool => "own pool",
            ByteSource::Peers => "peers",
            ByteSource::Bank => "bank",
            ByteSource::Store => "store",
        }
    }
}

impl Traffic {
    /// Since the start of an agent.
    pub fn of(status: &AgentStatus) -> Traffic {
        let (counters, programs) = (&status.counters, &status.programs);
        Traffic {
            reads: counters.reads + programs.reads,
            writes: counters.writes,
            written: counters.written_bytes,
            sources: [
                counters.own_bytes + programs.bytes,
                counters.peer_bytes,
                counters.bank_bytes,
                counters.store_bytes,
            ],
            evictions: status.evictions,
            messages: counters.messages_sent,
        }
    }

    /// The counts since `before`.
    pub fn since(&self, before: &Traffic) -> Traffic {
        let mut sources = self.sources;
        for (now, before) in sources.iter_mut().zip(before.sources) {
            *now = now.saturating_sub(before);
        }
        Traffic {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            written: self.written.saturating_sub(before.written),
            sources,
            evictions: self.evictions.saturating_sub(before.evictions),
            messages: self.messages.saturating_sub(before.messages),
        }
    }

    /// Bytes that programs read.
    pub fn read(&self) -> u64 {
        self.sources.iter().sum()
    }

    /// Bytes that programs read and wrote.
    pub fn bytes(&self) -> u64 {
        self.read() + self.written
    }

    /// Bytes of one source.
    pub fn from(&self, source: ByteSource) -> u64 {
        self.sources[source as usize]
    }

    /// The share of a source, in percent; nothing if nothing was read.
    pub fn share(&self, source: ByteSource) -> Option<u64> {
        let (part, all) = (u128::from(self.from(source)), u128::from(self.read()));
        // Rounded to the nearest.
        (all > 0).then(|| ((part * 200 + all) / (all * 2)) as u64)
    }
}

impl Add for Traffic {
    type Output = Traffic;

    fn add(self, other: Traffic) -> Traffic {
        let mut sources = self.sources;
        for (sum, more) in sources.iter_mut().zip(other.sources) {
            *sum += more;
        }
        Traffic {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            written: self.written + other.written,
            sources,
            evictions: self.evictions + other.evictions,
            messages: self.messages + other.messages,
        }
    }
}

/// A count of a span, for each second of it.
pub(crate) fn each_second(count: u64, span: Duration) -> u64 {
    let span = span.as_secs_f64();
    if span > 0.0 {
        (count as f64 / span).round() as u64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_read() {
        let traffic = Traffic {
            sources: [995, 0, 0, 5],
            written: 1000,
            ..Traffic::default()
        };
        assert_eq!(traffic.share(ByteSource::Pool), Some(100));
        assert_eq!(traffic.share(ByteSource::Store), Some(1));
        assert_eq!(Traffic::default().share(ByteSource::Pool), None);
    }

    #[test]
    fn counts_that_fell_count_as_none() {
        let (less, more) = (
            Traffic::default(),
            Traffic {
                reads: 5,
                ..Traffic::default()
            },
        );
        assert_eq!(less.since(&more), Traffic::default());
    }

    #[test]
    fn rates_are_of_a_second() {
        assert_eq!(each_second(10, Duration::from_millis(500)), 20);
        assert_eq!(each_second(10, Duration::ZERO), 0);
    }
}
