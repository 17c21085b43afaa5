//! A small world: a few shipped kernels and all that can happen to them.
//!
//! Some things are as in the simulator. Kernels are driven by `step`, and effects are carried out in order
//! within the step. A store operation takes effect at one instant and is told of at a later one. Front ends keep
//! pages and lock them, and connections break with all that is on its way.
//!
//! These events can happen at any moment. A session begins an operation or a node is told to flush, must drop
//! a page, or dies (each as often as the [`Scope`] says). The next message of a connection arrives. A store
//! operation takes effect, or is told of. A front end revokes, or says so. A read loses patience.
//!
//! Reductions, each of which leaves out no state that could differ in what sessions see:
//!
//! - *Messages of one connection arrive in order*, those of different ones in any. That is TCP's order,
//!   and the contract of `hearth-net`; the kernel builds on it (a flush follows the writes it is for, an
//!   invalidation the grant it is about).
//! - *The file has been opened already.* Every session has a handle for reading and one for writing
//!   before anything else happens; no two opens race.
//! - *Sessions and agents are one step apart*: a request reaches its kernel as it is made, an answer its
//!   session as it is given. Longer ways only make intervals longer, and a longer interval allows more.
//! - *Time stands still but for patience.* Pages are flushed when they are told to, not by age. No node asks
//!   whether another lives: what could come of it is a broken connection, which is a fault of its own. Only
//!   the time is left that a read waits behind a write. So clocks go on in steps of that length, and reads
//!   that began to wait at one reading of the clock lose patience together.
//! - *An fsync of the store* takes effect as it is told of: nothing else depends on its instant.
//! - *The daemon has nothing when nobody will read any more*, and no late order is on its way to it. Its entries
//!   are looked at for reads alone, and what a set or a delete finds there changes no answer.
//! - *An agent that died stays dead.* Its store writes may come late, or never.

mod bank;
mod carry;
mod host;
mod rest;

use super::judge::{Book, Open};
use super::words::{NameKind, Names, Words};
use super::{Scope, Story, World};
use crate::check::Violation;
use crate::script;
use hearth_proto::msg::{Body, Envelope};
use hearth_proto::{Delegates, FileId, Input, NodeId, Ranges, Request, Stamp, Time, WriteAt};
use host::{Doing, Host, What};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallEvent {
    /// A session begins to read a page.
    Read(u8, u8),
    /// A session begins to write a byte.
    Write(u8, u8),
    /// A session begins to sync.
    Sync(u8),
    /// A node is told to bring its dirty bytes to the store.
    Flush(u8),
    /// A node must drop a page.
    Shed(u8),
    /// An agent dies.
    Dies(u8),
    /// A connection breaks.
    Breaks(u8, u8),
    /// A message arrives, from one node at another.
    Arrives(u8, u8),
    /// A store operation of a node takes effect.
    Runs(u8, u8),
    /// A node is told what came of one.
    Told(u8, u8),
    /// The front end of a node drops pages.
    Revokes(u8),
    /// It says so.
    Revoked(u8),
    /// A read has waited long enough.
    Wakes(u8),
    /// A node learns that the connection to a peer is gone.
    Down(u8, u8),
    /// A connection stands again.
    Mends(u8, u8),
    /// The daemon carries out an order of a node.
    Serves(u8, u8),
    /// A node is told what came of one.
    Served(u8, u8),
    /// A node cannot reach the daemon any more.
    Parts(u8),
    /// The daemon dies and starts anew with nothing.
    Restarts,
    /// It can again.
    Meets(u8),
    /// The daemon drops what it has.
    Forgets,
}

/// A message on its way.
#[derive(Clone, Debug)]
struct Parcel {
    envelope: Envelope,
    payload: Vec<u8>,
    words: Words,
}

impl Parcel {
    fn new(envelope: Envelope, payload: Vec<u8>) -> Parcel {
        let mut words = Words::default();
        (&envelope, &payload).hash(&mut words);
        Parcel {
            envelope,
            payload,
            words,
        }
    }
}

