//! A file moves to another home together with its pages in memory.
//!
//! Some policies give a file one home. Under these a home whose memory is full may hand a file to a node with
//! room, its *heir*, if nobody has it open. All of such a file is in the store: the pages that are handed over
//! need not be read from there again.
//!
//! ```text
//!   home                     manager                       heir
//!     │  HandOver(heir)         │                            │
//!     ├────────────────────────▶│  opens wait                │
//!     │        Cut(HandOver)    │                            │
//!     │◀────────────────────────┤                            │
//!     │  Hand(page), its bytes  │                            │
//!     ├─────────────────────────┼───────────────────────────▶│  set aside
//!     │                         │                    Handed  │
//!     │◀────────────────────────┼────────────────────────────┤
//!
//!     │  CutOk                  │  Inherit                   │
//!     ├────────────────────────▶├───────────────────────────▶│  the file's pages
//!     │    Resume, HandedOver   │                            │
//!     │◀────────────────────────┤                            │
//! ```
//!
//! Invariants:
//! - HANDOVER-1 (I3): pages that were handed over are set aside until the manager says that the heir is the home. They
//!   count only in the generation of its cut. And they count only if nothing but reads of the file has come to
//!   the heir before. Other nodes may know already where the home is, and their word can be quicker than the
//!   manager's.
//! - HANDOVER-2: it lies in frames that were free, of a share of the pool, and goes when any node is gone. Nobody could
//!   say then whether the manager will ever decide.

use super::{Authority, Home};
use crate::ctx::Ctx;
use crate::effect::{Effect, Piece, Src};
use crate::errno::ENOSPC;
use crate::frames::{Owner, Slot};
use crate::ids::{FileId, Gen, NodeId};
use crate::msg::{Body, Envelope};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Pages that are under way to an heir at a time.
const UNDER_WAY_MAX: usize = 16;

/// Share of the pool that an heir sets aside at most, as a divisor.
const SHARE: u32 = 4;

/// Share of the pool that stays free at an heir, as a divisor. It is more than where a home begins to look for
/// one, so that no file goes round in circles.
const FREE: u32 = 8;

/// How far a home has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Handing {
    /// Pages below this have been sent.
    next: u64,
    /// The heir has taken some.
    taken: bool,
    /// It has no room for more.
    over: bool,
}

/// Pages that are set aside at an heir, by file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Legacies {
    files: BTreeMap<FileId, Legacy>,
    frames: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Legacy {
    generation: Gen,
    /// Frames with the bytes of pages, and how many they are.
    pages: BTreeMap<u64, (Slot, u32)>,
}

impl Legacies {
    fn take(&mut self, file: FileId) -> Option<Legacy> {
        let legacy = self.files.remove(&file)?;
        self.frames -= legacy.pages.len() as u32;
        Some(legacy)
    }

    pub(super) fn give_up(&mut self, ctx: &mut Ctx<'_>, file: FileId) {
        let legacy = self.take(file).unwrap_or_default();
        for (slot, _) in legacy.pages.into_values() {
            ctx.frames.give_back(slot);
        }
    }
}

impl Home<'_, '_> {
    /// Sends the heir the next pages; true while it has to answer for some.
    pub(super) fn hand_pages(&mut self, heir: NodeId) -> bool {
        let handing = self.file.bar.as_ref().map(|bar| bar.handing);
        let Some(Handing { next, taken, .. }) = handing.filter(|handing| !handing.over) else {
            return false;
        };
        let most = if taken { UNDER_WAY_MAX } else { 1 };
        let here = |(&number, page): (&u64, &super::Page)| {
            let slot = page.slot.filter(|&slot| self.ctx.frames.valid(slot))?;
            let whole = page.filled && page.dirty.is_empty() && page.extent > 0;
            whole.then_some((number, slot, page.extent))
        };
        let pages = self.file.pages.range(next..).filter_map(here);
        let pages: Vec<(u64, Slot, u32)> = pages.take(most).collect();
        let (id, generation) = (self.id, self.file.generation);
        for &(page, slot, len) in &pages {
            let piece = Piece {
                src: Src::Frame(slot.frame),
                at: 0,
                len,
            };
            let (body, data) = (Body::Hand { page }, alloc::vec![piece]);
            let req = self.ctx.ask_with(heir, id, generation, body, data);
            self.common.acks.insert(req.seq, id);
            if let Some(bar) = &mut self.file.bar {
                bar.awaiting.push((heir, req.seq));
                bar.handing.next = page + 1;
            }
        }
        !pages.is_empty()
    }

    /// The heir has answered. One without room for the first page is none: the file stays here.
    pub(super) fn handed_page(&mut self, taken: bool) {
        let Some(bar) = &mut self.file.bar else {
            return;
        };
        if !taken && !bar.handing.taken {
            bar.result = Err(ENOSPC);
        }
        bar.handing.taken |= taken;
        self.ctx.stats.handed_pages += u64::from(taken);
        bar.handing.over |= !taken;
    }

    /// The pages that were set aside are the file's now.
    fn take_over(&mut self, pages: BTreeMap<u64, (Slot, u32)>) {
        for (number, (slot, len)) in pages {
            let known = self.file.pages.contains_key(&number) || self.file.bar.is_some();
            if known {
                self.ctx.frames.give_back(slot);
                continue;
            }
            let page = self.file.pages.entry(number).or_default();
            page.slot = Some(slot);
            page.filled = true;
            page.extent = len;
            page.settle(self.ctx.frames);
            self.ctx.stats.inherited_pages += 1;
        }
    }
}

