//! The fixture that clients of a benchmark work on: the store itself, or agents over it; one machine, or
//! test hosts with a GlusterFS volume. Names and attributes that the operating system keeps are dropped
//! before each pass, so that in either case it must ask the store or an agent.

use super::hosts::{HostAgents, forget_names};
use super::rig::{Host, Rig};
use super::transports;
use crate::hearth::hearth;
use hearth_agent::{Allocation, BankUpdate, Policy};
use hearth_set::bank::BankSpec;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::SetSpec;
use hearth_set::signals::Signals;
use hearth_set::size::{HumanDuration, Size};
use hearth_set::trial::cluster::{Cluster, ClusterCounts};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Port of each host's daemon; each host has an address of its own.
const BANK_PORT: &str = ":11311";

/// How long agents may take names and attributes of the store for true: nobody else changes it here.
const ATTR_TTL: HumanDuration = HumanDuration(Duration::from_secs(3600));

/// The block of the publication.
const BLOCK_BYTES: u64 = 2 << 10;

/// A system that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// The store alone.
    Store,
    /// Agents with this policy.
    Under(Policy),
    /// Agents with policy `bank` that give daemons new blocks before a write is answered.
    BankInline,
}

impl System {
    /// The store, and these policies or the usual ones.
    pub(super) fn chosen(policies: &[Policy]) -> Vec<System> {
        let usual = [Policy::None, Policy::Bank, Policy::Home];
        let policies = match policies {
            [] => &usual,
            some => some,
        };
        let mut systems = vec![System::Store];
        for &policy in policies {
            if !systems.contains(&System::Under(policy)) {
                systems.push(System::Under(policy));
            }
        }
        systems
    }

    /// Its name in figures over a kind of store.
    pub(super) fn name(self, store: &str) -> String {
        match self {
            System::Store => bare_name(store).to_owned(),
            System::Under(policy) => policy.to_string(),
            System::BankInline => "bank inline".to_owned(),
        }
    }

    fn policy(self) -> Option<Policy> {
        match self {
            System::Store => None,
            System::Under(policy) => Some(policy),
            System::BankInline => Some(Policy::Bank),
        }
    }

    fn update(self) -> BankUpdate {
        match self {
            System::BankInline => BankUpdate::Inline,
            System::Store | System::Under(_) => BankUpdate::Thread,
        }
    }
}

/// Whether agents alone reach a kind of store: it is a model, over a directory that others find as it is.
pub(super) fn is_model(store: &str) -> bool {
    !matches!(store, "posix" | "gluster")
}

/// The name of that which clients without agents work on.
pub(super) fn bare_name(store: &str) -> &'static str {
    if is_model(store) {
        "directory"
    } else {
        "store"
    }
}

/// Caches of GlusterFS's own client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Translators {
    /// Those that it has unless told otherwise.
    AsShipped,
    /// None.
    Off,
    /// None, and none of the operating system: what one host has written the others see.
    OffAndDirect,
}

/// A place for several measurements, one after another.
pub(super) struct Fixture {
    dir: tempfile::TempDir,
    store: String,
    rig: Option<Rig>,
    clients: u32,
    fields: std::cell::Cell<u32>,
}

impl Fixture {
    /// Prepares for this many clients at most.
    pub(super) fn prepare(
        store: &str,
        clients: u32,
        translators: Translators,
        signals: &Signals,
    ) -> Result<Fixture, Failure> {
        let rig = match store {
            "gluster" => Some(hosts(clients, translators, None, signals)?),
            _ => None,
        };
        Ok(Fixture {
            dir: tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?,
            store: store.to_owned(),
            rig,
            clients,
            fields: std::cell::Cell::new(0),
        })
    }

    /// Sets a system up in a new directory, for so many clients. Agents have it for their store.
    pub(super) fn field(
        &self,
        system: System,
        clients: u32,
        signals: &Signals,
    ) -> Result<Field<'_>, Failure> {
        self.field_with(system, clients, signals, |_| Ok(()))
    }

    /// As [`Fixture::field`], after `make` has put into the store's directory what is there before anybody works.
    pub(super) fn field_with(
        &self,
        system: System,
        clients: u32,
        signals: &Signals,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Field<'_>, Failure> {
        let number = self.fields.replace(self.fields.get() + 1);
        let name = format!("field-{number}");
        let store = match &self.rig {
            Some(rig) => rig.hosts()[0].mount.join(&name),
            None => self.dir.path().join(&name).join("store"),
        };
        std::fs::create_dir_all(&store)
            .and_then(|()| make(&store))
            .or_fail(|| format!("cannot prepare {}", store.display()))?;
        let mut field = match &self.rig {
            Some(rig) => on_hosts(rig, system, (clients, &name))?,
            None => self.on_this_machine(system, (clients, &store), signals)?,
        };
        assert!(
            clients <= self.clients,
            "a fixture has room for its clients"
        );
        field.points.truncate(clients as usize);
        Ok(field)
    }

    /// How long messages take from the first client's host to the second's and back, one after another; `None` on one
    /// host, or where there is one client.
    pub(super) fn round_trips(&self, count: usize) -> Result<Option<Vec<Duration>>, Failure> {
        let Some((rig, [one, other, ..])) = self.rig.as_ref().map(|rig| (rig, rig.hosts())) else {
            return Ok(None);
        };
        let what = || "cannot send messages from host to host".to_owned();
        let place = |host: &Host| -> Result<(PathBuf, IpAddr), Failure> {
            Ok((rig.network(host)?, host.addr.parse().or_fail(what)?))
        };
        let (one, other) = (place(one)?, place(other)?);
        let pair = ((one.0.as_path(), one.1), (other.0.as_path(), other.1));
        transports::round_trips(pair, count).or_fail(what).map(Some)
    }

    fn on_this_machine(
        &self,
        system: System,
        (clients, store): (u32, &Path),
        signals: &Signals,
    ) -> Result<Field<'_>, Failure> {
        let Some(policy) = system.policy() else {
            return Ok(Field {
                points: vec![store.to_owned(); clients as usize],
                agents: Serving::Nobody,
                rig: None,
            });
        };
        let bank = policy.has_bank();
        let usual = SetSpec::default();
        let spec = SetSpec {
            agents: clients,
            policy,
            backing: self.store.clone(),
            attr_ttl: ATTR_TTL,
            page_size: if bank {
                Size(BLOCK_BYTES)
            } else {
                usual.page_size
            },
            allocation: if bank {
                Allocation::FirstTouch
            } else {
                usual.allocation
            },
            bank: bank.then(|| BankSpec {
                update: system.update(),
                ..BankSpec::default()
            }),
            ..usual
        };
        let dir = store.parent().unwrap_or(self.dir.path());
        let cluster = Cluster::start(&hearth()?, store, dir, spec, signals)?;
        Ok(Field {
            points: cluster.points().to_vec(),
            agents: Serving::Here(Box::new(cluster)),
            rig: None,
        })
    }
}