#[derive(Clone, Debug)]
struct Flight {
    from: u8,
    to: u8,
    parcel: Rc<Parcel>,
}

/// A few nodes, their connections, and the store with one file.
#[derive(Clone, Debug)]
pub struct Small {
    scope: Rc<Scope>,
    /// Events that sessions and faults may still begin.
    left: Left,
    file: FileId,
    hosts: Vec<Rc<Host>>,
    /// In order of connections, and within each in order of sending.
    flights: Vec<Flight>,
    /// Broken connections, both ways.
    broken: Vec<(u8, u8)>,
    /// Nodes that have not heard of a break, and whom it is to.
    untold: Vec<(u8, u8)>,
    store: Vec<u8>,
    stamps: u64,
    bank: bank::Bank,
    book: Rc<Book>,
}

/// How many events of each kind may still be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Left {
    reads: u32,
    writes: u32,
    syncs: u32,
    flushes: u32,
    evictions: u32,
    crashes: u32,
    breaks: u32,
    cuts: u32,
    restarts: u32,
}

/// Deadlines beyond this are of what a small world does not have: ages and silence.
const FAR: u64 = 1 << 50;

impl Small {
    /// The world of a scope, with the file open everywhere.
    ///
    /// # Errors The invariant that does not hold already then.
    pub fn new(scope: Scope) -> Result<Small, Violation> {
        let whole = scope.ranges != Ranges::Apart;
        let (book, store) = Book::new(u64::from(scope.pages * scope.page_bytes), whole);
        let host = |me| Rc::new(Host::new(&scope, me, FAR));
        let mut world = Small {
            left: Left {
                reads: scope.reads,
                writes: scope.writes,
                syncs: scope.syncs,
                flushes: scope.flushes,
                evictions: scope.evictions,
                crashes: scope.crashes,
                breaks: scope.breaks,
                cuts: scope.cuts,
                restarts: scope.restarts,
            },
            file: host::file_of_node_0(scope.nodes),
            hosts: (0..scope.nodes).map(host).collect(),
            flights: Vec::new(),
            broken: Vec::new(),
            untold: Vec::new(),
            store,
            stamps: 1,
            bank: bank::Bank::default(),
            book: Rc::new(book),
            scope: Rc::new(scope),
        };
        world.open_everywhere()?;
        Ok(world)
    }

    fn clients(&self) -> impl Iterator<Item = u8> + use<> {
        (self.scope.nodes - self.scope.clients) as u8..self.scope.nodes as u8
    }

    fn host(&mut self, node: u8) -> &mut Host {
        let host = Rc::make_mut(&mut self.hosts[node as usize]);
        host.words = None;
        host
    }

    fn stamp(&self) -> Stamp {
        let at = (NameKind::Stamp.base() + self.stamps) as i64;
        Stamp {
            ctime_ns: at,
            mtime_ns: at,
            size: self.store.len() as u64,
        }
    }

    /// Gives a kernel one input and carries out its orders.
    fn step(&mut self, node: u8, input: Input, story: &mut Story) -> Result<(), Violation> {
        if let Some(line) = script::tell_input(node as usize, &input) {
            story.line(|| line);
        }
        let host = self.host(node);
        let mut out = Vec::new();
        let now = host.now;
        let stepped = catch_unwind(AssertUnwindSafe(|| {
            host.node.step(now, input, &mut out);
            host.node.assert_valid();
        }));
        if let Err(panic) = stepped {
            let what = panic.downcast_ref::<String>().cloned();
            let text = || panic.downcast_ref::<&str>().map(|&text| text.to_owned());
            return Err(Violation::new(
                "panic",
                what.or_else(text).unwrap_or_default(),
            ));
        }
        for effect in out {
            if let Some(line) = script::tell(node as usize, &effect) {
                story.line(|| line);
            }
            self.carry_out(node, effect, story)?;
        }
        self.host(node).clear_free_frames();
        Ok(())
    }

