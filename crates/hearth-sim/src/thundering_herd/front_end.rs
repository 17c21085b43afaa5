//! The questions of a node's front end, one after another: two files by themselves, then the names of the
//! directory, then attributes of many files at a time. The questions and their order are decided by
//! [`hearth_client::asking`], as in `hearth-fuse`.

use super::Shape;
use hearth_client::asking::{
    BATCH, BATCH_MAX, LOCATED_AT_ONCE, Lookups, Question, READ_AT_ONCE, batch, names_are_worth,
    read_along,
};
use hearth_client::waits::{Asks, Holds};
use hearth_proto::{Attributes, FileId, Learned, Leave, Reply, Request};

/// The number of the directory's inode in the store; those of its files follow.
fn directory(shape: &Shape) -> FileId {
    FileId((shape.seed << 32) + 1)
}

/// The store's word on an inode.
fn attributes(file: FileId) -> Attributes {
    Attributes {
        links: 1,
        size: file.0,
        ctime_ns: 1,
        ..Attributes::default()
    }
}

/// The next step that the front end wants done.
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
    /// A program wants one.
    Wanted(Question),
}

/// The step that it is at.
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
    /// The first answer was `Leave::Later`.
    later: bool,
}

impl Looks {
    fn new(why: Why, reads: Vec<(u32, u64)>, later: bool) -> Looks {
        Looks {
            why,
            reads,
            done: 0,
            told: 0,
            left: READ_AT_ONCE,
            later,
        }
    }
}

/// Work that is done along with the names.
struct Along {
    /// Under which they are read.
    number: u64,
    /// Files that are to be asked for, and those that may be read.
    files: Vec<u32>,
    reads: Vec<(u32, u64)>,
    /// Others are told the names.
    is_told: bool,
}

pub(super) struct FrontEnd {
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
    lookups: Lookups,
    listed: bool,
    is_shared: bool,
    asked: u32,
    asked_own: u32,
    /// Work that is done along with the names, while this node reads them.
    along: Option<Along>,
    phase: Phase,
    /// Work that others wait for.
    holds: Holds,
    pub(super) wrong: Option<String>,
}