/// Hosts whose operating systems keep nothing that programs could be served from; `link` is what their links
/// carry, in the words of `tc`.
pub(super) fn hosts(
    clients: u32,
    translators: Translators,
    link: Option<&str>,
    signals: &Signals,
) -> Result<Rig, Failure> {
    let mut words: Vec<&str> = [
        "--attribute-timeout=0",
        "--entry-timeout=0",
        "--negative-timeout=0",
    ]
    .into_iter()
    .flat_map(|word| ["--client-option", word])
    .collect();
    if translators == Translators::OffAndDirect {
        words.extend(["--client-option", "--direct-io-mode=enable"]);
    }
    if translators != Translators::AsShipped {
        let off = [
            "performance.stat-prefetch=off",
            "performance.quick-read=off",
            "performance.io-cache=off",
            "performance.read-ahead=off",
            "performance.readdir-ahead=off",
            "performance.write-behind=off",
        ];
        words.extend(off.into_iter().flat_map(|word| ["--volume-option", word]));
    }
    words.extend(link.into_iter().flat_map(|link| ["--rate", link]));
    let rig = Rig::start_watched(clients, &words, signals)?;
    rig.count_requests()?;
    Ok(rig)
}

fn on_hosts<'a>(
    rig: &'a Rig,
    system: System,
    (clients, name): (u32, &str),
) -> Result<Field<'a>, Failure> {
    let hosts = || rig.hosts().iter().take(clients as usize);
    let stores: Vec<PathBuf> = hosts().map(|host| host.mount.join(name)).collect();
    let Some(policy) = system.policy() else {
        return Ok(Field {
            points: stores,
            agents: Serving::Nobody,
            rig: Some(rig),
        });
    };
    let block = format!("{BLOCK_BYTES}B");
    let ttl = ATTR_TTL.to_string();
    let mut options = vec!["--attr-ttl", &ttl];
    if policy.has_bank() {
        options.extend(["--bank", BANK_PORT, "--page-size", &block]);
        // Each client is a gateway: that of the files which it makes.
        options.extend(["--allocation", "first-touch"]);
        options.extend(match system.update() {
            BankUpdate::Inline => ["--bank-update", "inline"],
            BankUpdate::Thread => ["--bank-update", "thread"],
        });
    }
    let agents = HostAgents::start_over(rig, stores, policy, &options)?;
    Ok(Field {
        points: hosts()
            .map(|host| host.mount.with_file_name("at"))
            .collect(),
        agents: Serving::Hosts(agents),
        rig: Some(rig),
    })
}

/// A system that stands.
pub(super) struct Field<'a> {
    /// Directory of each client.
    pub(super) points: Vec<PathBuf>,
    agents: Serving<'a>,
    rig: Option<&'a Rig>,
}

enum Serving<'a> {
    Nobody,
    Here(Box<Cluster>),
    Hosts(HostAgents<'a>),
}

impl Field<'_> {
    /// Counts of all agents together.
    pub(super) fn counts(&self) -> Result<ClusterCounts, Failure> {
        match &self.agents {
            Serving::Nobody => Ok(ClusterCounts::default()),
            Serving::Here(cluster) => cluster.counts(),
            Serving::Hosts(agents) => agents.counts(),
        }
    }

    /// Requests for names and attributes that the store's servers have taken since the last look, where
    /// they count them.
    pub(super) fn name_requests(&self) -> Result<u64, Failure> {
        self.rig.map_or(Ok(0), Rig::name_requests)
    }

    /// Makes every client begin without what the operating system kept.
    pub(super) fn begin_cold(&self) -> Result<(), Failure> {
        match self.rig {
            Some(_) => forget_names(),
            // Without root there is no way, and a name is then asked for anew all the same where a
            // job has several agents.
            None => forget_names().or(Ok(())),
        }
    }

    /// Takes it down.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self.agents {
            Serving::Nobody => Ok(()),
            Serving::Here(cluster) => cluster.end(),
            Serving::Hosts(agents) => agents.end(),
        }
    }
}
