//! How the agent shows pages, and how a program knows that what it copied was one. Written over
//! [`Look`] and [`Board`], so that the model of the memory in `model.rs` runs these very lines.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};

use super::layout::{
    DIGEST, EXTENT, FILE, GATE, Layout, NAMES, NAMES_ARE_KEPT, NAMES_UNHEARD, OFFER, PAGE,
    SEQUENCE, UNTIL, WAYS,
};

/// Words that the agent and programs share, as a program sees them.
pub(crate) trait Look {
    fn load(&self, word: usize, order: Ordering) -> u64;
    fn fence(&self, order: Ordering);
}

/// The same words, as the agent sees them.
pub(crate) trait Board: Look {
    fn store(&self, word: usize, value: u64, order: Ordering);
}

/// A page of a file of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageName {
    /// The file's inode number.
    pub file: u64,
    /// The page's number in the file.
    pub page: u64,
}

impl PageName {
    #[inline(always)]
    fn hash(self) -> u64 {
        let mixed = (self.file ^ self.page.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^ (hash >> 32)
    }
}

/// A hint: the frame, and half of the page's hash, so that the header of another page, which is seldom
/// in the processor's cache, is not looked at for nothing. 0 is none.
#[inline(always)]
fn hint_to(frame: u32, hash: u64) -> u64 {
    (hash & TAG) | (u64::from(frame) + 1)
}

/// The upper half of a hash, and of a hint.
const TAG: u64 = !(u32::MAX as u64);

/// The frame that a hint leads to.
#[inline(always)]
fn frame_of(hint: u64) -> Option<u32> {
    ((hint & !TAG) as u32).checked_sub(1)
}

/// A page that was found; good as long as [`still`] says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) frame: u32,
    /// Bytes of the page that are in the frame, from its start.
    pub(crate) extent: u32,
    sequence: u64,
}

impl Found {
    /// Of no page: a place in an array.
    pub(crate) const NONE: Found = Found {
        frame: 0,
        extent: 0,
        sequence: 0,
    };
}

fn is_shown(sequence: u64) -> bool {
    sequence % 2 == 1
}

/// No copy of the frame is good from now on. Before anything of the frame changes (X1).
pub(crate) fn hide(board: &impl Board, layout: &Layout, frame: u32) {
    hide_at(board, layout.header(frame));
}

fn hide_at(board: &impl Board, header: usize) {
    let sequence = header + SEQUENCE;
    // Only the agent writes it, one thread at a time.
    let now = board.load(sequence, Relaxed);
    if is_shown(now) {
        board.store(sequence, now + 1, Relaxed);
    }
    // Pairs with the fence in `still`: a program that saw a later change sees this too (X2).
    board.fence(Release);
}

/// The frame holds the first `extent` bytes of `page`.
pub(crate) fn publish(
    board: &impl Board,
    layout: &Layout,
    frame: u32,
    page: PageName,
    extent: u32,
) {
    hide(board, layout, frame);
    let header = layout.header(frame);
    board.store(header + FILE, page.file, Relaxed);
    board.store(header + PAGE, page.page, Relaxed);
    board.store(header + EXTENT, u64::from(extent), Relaxed);
    // A reader of the page must not miss a write that was left for it.
    board.store(header + OFFER, 0, Relaxed);
    let now = board.load(header + SEQUENCE, Relaxed);
    // Pairs with the acquiring load in `look`: a program that finds the page finds its bytes.
    board.store(header + SEQUENCE, now + 1, Release);
    hint(board, layout, frame, page);
}

/// Leads from the page to the frame, perhaps in place of a hint to another.
fn hint(board: &impl Board, layout: &Layout, frame: u32, page: PageName) {
    let hash = page.hash();
    let bucket = layout.bucket(hash);
    let wanted = hint_to(frame, hash);
    let hints = || (0..WAYS).map(|way| (way, board.load(bucket + way, Relaxed)));
    if hints().any(|(_, hint)| hint == wanted) {
        return;
    }
    let is_dead = |hint: u64| match frame_of(hint) {
        Some(other) => {
            let header = layout.header(other);
            let shown = is_shown(board.load(header + SEQUENCE, Relaxed));
            !shown && board.load(header + OFFER, Relaxed) == 0
        }
        None => true,
    };
    let dead = hints().find(|&(_, hint)| is_dead(hint));
    let way = dead.map_or(frame as usize % WAYS, |(way, _)| way);
    board.store(bucket + way, wanted, Relaxed);
}

