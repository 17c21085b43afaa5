//! Everything that nodes say to each other.
//!
//! Three classes share the wire: requests may wait at the receiver; forwards
//! (revocations, cuts) and responses are always taken at once, so they cannot be part of a circle
//! of waiting.

mod held;

use crate::RawErrno;
use crate::bank::{Daemon, Epoch};
use crate::ids::{
    Age, FileId, Gen, Learned, Leave, Listed, Named, NodeId, ReqId, Stamp, Ver, View,
};
use crate::ranges::Ranges;
use crate::semantics::Semantics;
use alloc::vec::Vec;
pub use held::{HELD_PAGES, Held};

/// A message with what every message carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// View in which it was sent.
    pub view: View,
    /// The file that it is about.
    pub file: FileId,
    /// Generation of the file, as far as the sender knows.
    pub generation: Gen,
    /// The request that it is, or that it answers.
    pub req: ReqId,
    /// Its content.
    pub body: Body,
}

/// The place where the bytes of a grant were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// In the home's memory.
    Memory,
    /// A home to itself had to ask a peer for at least one page, and the store for none.
    Peer,
    /// The home had to read the store for at least one page.
    Store,
}

/// How long granted bytes are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Until they are revoked.
    Copy,
    /// For the reads that were waiting when the request was sent, and never again.
    Once,
    /// Until they are called back, and the reader writes the page by itself: the number of the grant.
    Own(Ver),
}

/// The part of a page that a delegate keeps when it sends its bytes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// A copy, or a way in may keep some of it: the home is to record it as a reader.
    Copy,
    /// The page: it goes on writing it.
    Own,
}

/// Another node's purpose with a page that its delegate is to write no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// To read it, or to have its bytes in the store.
    Bytes,
    /// To write a part of it: a copy would be called back next.
    Part,
    /// To write all of it: what the delegate wrote need not come back.
    All,
}

/// A page and the node that writes it by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Moved {
    /// The page.
    pub page: u64,
    /// Its delegate.
    pub node: NodeId,
}

/// Which dirty bytes a flush brings to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Those that the asker wrote.
    Own,
    /// All.
    All,
    /// All, and through the store's own fsync.
    Synced,
    /// Those that the asker wrote; or shards of them to other nodes.
    Sealed,
}

/// The fate of bytes that a node kept for a home that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The store has it.
    Stored,
    /// It is lost.
    Lost,
    /// The sender never had any of it, or has forgotten.
    Unknown,
}

/// Which pages a cut takes away, and what happens to dirty bytes in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// The file becomes this long; what lies beyond is gone.
    Shrink(u64),
    /// The store changed behind the cache: clean pages go, dirty bytes stay.
    Outside,
    /// The file's last name goes: dirty bytes are written, then every page goes.
    Detach,
    /// Nobody writes the file any more: dirty bytes are written, and every page stays.
    Laminate,
    /// This node is about to be the home: pages go to it, and none stays.
    HandOver(NodeId),
    /// A range is about to be written in the store: its pages go. The generation stays.
    Window {
        /// First page.
        first: u64,
        /// How many.
        count: u32,
    },
}

/// Handles of one file that are open on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handles {
    /// Those that only read.
    pub readers: u32,
    /// Those that write.
    pub writers: u32,
}

impl Handles {
    /// One more is open, for writing or not.
    pub(crate) fn add(&mut self, write: bool) {
        match write {
            true => self.writers += 1,
            false => self.readers += 1,
        }
    }

    /// True if there is none.
    pub(crate) fn is_none(self) -> bool {
        self.readers + self.writers == 0
    }
}

/// The place that a file is served from, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// From its homes, as before.
    Homes,
    /// From the store, through each handle's own descriptor.
    Store,
    /// From the store, which lacks bytes that its homes could not write.
    StoreAfterLoss,
    /// From its homes, and nobody writes it any more.
    Laminated,
}

