//! The one daemon of a small world with a bank. It is a memcached that keeps what it is given until it is told
//! otherwise, or somebody chooses that it forgets.
//!
//! An order is carried out at one instant and told of later. When a node is cut off from the daemon all of its
//! orders are lost. Those that change something may still be carried out, at any later time.

use super::host::Host;
use super::{Small, SmallEvent};
use crate::check::Violation;
use crate::explore::Story;
use crate::script;
use hearth_proto::bank::{BankLost, BankOk, BankOp, BankOrder, Daemon, Item, Key};
use hearth_proto::{Input, Piece, Ver};
use std::collections::BTreeMap;

/// The daemon's entries, without versions, which no kernel compares; and the nodes that cannot reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bank {
    entries: BTreeMap<Key, Vec<u8>>,
    apart: Vec<u8>,
}

/// The content of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Todo {
    Get(Vec<Key>),
    Set(Key, Vec<u8>),
    Delete(Vec<Key>),
}

/// The state of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Sent,
    Done(Vec<Option<Vec<u8>>>),
    /// It could not be sent.
    Unsent,
    /// Nobody waits for it any more.
    Late,
}

/// An order of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BankRequest {
    op: BankOp,
    todo: Todo,
    /// Frames that must stay as they are until the answer.
    held: Vec<Piece>,
    state: State,
}

impl BankRequest {
    /// True if it may still change the daemon though nobody waits for it; nobody waits from now on.
    pub(super) fn is_late(&mut self) -> bool {
        let may = matches!(self.state, State::Sent | State::Late);
        self.state = State::Late;
        self.op = BankOp(0);
        self.held.clear();
        may && !matches!(self.todo, Todo::Get(_))
    }
}

impl Bank {
    pub(super) fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    pub(super) fn forget(&mut self, story: &mut Story) {
        story.line(|| "the daemon forgets".to_owned());
        self.entries.clear();
    }

    fn carry_out(&mut self, todo: &Todo) -> Vec<Option<Vec<u8>>> {
        match todo {
            Todo::Get(keys) => keys
                .iter()
                .map(|key| self.entries.get(key).cloned())
                .collect(),
            Todo::Set(key, bytes) => {
                self.entries.insert(*key, bytes.clone());
                Vec::new()
            }
            Todo::Delete(keys) => {
                self.entries.retain(|key, _| !keys.contains(key));
                Vec::new()
            }
        }
    }
}

impl Small {
    /// Every node has a connection to the daemon.
    pub(super) fn start_bank(&mut self) -> Result<(), Violation> {
        if self.scope.policy.rules().bank.is_none() {
            return Ok(());
        }
        for node in 0..self.scope.nodes as u8 {
            self.step(node, Input::BankUp(Daemon(0)), &mut Story::untold())?;
        }
        Ok(())
    }

    pub(super) fn reaches_bank(&self, node: u8) -> bool {
        self.scope.policy.rules().bank.is_some() && !self.bank.apart.contains(&node)
    }

    /// Events at the daemon without anybody's choosing.
    pub(super) fn of_bank(&self, events: &mut Vec<SmallEvent>) {
        for (node, host) in (0u8..).zip(&self.hosts) {
            for (at, request) in (0u8..).zip(&host.requests) {
                events.push(match request.state {
                    State::Sent | State::Late => SmallEvent::Serves(node, at),
                    State::Done(_) | State::Unsent => SmallEvent::Served(node, at),
                });
            }
        }
        let alive = |node: &&u8| self.hosts[**node as usize].alive;
        events.extend(
            self.bank
                .apart
                .iter()
                .filter(alive)
                .map(|&node| SmallEvent::Meets(node)),
        );
    }

    pub(super) fn order_bank(
        &mut self,
        node: u8,
        op: BankOp,
        order: BankOrder,
    ) -> Result<(), Violation> {
        let sent = self.reaches_bank(node);
        let host = self.host(node);
        let (todo, held) = match order {
            BankOrder::Get(keys) => (Todo::Get(keys), Vec::new()),
            BankOrder::Delete(keys) => (Todo::Delete(keys), Vec::new()),
            BankOrder::Set { key, data, .. } => {
                let bytes = host.gather(&data).map_err(Violation::contract)?;
                (Todo::Set(key, bytes), data)
            }
            BankOrder::Look(_) | BankOrder::Tell { .. } => {
                let what = "attributes are given to a daemon, though nodes keep them";
                return Err(Violation::contract(what.to_owned()));
            }
        };
        let state = if sent { State::Sent } else { State::Unsent };
        host.requests.push(BankRequest {
            op,
            todo,
            held,
            state,
        });
        Ok(())
    }

