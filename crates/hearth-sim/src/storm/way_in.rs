//! What a node's way in asks for, one question after another: two files by themselves, then the names of the
//! directory, then attributes of many files at a time. It decides as `hearth-fuse` does
//! (`learn.rs`, `listing.rs` and `at_hand.rs` there), with its numbers.

use super::Shape;
use hearth_proto::{Attributes, FileId, Learned, Leave, Reply, Request};

/// Lookups in a directory before it is read as a whole.
pub(super) const LOOKUPS_ALONE: u32 = 2;
/// Nodes of a crowd in which each may read all names for what comes along with them.
const CROWD: u32 = 12;
/// Files whose attributes are read for one question, or along with the names, if that takes a request for each.
pub(super) const READ_AT_ONCE: u32 = 64;
/// The same along with the names where these bring attributes.
const READ_ALONG_MAX: u32 = 4096;
/// Looks at one time, and what is worth another thread.
pub(super) const LOOKS_AT_ONCE: u32 = 4;
pub(super) const LOOKS_EACH: u32 = 8;
/// Files asked for at once, to begin with, and at most.
pub(super) const BATCH: u32 = 64;
pub(super) const BATCH_MAX: u32 = 512;
/// Files whose managers are asked for at once.
pub(super) const LOCATED_AT_ONCE: u32 = 4096;

/// The number of the directory's inode in the store; those of its files follow.
fn directory(shape: &Shape) -> FileId {
    FileId((shape.seed << 32) + 1)
}

/// What the store says of an inode.
fn attributes(file: FileId) -> Attributes {
    Attributes {
        links: 1,
        size: file.0,
        ctime_ns: 1,
        ..Attributes::default()
    }
}

/// What the way in wants done next.
pub(super) enum Wants {
    /// Ask the kernel.
    Ask(Request),
    /// Tell the kernel, then go on.
    Tell(Request),
    /// Look at so many files, some at one time: one request to the store for each, or what has come along.
    Looks(u32),
    /// One request to the store, for some of the names.
    Names,
    /// So many files come out of memory.
    Hits(u32),
    /// The pass is over.
    Nothing,
}

/// Why files are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Along with the names, up to here.
    Along,
    /// A program wants the first.
    Near,
    /// They are of this node's own part.
    Own,
    /// Others read them.
    Awaited,
    /// Nobody reads them after all.
    Unread,
    /// Waits for whoever has begun to.
    Alone,
}

/// Where it is.
#[derive(Debug)]
enum Phase {
    Idle,
    /// It is named the manager of files.
    Making,
    /// A file by itself: its size, then the store.
    Alone,
    AloneInStore,
    Names,
    /// Names are read from the store, with so many requests to come.
    Listing(u64, u32),
    /// So many were located.
    Locating(u64, u32),
    /// Leave was asked for.
    Leaves(Why, Vec<u32>),
    /// Names are read, with so many requests to come, for the attributes that come along; then files are.
    Bringing(Looks, u32),
    Reading(Looks),
}

/// Files that are looked at one after another, and then told.
#[derive(Debug)]
struct Looks {
    why: Why,
    /// Under which number each may be.
    reads: Vec<(u32, u64)>,
    done: usize,
    told: usize,
    /// So many more with a request for each.
    left: usize,
    /// What the first answer was.
    later: bool,
}

impl Looks {
    fn new(why: Why, reads: Vec<(u32, u64)>, later: bool) -> Looks {
        Looks {
            why,
            reads,
            done: 0,
            told: 0,
            left: READ_AT_ONCE as usize,
            later,
        }
    }
}

/// What is done along with the names.
struct Along {
    /// Under which they are read.
    number: u64,
    /// Files that are to be asked for, and those that may be read.
    files: Vec<u32>,
    reads: Vec<(u32, u64)>,
    /// Others are told the names.
    is_told: bool,
}

