//! Carrying out the kernel's orders to the daemons of the bank.
//!
//! The daemons' thread takes the kernel's lock to tell an answer, as a store worker does. It never
//! waits for anything but that lock, so an order is answered in time whatever the store does.

use crate::alarms::Cause;
use crate::core::{After, Core, State};
use hearth_bank::{Address, Answer, Answered, Asked, Bank, BankHandler, Lost, Order, Seal, stats};
use hearth_net::Secret;
use hearth_proto::bank::{BankLost, BankOk, BankOp, BankOrder, Daemon, Item};
use hearth_proto::{BankAttributes, BankUpdate, Input, NodeId, Ver, View, wire};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use hearth_proto::bank::BankPlacement;

/// How long a daemon may take for an order, and for its greeting.
const PATIENCE: Duration = Duration::from_millis(500);

/// memcached takes a longer span for a date.
const ENTRY_SECONDS_MAX: u32 = 30 * 24 * 3600;

/// How long a daemon may take to say how it is.
const STATUS_SPAN: Duration = Duration::from_millis(300);

/// The daemons of a job; all agents must agree.
#[derive(Clone, Debug)]
pub struct BankSettings {
    /// The addresses of the daemons.
    pub daemons: Vec<Address>,
    /// How blocks are spread over them.
    pub placement: BankPlacement,
    /// When a daemon is given the new bytes of a block that was written.
    pub update: BankUpdate,
    /// The place where attributes are looked for.
    pub attributes: BankAttributes,
    /// How long attributes in daemons may be those from before a change that somebody outside made;
    /// whole seconds are counted.
    pub attributes_last: Duration,
    /// Agents that are gateways; none named: all.
    pub gateways: Vec<u32>,
}

/// How one daemon is, seen from one agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonStatus {
    /// The address at which it listens.
    pub at: String,
    /// This agent reaches it.
    pub up: bool,
    /// Why not.
    pub why: Option<String>,
    /// Entries that this agent found.
    pub hits: u64,
    /// Entries that it did not.
    pub misses: u64,
    /// Orders of this agent that were not answered.
    pub lost: u64,
    /// The epoch under which this agent, as a gateway, has entries there; 0: it has none.
    pub epoch: u64,
    /// Version of the daemon, if it says.
    pub version: Option<String>,
    /// Entries that it has, of anybody.
    pub items: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that it may have.
    pub bytes_max: u64,
    /// Entries that it forgot for want of room.
    pub evictions: u64,
}

impl BankSettings {
    /// The kernel's view of the settings.
    pub(crate) fn kernel(&self, rejoins: bool) -> hearth_proto::BankConfig {
        hearth_proto::BankConfig {
            daemons: self.daemons.len() as u32,
            placement: self.placement,
            update: self.update,
            attributes: self.attributes,
            gateways: self.gateways.iter().map(|&node| NodeId(node)).collect(),
            rejoins,
            ..hearth_proto::BankConfig::default()
        }
    }
}

/// The daemons' thread, and what it is told of every entry.
pub(crate) struct Daemons {
    bank: Bank,
    /// After so many seconds an entry with attributes is forgotten.
    attribute_seconds: u32,
}

/// Set in the driver's numbers of orders that are answered with attributes.
const LOOKS: u64 = 1 << 63;

/// Answers that are told in one turn at most: others wait for the kernel's lock.
const ANSWERS_A_TURN: usize = 64;

/// Connects to the daemons.
pub(crate) fn start(
    core: &Arc<Core>,
    config: &BankSettings,
    secret: &Secret,
    entry_bytes: usize,
) -> io::Result<Daemons> {
    let lasts = config.attributes_last.as_millis().div_ceil(1000).max(1);
    let handler = Arc::new(Told(Arc::downgrade(core)));
    let config = hearth_bank::BankClientConfig {
        daemons: config.daemons.clone(),
        seal: Seal::new(secret.bytes()),
        entry_bytes,
        patience: PATIENCE,
    };
    Ok(Daemons {
        bank: Bank::start(config, handler)?,
        attribute_seconds: u32::try_from(lasts)
            .unwrap_or(ENTRY_SECONDS_MAX)
            .min(ENTRY_SECONDS_MAX),
    })
}

/// How the daemons are. Asks them, so no lock is held.
pub(crate) fn status(daemons: &Daemons, config: &BankSettings) -> Vec<DaemonStatus> {
    let links = daemons.bank.status().into_iter().zip(&config.daemons);
    links
        .map(|(link, at)| {
            let told = link.up.then(|| stats::ask(at, STATUS_SPAN).ok()).flatten();
            let says = told.clone().unwrap_or_default();
            DaemonStatus {
                at: at.to_string(),
                up: link.up,
                why: link.why,
                hits: link.hits,
                misses: link.misses,
                lost: link.lost,
                epoch: 0,
                version: told.map(|told| told.version),
                items: says.items,
                bytes: says.bytes,
                bytes_max: says.bytes_max,
                evictions: says.evictions,
            }
        })
        .collect()
}