    /// The daemon carries out an order.
    pub(super) fn serve(&mut self, node: u8, at: u8, story: &mut Story) -> Result<(), Violation> {
        let host = self.host(node);
        let request = host.requests[at as usize].clone();
        held_still(host, &request)?;
        let said = self.bank.carry_out(&request.todo);
        story.line(|| told(node, &request.todo, &said));
        let host = self.host(node);
        match request.state {
            State::Late => drop(host.requests.remove(at as usize)),
            State::Sent | State::Done(_) | State::Unsent => {
                host.requests[at as usize].state = State::Done(said);
            }
        }
        Ok(())
    }

    /// A node is told what came of an order.
    pub(super) fn served(&mut self, node: u8, at: u8, story: &mut Story) -> Result<(), Violation> {
        let host = self.host(node);
        let request = host.requests.remove(at as usize);
        let result = match (request.state, request.todo) {
            (State::Done(found), Todo::Get(_)) => Ok(give(host, found)),
            (State::Done(_), Todo::Set(..) | Todo::Delete(_)) => Ok(BankOk::Done),
            (State::Sent | State::Unsent | State::Late, _) => Err(BankLost),
        };
        self.step(node, Input::BankDone(request.op, result), story)
    }

    /// A node is cut off from the daemon, with all that it has ordered.
    pub(super) fn part_from_bank(&mut self, node: u8, story: &mut Story) -> Result<(), Violation> {
        story.line(|| format!("{node} cannot reach the daemon any more"));
        self.bank.apart.push(node);
        self.bank.apart.sort_unstable();
        let host = self.host(node);
        let lost = |request: &&BankRequest| request.state != State::Late;
        let ops: Vec<BankOp> = host.requests.iter().filter(lost).map(|e| e.op).collect();
        host.requests.retain_mut(BankRequest::is_late);
        for op in ops {
            self.step(node, Input::BankDone(op, Err(BankLost)), story)?;
        }
        Ok(())
    }

    /// The daemon dies, and with it all that it had and that was on its way to it. Every node loses its
    /// connection.
    pub(super) fn restart_bank(&mut self, story: &mut Story) -> Result<(), Violation> {
        self.left.restarts -= 1;
        self.bank.forget(story);
        for node in 0..self.hosts.len() as u8 {
            if self.hosts[node as usize].alive && self.reaches_bank(node) {
                self.part_from_bank(node, story)?;
            }
        }
        self.drop_late_orders();
        Ok(())
    }

    /// Nobody will look at what the daemon has.
    pub(super) fn forget_bank(&mut self) {
        self.bank.entries.clear();
        self.drop_late_orders();
    }

    fn drop_late_orders(&mut self) {
        let late = |request: &BankRequest| request.state == State::Late;
        for node in 0..self.hosts.len() {
            if self.hosts[node].requests.iter().any(late) {
                self.host(node as u8)
                    .requests
                    .retain(|request| !late(request));
            }
        }
    }

    /// It can reach it again.
    pub(super) fn meet_bank(&mut self, node: u8, story: &mut Story) -> Result<(), Violation> {
        self.bank.apart.retain(|&other| other != node);
        self.step(node, Input::BankUp(Daemon(0)), story)
    }
}

/// A frame that the daemon is given must stay until the answer.
fn held_still(host: &Host, request: &BankRequest) -> Result<(), Violation> {
    let Todo::Set(key, bytes) = &request.todo else {
        return Ok(());
    };
    if request.state == State::Late || host.gather(&request.held).as_ref() == Ok(bytes) {
        return Ok(());
    }
    let what = format!("the frame of {key:?} changed while the daemon was given it");
    Err(Violation::contract(what))
}

fn give(host: &mut Host, found: Vec<Option<Vec<u8>>>) -> BankOk {
    let item = |bytes: &Vec<u8>| Item {
        ver: Ver::default(),
        len: bytes.len() as u32,
    };
    let items = found.iter().map(|entry| entry.as_ref().map(item)).collect();
    let bytes: Vec<u8> = found.into_iter().flatten().flatten().collect();
    let data = match bytes.len() {
        0 => None,
        len => Some((host.hold(bytes), len as u32)),
    };
    BankOk::Found { items, data }
}

fn told(node: u8, todo: &Todo, said: &[Option<Vec<u8>>]) -> String {
    match todo {
        Todo::Get(_) => match said.iter().flatten().next() {
            Some(bytes) => format!("daemon has {} for {node}", script::runs(bytes)),
            None => format!("daemon has nothing for {node}"),
        },
        Todo::Set(_, bytes) => format!("daemon takes {} from {node}", script::runs(bytes)),
        Todo::Delete(_) => format!("daemon drops the block for {node}"),
    }
}