    fn begin_read(&mut self, node: u8, page: u8, story: &mut Story) -> Result<(), Violation> {
        self.left.reads -= 1;
        story.line(|| format!("{node} reads page {page}"));
        let began = Rc::make_mut(&mut self.book).begin();
        let host = self.host(node);
        let (handle, keep) = host.reading;
        let what = What::Read { page, keep };
        if let Some(bytes) = host.kept[page as usize].clone().filter(|_| keep) {
            host.doing = Some(Doing::new(host::NO_TICKET, what, began));
            return self.answered(
                node,
                host::Answer::Data {
                    bytes,
                    cached: true,
                },
                story,
            );
        }
        let ticket = host.new_ticket();
        host.doing = Some(Doing::new(ticket, what, began));
        let (offset, len) = self.place_of(page);
        let request = Request::Read {
            handle,
            offset,
            len,
            keep,
            aside: false,
        };
        self.step(node, Input::Request(ticket, request), story)
    }

    /// The bytes that a read takes which begins with a page.
    fn place_of(&self, page: u8) -> (u64, u32) {
        let page_bytes = self.scope.page_bytes;
        match self.scope.ranges {
            Ranges::Apart => (u64::from(page) * u64::from(page_bytes), page_bytes),
            Ranges::SeqHome | Ranges::WoundWait => (0, self.scope.pages * page_bytes),
        }
    }

    fn begin_write(&mut self, node: u8, at: u8, story: &mut Story) -> Result<(), Violation> {
        self.left.writes -= 1;
        let (at, len) = self.scope.span(at);
        let book = Rc::make_mut(&mut self.book);
        let (change, value) = book.begin_write(u32::from(node), u64::from(at), u64::from(len));
        story.line(|| format!("{node} writes {value} to byte {at}"));
        let began = book.begin();
        let host = self.host(node);
        let ticket = host.new_ticket();
        let buf = host.hold(vec![value; usize::from(len)]);
        let what = What::Write { at, change, buf };
        host.doing = Some(Doing::new(ticket, what, began));
        let request = Request::Write {
            handle: host.writing,
            at: WriteAt::Offset(u64::from(at)),
            buf,
            len: u32::from(len),
            mtime_ns: 0,
            aside: false,
        };
        self.step(node, Input::Request(ticket, request), story)
    }

    fn begin_sync(&mut self, node: u8, story: &mut Story) -> Result<(), Violation> {
        self.left.syncs -= 1;
        story.line(|| format!("{node} syncs"));
        let began = Rc::make_mut(&mut self.book).begin();
        let host = self.host(node);
        let ticket = host.new_ticket();
        host.doing = Some(Doing::new(ticket, What::Sync, began));
        let request = Request::Sync(host.writing);
        self.step(node, Input::Request(ticket, request), story)
    }

    fn flush(&mut self, node: u8, story: &mut Story) -> Result<(), Violation> {
        story.line(|| format!("{node} is told to flush"));
        let ticket = self.host(node).new_ticket();
        self.step(node, Input::Request(ticket, Request::FlushAll), story)
    }

    fn arrives(&mut self, from: u8, to: u8, story: &mut Story) -> Result<(), Violation> {
        let at = self
            .flights
            .partition_point(|f| (f.from, f.to) < (from, to));
        let parcel = self.flights.remove(at).parcel;
        let data = match parcel.payload.len() {
            0 => None,
            len => Some((self.host(to).hold(parcel.payload.clone()), len as u32)),
        };
        let input = Input::Message {
            from: NodeId(u32::from(from)),
            envelope: parcel.envelope.clone(),
            data,
        };
        self.step(to, input, story)
    }

    fn dies(&mut self, node: u8, story: &mut Story) {
        story.line(|| format!("{node} dies"));
        self.left.crashes -= 1;
        let lossy = self.takes_something_along(node) || self.leaves_half();
        self.host(node).die();
        if lossy || !self.hosts[node as usize].jobs.is_empty() {
            Rc::make_mut(&mut self.book).lose();
        }
        for peer in 0..self.scope.nodes as u8 {
            if peer != node && self.hosts[peer as usize].alive {
                self.cut(node, peer);
                self.untold.push((peer, node));
            }
        }
        self.untold.retain(|&(told, _)| told != node);
        self.untold.sort_unstable();
    }