/// Calls `at` with the frame and header of each hint to the page; the first answer that is
/// something.
#[inline(always)]
fn hinted<T>(
    board: &impl Look,
    layout: &Layout,
    page: PageName,
    at: impl Fn(u32, usize) -> Option<T>,
) -> Option<T> {
    let hash = page.hash();
    let bucket = layout.bucket(hash);
    for way in 0..WAYS {
        let hint = board.load(bucket + way, Relaxed);
        if (hint ^ hash) & TAG != 0 {
            continue;
        }
        let Some(frame) = frame_of(hint).filter(|&frame| frame < layout.frames) else {
            continue;
        };
        let found = at(frame, layout.header(frame));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whether a header is of the page.
#[inline(always)]
fn names_page(board: &impl Look, header: usize, page: PageName) -> bool {
    board.load(header + FILE, Relaxed) == page.file
        && board.load(header + PAGE, Relaxed) == page.page
}

/// The frame of the page, if it can be read here.
#[inline(always)]
pub(crate) fn look(board: &impl Look, layout: &Layout, page: PageName) -> Option<Found> {
    hinted(board, layout, page, |frame, header| {
        // Pairs with the last store of `publish`.
        let sequence = board.load(header + SEQUENCE, Acquire);
        if !is_shown(sequence) || !names_page(board, header, page) {
            return None;
        }
        let extent = board.load(header + EXTENT, Relaxed);
        Some(Found {
            frame,
            extent: extent.min(layout.frame_bytes) as u32,
            sequence,
        })
    })
}

/// Programs may write the first `limit` bytes of `page`, which is in the frame, and cannot read it. While
/// the gate is shut.
pub(crate) fn offer(board: &impl Board, layout: &Layout, frame: u32, page: PageName, limit: u32) {
    hide(board, layout, frame);
    let header = layout.header(frame);
    board.store(header + FILE, page.file, Relaxed);
    board.store(header + PAGE, page.page, Relaxed);
    board.store(header + OFFER, u64::from(limit), Relaxed);
    hint(board, layout, frame, page);
}

/// They may no longer. While the gate is shut.
pub(crate) fn take_back(board: &impl Board, layout: &Layout, frame: u32) {
    board.store(layout.header(frame) + OFFER, 0, Relaxed);
}

/// How many bytes of a page programs may write, if the gate is open and stays so.
#[inline(always)]
pub(crate) fn offered(board: &impl Look, layout: &Layout, page: PageName) -> u64 {
    let limit = hinted(board, layout, page, |_, header| {
        names_page(board, header, page).then(|| board.load(header + OFFER, Relaxed))
    });
    limit.unwrap_or(0)
}

/// The gate's number: odd while it is open.
#[inline(always)]
pub(crate) fn gate(board: &impl Look) -> u64 {
    // Pairs with `open_gate`: offers are as they were made before.
    board.load(GATE, Acquire)
}

/// Nothing is left from now on that the caller does not see.
pub(crate) fn shut_gate(board: &impl Board) {
    let gate = board.load(GATE, Relaxed);
    board.store(GATE, gate + gate % 2, Relaxed);
    board.fence(SeqCst);
}

/// Programs may leave writes.
pub(crate) fn open_gate(board: &impl Board) {
    let gate = board.load(GATE, Relaxed);
    board.store(GATE, gate | 1, Release);
}

/// Whether the frame is as it was found, so that what was copied of it meanwhile is the page.
#[inline(always)]
pub(crate) fn still(board: &impl Look, layout: &Layout, found: &Found) -> bool {
    // Pairs with the fence in `hide`.
    board.fence(Acquire);
    board.load(layout.header(found.frame) + SEQUENCE, Relaxed) == found.sequence
}

/// The attributes that the agent last told the operating system of a file; believed as long as
/// [`still_told`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldAttributes {
    place: usize,
    sequence: u64,
    names: u64,
    /// Of the attributes that were told.
    pub digest: u64,
    /// When they are no longer believed, in nanoseconds of the clock that nobody sets.
    pub until_ns: u64,
}

impl ToldAttributes {
    /// Whether it was told when names had changed so often.
    pub fn is_of(&self, names: &NamesMark) -> bool {
        self.names == names.changed
    }
}

/// The counts of names at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesMark {
    changed: u64,
    unheard: u64,
}

