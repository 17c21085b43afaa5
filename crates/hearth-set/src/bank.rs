//! The bank of a set: which memcached daemons, started by whom, ended with the set.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use hearth_agent::{BankAttributes, BankPlacement, BankUpdate};
use hearth_bank::daemon::{self, DaemonPlan, End, NoDaemon, Seat};
use hearth_bank::{Address, item};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, OrFail};
use crate::job::SetOwner;
use crate::process::Process;
use crate::size::Size;
use crate::typed::{Typed, parser};

/// More daemons than this on one machine are a mistake.
const DAEMONS_MAX: u32 = 64;

/// How long a daemon that was told to end may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The options of the command line about a bank.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Bank (policy bank)")]
pub struct BankArgs {
    /// memcached daemons: how many, or where they are [default: 1]
    ///
    /// N on this machine, `:PORT` for one on each of --hosts, or where they listen already, as
    /// ADDRESS:PORT or /SOCKET.
    #[arg(long, value_name = "N|:PORT|A,B")]
    bank: Option<Daemons>,
    /// Memory of each daemon that is started [default: 64MiB]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    bank_memory: Option<Size>,
    /// How blocks are spread over the daemons [default: rendezvous]
    #[arg(
        long,
        value_name = "HOW",
        value_parser = parser::<BankPlacement>(),
        hide_short_help = true
    )]
    bank_placement: Option<BankPlacement>,
    /// When a daemon gets the bytes of a write: after the answer (`thread`) or before (`inline`)
    #[arg(
        long,
        value_name = "WHEN",
        value_parser = parser::<BankUpdate>(),
        hide_short_help = true,
        hide_possible_values = true
    )]
    bank_update: Option<BankUpdate>,
    /// Source of attributes: nodes keep them (`leave`), or ask daemons (`daemons`)
    #[arg(
        long,
        value_name = "WHERE",
        value_parser = parser::<BankAttributes>(),
        hide_short_help = true,
        hide_possible_values = true
    )]
    bank_attributes: Option<BankAttributes>,
    /// Agents that alone touch the store for blocks of files [default: all]
    #[arg(
        long,
        value_name = "I,J",
        value_delimiter = ',',
        hide_short_help = true
    )]
    gateways: Vec<u32>,
}

/// Which daemons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Daemons {
    /// So many, started on this machine at sockets that only this user can use.
    Here(u32),
    /// One, started on each host of the list at its address there and this port.
    EachHost(u16),
    /// Those that listen there already; they are not ours to end.
    At(Vec<String>),
}

impl FromStr for Daemons {
    type Err = String;

    fn from_str(text: &str) -> Result<Daemons, String> {
        if let Ok(count) = text.parse() {
            return match count {
                1..=DAEMONS_MAX => Ok(Daemons::Here(count)),
                _ => Err(format!(
                    "a bank has 1 to {DAEMONS_MAX} daemons on a machine"
                )),
            };
        }
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| format!("`{port}` is no port"));
            return port.map(Daemons::EachHost);
        }
        let addresses = text.split(',').map(|word| {
            let address = word.parse::<Address>();
            address
                .map(|at| at.to_string())
                .map_err(|error| error.to_string())
        });
        addresses.collect::<Result<_, _>>().map(Daemons::At)
    }
}

impl fmt::Display for Daemons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Daemons::Here(count) => write!(f, "{count}"),
            Daemons::EachHost(port) => write!(f, ":{port}"),
            Daemons::At(addresses) => f.write_str(&addresses.join(",")),
        }
    }
}

/// A bank, with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankSpec {
    /// The addresses of the daemons, or how many to start.
    pub daemons: Daemons,
    /// Memory of each daemon that is started.
    pub memory: Size,
    /// Which daemon has a block.
    #[serde(with = "crate::typed")]
    pub placement: BankPlacement,
    /// The time at which a daemon gets the bytes of a write.
    #[serde(with = "crate::typed")]
    pub update: BankUpdate,
    /// The memory in which attributes are kept.
    #[serde(default, with = "crate::typed")]
    pub attributes: BankAttributes,
    /// Agents that are gateways; none said: all.
    pub gateways: Vec<u32>,
}

impl Default for BankSpec {
    fn default() -> BankSpec {
        BankSpec {
            daemons: Daemons::Here(1),
            memory: Size(64 << 20),
            placement: BankPlacement::default(),
            update: BankUpdate::default(),
            attributes: BankAttributes::default(),
            gateways: Vec::new(),
        }
    }
}

impl BankArgs {
    /// True if nothing was said.
    pub fn is_silent(&self) -> bool {
        self.bank.is_none()
            && self.bank_memory.is_none()
            && self.bank_placement.is_none()
            && self.bank_update.is_none()
            && self.bank_attributes.is_none()
            && self.gateways.is_empty()
    }

    /// The bank that the options describe, with `base` where they say nothing.
    pub fn over(&self, base: BankSpec) -> BankSpec {
        BankSpec {
            daemons: self.bank.clone().unwrap_or(base.daemons),
            memory: self.bank_memory.unwrap_or(base.memory),
            placement: self.bank_placement.unwrap_or(base.placement),
            update: self.bank_update.unwrap_or(base.update),
            attributes: self.bank_attributes.unwrap_or(base.attributes),
            gateways: match self.gateways.as_slice() {
                [] => base.gateways,
                gateways => sorted(gateways),
            },
        }
    }
}

fn sorted(gateways: &[u32]) -> Vec<u32> {
    let mut gateways = gateways.to_vec();
    gateways.sort_unstable();
    gateways.dedup();
    gateways
}