/// How a file's homes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HomeMap {
    /// By the owner of the chunk's slot.
    Slot,
    /// By asking the manager once per chunk.
    Ask,
    /// One node is the home of every page: nobody else could open the file, or the node is the gateway that manages it.
    Fixed(NodeId),
    /// Every node is the home of what it reads.
    Own,
    /// By asking the keeper of each page once: node `page mod n`.
    Keepers,
}

/// The role of a node for a file, told to one that may have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Here {
    /// Nothing.
    Nothing,
    /// Home of pages that it has.
    Home,
    /// Its manager.
    Manager,
    /// A registrar has named it, and no life of the file has begun there.
    Named,
    /// It went to the store when the last name was gone.
    Left,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    // --- to the registrar -------------------------------------------------------------------
    /// Which node manages the file? The first to ask becomes the manager (Coopc-PVFS, section 4).
    Whois,
    /// This node manages it.
    WhoisOk(NodeId),

    /// Which nodes manage these? As if each was asked for by itself.
    WhoisEach(Vec<FileId>),
    /// These nodes, in the order of the question.
    WhoisEachOk(Vec<NodeId>),

    // --- to the manager ---------------------------------------------------------------------
    /// May the attributes of each be kept until they are called back? Of a directory they stand for its
    /// names as well.
    AskLeave {
        /// Which.
        files: Vec<FileId>,
        /// The asker wants no other file, so it reads nothing for others: the answer comes when nobody reads this one.
        alone: bool,
    },
    /// Answers, in the order of the question.
    Leaves(Vec<Leave>),
    /// The same, answered when no other node reads the first; gives no leave to read.
    AwaitLeave(Vec<FileId>),
    /// The store's word.
    Learned(Vec<Learned>),
    /// May attributes and names of this directory be kept, and which names are there behind this one? Waits
    /// for another node that reads them.
    AskNames(Vec<u8>),
    /// Answers.
    Names {
        /// The attributes. With [`Leave::Read`] the names are to be read, too, and told before them.
        leave: Leave,
        /// The names, in order; `None` if each node reads them by itself.
        names: Option<Vec<Named>>,
        /// There are more.
        more: bool,
    },
    /// Names that the store said; not answered.
    Listed(Listed),
    /// Attributes or names are about to be changed in the store.
    Change,
    /// Nobody keeps them any more: change them.
    ChangeGo,
    /// They are changed, or will not be; the status change time is at least this.
    Changed(i64),
    /// A session opens the file.
    Open {
        /// For writing.
        write: bool,
        /// The store's stamp at the opener.
        stamp: Stamp,
        /// No other node could open it the same way.
        private: bool,
        /// The semantics that the opener wants.
        semantics: Semantics,
        /// They are open already, and were told to a manager that is gone, or to nobody: all that the sender has open of
        /// the file, in the place of what it may have told before.
        all: Option<Handles>,
    },
    /// The open is registered.
    OpenOk {
        /// Size of the file.
        size: u64,
        /// Some node has it open for writing.
        shared: bool,
        /// How homes are found.
        homes: HomeMap,
        /// Nodes that may hold pages, where every node is a home to itself.
        holders: Vec<u32>,
        /// The semantics that are promised.
        semantics: Semantics,
        /// Another one if another node may have changed the file since the last was told.
        version: u64,
        /// A file of this number has lost its last name: the open may be one of that file.
        left: bool,
        /// The file was written at another time than the store says, as far as the manager has heard.
        dated: bool,
    },
    /// A session closed the file.
    Close {
        /// It had been opened for writing.
        write: bool,
        /// The node wrote since its last report.
        wrote: bool,
        /// The store's stamp after the node's bytes reached it, if they did.
        stamp: Option<Stamp>,
        /// Wall clock at the node's last write, nanoseconds since 1970, unless the manager has heard of it.
        mtime_ns: Option<i64>,
    },
    /// How long is the file?
    Size {
        /// And when was it last written? The answer waits for the word of those who write.
        dated: bool,
        /// When the asker wrote last, as in [`Body::DateIs`].
        mtime_ns: Option<i64>,
    },
    /// So long; `None`: as the store says.
    SizeIs {
        /// Size in bytes, if the cache knows better than the store.
        size: Option<u64>,
        /// Time of the last write, nanoseconds since 1970, if the store does not have it.
        mtime_ns: Option<i64>,
        /// The asker may keep the answer: it is told when it changes.
        keep: bool,
    },
    /// Bytes up to `end` are at their homes: the file is at least so long.
    Extend {
        /// End of the bytes.
        end: u64,
        /// Start of the append that this ends, if it was one.
        append: Option<u64>,
        /// Wall clock of the writer, nanoseconds since 1970.
        mtime_ns: i64,
    },
    /// The file is so long now.
    ExtendOk(u64),
    /// A place for this many bytes at the end.
    Append(u64),
    /// The place starts here.
    AppendAt(u64),
    /// Which node is the home of this chunk, or of this page if that is the grain?
    HomeOf {
        /// The chunk or page.
        chunk: u64,
        /// Pages of the file that the asker has as their home, if it would not mind another home.
        has: u32,
    },
    /// This node is.
    HomeIs {
        /// The chunk or page.
        chunk: u64,
        /// Its home.
        home: NodeId,
    },
    /// Make the file this long.
    Truncate(u64),
    /// Every home has let go of what lies beyond: do it in the store.
    TruncateGo,
    /// Done in the store, or not.
    Truncated(Result<Stamp, RawErrno>),
    /// Everybody knows.
    TruncateOk,
    /// A range is to be written in the store while nobody takes it into memory.
    Window {
        /// From here; `None`: at the end.
        at: Option<u64>,
        /// So many bytes.
        len: u32,
    },
    /// The range is in the store: the file is so long.
    WindowOk(u64),
    /// The last name is about to go.
    Detach,
    /// All of it is in the store, and homes hold requests: take the name away.
    DetachGo,
    /// The name is gone, or stays.
    Detached(bool),
    /// Handles of the sender were open when the last name went, and go to the store: so do those of others.
    HasLeft,
    /// Its last name went in a life that the asker's handle is older than, or of: that goes to the store.
    Left,
    /// Bring every byte that writers have gathered to the homes, and every dirty byte to the store if so.
    Settle {
        /// To the store.
        store: bool,
    },
    /// They are there.
    SettleOk,
    /// The store lets nobody write the file any more, since this stamp: so be it, if that is how it is
    /// published.
    Laminate(Stamp),
    /// Nobody does, and all of it is in the store; or it is published otherwise.
    LaminateOk,
    /// Nobody has the file open: may this node be its home instead of the sender?
    HandOver(NodeId),
    /// It is the home.
    HandedOver,
    /// The sender changed the attributes on purpose.
    Restamp {
        /// Stamp before.
        before: Stamp,
        /// Stamp after.
        after: Stamp,
    },

    // --- from the manager to openers and homes ----------------------------------------------
    /// Nobody keeps the range that was asked for: write it.
    WindowGo {
        /// Number of the request for the window.
        asked: u64,
        /// First byte of the range.
        offset: u64,
    },
    /// The store has it, or would not take it.
    WindowOver(Result<Stamp, RawErrno>),
    /// Forget what you keep about size and times; the file is at most `size` long.
    Forget {
        /// Upper bound of the size from now on.
        size: u64,
        /// The place that it is served from.
        service: Service,
    },
    /// Bring what you have gathered of the file to the homes; answered as [`Body::Forget`] is.
    Collect {
        /// And gather no more until you have heard of the cut that comes.
        cut: bool,
    },
    /// Drop the attributes, and names if it is a directory; answered as [`Body::Forget`] is.
    Recall,
    /// When did you write the file last?
    Date,
    /// Then, nanoseconds since 1970; `None`: the manager has heard of it.
    DateIs(Option<i64>),
    /// Forgotten; and when the sender wrote the file last, as in [`Body::DateIs`].
    ForgetOk(Option<i64>),
    /// Call copies of pages back and hold all requests until [`Body::Resume`].
    Cut(Cut),
    /// They are back and the store is quiet; an error means that dirty bytes could not be written.
    CutOk(Result<(), RawErrno>),
    /// Go on, in the generation of the envelope.
    Resume {
        /// The cut took place: drop the pages.
        done: bool,
    },

    // --- to the home ------------------------------------------------------------------------
    /// Pages, please.
    Read {
        /// First page.
        first: u64,
        /// How many.
        count: u32,
        /// A way in will keep the bytes, even at the home's own node.
        keep: bool,
        /// The home is to remember who has them, and to call them back.
        record: bool,
        /// For one use, and past the home's frames if it has none of them: they are of a call that is larger
        /// than the asker's pool.
        aside: bool,
        /// Bytes at the beginning of the first page that are not wanted, if the answer is for one use.
        skip: u32,
        /// And at the end of the last.
        spare: u32,
        /// No delegate need be asked: the home is to have the bytes come back.
        here: bool,
    },
    /// Here they are, one after another in the payload.
    Grant {
        /// First page.
        first: u64,
        /// Bytes of the first page that were not wanted and are left out.
        skip: u32,
        /// Bytes of each page, in the first after those; what follows of what was wanted is zero.
        lens: Vec<u32>,
        /// The home's count when it granted.
        ver: Ver,
        /// How long they are good.
        good: Use,
        /// The place where they were found.
        origin: Origin,
    },
    /// These bytes, please; they are the payload.
    Write {
        /// First byte in the file.
        offset: u64,
        /// How many.
        len: u32,
        /// The writer holds no copy of the touched pages any more, nor will get one.
        dropped: bool,
        /// Homes remember who has copies of the file's pages.
        record: bool,
        /// The writer would write the page by itself from now on.
        alone: bool,
        /// They are of a call that is larger than the writer's pool: to the store, past the home's frames,
        /// before they are answered.
        aside: bool,
    },
    /// These bytes of one page, please; they are the payload, one piece after another. The writer holds
    /// no copy of it, and readers are not recorded.
    Scatter {
        /// The page.
        page: u64,
        /// Their places in it.
        ranges: Ranges,
    },
    /// They are in place and nobody holds an older copy.
    WriteOk,
    /// The same, and the writer writes the page by itself until it is called back.
    WriteOwn {
        /// The page.
        page: u64,
        /// Number of the grant.
        grant: Ver,
    },
    /// All of this page is to be overwritten: may its bytes stay at the writer, which writes the page by itself from then
    /// on? Answered as a write is, or with [`Body::WriteHere`].
    Claim {
        /// The page.
        page: u64,
        /// The writer holds no copy of it any more, nor will get one.
        dropped: bool,
    },
    /// They may not: send them.
    WriteHere,
    /// Delegates have these of the pages that were asked for: ask them. The others were not looked at.
    Elsewhere(Vec<Moved>),
    /// This page, for one use, if you write it by yourself. The grant has no page if not.
    Fetch {
        /// The page.
        page: u64,
        /// Bytes at its beginning that are not wanted.
        skip: u32,
        /// And at its end.
        spare: u32,
    },
    /// Bytes that a delegate wrote by itself, one range after another in the payload. It answers
    /// [`Body::TakeBack`], and is also sent unasked; then it is not answered.
    Return {
        /// The page.
        page: u64,
        /// Number of the grant.
        grant: Ver,
        /// First byte and length of each range.
        ranges: Vec<u32>,
        /// The part that the delegate keeps.
        left: Left,
    },
    /// Bring the home's dirty bytes of the file to the store.
    Flush(Goal),
    /// They are there.
    FlushOk(Stamp),
    /// They are not all there, and other nodes have shards of the rest.
    Sealed,

    // --- to the homes of an operation that has several, and their answers ----------------------
    /// These bytes, please, when all homes can take theirs; they are the payload.
    Stage {
        /// First byte in the file.
        offset: u64,
        /// How many.
        len: u32,
        /// The writer holds no copy of the touched pages any more, nor will get one.
        dropped: bool,
        /// When the write began.
        age: Age,
    },
    /// The pages are locked for it, and nobody holds an older copy.
    Staged {
        /// The home's clock.
        clock: u64,
    },
    /// All homes have the bytes of the write: put them in place.
    Apply {
        /// Number of the request that brought them.
        of: u64,
    },
    /// Let the pages of a write or read go; bytes that were to be written are not.
    Release {
        /// Number of the request that locked them.
        of: u64,
    },
    /// Pages, please, which nobody writes until they are released; answered with a grant.
    Hold {
        /// First page.
        first: u64,
        /// How many.
        count: u32,
        /// When the read began.
        age: Age,
    },
    /// Somebody else goes first, unless all homes have granted what the operation needs. The envelope
    /// names the request that locked the pages.
    Wound {
        /// The home's clock.
        clock: u64,
    },
    /// Somebody else may go first; the request waits again, and is answered once more.
    Yield {
        /// Number of the request that locked the pages.
        of: u64,
    },

    // --- between homes, where every node is one to itself ------------------------------------
    /// Pages, if you have them.
    Peek {
        /// First page.
        first: u64,
        /// How many.
        count: u32,
        /// Pages around them that the asker holds.
        held: Held,
    },
    /// These, one after another in the payload; perhaps fewer, perhaps none.
    Peeked {
        /// First page.
        first: u64,
        /// Bytes of each page; what follows in the page is zero.
        lens: Vec<u32>,
        /// Pages around them that the answerer holds.
        held: Held,
    },

    // --- from the home ----------------------------------------------------------------------
    /// Drop your copies of these pages.
    Inval {
        /// First page.
        first: u64,
        /// How many; `u32::MAX` means to the end.
        count: u32,
        /// Copies granted below this are old.
        ver: Ver,
    },
    /// Dropped.
    InvalOk,
    /// A page that will be read; the sender counts the receiver as a reader already. Not answered, unless
    /// it is refused.
    Push {
        /// The page.
        page: u64,
        /// Number of this copy among all that the home has given.
        number: u64,
        /// Bytes of the page; what follows in the page is zero.
        len: u32,
    },
    /// The sender has no copy of the page that was pushed to it, and no use for one.
    PushNo {
        /// The page.
        page: u64,
        /// Number of the copy that is refused.
        number: u64,
    },
    /// Write the page by yourself no more, and send back what you wrote.
    TakeBack {
        /// The page.
        page: u64,
        /// Number of the grant.
        grant: Ver,
        /// The purpose.
        wanted: Wanted,
    },

    // --- to the heir of a home, and its answer ----------------------------------------------
    /// A page of a file that the receiver is about to be the home of; its bytes are the payload.
    Hand {
        /// The page.
        page: u64,
    },
    /// It is set aside, or there is no room.
    Handed {
        /// It is set aside.
        taken: bool,
    },
    /// From the manager: who is the home has been decided. Not answered.
    Inherit {
        /// The receiver is: what was handed over counts.
        is: bool,
    },

    // --- from clients of the bank to a gateway, and its answers ------------------------------
    /// Under which epoch may each daemon be asked for your blocks?
    BankAsk,
    /// So, for as long as a lease lasts; [`Epoch::NONE`]: not at all.
    BankIs(Vec<Epoch>),
    /// The epoch ends: ask under it no more.
    BankOver {
        /// The daemon.
        daemon: Daemon,
        /// Which.
        epoch: Epoch,
    },
    /// It is not asked under any more.
    BankOverOk,

    // --- from a home to nodes that keep its bytes, and their answers --------------------------
    /// Keep these bytes of mine until they are in the store; they are the payload.
    Copy {
        /// The offset from which the first piece is counted.
        offset: u64,
        /// First byte, counted from there, and length of each piece.
        pieces: Vec<u32>,
        /// The home's count for them.
        ver: Ver,
    },
    /// I have bytes of the file that the store lacks, and am going to have more.
    Mark,
    /// The store has these pages, up to this count of mine. Answered if it is said of all pages: then the mark goes
    /// as well.
    Trim {
        /// First page.
        first: u64,
        /// How many; `u32::MAX` means to the end.
        count: u32,
        /// Bytes of a higher count stay.
        ver: Ver,
    },
    /// It is so, or there was no room for the bytes of at least one page.
    Kept(bool),
    /// Nodes are gone: bring to the store what you keep of theirs, then answer.
    Rescue {
        /// These.
        gone: Vec<u32>,
        /// These have been, and are back: what counts is what you keep of earlier lives.
        back: Vec<u32>,
    },
    /// It is there; and this is what the sender is to the file. The envelope has the latest generation that it knows.
    Rescued(Here),
    /// Nobody manages the file: take no write of the life in the envelope or one before, and bring to the store what you
    /// have of it. Then answer as to `Rescue`.
    Orphaned {
        /// The sender was gone: if the file is read from the store because of that, let go of it first.
        back: bool,
    },
    /// Keep this shard of my bytes until they are in the store; it is the payload. Answered with [`Body::Kept`].
    Shard {
        /// Number of the stripe.
        stripe: u32,
        /// Place in the stripe: data shards first, of which the first stays at the home.
        place: u32,
        /// The home's count for it.
        ver: Ver,
        /// The nodes that have the places from 1 on.
        keepers: Vec<NodeId>,
        /// With a parity shard: the page of each data shard.
        pages: Vec<u64>,
        /// With a parity shard: place, first byte and end of what the home wrote in it, one after another.
        ranges: Vec<u32>,
    },

    // --- between nodes that have shards of a home that is gone --------------------------------
    /// Bring what this life of the home had to the store, and then say what became of it.
    Over {
        /// The home.
        home: NodeId,
        /// Its life.
        life: u64,
        /// The last count of the shards that the asker has.
        ver: Ver,
    },
    /// This.
    OverIs(Fate),
    /// The shard of this stripe, please; answered with [`Body::OverIs`] where there is none.
    Gather {
        /// The home.
        home: NodeId,
        /// Its life.
        life: u64,
        /// Number of the stripe.
        stripe: u32,
        /// The count of its shards.
        ver: Ver,
    },
    /// It is the payload.
    Gathered,

    // --- any --------------------------------------------------------------------------------
    /// The request failed.
    Failed(RawErrno),
    /// The file has moved on to the generation in the envelope: ask again.
    OldGeneration,
    /// The sender has come so far in going over to the view of the envelope.
    Reached(crate::member::ViewStage),
    /// Are you there?
    Ping,
    /// Yes.
    Pong,
}

impl Body {
    /// No page for one use, from a node that writes none of those asked for by itself.
    pub(crate) fn none_of(page: u64) -> Body {
        Body::Grant {
            first: page,
            skip: 0,
            lens: Vec::new(),
            ver: Ver::default(),
            good: Use::Once,
            origin: Origin::Peer,
        }
    }

    /// Nothing of a page, from a node that does not write it by itself, or not any more.
    pub(crate) fn nothing_back(page: u64, grant: Ver) -> Body {
        Body::all_void(page, grant, Left::Nothing)
    }

    /// No bytes of a page, from a delegate whose bytes are overwritten.
    pub(crate) fn all_void(page: u64, grant: Ver, left: Left) -> Body {
        Body::Return {
            page,
            grant,
            ranges: Vec::new(),
            left,
        }
    }
}