impl Core {
    /// Makes an order for the daemons' thread, which is given all those of a turn when it is over.
    pub(crate) fn order(
        &self,
        state: &State,
        (op, daemon, order): (BankOp, Daemon, BankOrder),
        after: &mut Vec<After>,
    ) {
        let Some(Daemons {
            attribute_seconds, ..
        }) = self.bank.get()
        else {
            return after.push(After::BankLost(op));
        };
        let looks = if matches!(order, BankOrder::Look(_)) {
            LOOKS
        } else {
            0
        };
        let order = match order {
            BankOrder::Get(keys) => Order::Get(keys.iter().map(ToString::to_string).collect()),
            BankOrder::Delete(keys) => {
                Order::Delete(keys.iter().map(ToString::to_string).collect())
            }
            BankOrder::Set { key, ver, data } => Order::Set {
                name: key.to_string(),
                version: [u64::from(ver.view.0), ver.seq],
                bytes: self.with_pieces(state, &data, |slices| slices.concat()),
                seconds: None,
            },
            BankOrder::Look(keys) => Order::Get(keys.iter().map(ToString::to_string).collect()),
            BankOrder::Tell { key, told } => {
                let mut bytes = Vec::new();
                wire::encode_told(&told, &mut bytes);
                Order::Set {
                    name: key.to_string(),
                    version: [0, 0],
                    bytes,
                    seconds: Some(*attribute_seconds),
                }
            }
        };
        let asked = Asked {
            id: op.0 | looks,
            daemon: daemon.0 as usize,
            order,
        };
        match after.last_mut() {
            Some(After::Bank(orders)) => orders.push(asked),
            Some(_) | None => after.push(After::Bank(vec![asked])),
        }
    }

    /// Hands the orders of a turn to the daemons' thread.
    pub(crate) fn give_orders(&self, orders: Vec<Asked>) {
        if let Some(Daemons { bank, .. }) = self.bank.get() {
            bank.order(orders);
        }
    }
}

/// The daemons' thread, talking to the kernel.
struct Told(Weak<Core>);

impl BankHandler for Told {
    fn answered(&self, answers: Vec<Answered>) {
        let Some(core) = self.0.upgrade() else {
            return;
        };
        let mut answers = answers.into_iter().peekable();
        while answers.peek().is_some() {
            let some = answers.by_ref().take(ANSWERS_A_TURN);
            core.drive_each(some.map(|answer| move |state: &mut State| done(state, answer)));
        }
    }

    fn up(&self, daemon: usize) {
        let Some(core) = self.0.upgrade() else {
            return;
        };
        let now = core.now();
        core.drive_with(|state| {
            state.alarms.end(Cause::Daemon(daemon), now);
            Input::BankUp(Daemon(daemon as u32))
        });
    }

    fn down(&self, daemon: usize, why: &str) {
        let Some(core) = self.0.upgrade() else {
            return;
        };
        core.drive_with(|state| {
            let text = format!("{}{why}", away(daemon));
            state.alarms.raise(Cause::Daemon(daemon), text);
            Input::BankDown(Daemon(daemon as u32))
        });
    }
}

/// The kernel's input about an order that has ended.
fn done(state: &mut State, (order, answer): Answered) -> Input {
    let result = match answer {
        Ok(Answer::Found(items)) if order & LOOKS != 0 => Ok(looked(&items)),
        Ok(Answer::Found(items)) => Ok(found(state, items)),
        Ok(Answer::Stored | Answer::NoRoom | Answer::Deleted) => Ok(BankOk::Done),
        Err(Lost) => Err(BankLost),
    };
    Input::BankDone(BankOp(order & !LOOKS), result)
}

/// How the alarm begins that a daemon is away; it ends when the daemon is back.
fn away(daemon: usize) -> String {
    format!("daemon {daemon} of the bank is away: ")
}

/// Attributes and names in entries. One that does not hold any is of another version of the program.
fn looked(items: &[Option<hearth_bank::OpenedEntry>]) -> BankOk {
    let told = |item: &Option<hearth_bank::OpenedEntry>| {
        let item = item.as_ref()?;
        wire::decode_told(&item.bytes).ok()
    };
    BankOk::Looked(items.iter().map(told).collect())
}

/// Keeps the bytes of entries for the kernel.
fn found(state: &mut State, items: Vec<Option<hearth_bank::OpenedEntry>>) -> BankOk {
    let mut bytes = Vec::new();
    let items = items
        .into_iter()
        .map(|item| {
            let item = item?;
            bytes.extend_from_slice(&item.bytes);
            let [view, seq] = item.version;
            Some(Item {
                ver: Ver {
                    view: View(view as u32),
                    seq,
                },
                len: item.bytes.len() as u32,
            })
        })
        .collect();
    let len = bytes.len() as u32;
    let data = (len > 0).then(|| (state.buffers.add(bytes), len));
    BankOk::Found { items, data }
}
