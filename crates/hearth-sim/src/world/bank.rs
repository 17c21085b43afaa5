//! The bank: daemons that keep entries, forget them, stand still, die and come back, and the
//! connections of nodes to them.
//!
//! An order that is not answered within [`PATIENCE`] is lost, with all others of its connection. The daemon
//! may still carry out what it has of it, at any later time.

use super::host::Breach;
use super::{Event, World};
use crate::check::{Violation, bank};
use crate::model::{Interval, OPEN, Tick};
use crate::plan::delay;
use hearth_proto::bank::{BankLost, BankOk, BankOp, BankOrder, Daemon, Item, Key, Told};
use hearth_proto::{Input, Piece, Span, Time, Ver};
use std::collections::{BTreeMap, BTreeSet};

/// An order without an answer for so long is lost.
const PATIENCE: Span = Span::secs(1);

/// A connection is tried again after this long.
const RETRY: Span = Span::millis(100);

/// One memcached.
#[derive(Default)]
struct Server {
    items: BTreeMap<Key, (Ver, Vec<u8>)>,
    told: BTreeMap<Key, Told>,
    dead: bool,
    /// It stands still until then.
    stopped: Time,
}

/// The content of an order to a daemon.
#[derive(Clone, Debug)]
enum Todo {
    Get(Vec<Key>),
    Set(Key, Ver, Vec<u8>),
    Delete(Vec<Key>),
    Look(Vec<Key>),
    Tell(Key, Told),
}

/// An order on its way.
#[derive(Clone, Debug)]
struct BankRequest {
    node: usize,
    daemon: Daemon,
    op: BankOp,
    todo: Todo,
    /// Frames that must stay as they are until the answer.
    held: Vec<Piece>,
    issued: Tick,
    /// Nobody waits for it any more.
    lost: bool,
}

/// The answer of a daemon.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Done,
    Found(Vec<Option<(Ver, Vec<u8>)>>),
    Looked(Vec<Option<Told>>),
}

/// All daemons.
#[derive(Default)]
pub(crate) struct Bank {
    servers: Vec<Server>,
    requests: BTreeMap<u64, BankRequest>,
    numbers: u64,
    connected: BTreeSet<(usize, Daemon)>,
    /// Pairs that cannot reach each other.
    apart: BTreeSet<(usize, Daemon)>,
}

impl Bank {
    fn reaches(&self, node: usize, daemon: Daemon) -> bool {
        let alive = self.servers.get(daemon.0 as usize).is_some_and(|s| !s.dead);
        alive && !self.apart.contains(&(node, daemon))
    }

    fn serve(&mut self, daemon: Daemon, todo: &Todo) -> Said {
        let Server { items, told, .. } = &mut self.servers[daemon.0 as usize];
        match todo {
            Todo::Get(keys) => {
                Said::Found(keys.iter().map(|key| items.get(key).cloned()).collect())
            }
            Todo::Set(key, ver, bytes) => {
                items.insert(*key, (*ver, bytes.clone()));
                Said::Done
            }
            Todo::Delete(keys) => {
                keys.iter().for_each(|key| drop(items.remove(key)));
                told.retain(|key, _| !keys.contains(key));
                Said::Done
            }
            Todo::Look(keys) => {
                Said::Looked(keys.iter().map(|key| told.get(key).cloned()).collect())
            }
            Todo::Tell(key, new) => {
                told.insert(*key, new.clone());
                Said::Done
            }
        }
    }
}

impl World {
    /// Starts the daemons; agents connect a moment later.
    pub(crate) fn start_bank(&mut self) {
        let config = self.plan.config(hearth_proto::NodeId(0));
        let daemons = config.rules().bank.map_or(0, |_| config.bank.daemons);
        self.bank.servers = (0..daemons).map(|_| Server::default()).collect();
        for node in 0..self.hosts.len() {
            self.connect_bank(node);
        }
    }

    /// True if there are daemons.
    pub(crate) fn has_bank(&self) -> bool {
        !self.bank.servers.is_empty()
    }

    /// An agent that has just started tries its daemons.
    pub(crate) fn connect_bank(&mut self, node: usize) {
        for daemon in (0..self.bank.servers.len() as u32).map(Daemon) {
            let wait = self.local_delay();
            self.after(wait, Event::BankConnects { node, daemon });
        }
    }

    /// An agent died: what it ordered may still be done.
    pub(crate) fn leave_bank(&mut self, node: usize) {
        self.bank.connected.retain(|&(of, _)| of != node);
        for request in self.bank.requests.values_mut() {
            request.lost |= request.node == node;
        }
    }

