//! Guards: rules without which a promise breaks, each with a name.
//!
//! Shipped kernels keep all of them, and the compiler sees it: [`Config::keeps`] is a constant there.
//! The same sources are compiled once more, as `hearth-proto-canary`, where a configuration can be
//! without one of them, so that the checkers of the simulator can be seen to notice.

use crate::config::Config;
use crate::semantics::Semantics;

/// Declares the guards with their names and rules.
macro_rules! guards {
    ($($guard:ident, $name:literal, $rule:literal;)*) => {
        /// A rule without which a promise breaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Guard {
            $(#[doc = $rule] $guard,)*
        }

        impl Guard {
            /// All of them.
            pub const ALL: &[Guard] = &[$(Guard::$guard),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Guard::$guard => $name,)* }
            }

            /// Its rule.
            pub fn rule(self) -> &'static str {
                match self { $(Guard::$guard => $rule,)* }
            }
        }
    };
}

guards! {
    AcksBeforeApply, "acks-before-apply", "a write is applied after every reader has acknowledged";
    BusyPagesWait, "busy-pages-wait", "no copy is given of a page that an unfinished write changes";
    ReaderRecorded, "reader-recorded", "who is given a copy is remembered before it is sent";
    RevokedBeforeAck, "revoked-before-ack", "an invalidation is acknowledged after the ways in have dropped their pages";
    OwnCopyDropped, "own-copy-dropped", "a writer drops its own copies before it sends the bytes";
    FlushWaits, "flush-waits", "a flush is answered when what was dirty has reached the store";
    OldGenerationRefused, "old-generation-refused", "requests from before a cut are sent back";
    CutCallsBack, "cut-calls-back", "a cut calls copies back before the store changes";
    CutQuietsStore, "cut-quiets-store", "a cut waits for the store operations in flight";
    WriterAnnounced, "writer-announced", "others learn of a writer before its open is answered";
    AppendsInOrder, "appends-in-order", "appends end in the order in which they began";
    AppendsApart, "appends-apart", "an append is given a place behind those of others";
    EndTold, "end-told", "a write that lengthens the file is answered after its manager knows";
    ChangesAnnounced, "changes-announced", "names and attributes change after everybody has let go of them";
    ManagerFound, "manager-found", "names and attributes are kept where whoever changes them can find who manages them";
    OutsidersNoticed, "outsiders-noticed", "an open that finds another stamp voids what was cached";
    FillsFirst, "fills-first", "a write waits for the store read that fills its page";
    AsideHeld, "aside-held", "pages stay as they are while the store is read for a call that is larger than a pool";
    AsideEmptied, "aside-emptied", "a write that goes past the frames begins when they have nothing of its pages";
    ChangesReopened, "changes-reopened", "what other nodes have changed in the store is read through a descriptor that is opened after it";
    OldBytesKept, "old-bytes-kept", "what a delegate wrote is void only for a write that no reader can delay";
    CutSettlesTier, "cut-settles-tier", "a cut waits until the store has all that the tier had";
    CutEmptiesTier, "cut-empties-tier", "what a cut takes away is gone from the tier";
    AppliedTogether, "applied-together", "a write over several homes is applied after each of them has it";
    StagedUnread, "staged-unread", "pages of a write that another home may have applied are not read";
    OlderFirst, "older-first", "the younger of two operations over several homes gives way";
    FramesBack, "frames-back", "a write over several homes gives its frames to an older one that lacks some";
    CutsFirst, "cuts-first", "a write over several homes gives way to a cut";
    HoldsHonoured, "holds-honoured", "a write waits for reads over several homes that hold its pages";
    ReadsWhole, "reads-whole", "a read of several pages is made of bytes of one instant";
    GoneLetGo, "gone-let-go", "what a node that is gone had locked is let go";
    EntryGone, "entry-gone", "a write is answered after the daemons' entries of its blocks are gone";
    EntryNoted, "entry-noted", "an entry is noted at the gateway before a daemon is given it";
    PopulatesAlone, "populates-alone", "a write or cut waits for the populates of its blocks that are under way";
    OwedWait, "owed-wait", "a block that was written is not given to its daemon while another write or a cut touches it";
    CutEmptiesBank, "cut-empties-bank", "a cut waits until the daemons' entries of its blocks are gone";
    AttributesGone, "attributes-gone", "attributes change after the daemon's entry of them is gone";
    NamesOnce, "names-once", "names that a daemon has told serve one question and are not kept";
    EpochGrows, "epoch-grows", "a daemon that comes back gets a new epoch";
    LeaseWaited, "lease-waited", "an epoch is over when each client has confirmed it, or its lease has run out";
    LeaseHonoured, "lease-honoured", "a client asks daemons only while its lease lasts";
    VersionTold, "version-told", "an open is told another version while another node writes";
    OldVersionDropped, "old-version-dropped", "an open that is told another version drops what no home recorded";
    LateGrantOnce, "late-grant-once", "what was on its way when copies were dropped serves only the reads that wait";
    LaminationTold, "lamination-told", "every writer knows of a lamination before homes take writes again";
    DelegateCalledBack, "delegate-called-back", "nobody is given a page, and nobody else writes it, while a node writes it by itself";
    DelegateStops, "delegate-stops", "a node that was called back writes by itself no more";
    GrantMatched, "grant-matched", "what comes back counts for the grant that it names";
    ReturnedFirst, "returned-first", "what a node wrote by itself is at its homes before they are asked to flush";
    FlushCallsBack, "flush-calls-back", "a flush of all calls back what nodes write by themselves";
    StoppedFirst, "stopped-first", "a page moves on after its last delegate has stopped";
    MovedFollowed, "moved-followed", "a flush follows pages that have moved on with what its node wrote";
    CutCallsDelegates, "cut-calls-delegates", "a cut calls back what nodes write by themselves";
    OffersTakenBack, "offers-taken-back", "a page that programs may write by themselves is taken back before it is given away";
    PushRecorded, "push-recorded", "a node is remembered as a reader before a page is pushed to it";
    PushNotUnderWrite, "push-not-under-write", "a node takes no pushed page that it is writing";
    ScatteredFirst, "scattered-first", "a flush or sync comes after what its node has gathered is at its homes";
    Collected, "collected", "a cut or settlement comes after every writer has sent what it had gathered";
    ReplicatedFirst, "replicated-first", "a write is acknowledged after as many nodes have it as the job wants";
    ThroughIfFew, "through-if-few", "a write that too few nodes took is acknowledged after the store has it";
    MarkedFirst, "marked-first", "a write is acknowledged after another node knows that the file has bytes that may be lost";
    LossTold, "loss-told", "people are told when a home goes with bytes that nobody else has";
    WardSaved, "ward-saved", "what is kept for a home goes to the store when the home is gone";
    RescuedFirst, "rescued-first", "nothing is done about a file before what is kept for homes that are gone is in the store";
    LapsedFirst, "lapsed-first", "a manager that is back does nothing about a file before who used it meanwhile has let go";
    OrphanSettled, "orphan-settled", "a file whose manager is gone is in the store, and no home takes a write to it, before anybody goes there";
    BornRegistered, "born-registered", "a life of a file begins when its registrar, as it lives now, has named the manager";
    BegunTold, "begun-told", "a node tells of no life of a file that has not begun there";
    SameKeepers, "same-keepers", "a node that may still have bytes of a file keeps the next ones, before others do";
    ReopenedAtOnce, "reopened-at-once", "a node that tells of its handles anew does not wait for others";
    ClosedLater, "closed-later", "a manager that is told of handles anew hears of a close after it has answered";
    OneByOne, "one-by-one", "what was put aside goes on after all that the one before it has set off within its node";
    AskedAnew, "asked-anew", "what everybody has said of a file is asked again when another node is gone or a life has begun meanwhile";
    CutAnew, "cut-anew", "a truncation ends after a home that was gone meanwhile has let go as well";
    NameGoneFirst, "name-gone-first", "who has a file open goes to the store after its last name is gone";
    LeftTogether, "left-together", "a node that was not told that the last name is gone goes to the store as those who were";
    LifeAdopted, "life-adopted", "what a home has of a life that is over is not read in the next";
    TrimmedLate, "trimmed-late", "bytes are kept for a home until the store has them";
    CutEmptiesWards, "cut-empties-wards", "a cut waits until nobody keeps bytes of the file";
    HandedClosed, "handed-closed", "only a file that nobody has open is handed over to another home";
    CopiedAnew, "copied-anew", "when a node that kept bytes is gone another one gets them";
    SealedFirst, "sealed-first", "a close is answered after as many nodes have shards of what was written as the job wants";
    UnsealedFirst, "unsealed-first", "what is sealed is not written before the store has it and its shards are gone";
    ShardsKept, "shards-kept", "shards are kept for a home until the store has what they are of";
    GoneAnswersGiven, "gone-answers-given", "a peer that is gone is taken to have answered";
}