    /// True if others cannot go on as before (S13): bytes are lost that only this node had, or they read the
    /// store because it knew who has a page. Bytes that it has sent to the store may come late.
    fn takes_something_along(&self, node: u8) -> bool {
        let pages = u64::from(self.scope.pages);
        let by_page = self.scope.policy.rules().grain == hearth_proto::Grain::Page;
        let keeps_track = by_page && u64::from(node) < pages;
        let id = NodeId(u32::from(node));
        // Its delegates may write on until they hear of its end.
        let delegated = self.hosts.iter().any(|host| host.node.has_own_of(id));
        // One without bytes ends a page whose bytes are void, for a write of the node that dies.
        let moves = self.scope.policy.rules().delegates == Delegates::Overwriter;
        let returns = |flight: &Flight| {
            let carries = !flight.parcel.payload.is_empty();
            (carries || moves) && matches!(flight.parcel.envelope.body, Body::Return { .. })
        };
        let mut flights = self.flights.iter();
        let on_its_way = flights.any(|f| (f.from == node || f.to == node) && returns(f));
        delegated
            || on_its_way
            || keeps_track
            || self.hosts[node as usize].node.is_claiming()
            || self.hosts[node as usize].node.status().dirty_bytes > 0
    }

    /// True if a write over two homes may show in part now that an agent dies (S13). The write fails, or the
    /// store lacks what the other home has: a read that touches a page of the dead is done on the store as a
    /// whole.
    fn leaves_half(&self) -> bool {
        let under_way = |host: &Rc<Host>| {
            let doing = host.doing.as_ref();
            let writes = doing.is_some_and(|doing| matches!(doing.what, What::Write { .. }));
            writes || host.node.status().dirty_bytes > 0
        };
        self.scope.ranges != Ranges::Apart && self.hosts.iter().any(under_way)
    }

    fn breaks(&mut self, a: u8, b: u8, story: &mut Story) {
        story.line(|| format!("{a}, {b}  their connection breaks"));
        self.left.breaks -= 1;
        Rc::make_mut(&mut self.book).lose();
        self.cut(a, b);
        self.untold.extend([(a, b), (b, a)]);
        self.untold.sort_unstable();
    }

    fn cut(&mut self, a: u8, b: u8) {
        let between = |f: &Flight| (f.from, f.to) == (a, b) || (f.from, f.to) == (b, a);
        self.flights.retain(|flight| !between(flight));
        self.broken.push((a.min(b), a.max(b)));
        self.broken.sort_unstable();
    }

    fn is_broken(&self, a: u8, b: u8) -> bool {
        self.broken.contains(&(a.min(b), a.max(b)))
    }

    fn down(&mut self, node: u8, peer: u8, story: &mut Story) -> Result<(), Violation> {
        story.line(|| format!("{node} learns that {peer} is gone"));
        self.untold.retain(|&told| told != (node, peer));
        self.step(node, Input::PeerDown(NodeId(u32::from(peer))), story)
    }

    fn mends(&mut self, a: u8, b: u8, story: &mut Story) -> Result<(), Violation> {
        story.line(|| format!("{a}, {b}  are connected again"));
        self.broken.retain(|&pair| pair != (a, b));
        self.step(a, Input::PeerUp(NodeId(u32::from(b))), story)?;
        self.step(b, Input::PeerUp(NodeId(u32::from(a))), story)
    }

    fn can_mend(&self, a: u8, b: u8) -> bool {
        let alive = |node: u8| self.hosts[node as usize].alive;
        let untold = |told: &(u8, u8)| *told == (a, b) || *told == (b, a);
        alive(a) && alive(b) && !self.untold.iter().any(untold)
    }

