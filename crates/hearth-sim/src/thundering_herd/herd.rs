//! All nodes, their network and the store, in order of time.

use super::front_end::{FrontEnd, Wants};
use super::pace::{Pace, Place};
use super::{Shape, StormOutcome};
use crate::rng::Rng;
use hearth_client::asking::{LOOKS_AT_ONCE, LOOKS_EACH};
use hearth_proto::msg::{Body, Envelope};
use hearth_proto::{Config, Effect, Input, Node, NodeId, Outbox, Request, Span, Ticket, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// Violations that are kept; more say nothing new.
const VIOLATIONS_MAX: usize = 16;

/// Something that will happen at a node. Of two at one time the earlier made comes first.
struct Event {
    at: Time,
    number: u64,
    node: u32,
    what: What,
}

enum What {
    /// A message is at the node, which may be busy.
    Arrives(NodeId, Envelope),
    /// It has been handled.
    Handled(NodeId, Envelope),
    /// The front end has what it wanted.
    GoesOn,
    /// Something that the node put off within a step is due.
    Due,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The heap's greatest is the earliest.
    fn cmp(&self, other: &Event) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

struct Host {
    node: Node,
    front_end: FrontEnd,
    busy: Time,
    tickets: u64,
    /// Its places in the times that were measured.
    look: Option<Place>,
    prefetched: Option<Place>,
    hit: Option<Place>,
    way: Option<Place>,
    /// When the last message to another node is there: those between two nodes stay in order.
    arrived: BTreeMap<NodeId, Time>,
}

pub(super) struct Herd<'a> {
    shape: Shape,
    pace: &'a Pace,
    now: Time,
    began: Time,
    hosts: Vec<Host>,
    events: BinaryHeap<Event>,
    made: u64,
    /// When the store is free.
    store_free: Time,
    messages: u64,
    store_requests: u64,
    violations: Vec<String>,
    rng: Rng,
    /// How much of a second of the clock is over at the beginning.
    phase: u64,
}

impl<'a> Herd<'a> {
    pub(super) fn new(shape: Shape, pace: &'a Pace) -> Herd<'a> {
        let host = |me: u32| Host {
            node: Node::new(Config {
                // There are no pages.
                frames: 8,
                ..Config::new(NodeId(me), shape.nodes)
            }),
            front_end: FrontEnd::new(me, &shape),
            busy: Time(0),
            tickets: 0,
            look: None,
            prefetched: None,
            hit: None,
            way: None,
            arrived: BTreeMap::new(),
        };
        let (now, mut rng) = (Time(1_000_000_000), Rng::new(shape.seed, 1));
        let phase = match shape.seed {
            0 => 0,
            _ => rng.below(Span::secs(1).0),
        };
        Herd {
            shape,
            pace,
            now,
            began: now,
            hosts: (0..shape.nodes).map(host).collect(),
            events: BinaryHeap::new(),
            made: 0,
            store_free: now,
            messages: 0,
            store_requests: 0,
            violations: Vec::new(),
            rng,
            phase,
        }
    }

    /// A time that nodes and the store take: half as long to half as long again, but in the plain herd.
    fn vary(&mut self, usual: Span) -> Span {
        match self.shape.seed {
            0 => usual,
            _ => Span(usual.0 / 2 + self.rng.below(usual.0 + 1)),
        }
    }

    /// When a node has looked at files, some at one time.
    fn look_at(&mut self, node: u32, files: u32) -> Time {
        let each = files.div_ceil(LOOKS_AT_ONCE as u32).max(LOOKS_EACH as u32);
        let mut looked = vec![self.now; files.div_ceil(each) as usize];
        let lines = looked.len();
        for place in (0..files as usize).map(|file| file % lines) {
            looked[place] = self.look(node, looked[place]);
        }
        looked.into_iter().max().unwrap_or(self.now)
    }

    /// When a node that looks at a file at some time is done: the store's client has the attributes, or asks the store.
    fn look(&mut self, node: u32, from: Time) -> Time {
        let host = &mut self.hosts[node as usize];
        if !host.front_end.is_prefetched() {
            return self.ask_store(node, from);
        }
        let look = self
            .pace
            .prefetched
            .next(&mut host.prefetched, &mut self.rng);
        from + look.unwrap_or(self.shape.hit)
    }

    /// When the store has answered a node that asks at some time.
    fn ask_store(&mut self, node: u32, from: Time) -> Time {
        self.store_requests += 1;
        let place = &mut self.hosts[node as usize].look;
        if let Some(look) = self.pace.looks.next(place, &mut self.rng) {
            return from + look;
        }
        let free = self.store_free.max(from + self.shape.hop);
        self.store_free = free + self.vary(self.shape.store);
        self.store_free + self.shape.hop
    }

    /// When a message is there that leaves a node now.
    fn arrival(&mut self, node: u32, to: NodeId) -> Time {
        let host = &mut self.hosts[node as usize];
        let way = self.pace.ways.next(&mut host.way, &mut self.rng);
        let arrival = self.now + way.unwrap_or(self.shape.hop);
        let last = host.arrived.entry(to).or_insert(arrival);
        *last = arrival.max(*last);
        *last
    }

    /// Time for files that a node has in memory.
    fn hits_take(&mut self, node: u32, files: u32) -> Span {
        let place = &mut self.hosts[node as usize].hit;
        let each = (0..files).map(|_| self.pace.hits.next(place, &mut self.rng));
        match each.map(|hit| hit.map(|hit| hit.0)).sum() {
            Some(all) => Span(all),
            None => self.vary(Span(self.shape.hit.0 * u64::from(files))),
        }
    }

    /// Every program asks for every file.
    pub(super) fn pass(&mut self) {
        self.began = self.now;
        for node in 0..self.shape.nodes {
            self.hosts[node as usize].front_end.begin();
            // They are told to begin one after the other.
            let late = match self.shape.seed {
                0 => Span(0),
                _ => self.vary(Span(self.shape.hop.0 * u64::from(node))),
            };
            self.at(self.now + late, node, What::GoesOn);
        }
        self.run();
        self.check_ended();
    }

    /// Each node becomes the manager of some files, if that is wanted.
    pub(super) fn make_files(&mut self) {
        let nodes = if self.shape.spread {
            self.shape.nodes
        } else {
            0
        };
        for node in 0..nodes {
            let wants = self.hosts[node as usize].front_end.make_own();
            self.serve(node, wants);
        }
        self.run();
    }

    /// Until nothing is to happen any more.
    fn run(&mut self) {
        while let Some(Event { at, node, what, .. }) = self.events.pop() {
            self.now = at;
            let second = (at.0 + self.phase) / Span::secs(1).0;
            self.hosts[node as usize].front_end.now_is(second);
            match what {
                What::Arrives(from, envelope) => {
                    let takes = self.shape.message.0 + self.shape.entry.0 * entries(&envelope.body);
                    let takes = self.vary(Span(takes));
                    let host = &mut self.hosts[node as usize];
                    host.busy = host.busy.max(at) + takes;
                    let busy = host.busy;
                    self.at(busy, node, What::Handled(from, envelope));
                }
                What::Handled(from, envelope) => {
                    let data = None;
                    let input = Input::Message {
                        from,
                        envelope,
                        data,
                    };
                    self.step(node, input);
                }
                What::Due => self.step(node, Input::Tick),
                What::GoesOn => {
                    let wants = self.hosts[node as usize].front_end.go_on();
                    self.serve(node, wants);
                }
            }
        }
    }

    /// The result of the passes so far; the time is that of the last.
    pub(super) fn outcome(&self) -> StormOutcome {
        StormOutcome {
            messages: self.messages,
            store_requests: self.store_requests,
            took: self.now - self.began,
            violations: self.violations.clone(),
            ..StormOutcome::default()
        }
    }

    fn at(&mut self, at: Time, node: u32, what: What) {
        self.made += 1;
        let number = self.made;
        self.events.push(Event {
            at,
            number,
            node,
            what,
        });
    }

    /// Does what a front end wants.
    fn serve(&mut self, node: u32, wants: Wants) {
        match wants {
            Wants::Ask(request) => self.request(node, request),
            Wants::Tell(request) => {
                self.request(node, request);
                self.at(self.now, node, What::GoesOn);
            }
            Wants::Looks(files) => {
                let looked = self.look_at(node, files);
                self.at(looked, node, What::GoesOn);
            }
            Wants::Names => {
                let answered = self.ask_store(node, self.now);
                self.at(answered, node, What::GoesOn);
            }
            Wants::Hits(files) => {
                let takes = self.hits_take(node, files);
                self.at(self.now + takes, node, What::GoesOn);
            }
            Wants::Nothing => {}
        }
        if let Some(what) = self.hosts[node as usize].front_end.wrong.take() {
            self.violate(what);
        }
    }

    fn request(&mut self, node: u32, request: Request) {
        let host = &mut self.hosts[node as usize];
        host.tickets += 1;
        let ticket = Ticket(host.tickets);
        self.step(node, Input::Request(ticket, request));
    }

    fn step(&mut self, node: u32, input: Input) {
        let mut out = Outbox::new();
        self.hosts[node as usize]
            .node
            .step(self.now, input, &mut out);
        for effect in out.drain(..) {
            match effect {
                Effect::Send { to, envelope, .. } => {
                    self.messages += 1;
                    let arrives = What::Arrives(NodeId(node), envelope);
                    let arrival = self.arrival(node, to);
                    self.at(arrival, to.0, arrives);
                }
                Effect::Reply { reply, .. } => {
                    let wants = self.hosts[node as usize].front_end.answered(reply);
                    self.serve(node, wants);
                }
                other => self.violate(format!("node {node} wants {other:?}")),
            }
        }
        let due = self.hosts[node as usize].node.deadline();
        if due.is_some_and(|due| due <= self.now) {
            self.at(self.now, node, What::Due);
        }
    }

    fn check_ended(&mut self) {
        let waits = |host: &Host| !host.front_end.is_at_end();
        if let Some(node) = self.hosts.iter().position(waits) {
            self.violate(format!("node {node} waits for ever"));
        }
    }

    fn violate(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what);
        }
    }
}

/// Files and names in a message.
fn entries(body: &Body) -> u64 {
    let count = match body {
        Body::WhoisEach(files) | Body::AskLeave { files, .. } | Body::AwaitLeave(files) => {
            files.len()
        }
        Body::WhoisEachOk(nodes) => nodes.len(),
        Body::Leaves(leaves) => leaves.len(),
        Body::Learned(learned) => learned.len(),
        Body::Names { names, .. } => names.as_ref().map_or(0, Vec::len),
        Body::Listed(listed) => listed.names.as_ref().map_or(0, Vec::len),
        _ => 0,
    };
    count as u64
}