impl Guard {
    /// True for a rule about pages that a node writes by itself, or that are pushed, which policy `home:plus` alone has.
    pub fn is_of_delegates(self) -> bool {
        matches!(
            self,
            Guard::DelegateCalledBack
                | Guard::DelegateStops
                | Guard::GrantMatched
                | Guard::ReturnedFirst
                | Guard::FlushCallsBack
                | Guard::CutCallsDelegates
                | Guard::PushRecorded
                | Guard::PushNotUnderWrite
        )
    }

    /// True for a rule about pages that move to who overwrites them, which policy `single` alone has.
    pub fn is_of_moves(self) -> bool {
        matches!(
            self,
            Guard::MovedFollowed | Guard::StoppedFirst | Guard::OldBytesKept
        )
    }

    /// True for a rule about calls that are larger than the pool.
    pub fn is_of_asides(self) -> bool {
        matches!(self, Guard::AsideHeld | Guard::AsideEmptied)
    }

    /// True for a rule about replicas, which a job has if it wants them.
    pub fn is_of_replicas(self) -> bool {
        matches!(
            self,
            Guard::ReplicatedFirst
                | Guard::ThroughIfFew
                | Guard::MarkedFirst
                | Guard::LossTold
                | Guard::WardSaved
                | Guard::RescuedFirst
                | Guard::LapsedFirst
                | Guard::OrphanSettled
                | Guard::LeftTogether
                | Guard::AskedAnew
                | Guard::BornRegistered
                | Guard::SameKeepers
                | Guard::BegunTold
                | Guard::ReopenedAtOnce
                | Guard::ClosedLater
                | Guard::OneByOne
                | Guard::CutAnew
                | Guard::LifeAdopted
                | Guard::NameGoneFirst
                | Guard::TrimmedLate
                | Guard::CutEmptiesWards
                | Guard::CopiedAnew
                | Guard::SealedFirst
                | Guard::UnsealedFirst
                | Guard::ShardsKept
        )
    }