    /// Events that can be begun, as the scope allows.
    fn choices(&self, events: &mut Vec<SmallEvent>) {
        let left = &self.left;
        for node in self.clients() {
            let host = &self.hosts[node as usize];
            if !host.alive || host.doing.is_some() {
                continue;
            }
            let pages = self.scope.starts();
            let bytes = match self.scope.ranges {
                Ranges::Apart => pages * self.scope.page_bytes as u8,
                Ranges::SeqHome | Ranges::WoundWait => 1,
            };
            if left.reads > 0 && (!self.scope.at_rest || self.rests()) {
                events.extend((0..pages).map(|page| SmallEvent::Read(node, page)));
            }
            if left.writes > 0 {
                events.extend((0..bytes).map(|at| SmallEvent::Write(node, at)));
            }
            if left.syncs > 0 {
                events.push(SmallEvent::Sync(node));
            }
        }
        for (node, host) in (0u8..).zip(&self.hosts).filter(|(_, host)| host.alive) {
            if left.flushes > 0 && host.node.status().dirty_bytes > 0 {
                events.push(SmallEvent::Flush(node));
            }
            if left.evictions > 0 && host.node.pages_spare() > 0 {
                events.push(SmallEvent::Shed(node));
            }
            if left.crashes > 0 {
                events.push(SmallEvent::Dies(node));
            }
            if left.breaks > 0 {
                let whole = |&peer: &u8| !self.is_broken(node, peer);
                let peers = (node + 1..self.scope.nodes as u8).filter(whole);
                events.extend(peers.map(|peer| SmallEvent::Breaks(node, peer)));
            }
            if left.cuts > 0 && self.reaches_bank(node) {
                events.push(SmallEvent::Parts(node));
            }
        }
        if left.evictions > 0 && self.bank.has_entries() {
            events.push(SmallEvent::Forgets);
        }
        if left.restarts > 0 {
            events.push(SmallEvent::Restarts);
        }
    }

    /// True if nothing is under way; connections may be down.
    fn rests(&self) -> bool {
        let mut events = Vec::new();
        self.consequences(&mut events);
        let returns =
            |event: &SmallEvent| matches!(event, SmallEvent::Mends(..) | SmallEvent::Meets(_));
        events.iter().all(returns)
    }

    /// Events that happen without anybody's choosing.
    fn consequences(&self, events: &mut Vec<SmallEvent>) {
        let mut last = None;
        for flight in &self.flights {
            let link = (flight.from, flight.to);
            if last != Some(link) {
                events.push(SmallEvent::Arrives(link.0, link.1));
                last = Some(link);
            }
        }
        for (node, host) in (0u8..).zip(&self.hosts) {
            for (at, job) in (0u8..).zip(&host.jobs) {
                events.push(match job.done {
                    None => SmallEvent::Runs(node, at),
                    Some(_) => SmallEvent::Told(node, at),
                });
            }
            if !host.alive {
                continue;
            }
            if host.can_revoke() {
                events.push(SmallEvent::Revokes(node));
            }
            if !host.revoked.is_empty() {
                events.push(SmallEvent::Revoked(node));
            }
            if self.wakes_at(host).is_some() {
                events.push(SmallEvent::Wakes(node));
            }
        }
        events.extend(
            self.untold
                .iter()
                .map(|&(node, peer)| SmallEvent::Down(node, peer)),
        );
        let broken = self.broken.iter().filter(|&&(a, b)| self.can_mend(a, b));
        events.extend(broken.map(|&(a, b)| SmallEvent::Mends(a, b)));
        self.of_bank(events);
    }

    fn wakes_at(&self, host: &Host) -> Option<Time> {
        let near = host.now.0 + FAR / 2;
        host.node.deadline().filter(|due| due.0 < near)
    }

    /// True while a session reads, or may begin to.
    fn may_read(&self) -> bool {
        let reads = |doing: &Doing| matches!(doing.what, What::Read { .. });
        let mut doing = self.hosts.iter().filter_map(|host| host.doing.as_ref());
        self.left.reads > 0 || doing.any(reads)
    }