impl Authority {
    /// A page comes of which this node may become the home.
    pub(super) fn handed(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: NodeId,
        ask: &Envelope,
        data: Option<Piece>,
    ) {
        let Body::Hand { page } = ask.body else {
            return;
        };
        let taken = data.is_some_and(|bytes| self.set_aside(ctx, ask, page, bytes));
        if let Some(Piece {
            src: Src::Buf(buf), ..
        }) = data
        {
            ctx.out.push(Effect::Free(buf));
        }
        let body = Body::Handed { taken };
        ctx.answer(from, ask.file, ask.generation, ask.req, body);
    }

    fn set_aside(&mut self, ctx: &mut Ctx<'_>, ask: &Envelope, page: u64, bytes: Piece) -> bool {
        let (file, generation) = (ask.file, ask.generation);
        let known = self.generation(file);
        let frames = ctx.config.frames;
        let legacies = &mut self.common.legacies;
        if legacies.files.get(&file).map(|legacy| legacy.generation) != Some(generation) {
            legacies.give_up(ctx, file);
        }
        let room = legacies.frames < frames / SHARE && ctx.frames.free() > frames / FREE;
        let old = generation < known || bytes.len > ctx.config.page_bytes;
        let legacy = legacies.files.get(&file);
        let twice = legacy.is_some_and(|legacy| legacy.pages.contains_key(&page));
        if old || !room || twice {
            return false;
        }
        let Some(slot) = ctx.frames.take(Owner::Authority(file, page)) else {
            return false;
        };
        let legacy = legacies.files.entry(file).or_default();
        legacies.frames += 1;
        legacy.generation = generation;
        legacy.pages.insert(page, (slot, bytes.len));
        ctx.out.push(Effect::Fill {
            frame: slot.frame,
            at: 0,
            from: bytes,
        });
        true
    }

    /// The manager has decided: this node is the home from now on, or not.
    pub(super) fn inherit(&mut self, ctx: &mut Ctx<'_>, told: &Envelope, is: bool) {
        let file = told.file;
        let legacy = self.common.legacies.files.get(&file);
        let counts = is && legacy.is_some_and(|legacy| legacy.generation == told.generation);
        match counts {
            false => self.common.legacies.give_up(ctx, file),
            true => {
                let legacy = self.common.legacies.take(file).unwrap_or_default();
                let mut home = self.home(ctx, file);
                home.adopt(told.generation);
                home.take_over(legacy.pages);
                home.pump();
                self.tidy(ctx, file);
            }
        }
    }

    /// A node is gone (HANDOVER-2).
    pub(super) fn give_up_legacies(&mut self, ctx: &mut Ctx<'_>) {
        let files: Vec<FileId> = self.common.legacies.files.keys().copied().collect();
        for file in files {
            self.common.legacies.give_up(ctx, file);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Policy};
    use crate::effect::Effect;
    use crate::ids::{Buf, FileId, Gen, NodeId, ReqId, View};
    use crate::input::Input;
    use crate::msg::{Body, Envelope};
    use crate::node::Node;
    use crate::time::Time;
    use alloc::vec::Vec;

    const FILE: FileId = FileId(7);
    const HOME: NodeId = NodeId(0);
    const WRITER: NodeId = NodeId(2);

    fn told(from: NodeId, seq: u64, body: Body, data: Option<(Buf, u32)>) -> Input {
        let req = ReqId {
            node: from,
            inc: 1,
            seq,
        };
        let envelope = Envelope {
            view: View(1),
            file: FILE,
            generation: Gen { life: 3, cut: 1 },
            req,
            body,
        };
        Input::Message {
            from,
            envelope,
            data,
        }
    }

    /// An heir that has been handed the first page.
    fn heir() -> Node {
        let config = Config {
            policy: Policy::Local,
            page_bytes: 16,
            frames: 64,
            ..Config::new(NodeId(1), 3)
        };
        let (mut node, mut out) = (Node::new(config), Vec::new());
        let hand = told(HOME, 1, Body::Hand { page: 0 }, Some((Buf(90), 16)));
        node.step(Time(0), hand, &mut out);
        let taken = |effect: &Effect| matches!(effect, Effect::Send { envelope, .. } if envelope.body == Body::Handed { taken: true });
        assert!(out.iter().any(taken), "{out:?}");
        node
    }

    fn inherits(node: &mut Node) -> Vec<u64> {
        let is = told(HOME, 2, Body::Inherit { is: true }, None);
        node.step(Time(2), is, &mut Vec::new());
        node.assert_valid();
        node.held().map(|(_, page, _)| page).collect()
    }

    #[test]
    fn what_is_handed_over_counts_when_the_manager_says_so() {
        let mut node = heir();
        assert_eq!(node.held().count(), 0);
        assert_eq!(inherits(&mut node), [0]);
    }

    #[test]
    fn what_is_handed_over_is_void_once_somebody_writes() {
        let mut node = heir();
        let write = Body::Write {
            offset: 16,
            len: 16,
            dropped: true,
            record: true,
            alone: false,
            aside: false,
        };
        let write = told(WRITER, 1, write, Some((Buf(91), 16)));
        node.step(Time(1), write, &mut Vec::new());
        assert_eq!(inherits(&mut node), [1]);
    }

    #[test]
    fn what_is_handed_over_goes_with_any_node_that_goes() {
        let mut node = heir();
        node.step(Time(1), Input::PeerDown(WRITER), &mut Vec::new());
        assert_eq!(inherits(&mut node), []);
        assert_eq!(node.frames_free(), 64);
    }
}
