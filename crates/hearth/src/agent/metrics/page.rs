//! The page of metrics: the text format of Prometheus, version 0.0.4.
//!
//! 1. No value and no label names a file. The name of the set has the last part of the store's path.
//! 2. Names and units follow Prometheus: counters end in `_total`, times are in seconds, sizes in bytes.
//! 3. Every line has the number of its agent, so that pages of several can be read together.

use std::fmt::Write;

use hearth_agent::AgentStatus;

/// An agent at one moment.
#[derive(Debug, Default)]
pub(in crate::agent) struct Agent {
    /// The name of its set.
    pub(in crate::agent) set: String,
    /// Calls on the store for agents whose hosts do not have it, if it makes any.
    pub(in crate::agent) calls_for_others: Option<u64>,
    pub(in crate::agent) status: AgentStatus,
}

/// One metric.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    values: Values,
}

type Value = fn(&Agent) -> u64;

/// The values of a metric.
enum Values {
    One(Value),
    /// Not there on every agent.
    Maybe(fn(&Agent) -> Option<u64>),
    /// A time that the status has in microseconds.
    Micros(Value),
    /// One for each value of a label.
    By(&'static str, &'static [(&'static str, Value)]),
}

use Values::{By, Maybe, Micros, One};

const fn counter(name: &'static str, help: &'static str, values: Values) -> Metric {
    let kind = "counter";
    Metric {
        name,
        kind,
        help,
        values,
    }
}

const fn gauge(name: &'static str, help: &'static str, values: Values) -> Metric {
    let kind = "gauge";
    Metric {
        name,
        kind,
        help,
        values,
    }
}

/// Requests of programs, and the sources of their bytes.
const PROGRAMS: &[Metric] = &[
    counter(
        "hearth_reads_total",
        "Reads that programs asked of the agent, or served themselves in its pool.",
        One(|a| a.status.counters.reads + a.status.programs.reads),
    ),
    counter(
        "hearth_writes_total",
        "Writes that programs asked of the agent.",
        One(|a| a.status.counters.writes),
    ),
    counter(
        "hearth_read_bytes_total",
        "Bytes that programs read, by where they were found.",
        By(
            "source",
            &[
                ("pool", |a| {
                    a.status.counters.own_bytes + a.status.programs.bytes
                }),
                ("peer", |a| a.status.counters.peer_bytes),
                ("bank", |a| a.status.counters.bank_bytes),
                ("store", |a| a.status.counters.store_bytes),
            ],
        ),
    ),
    counter(
        "hearth_written_bytes_total",
        "Bytes that programs wrote.",
        One(|a| a.status.counters.written_bytes),
    ),
    counter(
        "hearth_direct_reads_total",
        "Reads that programs served themselves in the pool, without a call to the agent.",
        One(|a| a.status.programs.reads),
    ),
    counter(
        "hearth_direct_read_bytes_total",
        "Bytes of such reads; they are in hearth_read_bytes_total too.",
        One(|a| a.status.programs.bytes),
    ),
    gauge(
        "hearth_requests_open",
        "Requests of programs without an answer yet.",
        One(|a| a.status.requests_open as u64),
    ),
    gauge(
        "hearth_long_waits",
        "Requests that wait for so long that `hearth status` tells of them.",
        One(|a| a.status.long_waits as u64),
    ),
];

/// Memory, and bytes that the store lacks.
const MEMORY: &[Metric] = &[
    gauge(
        "hearth_pool_bytes",
        "Size of the pool.",
        One(|a| a.status.pool_bytes),
    ),
    gauge(
        "hearth_pool_used_bytes",
        "Bytes of the pool that are in use.",
        One(|a| a.status.pool_used_bytes),
    ),
    counter(
        "hearth_evicted_pages_total",
        "Pages that left the pool for others.",
        One(|a| a.status.evictions),
    ),
    gauge(
        "hearth_buffer_bytes",
        "Bytes in messages and requests under way, outside of the pool.",
        One(|a| a.status.buffer_bytes),
    ),
    gauge(
        "hearth_dirty_bytes",
        "Bytes that the store does not have yet.",
        One(|a| a.status.dirty_bytes),
    ),
    gauge(
        "hearth_kept_bytes",
        "Bytes of other homes that are kept here until the store has them.",
        One(|a| a.status.kept_bytes),
    ),
    gauge(
        "hearth_at_risk_files",
        "Files with fewer replicas than the job asks for.",
        One(|a| a.status.at_risk_files as u64),
    ),
    gauge(
        "hearth_files",
        "Files with state in this agent.",
        One(|a| a.status.files as u64),
    ),
    gauge(
        "hearth_tier_bytes",
        "Bytes that the tier may hold.",
        Maybe(|a| a.status.tier.as_ref().map(|tier| tier.limit_bytes)),
    ),
    gauge(
        "hearth_tier_used_bytes",
        "Bytes that the tier holds.",
        Maybe(|a| a.status.tier.as_ref().map(|tier| tier.used_bytes)),
    ),
    gauge(
        "hearth_tier_dirty_bytes",
        "Bytes in the tier that the store does not have yet.",
        Maybe(|a| a.status.tier.as_ref().map(|tier| tier.dirty_bytes)),
    ),
];

/// Requests to the store and to daemons.
const STORE: &[Metric] = &[
    counter(
        "hearth_store_requests_total",
        "Requests to the store, by kind.",
        By(
            "kind",
            &[
                ("read", |a| a.status.counters.store_read_requests),
                ("write", |a| a.status.counters.store_write_requests),
                ("sync", |a| a.status.counters.store_sync_requests),
            ],
        ),
    ),
    counter(
        "hearth_store_bytes_total",
        "Bytes of requests to the store, by kind.",
        By(
            "kind",
            &[
                ("read", |a| a.status.counters.store_read_bytes),
                ("write", |a| a.status.counters.store_write_bytes),
            ],
        ),
    ),
    counter(
        "hearth_store_errors_total",
        "Requests that the store refused.",
        One(|a| a.status.counters.store_errors),
    ),
    counter(
        "hearth_gateway_calls_total",
        "Calls on the store for agents whose hosts do not have it.",
        Maybe(|a| a.calls_for_others),
    ),
    counter(
        "hearth_bank_lookups_total",
        "Blocks that daemons of the bank were asked for, by outcome.",
        By(
            "outcome",
            &[
                ("hit", |a| a.status.counters.bank_hits),
                ("miss", |a| a.status.counters.bank_misses),
            ],
        ),
    ),
];

/// Other agents.
const PEERS: &[Metric] = &[
    gauge(
        "hearth_peers",
        "Other agents of the set.",
        One(|a| a.status.peers.len() as u64),
    ),
    gauge(
        "hearth_peers_up",
        "Other agents that are connected.",
        One(|a| a.status.peers.iter().filter(|peer| peer.up).count() as u64),
    ),
    gauge(
        "hearth_view_number",
        "Number of the view, if the set agrees on its members.",
        Maybe(|a| a.status.view.as_ref().map(|view| u64::from(view.number))),
    ),
    gauge(
        "hearth_view_members",
        "Agents in that view.",
        Maybe(|a| a.status.view.as_ref().map(|view| view.members.len() as u64)),
    ),
    counter(
        "hearth_messages_sent_total",
        "Messages to other agents.",
        One(|a| a.status.counters.messages_sent),
    ),
    counter(
        "hearth_revocations_total",
        "Pages called back from programs and their kernel.",
        One(|a| a.status.counters.revocations),
    ),
    counter(
        "hearth_handed_pages_total",
        "Pages that went to other agents with files that move.",
        One(|a| a.status.counters.handed_pages),
    ),
    counter(
        "hearth_inherited_pages_total",
        "Pages that came with such files.",
        One(|a| a.status.counters.inherited_pages),
    ),
    gauge(
        "hearth_alarms",
        "Alarms that `hearth status` shows; the last 64 are kept.",
        One(|a| {
            let (all, waits) = (a.status.alarms.len(), a.status.long_waits);
            all.saturating_sub(waits) as u64
        }),
    ),
    gauge(
        "hearth_longest_step_seconds",
        "The longest time since the start for which one step of the agent held up all others.",
        Micros(|a| a.status.longest_step_us),
    ),
];

/// The whole page.
pub(super) fn text(agent: &Agent) -> String {
    let mut text = about(agent);
    let all = [PROGRAMS, MEMORY, STORE, PEERS];
    for metric in all.into_iter().flatten() {
        metric.write(agent, &mut text);
    }
    text
}

/// The agent itself, in labels; the value says nothing.
fn about(agent: &Agent) -> String {
    let name = "hearth_agent_info";
    let labels = [
        ("agent", agent.status.node.to_string()),
        ("set", agent.set.clone()),
        ("policy", agent.status.policy.clone()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let labels = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(&value)));
    format!(
        "# HELP {name} The agent that this page is of.\n# TYPE {name} gauge\n{name}{{{}}} 1\n",
        labels.join(",")
    )
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

impl Metric {
    fn write(&self, agent: &Agent, text: &mut String) {
        let values = self.values.of(agent);
        if values.is_empty() {
            return;
        }
        let (name, kind, help) = (self.name, self.kind, self.help);
        let node = agent.status.node;
        // A string takes all that is written to it.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (label, value) in values {
            let _ = writeln!(text, "{name}{{agent=\"{node}\"{label}}} {value}");
        }
    }
}

impl Values {
    /// Labels beside the agent's, and values, both as text.
    fn of(&self, agent: &Agent) -> Vec<(String, String)> {
        let plain = |value: u64| (String::new(), value.to_string());
        match self {
            One(value) => vec![plain(value(agent))],
            Maybe(value) => value(agent).map(plain).into_iter().collect(),
            Micros(value) => {
                let seconds = value(agent) as f64 / 1e6;
                vec![(String::new(), seconds.to_string())]
            }
            By(label, values) => values
                .iter()
                .map(|(name, value)| (format!(",{label}=\"{name}\""), value(agent).to_string()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_agent::{TierStatus, ViewStatus};

    /// An agent of whom everything is told.
    fn whole() -> Agent {
        let tier = TierStatus {
            lost: vec!["results/secret.dat is lost".to_owned()],
            dir: "/disk/hearth".to_owned(),
            ..TierStatus::default()
        };
        let late = "waits for 9 s for a read of results/secret.dat";
        Agent {
            set: "scratch-c7c7a7fd".to_owned(),
            calls_for_others: Some(3),
            status: AgentStatus {
                store: "/scratch".to_owned(),
                at_risk: vec!["results/secret.dat".to_owned()],
                at_risk_files: 70,
                alarms: vec!["agent 1 is gone".to_owned(), late.to_owned()],
                long_waits: 1,
                longest_step_us: 1500,
                tier: Some(tier),
                view: Some(ViewStatus {
                    number: 7,
                    members: vec![0, 2],
                    ..ViewStatus::default()
                }),
                ..AgentStatus::default()
            },
        }
    }

    #[test]
    fn numbers_stand_behind_names_with_units() {
        let text = text(&whole());
        for line in [
            "hearth_read_bytes_total{agent=\"0\",source=\"store\"} 0",
            "hearth_at_risk_files{agent=\"0\"} 70",
            "hearth_alarms{agent=\"0\"} 1",
            "hearth_long_waits{agent=\"0\"} 1",
            "hearth_longest_step_seconds{agent=\"0\"} 0.0015",
            "hearth_view_number{agent=\"0\"} 7",
            "hearth_view_members{agent=\"0\"} 2",
            "hearth_gateway_calls_total{agent=\"0\"} 3",
        ] {
            assert!(text.lines().any(|other| other == line), "no {line}\n{text}");
        }
    }

    #[test]
    fn no_metric_names_a_file() {
        let text = text(&whole());
        for word in ["secret", "results", "/scratch", "/disk"] {
            assert!(!text.contains(word), "{word} is in\n{text}");
        }
    }

    #[test]
    fn what_an_agent_has_not_is_left_out() {
        let text = text(&Agent::default());
        for word in ["hearth_tier", "hearth_view", "hearth_gateway"] {
            assert!(!text.contains(word), "{word} is in\n{text}");
        }
    }

    #[test]
    fn the_dashboard_names_metrics_that_exist() {
        let text = text(&whole());
        let known: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|line| line.split(' ').next())
            .collect();
        let dashboard = include_str!("../../../../../dist/grafana.json");
        let _: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        let words = dashboard.split(|letter| !is_part(letter));
        let named: Vec<&str> = words.filter(|word| word.starts_with("hearth_")).collect();
        assert!(named.len() > 10, "{named:?}");
        for name in named {
            assert!(known.contains(&name), "no {name} among {known:?}");
        }
    }
}