pub(super) struct WayIn {
    directory: FileId,
    me: u32,
    nodes: u32,
    files: u32,
    /// Requests of the store for all names.
    listing: u32,
    comes_along: bool,
    /// The clock's second, and that in which it read what comes along with names: in the next that is old.
    second: u64,
    along_in: Option<u64>,
    /// The next file that the program asks for.
    wanted: u32,
    known: Vec<bool>,
    lookups: u32,
    listed: bool,
    is_shared: bool,
    asked: u32,
    asked_own: u32,
    /// What is done along with the names, while this node reads them.
    along: Option<Along>,
    /// Lookups before the next question about names.
    alone: u32,
    phase: Phase,
    pub(super) wrong: Option<String>,
}

impl WayIn {
    pub(super) fn new(me: u32, shape: &Shape) -> WayIn {
        let Shape { nodes, files, .. } = *shape;
        WayIn {
            directory: directory(shape),
            me,
            nodes,
            files,
            listing: files.div_ceil(shape.names),
            comes_along: shape.along,
            second: 0,
            along_in: None,
            wanted: 0,
            known: vec![false; files as usize],
            lookups: 0,
            listed: false,
            is_shared: false,
            asked: 0,
            asked_own: 0,
            along: None,
            alone: LOOKUPS_ALONE,
            phase: Phase::Idle,
            wrong: None,
        }
    }

    fn file(&self, place: u32) -> FileId {
        FileId(self.directory.0 + 1 + u64::from(place))
    }

    /// It has made some of the files: as many as each other node.
    pub(super) fn make_own(&mut self) -> Wants {
        self.phase = Phase::Making;
        let own = (self.me..self.files).step_by(self.nodes as usize);
        Wants::Ask(Request::Locate(own.map(|place| self.file(place)).collect()))
    }

    /// A pass begins.
    pub(super) fn begin(&mut self) {
        self.wanted = 0;
    }

    /// A look at a file is answered by the store's client, from what came along with names.
    pub(super) fn is_at_hand(&self) -> bool {
        self.along_in == Some(self.second)
    }

    /// What the clock says, in seconds.
    pub(super) fn now_is(&mut self, second: u64) {
        self.second = second;
    }

    /// The program has asked for all files.
    pub(super) fn is_at_end(&self) -> bool {
        self.wanted == self.files
    }