    /// True for a rule about tiers, which policy `local` alone has.
    pub fn is_of_tier(self) -> bool {
        matches!(self, Guard::CutSettlesTier | Guard::CutEmptiesTier)
    }

    /// The semantics of the files in which the rule counts.
    pub fn semantics(self) -> Semantics {
        let versions = [
            Guard::VersionTold,
            Guard::OldVersionDropped,
            Guard::LateGrantOnce,
            Guard::ScatteredFirst,
            Guard::Collected,
        ];
        match self == Guard::LaminationTold {
            true => Semantics::Commit,
            false if versions.contains(&self) => Semantics::Cto,
            false => Semantics::Posix,
        }
    }

    /// True for a rule about operations over several homes.
    pub fn is_of_ranges(self) -> bool {
        matches!(
            self,
            Guard::AppliedTogether
                | Guard::StagedUnread
                | Guard::OlderFirst
                | Guard::FramesBack
                | Guard::CutsFirst
                | Guard::HoldsHonoured
                | Guard::ReadsWhole
                | Guard::GoneLetGo
        )
    }

    /// True for a rule about the daemons of policy `bank`, which no other policy has.
    pub fn is_of_bank(self) -> bool {
        matches!(
            self,
            Guard::EntryGone
                | Guard::EntryNoted
                | Guard::PopulatesAlone
                | Guard::OwedWait
                | Guard::CutEmptiesBank
                | Guard::AttributesGone
                | Guard::NamesOnce
                | Guard::EpochGrows
                | Guard::LeaseWaited
                | Guard::LeaseHonoured
        )
    }
}

impl Config {
    /// True: shipped kernels keep every guard.
    #[cfg(not(feature = "canary"))]
    pub(crate) const fn keeps(&self, _: Guard) -> bool {
        true
    }

    /// True unless the configuration is without this guard.
    #[cfg(feature = "canary")]
    pub(crate) fn keeps(&self, guard: Guard) -> bool {
        self.without != Some(guard)
    }
}

/// Messages that a kernel without a guard may give itself within one step.
#[cfg(feature = "canary")]
const TURNS_MAX: u32 = 1 << 14;

/// Counts the messages that a node gives itself within a step, where a guard may be off.
#[derive(Default)]
pub(crate) struct Turns {
    #[cfg(feature = "canary")]
    taken: u32,
}

impl Turns {
    /// One more; a kernel without a guard may go round in circles.
    #[cfg_attr(
        not(feature = "canary"),
        expect(clippy::unused_self, reason = "shipped kernels do not count")
    )]
    pub(crate) fn take(&mut self) {
        #[cfg(feature = "canary")]
        {
            self.taken += 1;
            assert!(self.taken < TURNS_MAX, "a step does not end");
        }
    }
}