/// Notes that a file's attributes were told to the operating system, which believes them for a
/// time.
pub(crate) fn tell(board: &impl Board, layout: &Layout, file: u64, digest: u64, until_ns: u64) {
    let place = layout.place(file);
    if is_told(board, place, file, digest) {
        // Answers that programs keep stay good; each has a time of its own.
        return board.store(place + UNTIL, until_ns, Relaxed);
    }
    hide_at(board, place);
    board.store(place + FILE, file, Relaxed);
    board.store(place + DIGEST, digest, Relaxed);
    board.store(place + UNTIL, until_ns, Relaxed);
    let now = board.load(place + SEQUENCE, Relaxed);
    // Pairs with the acquiring load in `told`.
    board.store(place + SEQUENCE, now + 1, Release);
}

/// The agent's own look: nobody else writes there.
fn is_told(board: &impl Board, place: usize, file: u64, digest: u64) -> bool {
    is_shown(board.load(place + SEQUENCE, Relaxed))
        && board.load(place + FILE, Relaxed) == file
        && board.load(place + DIGEST, Relaxed) == digest
}

/// Takes back the attributes told of a file, before anybody is told that they changed (X5).
pub(crate) fn untell(board: &impl Board, layout: &Layout, file: u64) {
    let place = layout.place(file);
    if board.load(place + FILE, Relaxed) == file {
        hide_at(board, place);
    }
}

/// A name was made, moved or removed, or leads where it did not. As for `untell`.
pub(crate) fn change_names(board: &impl Board) {
    let names = board.load(NAMES, Relaxed);
    board.store(NAMES, names + 1, Relaxed);
    board.fence(Release);
}

/// A name was told that may change without [`change_names`]. Before it is told.
pub(crate) fn tell_unheard(board: &impl Board) {
    let unheard = board.load(NAMES_UNHEARD, Relaxed);
    board.store(NAMES_UNHEARD, unheard + 1, Relaxed);
    board.fence(Release);
}

/// The attributes told of a file, if they are there.
#[inline(always)]
pub(crate) fn told(board: &impl Look, layout: &Layout, file: u64) -> Option<ToldAttributes> {
    let place = layout.place(file);
    let names = board.load(NAMES, Acquire);
    // Pairs with the last store of `tell`.
    let sequence = board.load(place + SEQUENCE, Acquire);
    if !is_shown(sequence) || board.load(place + FILE, Relaxed) != file {
        return None;
    }
    let told = ToldAttributes {
        place,
        sequence,
        names,
        digest: board.load(place + DIGEST, Relaxed),
        until_ns: board.load(place + UNTIL, Relaxed),
    };
    // Pairs with the fence of `hide_at`: the words are of this sequence.
    board.fence(Acquire);
    still_told(board, &told).then_some(told)
}

/// Whether nothing about the file or any name has changed since. A program that has heard of a change
/// sees it here.
#[inline(always)]
pub(crate) fn still_told(board: &impl Look, told: &ToldAttributes) -> bool {
    board.load(told.place + SEQUENCE, Acquire) == told.sequence
        && board.load(NAMES, Acquire) == told.names
}

/// The counts of names now.
pub(crate) fn names(board: &impl Look) -> NamesMark {
    NamesMark {
        changed: board.load(NAMES, Acquire),
        unheard: board.load(NAMES_UNHEARD, Acquire),
    }
}

/// Whether a program may keep what a path has led it to since `names` were counted (X6).
pub(crate) fn are_heard_since(board: &impl Look, names: &NamesMark) -> bool {
    board.load(NAMES_ARE_KEPT, Relaxed) == 1 || board.load(NAMES_UNHEARD, Acquire) == names.unheard
}
