//! `hearth status`.

mod views;

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::paint::table;
use hearth_agent::{AgentStatus, DaemonStatus, PeerStatus};
use hearth_client::words::span;
use hearth_set::agent::Health;
use hearth_set::control::{CallError, ControlRequest, Peer};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::print;
use hearth_set::set::{NamedSet, Set, ask_all, choose};
use hearth_set::size::Size;
use hearth_set::takedown;

const EXAMPLES: &str = "\
Examples:
  hearth status
  hearth status --json | jq .node.counters

Exit codes: 0 all is well, 1 no agents are up, or something needs care.";

/// Options of `hearth status`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamedSet,
    /// One object for each agent
    #[arg(long)]
    json: bool,
}

type Answer = Result<Value, CallError>;

/// Shows the chosen sets, all of them unless one is named.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let choice = args.named.all_unless_named();
    let mut is_well = true;
    for (index, set) in choose(&choice)?.into_iter().enumerate() {
        let peers = set.peers();
        let answers: Vec<(Peer, Answer)> = peers
            .iter()
            .cloned()
            .zip(ask_all(&peers, &ControlRequest::Status))
            .collect();
        if args.json {
            is_well &= show_json(&set, answers)?;
        } else {
            let gap = if index == 0 { "" } else { "\n" };
            let told = describe(&set, answers);
            print(&format!("{gap}{}", told.text))?;
            is_well &= told.warnings.is_empty();
            let notes = told.notes.iter().map(|line| format!("note: {line}"));
            let warnings = told.warnings.iter().map(|line| format!("warning: {line}"));
            let lines = notes.chain(warnings);
            lines.for_each(|line| hearth_client::say!("{line}"));
        }
    }
    Ok(ExitCode::from(u8::from(!is_well)))
}

fn show_json(set: &Set, answers: Vec<(Peer, Answer)>) -> Result<bool, Failure> {
    let mut is_well = true;
    for (peer, answer) in answers {
        let complaint = complaint(&answer);
        is_well &= complaint.is_none()
            && answer
                .as_ref()
                .is_ok_and(|value| care(&peer, value).is_empty());
        let mut line = json!({
            "job": set.file.job,
            "store": set.file.store,
            "agent": peer.node,
            "pid": peer.process.map(|process| process.pid),
            "warden": peer.warden.map(|warden| warden.pid),
            "answers": complaint.is_none(),
            "why": complaint,
        });
        if let (Some(line), Ok(Value::Object(rest))) = (line.as_object_mut(), answer) {
            line.extend(rest);
        }
        let line = serde_json::to_string(&line).or_fail(|| "cannot print the status".to_owned())?;
        print(&format!("{line}\n"))?;
    }
    Ok(is_well)
}

fn complaint(answer: &Answer) -> Option<String> {
    match answer {
        Ok(_) => None,
        Err(CallError::Gone(who)) => Some(format!("{who} is gone")),
        Err(CallError::Starting(who)) => Some(format!("{who} died, and another takes its place")),
        Err(CallError::Silent(who)) => Some(format!("{who} does not answer")),
        Err(CallError::Refused(failure)) => Some(failure.to_string()),
    }
}

/// The words about a set.
struct Told {
    text: String,
    /// Lines about what needs care.
    warnings: Vec<String>,
    /// Lines about what needed care.
    notes: Vec<String>,
}

