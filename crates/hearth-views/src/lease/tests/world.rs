//! A few members with skewed clocks, a log of one entry that a majority decides, and a bad network.
//!
//! The log is as small as one can be that has terms, an entry that a later coordinator may bring to its
//! end, and confirmations. The checker knows the moment at which a majority has an entry.

use super::super::granter::{ConfirmationNumber, GranterEffect, GranterInput, LeaseGranter};
use super::super::guard::{LeaseGuard, LeaseGuards};
use super::super::holder::{HolderEffect, HolderInput, LeaseHolder, WaitNumber};
use super::super::{DriftPpm, LeaseTerms, LocalSpan, LocalTime, RenewalNumber};
use crate::membership::{Incarnation, MemberId, MemberKey, ViewNumber};
use std::collections::{BTreeMap, BTreeSet};

/// All are voters of the log, and all but the last are members of the first view.
const NODES: usize = 5;
const LAST: usize = NODES - 1;
const MAJORITY: usize = NODES / 2 + 1;
const END: u64 = 30_000;
const TERMS: LeaseTerms = LeaseTerms {
    granted: LocalSpan(1000),
    drift: DriftPpm(100_000),
};

/// Faults of a world.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Faults {
    None,
    NoCoordinator,
    All,
}

/// Things that happened in a world.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    pub(super) exclusions: u64,
    pub(super) grants: u64,
    pub(super) vouched: u64,
    pub(super) pauses: u64,
    pub(super) proceeded: u64,
    pub(super) abandoned: u64,
}

impl Sightings {
    pub(super) fn add(&mut self, other: &Sightings) {
        self.exclusions += other.exclusions;
        self.grants += other.grants;
        self.vouched += other.vouched;
        self.pauses += other.pauses;
        self.proceeded += other.proceeded;
        self.abandoned += other.abandoned;
    }
}

/// The order in which an entry was written: its coordinator's term, then its view.
type EntryId = (u64, ViewNumber);

#[derive(Clone, Debug)]
struct Entry {
    id: EntryId,
    members: BTreeSet<MemberKey>,
}

#[derive(Clone, Debug)]
enum Word {
    VoteAsked(u64, EntryId),
    Vote(u64),
    Append(u64, Entry),
    Appended(u64, EntryId),
    ConfirmAsked(u64, ConfirmationNumber),
    Confirmed(u64, ConfirmationNumber),
    Decided(ViewNumber, BTreeSet<MemberKey>),
    Renewal(MemberKey, RenewalNumber),
    Granted(RenewalNumber),
    VouchAsked(MemberKey, RenewalNumber, ViewNumber),
    Vouched(RenewalNumber),
}

#[derive(Clone, Debug)]
enum Event {
    Tick(usize),
    Campaign(usize),
    Cut(BTreeSet<usize>),
    /// Coordinators take the last node as a member.
    Join,
    Begin(usize),
    WaitEnded(usize, WaitNumber),
    Arrives(usize, usize, Word),
}

/// A coordinator's count of answers.
#[derive(Debug, Default)]
struct Office {
    votes: BTreeSet<usize>,
    is_elected: bool,
    /// An entry of its own is decided, so it knows all that was before.
    is_confirmable: bool,
    appended: BTreeMap<EntryId, BTreeSet<usize>>,
    confirmed: BTreeMap<ConfirmationNumber, BTreeSet<usize>>,
}

struct Node {
    offset: u64,
    pace: u64,
    holder: LeaseHolder,
    granter: LeaseGranter,
    view: ViewNumber,
    term: u64,
    entry: Entry,
    office: Option<Office>,
}

pub(super) struct World {
    faults: Faults,
    random: u64,
    now: u64,
    queue: BTreeMap<(u64, u64), Event>,
    events: u64,
    nodes: Vec<Node>,
    island: BTreeSet<usize>,
    accepted: BTreeMap<EntryId, BTreeSet<usize>>,
    decided: EntryId,
    ever: BTreeSet<MemberKey>,
    gone: BTreeSet<usize>,
    pub(super) violation: Option<String>,
    pub(super) seen: Sightings,
}

fn key(node: usize) -> MemberKey {
    MemberKey {
        id: MemberId(node as u32),
        incarnation: Incarnation(1),
    }
}

fn node_of(key: MemberKey) -> usize {
    key.id.0 as usize
}

