//! The beginning of a small world, and the rules that must hold whenever nothing is under way in it.
//!
//! A world at rest is one in which nothing can happen but what somebody chooses. There no operation may be
//! unfinished (I16): it would wait for a choice that nobody has to make. And from there the world must come
//! clean (I17). Handles are closed and dirty bytes are flushed, one thing after another in a fixed order.
//! Then nothing is dirty, held or owed, and the store has what a last reader may see.

use super::host::{Doing, What};
use super::{Small, SmallEvent};
use crate::check::Violation;
use crate::explore::Story;
use hearth_proto::{Input, OpenRequest, Request, Semantics};
use std::rc::Rc;

/// Steps to come clean in; a few dozen are usual.
const STEPS_MAX: u32 = 10_000;

/// Times that a node may be due before its descriptors are released; two are usual.
const TICKS_MAX: u32 = 16;

impl Small {
    pub(super) fn open_everywhere(&mut self) -> Result<(), Violation> {
        self.start_bank()?;
        for write in [false, true] {
            for node in self.clients() {
                let stamp = self.stamp();
                let (file, private) = (self.file, false);
                let began = Rc::make_mut(&mut self.book).begin();
                let host = self.host(node);
                let ticket = host.new_ticket();
                host.doing = Some(Doing::new(ticket, What::Open, began));
                let open = OpenRequest {
                    view: hearth_proto::View(1),
                    file,
                    write,
                    stamp,
                    private,
                    semantics: Semantics::Posix,
                };
                let request = Input::Request(ticket, Request::Open(open));
                self.step(node, request, &mut Story::untold())?;
                self.settle(&mut Story::untold())?;
            }
        }
        for node in self.clients() {
            let host = self.host(node);
            if !host.reading.1 {
                host.reading = (host.writing, false);
            }
        }
        // Nothing is under way, so this changes nothing but that every node is written down.
        for node in 0..self.hosts.len() {
            let words = Rc::new(self.words_of(node));
            Rc::make_mut(&mut self.hosts[node]).words = Some(words);
        }
        Ok(())
    }

    /// Lets happen what nobody chooses, one after another.
    fn settle(&mut self, story: &mut Story) -> Result<(), Violation> {
        use crate::explore::World;
        let mut events: Vec<SmallEvent> = Vec::new();
        for _ in 0..STEPS_MAX {
            events.clear();
            self.consequences(&mut events);
            match events.first() {
                Some(&event) => self.happen(event, story)?,
                None => return Ok(()),
            }
        }
        Err(Violation::liveness(
            "the world does not come to rest".to_owned(),
        ))
    }

    pub(super) fn judge_rest(&self) -> Result<(), Violation> {
        let mut events = Vec::new();
        self.consequences(&mut events);
        if !events.is_empty() {
            return Ok(());
        }
        let waits = |host: &Rc<super::Host>| host.doing.clone().map(|doing| doing.what);
        if let Some(what) = self.hosts.iter().find_map(waits) {
            let what = format!("nothing can happen, and {what:?} is not answered");
            return Err(Violation::liveness(what));
        }
        self.clone().come_clean()
    }

    fn come_clean(&mut self) -> Result<(), Violation> {
        let story = &mut Story::untold();
        let nodes: Vec<u8> = (0..self.scope.nodes as u8).collect();
        let alive = |world: &Small, node: u8| world.hosts[node as usize].alive;
        for &node in nodes
            .iter()
            .filter(|&&node| alive(self, node))
            .collect::<Vec<_>>()
        {
            for handle in self.hosts[node as usize].handles.clone() {
                let ticket = self.host(node).new_ticket();
                self.step(node, Input::Request(ticket, Request::Close(handle)), story)?;
                self.settle(story)?;
            }
        }
        for &node in nodes
            .iter()
            .filter(|&&node| alive(self, node))
            .collect::<Vec<_>>()
        {
            self.flush(node, story)?;
            self.settle(story)?;
        }
        for node in nodes {
            self.outlast(node, story)?;
        }
        self.is_clean()
    }

    /// A writer's descriptor stays until its homes are asked whether they need it, when their flush is long over.
    fn outlast(&mut self, node: u8, story: &mut Story) -> Result<(), Violation> {
        for _ in 0..TICKS_MAX {
            let host = self.host(node);
            let Some(due) = host.node.deadline() else {
                break;
            };
            if host.handles.is_empty() || !host.alive {
                break;
            }
            host.now = due.max(host.now);
            self.step(node, Input::Tick, story)?;
            self.settle(story)?;
        }
        Ok(())
    }

    fn is_clean(&mut self) -> Result<(), Violation> {
        for host in self.hosts.iter().filter(|host| host.alive) {
            let (id, status) = (host.node.config().me, host.node.status());
            if status.dirty_bytes > 0 {
                let what = format!("{id:?}: {} bytes are still dirty", status.dirty_bytes);
                return Err(Violation::new("durable", what));
            }
            if status.requests_open > 0 || !host.handles.is_empty() {
                let what = format!("{id:?}: requests or handles are left");
                return Err(Violation::liveness(what));
            }
            if host.bufs() > 0 {
                let what = format!("{id:?}: {} buffers were not freed", host.bufs());
                return Err(Violation::contract(what));
            }
        }
        let store = self.store.clone();
        let page_bytes = self.scope.page_bytes;
        Rc::make_mut(&mut self.book).close(&store, page_bytes)
    }
}