    /// It has done what it wanted.
    pub(super) fn go_on(&mut self) -> Wants {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => self.look(),
            Phase::AloneInStore => {
                self.wanted += 1;
                self.look()
            }
            Phase::Listing(number, 0) => {
                self.along_in = self.comes_along.then_some(self.second);
                self.locate(number, 0)
            }
            Phase::Listing(number, left) => {
                self.phase = Phase::Listing(number, left - 1);
                Wants::Names
            }
            Phase::Bringing(looks, 0) => {
                self.along_in = Some(self.second);
                self.read(looks)
            }
            Phase::Bringing(looks, left) => {
                self.phase = Phase::Bringing(looks, left - 1);
                Wants::Names
            }
            Phase::Reading(looks) => self.read(looks),
            phase => {
                self.wrong = Some(format!("node {} goes on in {phase:?}", self.me));
                Wants::Nothing
            }
        }
    }

    /// The kernel has answered.
    pub(super) fn answered(&mut self, reply: Reply) -> Wants {
        match (std::mem::replace(&mut self.phase, Phase::Idle), reply) {
            (Phase::Alone, Reply::Size { .. }) => {
                self.phase = Phase::AloneInStore;
                Wants::Looks(1)
            }
            (Phase::Making, Reply::Done) => Wants::Nothing,
            (Phase::Names, Reply::Names { leave, names }) => self.names(leave, names),
            (Phase::Locating(number, done), Reply::Done) => self.locate(number, done),
            (Phase::Leaves(why, asked), Reply::Leaves(leaves)) => self.leaves(why, &asked, &leaves),
            (phase, reply) => {
                self.wrong = Some(format!("node {}: {reply:?} in {phase:?}", self.me));
                Wants::Nothing
            }
        }
    }

    /// The program asks for the next file.
    fn look(&mut self) -> Wants {
        let rest = &self.known[self.wanted as usize..];
        let hits = rest.iter().take_while(|known| **known).count() as u32;
        if hits > 0 {
            self.wanted += hits;
            return Wants::Hits(hits);
        }
        if self.wanted == self.files {
            return Wants::Nothing;
        }
        if self.listed {
            return match self.is_shared {
                false => self.ask_near(Why::Near),
                true => self.ask_own(),
            };
        }
        self.lookups += 1;
        if self.lookups > self.alone {
            self.phase = Phase::Names;
            return Wants::Ask(Request::Names(self.directory));
        }
        self.look_alone()
    }

    fn look_alone(&mut self) -> Wants {
        self.phase = Phase::Alone;
        let (file, ask) = (self.file(self.wanted), true);
        Wants::Ask(Request::Size { file, ask })
    }

    fn names(&mut self, leave: Leave, names: Option<Vec<(Vec<u8>, FileId)>>) -> Wants {
        match (leave, names) {
            (Leave::Known(_), Some(names)) => {
                if names.len() != self.files as usize {
                    self.wrong = Some(format!("node {} is told {} names", self.me, names.len()));
                }
                self.listed = true;
                self.look()
            }
            (Leave::Read { number, .. }, None) => {
                self.phase = Phase::Listing(number, self.listing);
                self.go_on()
            }
            (Leave::Later, None) => {
                (self.alone, self.lookups) = (2 * self.alone, 1);
                self.look_alone()
            }
            (leave, _) => {
                self.wrong = Some(format!("node {} is told {leave:?} of the names", self.me));
                Wants::Nothing
            }
        }
    }

    fn locate(&mut self, number: u64, done: u32) -> Wants {
        let upto = (done + LOCATED_AT_ONCE).min(self.files);
        if done < self.files {
            self.phase = Phase::Locating(number, upto);
            return Wants::Ask(Request::Locate(
                (done..upto).map(|place| self.file(place)).collect(),
            ));
        }
        let most = if self.comes_along {
            READ_ALONG_MAX
        } else {
            READ_AT_ONCE
        };
        self.along = Some(Along {
            number,
            files: self.unread().take(most as usize).collect(),
            reads: Vec::new(),
            is_told: false,
        });
        self.read_along()
    }

    fn tell_names(&mut self, number: u64, reads: Vec<(u32, u64)>) -> Wants {
        let name = |place: u32| (format!("file-{place:06}").into_bytes(), self.file(place));
        let names = (0..self.files).map(name).collect();
        self.phase = Phase::Reading(Looks::new(Why::Along, reads, false));
        Wants::Tell(Request::Listed(self.directory, number, Some(names)))
    }

    /// Leave is asked for some more, or the names are told and files read, or the directory's attributes are told.
    fn read_along(&mut self) -> Wants {
        let Some(along) = &mut self.along else {
            return self.look();
        };
        let number = along.number;
        let some = along.files.len().min(BATCH_MAX as usize);
        if some > 1 {
            let some = along.files.drain(..some).collect();
            return self.ask(Why::Along, some);
        }
        if !std::mem::replace(&mut along.is_told, true) {
            let reads = std::mem::take(&mut along.reads);
            return self.tell_names(number, reads);
        }
        self.along = None;
        self.listed = true;
        let attributes = Some(attributes(self.directory));
        let file = self.directory;
        Wants::Tell(Request::Learned(vec![Learned {
            file,
            number,
            attributes,
        }]))
    }

    fn ask(&mut self, why: Why, asked: Vec<u32>) -> Wants {
        let files = asked.iter().map(|&place| self.file(place)).collect();
        self.phase = Phase::Leaves(why, asked);
        Wants::Ask(match why {
            Why::Awaited => Request::Await(files),
            _ => Request::Leave(files),
        })
    }

    /// The wanted file, and some behind it and round to it.
    fn ask_near(&mut self, why: Why) -> Wants {
        let count = match why {
            Why::Near | Why::Awaited => doubled(&mut self.asked),
            _ => BATCH,
        };
        let near = self.unread().take(count as usize).collect();
        self.ask(why, near)
    }

    /// Files whose attributes are not here, from the wanted one on and round to it.
    fn unread(&self) -> impl Iterator<Item = u32> + '_ {
        let round = (self.wanted..self.files).chain(0..self.wanted);
        round.filter(|&place| !self.known[place as usize])
    }

    fn ask_own(&mut self) -> Wants {
        let at =
            |part: u32| (u64::from(part) * u64::from(self.files) / u64::from(self.nodes)) as u32;
        let part = at(self.me)..at(self.me + 1);
        let own: Vec<u32> = part.filter(|&place| !self.known[place as usize]).collect();
        if own.is_empty() {
            return self.ask_near(Why::Awaited);
        }
        let count = doubled(&mut self.asked_own) as usize;
        self.ask(Why::Own, own.into_iter().take(count).collect())
    }

    fn leaves(&mut self, why: Why, asked: &[u32], leaves: &[Leave]) -> Wants {
        let mut reads = Vec::new();
        for (&place, leave) in asked.iter().zip(leaves) {
            match leave {
                Leave::Known(told) => {
                    self.known[place as usize] = true;
                    if told.size != self.file(place).0 {
                        self.wrong = Some(format!("file {place} has attributes of another"));
                    }
                }
                Leave::Read { number, .. } => reads.push((place, *number)),
                Leave::Later | Leave::No | Leave::Once(_) => {}
            }
        }
        let later = leaves.first() == Some(&Leave::Later);
        match &mut self.along {
            Some(along) => {
                along.reads.extend(reads);
                self.read_along()
            }
            None => self.read(Looks::new(why, reads, later)),
        }
    }

    /// Whether names are worth being read for the next of these files.
    fn is_worth(&self, looks: &Looks) -> bool {
        let next = (looks.reads.len() - looks.done).min(READ_AT_ONCE as usize) as u32;
        let readers = if looks.why == Why::Along {
            1
        } else {
            self.nodes
        };
        self.comes_along && next > self.listing && readers <= CROWD
    }

    fn read(&mut self, mut looks: Looks) -> Wants {
        let count = looks.reads.len();
        if looks.told == count {
            return self.read_all(looks.why, looks.later);
        }
        if looks.done > looks.told {
            let upto = looks.done;
            return self.tell(looks, upto);
        }
        if !self.is_at_hand() && self.is_worth(&looks) {
            self.phase = Phase::Bringing(looks, self.listing);
            return self.go_on();
        }
        let mut next = (count - looks.done).min(READ_AT_ONCE as usize);
        if !self.is_at_hand() {
            next = next.min(looks.left);
            looks.left -= next;
        }
        if next == 0 {
            return self.tell(looks, count);
        }
        looks.done += next;
        self.phase = Phase::Reading(looks);
        Wants::Looks(next as u32)
    }

    /// Tells of files up to here; those that were not looked at may be read by others.
    fn tell(&mut self, mut looks: Looks, upto: usize) -> Wants {
        let from = std::mem::replace(&mut looks.told, upto);
        let mut learned = Vec::new();
        for (at, &(place, number)) in (from..).zip(&looks.reads[from..upto]) {
            let is_known = at < looks.done;
            self.known[place as usize] |= is_known;
            let file = self.file(place);
            learned.push(Learned {
                file,
                number,
                attributes: is_known.then(|| attributes(file)),
            });
        }
        self.phase = Phase::Reading(looks);
        Wants::Tell(Request::Learned(learned))
    }

    fn read_all(&mut self, why: Why, later: bool) -> Wants {
        match (why, later) {
            (Why::Along, _) => self.read_along(),
            (Why::Near, true) => {
                self.is_shared = true;
                self.ask_own()
            }
            (Why::Own, _) => self.ask_near(Why::Awaited),
            (Why::Awaited, true) => self.ask_near(Why::Unread),
            (Why::Unread, true) => self.ask(Why::Alone, vec![self.wanted]),
            (Why::Near | Why::Awaited | Why::Unread | Why::Alone, _) => self.look(),
        }
    }
}

fn doubled(count: &mut u32) -> u32 {
    let times = (*count).min(u32::BITS / 2);
    *count += 1;
    (BATCH << times).min(BATCH_MAX)
}