fn describe(set: &Set, answers: Vec<(Peer, Answer)>) -> Told {
    let file = &set.file;
    let head = ["agent", "pid", "pool", "dirty", "peers", "mount"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    for (peer, answer) in &answers {
        warnings.extend(complaint(answer));
        if let Ok(value) = answer {
            warnings.extend(care(peer, value));
            notes.extend(past(peer, value));
            rows.push(row(peer, value));
        }
    }
    let store = format!("job {}, store {}", file.job, file.store.display());
    let spec = format!(
        "policy {}, semantics {}, pages of {}",
        file.spec.policy, file.spec.semantics, file.spec.page_size
    );
    let views = views::describe(&statuses(&answers));
    let bank = describe_bank(&answers);
    let tiers = describe_tiers(&answers);
    let promises = describe_promises(&answers);
    Told {
        text: format!(
            "{store}, {spec}\n{}{views}{bank}{tiers}{promises}",
            table(&rows)
        ),
        warnings,
        notes,
    }
}

/// The statuses of the agents that answer.
fn statuses(answers: &[(Peer, Answer)]) -> Vec<AgentStatus> {
    let answers = answers
        .iter()
        .filter_map(|(_, answer)| answer.as_ref().ok());
    answers.map(|value| read(value).1).collect()
}

/// The daemons, each with what all agents of this machine saw of it; nothing without a bank.
fn describe_bank(answers: &[(Peer, Answer)]) -> String {
    let agents = statuses(answers);
    let Some(daemons) = agents
        .first()
        .map(|agent| agent.bank.len())
        .filter(|&n| n > 0)
    else {
        return String::new();
    };
    let head = [
        "daemon",
        "reached by",
        "found",
        "lost",
        "epoch",
        "memory",
        "evicted",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend((0..daemons).map(|number| {
        let seen: Vec<&DaemonStatus> = agents
            .iter()
            .filter_map(|agent| agent.bank.get(number))
            .collect();
        daemon_row(&seen)
    }));
    table(&rows)
}

/// The tiers of this machine's agents; nothing without any.
fn describe_tiers(answers: &[(Peer, Answer)]) -> String {
    let head = ["tier of", "holds", "not in the store", "at"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (peer, answer) in answers {
        let Some(tier) = answer.as_ref().ok().and_then(|value| read(value).1.tier) else {
            continue;
        };
        rows.push(vec![
            peer.node.to_string(),
            format!("{} of {}", Size(tier.used_bytes), Size(tier.limit_bytes)),
            Size(tier.dirty_bytes).to_string(),
            tier.dir,
        ]);
    }
    match rows.len() {
        1 => String::new(),
        _ => table(&rows),
    }
}

/// Open files of which something else is promised than `posix`, each once; nothing if there are none.
fn describe_promises(answers: &[(Peer, Answer)]) -> String {
    let nodes = statuses(answers).into_iter();
    let promises = nodes.flat_map(|node| node.promises);
    let files: BTreeMap<String, String> = promises
        .map(|promise| (promise.file, promise.semantics))
        .collect();
    if files.is_empty() {
        return String::new();
    }
    let mut rows = vec![["open file", "semantics"].map(str::to_owned).to_vec()];
    rows.extend(files.into_iter().map(|(file, level)| vec![file, level]));
    table(&rows)
}

fn daemon_row(seen: &[&DaemonStatus]) -> Vec<String> {
    let sum = |part: fn(&DaemonStatus) -> u64| seen.iter().map(|one| part(one)).sum::<u64>();
    let most = |part: fn(&DaemonStatus) -> u64| seen.iter().map(|one| part(one)).max().unwrap_or(0);
    let (hits, asked) = (sum(|one| one.hits), sum(|one| one.hits + one.misses));
    let found = match asked {
        0 => "-".to_owned(),
        _ => format!("{} % of {asked}", hits * 100 / asked),
    };
    let reached = seen.iter().filter(|one| one.up).count();
    // The upper half tells the life of the gateway.
    let epochs: Vec<String> = seen
        .iter()
        .map(|one| (one.epoch & u64::from(u32::MAX)).to_string())
        .collect();
    let (bytes, bytes_max) = (most(|one| one.bytes), most(|one| one.bytes_max));
    vec![
        seen.first().map_or_else(String::new, |one| one.at.clone()),
        format!("{reached} of {}", seen.len()),
        found,
        sum(|one| one.lost).to_string(),
        epochs.join(","),
        format!("{} of {}", Size(bytes), Size(bytes_max)),
        most(|one| one.evictions).to_string(),
    ]
}

fn read(value: &Value) -> (Health, AgentStatus) {
    let health = takedown::health(value.clone());
    let node = health.status();
    (health, node)
}

fn row(peer: &Peer, value: &Value) -> Vec<String> {
    let (health, node) = read(value);
    let up = node.peers.iter().filter(|peer| peer.up).count();
    let mount = match (&health.mount, health.users.len()) {
        (Some(at), _) => at.display().to_string(),
        (None, 0) => "-".to_owned(),
        (None, users) => format!("{users} x hearth run"),
    };
    vec![
        peer.node.to_string(),
        peer.process
            .map_or_else(String::new, |process| process.pid.to_string()),
        format!(
            "{} of {}",
            Size(node.pool_used_bytes),
            Size(node.pool_bytes)
        ),
        Size(node.dirty_bytes).to_string(),
        format!("{up} of {}", node.peers.len()),
        mount,
    ]
}

fn care(peer: &Peer, value: &Value) -> Vec<String> {
    let (_, node) = read(value);
    // The alarm about a death has its reason. There is none about an agent that was never connected.
    let is_told = |other: u32| {
        let gone = format!("agent {other} is gone: ");
        node.alarms.iter().any(|alarm| alarm.starts_with(&gone))
    };
    // Those that go on without it need nothing of one that left.
    let is_spared = |other: &PeerStatus| other.left && node.view.is_some();
    let is_missed = |other: &&PeerStatus| !(other.up || is_spared(other));
    let down = node.peers.iter().filter(is_missed);
    let down = down.filter(|other| !is_told(other.node)).map(|other| {
        let why = other.why.as_deref().unwrap_or("nobody knows why");
        format!("{peer} has lost agent {}: {why}", other.node)
    });
    let alarms = node.alarms.iter().map(|alarm| format!("{peer}: {alarm}"));
    let lost = node.tier.iter().flat_map(|tier| &tier.lost);
    let lost = lost.map(|lost| format!("{peer}: {lost}"));
    let risks = node.at_risk.iter();
    let risks = risks.map(|file| {
        format!(
            "{peer}: {file} has fewer replicas than `{}` asks for",
            node.replicas
        )
    });
    down.chain(alarms).chain(lost).chain(risks).collect()
}

/// Alarms that are over.
fn past(peer: &Peer, value: &Value) -> Vec<String> {
    let past = read(value).1.past_alarms.into_iter();
    let told = past.map(|alarm| {
        let over = span(alarm.over_s);
        format!("{peer}: over for {over}: {}", alarm.text)
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The warnings of agent 1, which has lost agent 0.
    fn warnings(alarms: &[&str]) -> Vec<String> {
        let peer = Peer {
            node: 1,
            process: None,
            warden: None,
            socket: "control".into(),
        };
        let lost = json!({ "node": 0, "up": false, "why": "it went" });
        let health = Health {
            node: json!({ "peers": [lost], "alarms": alarms }),
            ..Health::default()
        };
        care(&peer, &json!(health))
    }

    #[test]
    fn a_death_is_told_in_one_line() {
        let told = warnings(&["agent 0 is gone: it went"]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with(": agent 0 is gone: it went"), "{told:?}");
    }

    #[test]
    fn an_agent_that_left_needs_no_care_where_the_others_go_on() {
        let peer = Peer {
            node: 1,
            process: None,
            warden: None,
            socket: "control".into(),
        };
        let told = |view: Value| {
            let peers = json!([{ "node": 0, "up": false, "left": true }]);
            let node = json!({ "peers": peers, "view": view });
            let health = Health {
                node,
                ..Health::default()
            };
            care(&peer, &json!(health)).len()
        };
        assert_eq!(told(json!({ "number": 2, "members": [1] })), 0);
        assert_eq!(told(Value::Null), 1);
    }

    #[test]
    fn an_agent_that_never_came_is_told() {
        let told = warnings(&["agent 10 is gone: it went"]);
        assert_eq!(told.len(), 2, "{told:?}");
    }
}