fn others(members: &BTreeSet<MemberKey>, node: usize) -> BTreeSet<MemberId> {
    let others = members.iter().filter(|member| **member != key(node));
    others.map(|member| member.id).collect()
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults, off: Option<LeaseGuard>) -> World {
        let mut world = World {
            faults,
            random: seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x1234_5678_9abc_def1,
            now: 0,
            queue: BTreeMap::new(),
            events: 0,
            nodes: Vec::new(),
            island: BTreeSet::new(),
            accepted: BTreeMap::new(),
            decided: (0, ViewNumber(1)),
            ever: (0..LAST).map(key).collect(),
            gone: BTreeSet::new(),
            violation: None,
            seen: Sightings::default(),
        };
        for node in 0..NODES {
            let node = world.node(node, LeaseGuards { off });
            world.nodes.push(node);
        }
        world.begin();
        world
    }

    fn node(&mut self, node: usize, guards: LeaseGuards) -> Node {
        let members: BTreeSet<MemberKey> = (0..LAST).map(key).collect();
        let first = ViewNumber(1);
        let mut holder = LeaseHolder::new(TERMS, first, others(&members, node));
        let mut granter = LeaseGranter::new(TERMS, key(node), first, members.clone());
        holder.guards = guards;
        granter.guards = guards;
        granter.step(
            LocalTime(0),
            GranterInput::Voters((0..NODES).map(key).collect()),
        );
        Node {
            offset: self.below(1_000_000),
            pace: 900_000 + self.below(200_001),
            holder,
            granter,
            view: first,
            term: 0,
            entry: Entry {
                id: (0, first),
                members,
            },
            office: None,
        }
    }

    fn begin(&mut self) {
        for node in 0..NODES {
            self.after(node as u64, Event::Tick(node));
            self.after(400, Event::Begin(node));
        }
        if self.faults != Faults::NoCoordinator {
            self.after(5, Event::Campaign(0));
        }
        if self.faults == Faults::All {
            for _ in 0..20 {
                let (at, node) = (self.below(END), self.below(NODES as u64) as usize);
                self.after(at, Event::Campaign(node));
                let at = self.below(END);
                let island = self.below(1 << NODES);
                let island = (0..NODES).filter(|node| island >> node & 1 == 1).collect();
                self.after(at, Event::Cut(island));
                let healed = at + self.below(3000);
                self.after(healed, Event::Cut(BTreeSet::new()));
                let at = self.below(END / 2);
                self.after(at, Event::Join);
            }
        }
    }

    pub(super) fn run(&mut self) {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = at;
            if at > END || self.violation.is_some() {
                return;
            }
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(node) => self.tick(node),
            Event::Campaign(node) => self.campaign(node),
            Event::Cut(island) => self.island = island,
            Event::Join => (0..NODES).for_each(|node| self.join(node)),
            Event::Begin(node) => {
                let again = 50 + self.below(600);
                self.after(again, Event::Begin(node));
                if self.nodes[node].holder.holds(self.clock(node)) {
                    let wait = self.below(2500);
                    self.after(wait, Event::WaitEnded(node, WaitNumber(self.events)));
                }
            }
            Event::WaitEnded(node, wait) => self.hold(node, HolderInput::WaitEnded(wait)),
            Event::Arrives(from, to, word) => self.hear(from, to, word),
        }
    }

    fn tick(&mut self, node: usize) {
        let again = TERMS.renewal().0 * 1_000_000 / self.nodes[node].pace;
        self.after(again, Event::Tick(node));
        self.hold(node, HolderInput::Tick);
        self.grant(node, GranterInput::Tick);
    }

    fn campaign(&mut self, node: usize) {
        self.depose(node);
        let here = &mut self.nodes[node];
        here.term += 1;
        here.office = Some(Office::default());
        let (term, id) = (here.term, here.entry.id);
        self.tell_all(node, &Word::VoteAsked(term, id));
    }

    fn depose(&mut self, node: usize) {
        if self.nodes[node].office.take().is_some() {
            self.grant(node, GranterInput::Deposed);
        }
    }

    /// A later term ends what a node did in an earlier one. False if the word is of an earlier one.
    fn meets(&mut self, node: usize, term: u64) -> bool {
        if term > self.nodes[node].term {
            self.depose(node);
            self.nodes[node].term = term;
        }
        term == self.nodes[node].term
    }

    fn hear(&mut self, from: usize, to: usize, word: Word) {
        match word {
            Word::VoteAsked(term, last) => {
                let is_later = term > self.nodes[to].term || from == to;
                if is_later && self.meets(to, term) && last >= self.nodes[to].entry.id {
                    self.tell(to, from, Word::Vote(term));
                }
            }
            Word::Vote(term) => self.voted(from, to, term),
            Word::Append(term, entry) => {
                if self.meets(to, term) && entry.id >= self.nodes[to].entry.id {
                    let id = entry.id;
                    self.accept(to, entry);
                    self.tell(to, from, Word::Appended(term, id));
                }
            }
            Word::Appended(term, id) => self.appended(from, to, term, id),
            Word::ConfirmAsked(term, number) => {
                if self.meets(to, term) {
                    self.tell(to, from, Word::Confirmed(term, number));
                }
            }
            Word::Confirmed(term, number) => self.confirmed(from, to, term, number),
            Word::Decided(view, members) => self.decided(to, view, members),
            Word::Renewal(from, number) => self.grant(to, GranterInput::Renewal(from, number)),
            Word::Granted(number) => {
                self.seen.grants += 1;
                self.hold(to, HolderInput::Granted(number));
            }
            Word::VouchAsked(from, number, view) => {
                self.grant(to, GranterInput::VouchAsked(from, number, view));
            }
            Word::Vouched(number) => {
                let before = self.nodes[to].holder.until();
                self.hold(to, HolderInput::Vouched(number, MemberId(from as u32)));
                self.seen.vouched += u64::from(self.nodes[to].holder.until() > before);
            }
        }
    }

    fn voted(&mut self, from: usize, to: usize, term: u64) {
        let here = &mut self.nodes[to];
        let Some(office) = here.office.as_mut().filter(|_| term == here.term) else {
            return;
        };
        office.votes.insert(from);
        if office.votes.len() >= MAJORITY && !office.is_elected {
            office.is_elected = true;
            here.entry.id.0 = term;
            let entry = here.entry.clone();
            self.grant(to, GranterInput::Elected);
            self.tell_all(to, &Word::Append(term, entry));
        }
    }

    fn accept(&mut self, node: usize, entry: Entry) {
        let view = entry.id.1;
        let acceptors = self.accepted.entry(entry.id).or_default();
        acceptors.insert(node);
        // A late or doubled word may be the last that an earlier entry wanted. That is no step back.
        let is_decided = acceptors.len() >= MAJORITY && entry.id > self.decided;
        self.decided = if is_decided { entry.id } else { self.decided };
        let is_replaced = view < self.nodes[node].entry.id.1;
        let members = entry.members.clone();
        self.nodes[node].entry = entry;
        self.grant(node, GranterInput::Accepted(view));
        if is_replaced {
            for member in (0..NODES).map(key) {
                self.grant(node, GranterInput::Spared(member));
            }
        }
        if is_decided {
            self.decide(&members);
        }
    }

    /// The moment from which an exclusion holds.
    fn decide(&mut self, members: &BTreeSet<MemberKey>) {
        self.ever.extend(members);
        let is_gone = |node: &usize| !members.contains(&key(*node));
        for node in (0..NODES).filter(is_gone) {
            if !self.ever.contains(&key(node)) {
                continue;
            }
            self.seen.exclusions += u64::from(self.gone.insert(node));
            self.check(node);
        }
    }

    fn check(&mut self, node: usize) {
        if self.gone.contains(&node) && self.nodes[node].holder.holds(self.clock(node)) {
            let what = format!("node {node} believes in its lease at {}", self.now);
            self.violation.get_or_insert(what);
        }
    }

    fn appended(&mut self, from: usize, to: usize, term: u64, id: EntryId) {
        let here = &mut self.nodes[to];
        let Some(office) = here.office.as_mut().filter(|_| term == here.term) else {
            return;
        };
        let acks = office.appended.entry(id).or_default();
        acks.insert(from);
        office.is_confirmable |= acks.len() >= MAJORITY;
        if acks.len() == MAJORITY && id == here.entry.id {
            let word = Word::Decided(id.1, here.entry.members.clone());
            self.tell_all(to, &word);
        }
    }

    fn confirmed(&mut self, from: usize, to: usize, term: u64, number: ConfirmationNumber) {
        let here = &mut self.nodes[to];
        let Some(office) = here.office.as_mut().filter(|_| term == here.term) else {
            return;
        };
        let acks = office.confirmed.entry(number).or_default();
        acks.insert(from);
        if acks.len() == MAJORITY {
            self.grant(to, GranterInput::Confirmed(number));
        }
    }

    fn decided(&mut self, node: usize, view: ViewNumber, members: BTreeSet<MemberKey>) {
        if view <= self.nodes[node].view {
            return;
        }
        self.nodes[node].view = view;
        let input = match members.contains(&key(node)) {
            true => HolderInput::Viewed(view, others(&members, node)),
            false => HolderInput::Excluded,
        };
        self.grant(node, GranterInput::Viewed(view, members));
        self.hold(node, input);
    }

    fn hold(&mut self, node: usize, input: HolderInput) {
        let now = self.clock(node);
        let effects = self.nodes[node].holder.step(now, input);
        for effect in effects {
            match effect {
                HolderEffect::AskCoordinator(number) => {
                    self.tell_all(node, &Word::Renewal(key(node), number));
                }
                HolderEffect::AskMembers(number, view, members) => {
                    for member in members {
                        let word = Word::VouchAsked(key(node), number, view);
                        self.tell(node, member.0 as usize, word);
                    }
                }
                HolderEffect::Pause => self.seen.pauses += 1,
                HolderEffect::Proceed(_) => self.proceed(node),
                HolderEffect::Abandon(_) => self.seen.abandoned += 1,
                HolderEffect::Resume | HolderEffect::End => {}
            }
        }
        self.check(node);
    }

    fn proceed(&mut self, node: usize) {
        self.seen.proceeded += 1;
        if self.gone.contains(&node) {
            let what = format!("node {node} acts at {}, after it was excluded", self.now);
            self.violation.get_or_insert(what);
        }
    }

    fn grant(&mut self, node: usize, input: GranterInput) {
        let now = self.clock(node);
        let effects = self.nodes[node].granter.step(now, input);
        for effect in effects {
            match effect {
                GranterEffect::Confirm(number) => {
                    let term = self.nodes[node].term;
                    let office = self.nodes[node].office.as_ref();
                    match office.is_some_and(|office| office.is_confirmable) {
                        true => self.tell_all(node, &Word::ConfirmAsked(term, number)),
                        false => self.grant(node, GranterInput::Unconfirmed(number)),
                    }
                }
                GranterEffect::Grant(to, number) => {
                    self.tell(node, node_of(to), Word::Granted(number));
                }
                GranterEffect::Vouch(to, number) => {
                    self.tell(node, node_of(to), Word::Vouched(number));
                }
                GranterEffect::Refuse(_) => {}
                GranterEffect::Exclude(silent) => self.exclude(node, &silent),
            }
        }
    }

    /// Whether a coordinator's newest entry is its own, and decided.
    fn has_decided(&self, node: usize) -> bool {
        let here = &self.nodes[node];
        let acks = here
            .office
            .as_ref()
            .and_then(|office| office.appended.get(&here.entry.id));
        here.entry.id.0 == here.term && acks.is_some_and(|acks| acks.len() >= MAJORITY)
    }

    fn exclude(&mut self, node: usize, silent: &[MemberKey]) {
        let here = &self.nodes[node];
        let mut entry = here.entry.clone();
        entry.id.1 = entry.id.1.next();
        entry.members.retain(|member| !silent.contains(member));
        if self.has_decided(node) && entry.members.len() >= 2 {
            let term = here.term;
            self.tell_all(node, &Word::Append(term, entry));
            return;
        }
        for member in silent {
            self.grant(node, GranterInput::Spared(*member));
        }
    }

    fn join(&mut self, node: usize) {
        let here = &self.nodes[node];
        let (term, mut entry) = (here.term, here.entry.clone());
        let is_new = !self.gone.contains(&LAST) && entry.members.insert(key(LAST));
        if is_new && self.has_decided(node) {
            entry.id.1 = entry.id.1.next();
            self.tell_all(node, &Word::Append(term, entry));
        }
    }

    fn tell_all(&mut self, from: usize, word: &Word) {
        for to in 0..NODES {
            self.tell(from, to, word.clone());
        }
    }

    fn tell(&mut self, from: usize, to: usize, word: Word) {
        if from == to {
            self.hear(from, to, word);
            return;
        }
        let is_bad = self.faults == Faults::All;
        let is_cut = self.island.contains(&from) != self.island.contains(&to);
        if is_cut || (is_bad && self.below(10) == 0) {
            return;
        }
        let copies = if is_bad && self.below(10) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            let most = if is_bad && self.below(8) == 0 {
                2500
            } else {
                30
            };
            let delay = 1 + self.below(most);
            self.after(delay, Event::Arrives(from, to, word.clone()));
        }
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.events += 1;
        self.queue.insert((self.now + delay, self.events), event);
    }

    fn clock(&self, node: usize) -> LocalTime {
        let here = &self.nodes[node];
        LocalTime(here.offset + self.now * here.pace / 1_000_000)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % most
    }
}