impl BankSpec {
    fn gateways_in_words(&self) -> String {
        let gateways: Vec<String> = self.gateways.iter().map(u32::to_string).collect();
        match gateways.is_empty() {
            true => "all".to_owned(),
            false => gateways.join(","),
        }
    }

    /// In words, to tell two banks apart.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("bank", self.daemons.to_string()),
            ("bank-memory", self.memory.to_string()),
            ("bank-placement", self.placement.word().to_owned()),
            ("bank-update", self.update.word().to_owned()),
            ("bank-attributes", self.attributes.word().to_owned()),
            ("gateways", self.gateways_in_words()),
        ]
    }
}

/// One daemon of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonEntry {
    /// The address at which it listens.
    pub at: String,
    /// Its process, if this machine's command started it.
    pub process: Option<Process>,
}

/// The daemons of a set that is being started; dropping it ends those that it started.
#[derive(Debug, Default)]
pub struct Daemonry {
    /// The daemons, in their order.
    pub entries: Vec<DaemonEntry>,
    children: Vec<Child>,
}

/// The set that the daemons are started for.
pub struct BankSite<'a> {
    /// How the bank is to be.
    pub spec: &'a BankSpec,
    /// A block.
    pub page_bytes: u64,
    /// The owner of the daemons.
    pub owner: SetOwner,
    /// The job's directory.
    pub dir: &'a Path,
    /// Hosts of the job and this one's place among them, if there are several.
    pub hosts: Option<(&'a [SocketAddr], u32)>,
}

impl Daemonry {
    /// Starts what is to be started here.
    pub fn start(wanted: &BankSite<'_>) -> Result<Daemonry, Failure> {
        let mut daemonry = Daemonry::default();
        match (&wanted.spec.daemons, wanted.hosts) {
            (Daemons::Here(count), None) => {
                for number in 0..*count {
                    let seat = Seat::Unix(wanted.dir.join(format!("bank-{number}.sock")));
                    daemonry.add(wanted, seat)?;
                }
            }
            (Daemons::EachHost(port), Some((members, me))) => {
                for (node, member) in (0..).zip(members) {
                    let at = SocketAddr::new(member.ip(), *port);
                    if node == me {
                        daemonry.add(wanted, Seat::Port(at))?;
                    } else {
                        daemonry.know(at.to_string());
                    }
                }
            }
            (Daemons::At(addresses), _) => {
                addresses.iter().for_each(|at| daemonry.know(at.clone()));
            }
            (Daemons::Here(_), Some(_)) => {
                return Err(Failure::new(
                    "cannot start daemons at sockets of one machine for several hosts",
                )
                .hint("--bank :11311 starts one on each host at that port"));
            }
            (Daemons::EachHost(port), None) => {
                return Err(Failure::new(format!(
                    "cannot start daemons at port {port} of each host: there is no list of hosts"
                ))
                .hint("--bank 1, or a list with --hosts"));
            }
        }
        Ok(daemonry)
    }

    fn know(&mut self, at: String) {
        self.entries.push(DaemonEntry { at, process: None });
    }

    fn add(&mut self, wanted: &BankSite<'_>, seat: Seat) -> Result<(), Failure> {
        let attributes = wanted.spec.attributes;
        let entry_bytes = attributes.entry_bytes(wanted.page_bytes as usize);
        let plan = DaemonPlan {
            seat,
            memory_bytes: wanted.spec.memory.0,
            item_bytes: item::room_for(entry_bytes),
            dir: wanted.dir.to_owned(),
            end: match wanted.owner {
                SetOwner::Nobody => End::Told,
                SetOwner::Command(_) => End::WithStarter,
            },
        };
        let started = daemon::start(&plan).map_err(|error| {
            let hint = hint(&error);
            Failure::new("cannot start a daemon of the bank")
                .because(error)
                .hint(hint)
        })?;
        self.entries.push(DaemonEntry {
            at: started.addr.to_string(),
            process: Process::of(started.child.id()),
        });
        self.children.push(started.child);
        Ok(())
    }

    /// They are up to the set now.
    pub fn hand_over(&mut self) -> Vec<Child> {
        std::mem::take(&mut self.children)
    }
}

impl Drop for Daemonry {
    fn drop(&mut self) {
        for child in &mut self.children {
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                hearth_client::say!("note: cannot end a daemon of the bank: {error}");
            }
        }
    }
}

/// The remedy for a daemon that did not start.
fn hint(error: &NoDaemon) -> &'static str {
    match error {
        NoDaemon::Run { .. } => "sudo apt-get install memcached",
        NoDaemon::Ended(_) => "--bank-memory holds two blocks at least; is the place taken?",
        NoDaemon::Silent => "the machine may be too busy: try again",
    }
}

/// Ends the daemons that a set started. Nobody needs the blocks that they hold.
pub fn end(entries: &[DaemonEntry]) -> Result<(), Failure> {
    for DaemonEntry { at, process } in entries {
        let what = || format!("cannot end the daemon at {at}");
        let Some(process) = process else { continue };
        process.signal(Signal::TERM).or_fail(what)?;
        if !process.wait_gone(PATIENCE).or_fail(what)? {
            process.signal(Signal::KILL).or_fail(what)?;
            process.wait_gone(PATIENCE).or_fail(what)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_are_printed_as_they_are_typed() {
        for text in ["3", ":11311", "10.0.0.1:11211,/run/b.sock"] {
            assert_eq!(text.parse::<Daemons>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_names_no_daemons_is_refused() {
        for text in ["0", "65", ":port", "", "somewhere", "10.0.0.1:1,,"] {
            assert!(text.parse::<Daemons>().is_err(), "{text}");
        }
    }
}