    /// Operations of sessions that are not over.
    fn open(&self) -> Open {
        let mut open = Open {
            promises: self.left.syncs > 0,
            ..Open::default()
        };
        for doing in self.hosts.iter().filter_map(|host| host.doing.as_ref()) {
            match doing.what {
                What::Read { .. } => open.reads.push(doing.began),
                What::Sync => open.syncs.push(doing.began),
                What::Write { .. } | What::Open => {}
            }
        }
        open
    }

    fn words_of(&self, node: usize) -> Words {
        let mut words = Words::default();
        self.hosts[node].write_down(&mut words);
        words.settle(Names::Own);
        words
    }
}

impl World for Small {
    type Event = SmallEvent;

    fn enabled(&self, events: &mut Vec<SmallEvent>) {
        self.choices(events);
        self.consequences(events);
    }

    fn happen(&mut self, event: SmallEvent, story: &mut Story) -> Result<(), Violation> {
        match event {
            SmallEvent::Read(node, page) => self.begin_read(node, page, story)?,
            SmallEvent::Write(node, at) => self.begin_write(node, at, story)?,
            SmallEvent::Sync(node) => self.begin_sync(node, story)?,
            SmallEvent::Flush(node) => {
                self.left.flushes -= 1;
                self.flush(node, story)?;
            }
            SmallEvent::Shed(node) => {
                self.left.evictions -= 1;
                self.step(node, Input::Shed, story)?;
            }
            SmallEvent::Dies(node) => self.dies(node, story),
            SmallEvent::Breaks(a, b) => self.breaks(a, b, story),
            SmallEvent::Arrives(from, to) => self.arrives(from, to, story)?,
            SmallEvent::Runs(node, at) => self.run_job(node, at, story)?,
            SmallEvent::Told(node, at) => self.tell_job(node, at, story)?,
            SmallEvent::Revokes(node) => self.host(node).revoke(),
            SmallEvent::Revoked(node) => {
                let id = self.host(node).revoked.remove(0);
                self.step(node, Input::Revoked(id), story)?;
            }
            SmallEvent::Wakes(node) => {
                let due = self.wakes_at(&self.hosts[node as usize]);
                let host = self.host(node);
                host.now = due.map_or(host.now, |due| due.max(host.now));
                self.step(node, Input::Tick, story)?;
            }
            SmallEvent::Down(node, peer) => self.down(node, peer, story)?,
            SmallEvent::Mends(a, b) => self.mends(a, b, story)?,
            SmallEvent::Serves(node, at) => self.serve(node, at, story)?,
            SmallEvent::Served(node, at) => self.served(node, at, story)?,
            SmallEvent::Parts(node) => {
                self.left.cuts -= 1;
                self.part_from_bank(node, story)?;
            }
            SmallEvent::Restarts => self.restart_bank(story)?,
            SmallEvent::Meets(node) => self.meet_bank(node, story)?,
            SmallEvent::Forgets => {
                self.left.evictions -= 1;
                self.bank.forget(story);
            }
        }
        if !self.may_read() {
            self.forget_bank();
        }
        for node in 0..self.hosts.len() {
            if self.hosts[node].words.is_none() {
                let words = Rc::new(self.words_of(node));
                Rc::make_mut(&mut self.hosts[node]).words = Some(words);
            }
        }
        Ok(())
    }

    fn judge(&self) -> Result<(), Violation> {
        self.judge_rest()
    }

    fn fingerprint(&self) -> u128 {
        let mut words = Words(Vec::with_capacity(1024));
        for host in &self.hosts {
            let row = host
                .words
                .as_ref()
                .expect("every step writes its node down");
            words.0.push(row.0.len() as u64);
            words.0.extend(&row.0);
        }
        for flight in &self.flights {
            (flight.from, flight.to).hash(&mut words);
            words.0.extend(&flight.parcel.words.0);
        }
        (&self.broken, &self.untold, self.left).hash(&mut words);
        (&self.store, self.stamp(), &self.bank).hash(&mut words);
        self.book.write_down(&mut words, &self.open());
        words.settle(Names::Shared);
        words.fingerprint()
    }
}