    /// A kernel orders something of a daemon.
    pub(crate) fn order_bank(
        &mut self,
        node: usize,
        op: BankOp,
        daemon: Daemon,
        order: BankOrder,
    ) -> Result<(), Breach> {
        if daemon.0 as usize >= self.bank.servers.len() {
            return Err(format!("{op:?} is for {daemon:?}, which there is not"));
        }
        let (todo, held) = match order {
            BankOrder::Get(keys) => (Todo::Get(keys), Vec::new()),
            BankOrder::Delete(keys) => (Todo::Delete(keys), Vec::new()),
            BankOrder::Look(keys) => (Todo::Look(keys), Vec::new()),
            BankOrder::Tell { key, told } => (Todo::Tell(key, told), Vec::new()),
            BankOrder::Set { key, ver, data } => {
                let bytes = self.hosts[node].gather(&data)?;
                (Todo::Set(key, ver, bytes), data)
            }
        };
        let issued = self.tick();
        self.bank.numbers += 1;
        let request = self.bank.numbers;
        let connected = self.bank.connected.contains(&(node, daemon));
        let (is_lost, lost) = (!connected, false);
        let what = BankRequest {
            node,
            daemon,
            op,
            todo,
            held,
            issued,
            lost,
        };
        self.bank.requests.insert(request, what);
        if is_lost {
            self.after(Span(0), Event::BankFails { node, request });
            return Ok(());
        }
        let wait = delay(&mut self.rng, self.plan.net_delay);
        self.after(wait, Event::BankRuns { request });
        self.after(PATIENCE, Event::BankFails { node, request });
        Ok(())
    }

    /// An order arrives at its daemon.
    pub(crate) fn run_bank_request(&mut self, request: u64) {
        let Some(order) = self.bank.requests.get(&request).cloned() else {
            return;
        };
        let BankRequest { node, daemon, .. } = order;
        let server = &self.bank.servers[daemon.0 as usize];
        let forget = |world: &mut World| drop(world.bank.requests.remove(&request));
        if server.dead {
            return if order.lost {
                forget(self)
            };
        }
        if self.now < server.stopped {
            let at = server.stopped;
            return self.at(at, Event::BankRuns { request });
        }
        if !self.bank.reaches(node, daemon) {
            // An order that is sent again until the sender gives up may come through later.
            if self.rng.chance(50) {
                let wait = Span::millis(self.rng.below(6_000));
                self.after(wait, Event::BankRuns { request });
            } else if order.lost {
                forget(self);
            }
            return;
        }
        self.check_held(&order);
        let said = self.bank.serve(daemon, &order.todo);
        if self.plan.bank_faults && self.rng.chance(5) {
            self.evict(daemon);
        }
        if order.lost {
            self.faults.late_orders += 1;
            return forget(self);
        }
        let wait = delay(&mut self.rng, self.plan.net_delay);
        let said = Box::new(said);
        self.after(
            wait,
            Event::BankTells {
                node,
                request,
                said,
            },
        );
    }

    /// A frame that a daemon is given must stay until the answer.
    fn check_held(&mut self, order: &BankRequest) {
        let Todo::Set(key, _, bytes) = &order.todo else {
            return;
        };
        // Without this guard frames do change; what matters is what readers are given for it.
        #[cfg(feature = "canary")]
        if self.plan.without == Some(hearth_proto::Guard::PopulatesAlone) {
            return;
        }
        if order.lost || self.hosts[order.node].gather(&order.held).as_ref() == Ok(bytes) {
            return;
        }
        let what = format!("the frame of {key:?} changed while a daemon was given it");
        self.violate(Violation::contract(what));
    }

    /// An answer reaches the node.
    pub(crate) fn bank_request_done(&mut self, node: usize, request: u64, said: Said) {
        let Some(order) = self.bank.requests.get(&request) else {
            return;
        };
        if order.lost || !self.bank.reaches(node, order.daemon) {
            return;
        }
        let Some(order) = self.bank.requests.remove(&request) else {
            return;
        };
        let ok = match said {
            Said::Done => BankOk::Done,
            Said::Looked(found) => {
                self.faults.bank_looks += found.iter().flatten().count() as u64;
                BankOk::Looked(found)
            }
            Said::Found(found) => self.found(node, &order, found),
        };
        self.step(node, Input::BankDone(order.op, Ok(ok)));
    }

    fn found(
        &mut self,
        node: usize,
        order: &BankRequest,
        found: Vec<Option<(Ver, Vec<u8>)>>,
    ) -> BankOk {
        if let Todo::Get(keys) = &order.todo {
            for (key, item) in keys.iter().zip(&found) {
                if let Some((_, bytes)) = item {
                    self.faults.bank_hits += 1;
                    self.check_item(key, bytes, order.issued);
                }
            }
        }
        let item = |(ver, bytes): &(Ver, Vec<u8>)| Item {
            ver: *ver,
            len: bytes.len() as u32,
        };
        let items = found.iter().map(|found| found.as_ref().map(item)).collect();
        let bytes: Vec<u8> = found.into_iter().flatten().flat_map(|(_, b)| b).collect();
        let data = match bytes.len() {
            0 => None,
            len => Some((self.hosts[node].hold(bytes), len as u32)),
        };
        BankOk::Found { items, data }
    }