impl FrontEnd {
    pub(super) fn new(me: u32, shape: &Shape) -> FrontEnd {
        let Shape { nodes, files, .. } = *shape;
        FrontEnd {
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
            lookups: Lookups::default(),
            listed: false,
            is_shared: false,
            asked: 0,
            asked_own: 0,
            along: None,
            phase: Phase::Idle,
            holds: Holds::default(),
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
    pub(super) fn is_prefetched(&self) -> bool {
        self.along_in == Some(self.second)
    }

    /// The clock tells the time, in seconds.
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
            return self.ask_next(Question::first(self.is_shared));
        }
        self.lookups.count();
        if self.lookups.is_burst() {
            self.phase = Phase::Names;
            self.check(Asks::Names);
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
                self.holds.given_names();
                self.go_on()
            }
            (Leave::Later, None) => {
                self.lookups.refused();
                self.lookups.count();
                self.look_alone()
            }
            (leave, _) => {
                self.wrong = Some(format!("node {} is told {leave:?} of the names", self.me));
                Wants::Nothing
            }
        }
    }

    fn locate(&mut self, number: u64, done: u32) -> Wants {
        let upto = (done + LOCATED_AT_ONCE as u32).min(self.files);
        if done < self.files {
            self.phase = Phase::Locating(number, upto);
            return Wants::Ask(Request::Locate(
                (done..upto).map(|place| self.file(place)).collect(),
            ));
        }
        let most = read_along(self.comes_along);
        self.along = Some(Along {
            number,
            files: self.unread().take(most).collect(),
            reads: Vec::new(),
            is_told: false,
        });
        self.read_along()
    }

    fn tell_names(&mut self, number: u64, reads: Vec<(u32, u64)>) -> Wants {
        let name = |place: u32| (format!("file-{place:06}").into_bytes(), self.file(place));
        let names = (0..self.files).map(name).collect();
        self.phase = Phase::Reading(Looks::new(Why::Along, reads, false));
        Wants::Tell(Request::Listed {
            dir: self.directory,
            number,
            first: 0,
            names: Some(names),
            more: false,
        })
    }

    /// Leave is asked for some more, or the names are told and files read, or the directory's attributes are told.
    fn read_along(&mut self) -> Wants {
        let Some(along) = &mut self.along else {
            return self.look();
        };
        let number = along.number;
        let some = along.files.len().min(BATCH_MAX);
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
        self.holds.told_names();
        let attributes = Some(attributes(self.directory));
        let file = self.directory;
        Wants::Tell(Request::Learned(vec![Learned {
            file,
            number,
            attributes,
        }]))
    }

    fn ask(&mut self, why: Why, asked: Vec<u32>) -> Wants {
        let files: Vec<FileId> = asked.iter().map(|&place| self.file(place)).collect();
        self.check(match why {
            Why::Wanted(Question::Awaited) => Asks::Read,
            _ if files.len() == 1 => Asks::Read,
            _ => Asks::AtOnce,
        });
        self.phase = Phase::Leaves(why, asked);
        Wants::Ask(match why {
            Why::Wanted(Question::Awaited) => Request::Await(files),
            _ => Request::Leave(files),
        })
    }

    /// It may ask that now: nobody waits for what it has to tell.
    fn check(&mut self, asks: Asks) {
        if let Some(why) = self.holds.forbids(asks) {
            self.wrong = Some(format!("node {} asks {asks:?}: {why}", self.me));
        }
    }

    /// Asks for the wanted file, and some behind it and round to it, or for some of this node's part.
    fn ask_next(&mut self, question: Question) -> Wants {
        let count = match question {
            Question::Near | Question::Awaited => doubled(&mut self.asked),
            Question::Unread => BATCH,
            Question::Alone => 1,
            Question::Own => return self.ask_own(),
        };
        let near = self.unread().take(count).collect();
        self.ask(Why::Wanted(question), near)
    }

    /// Files whose attributes are not here, from the wanted one on and round to it.
    fn unread(&self) -> impl Iterator<Item = u32> + '_ {
        let round = (self.wanted..self.files).chain(0..self.wanted);
        round.filter(|&place| !self.known[place as usize])
    }

    fn ask_own(&mut self) -> Wants {
        self.is_shared = true;
        let at =
            |part: u32| (u64::from(part) * u64::from(self.files) / u64::from(self.nodes)) as u32;
        let part = at(self.me)..at(self.me + 1);
        let own: Vec<u32> = part.filter(|&place| !self.known[place as usize]).collect();
        if own.is_empty() {
            return self.go_on_asking(Question::Own, false);
        }
        let count = doubled(&mut self.asked_own);
        self.ask(
            Why::Wanted(Question::Own),
            own.into_iter().take(count).collect(),
        )
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
        self.holds.given_files(reads.len());
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
        let next = (looks.reads.len() - looks.done).min(READ_AT_ONCE);
        let readers = if looks.why == Why::Along {
            1
        } else {
            self.nodes as usize
        };
        self.comes_along && names_are_worth(next, self.listing as usize, readers)
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
        if !self.is_prefetched() && self.is_worth(&looks) {
            self.phase = Phase::Bringing(looks, self.listing);
            return self.go_on();
        }
        let mut next = (count - looks.done).min(READ_AT_ONCE);
        if !self.is_prefetched() {
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
        self.holds.told_files(learned.len());
        Wants::Tell(Request::Learned(learned))
    }

    fn read_all(&mut self, why: Why, later: bool) -> Wants {
        match why {
            Why::Along => self.read_along(),
            Why::Wanted(question) => self.go_on_asking(question, later),
        }
    }

    fn go_on_asking(&mut self, question: Question, later: bool) -> Wants {
        match question.next(later) {
            Some(question) => self.ask_next(question),
            None => self.look(),
        }
    }
}

fn doubled(count: &mut u32) -> usize {
    *count += 1;
    batch(*count - 1)
}