    fn check_item(&mut self, key: &Key, bytes: &[u8], issued: Tick) {
        let Some(&object) = self.store.current.get(&key.file) else {
            return;
        };
        let offset = key.block * u64::from(self.plan.page_bytes);
        let span = Interval {
            began: issued,
            ended: OPEN,
        };
        let history = &self.store.objects[object].history;
        if let Some(violation) = bank::check(history, offset, bytes, span) {
            self.violate(violation);
        }
    }

    /// An order was not answered in time, or could not be sent: its connection is given up.
    pub(crate) fn bank_request_fails(&mut self, node: usize, request: u64) {
        let Some(order) = self.bank.requests.get(&request).filter(|order| !order.lost) else {
            return;
        };
        let daemon = order.daemon;
        self.bank.connected.remove(&(node, daemon));
        let same = |(_, order): &(&u64, &mut BankRequest)| {
            (order.node, order.daemon, order.lost) == (node, daemon, false)
        };
        let mut lost = Vec::new();
        for (_, order) in self.bank.requests.iter_mut().filter(same) {
            order.lost = true;
            lost.push(order.op);
        }
        self.faults.lost_orders += lost.len() as u64;
        for op in lost {
            self.step(node, Input::BankDone(op, Err(BankLost)));
        }
        self.after(RETRY, Event::BankConnects { node, daemon });
    }

    /// An agent tries to connect to a daemon.
    pub(crate) fn try_bank(&mut self, node: usize, daemon: Daemon) {
        if self.bank.connected.contains(&(node, daemon)) {
            return;
        }
        let stopped = self.bank.servers[daemon.0 as usize].stopped;
        if self.bank.reaches(node, daemon) && stopped <= self.now {
            self.bank.connected.insert((node, daemon));
            self.step(node, Input::BankUp(daemon));
        } else if !self.scripted {
            self.after(RETRY, Event::BankConnects { node, daemon });
        }
    }

    /// Some entries of a daemon make room for others.
    fn evict(&mut self, daemon: Daemon) {
        let (mut rng, share) = (self.rng.clone(), 1 + self.rng.below(50));
        let Server { items, told, .. } = &mut self.bank.servers[daemon.0 as usize];
        items.retain(|_, _| !rng.chance(share));
        told.retain(|_, _| !rng.chance(share));
    }

    /// Something goes wrong with a daemon.
    pub(crate) fn trouble_bank(&mut self) {
        let daemons = self.bank.servers.len() as u64;
        self.faults.daemons += 1;
        let daemon = Daemon(self.rng.below(daemons) as u32);
        let span = Span::millis(self.rng.below(4_000));
        let until = self.now + span;
        match self.rng.below(5) {
            0 => self.evict(daemon),
            1 => self.bank.servers[daemon.0 as usize].stopped = until,
            2 => {
                let server = &mut self.bank.servers[daemon.0 as usize];
                server.dead = true;
                if self.rng.chance(50) {
                    server.items.clear();
                    server.told.clear();
                }
                self.after(span, Event::BankReturns { daemon });
            }
            _ => {
                let share = *self.rng.pick(&[30, 60, 100]);
                for node in 0..self.hosts.len() {
                    if self.rng.chance(share) {
                        self.bank.apart.insert((node, daemon));
                    }
                }
                self.after(span, Event::BankReturns { daemon });
            }
        }
    }

    /// A node cannot reach a daemon.
    pub(crate) fn cut_bank(&mut self, node: usize, daemon: Daemon) {
        self.bank.apart.insert((node, daemon));
    }

    /// A daemon is there again, for everybody. Connections to one that was dead are gone.
    pub(crate) fn bank_returns(&mut self, daemon: Daemon) {
        self.bank.apart.retain(|&(_, other)| other != daemon);
        // A script says itself when a connection is tried again.
        let nodes = if self.scripted { self.hosts.len() } else { 0 };
        for node in 0..nodes {
            self.after(Span(0), Event::BankConnects { node, daemon });
        }
        let server = &mut self.bank.servers[daemon.0 as usize];
        if std::mem::take(&mut server.dead) {
            let nodes: Vec<usize> = (0..self.hosts.len())
                .filter(|&node| self.bank.connected.contains(&(node, daemon)))
                .collect();
            for node in nodes {
                self.break_bank(node, daemon);
            }
        }
    }

    /// The connection of a node to a daemon breaks.
    fn break_bank(&mut self, node: usize, daemon: Daemon) {
        let mut of = self.bank.requests.iter();
        let waits = of.find(|(_, e)| (e.node, e.daemon, e.lost) == (node, daemon, false));
        match waits.map(|(&request, _)| request) {
            Some(request) => self.after(Span(0), Event::BankFails { node, request }),
            None => {
                self.bank.connected.remove(&(node, daemon));
                self.after(Span(0), Event::BankBreaks { node, daemon });
                self.after(RETRY, Event::BankConnects { node, daemon });
            }
        }
    }

    /// No daemon is in trouble any more.
    pub(crate) fn heal_bank(&mut self) {
        for daemon in (0..self.bank.servers.len() as u32).map(Daemon) {
            self.bank.servers[daemon.0 as usize].stopped = Time(0);
            self.bank_returns(daemon);
        }
    }
}
