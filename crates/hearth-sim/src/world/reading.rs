//! Reads through a handle whose pages the kernel keeps: from what is kept, else by locked keep-reads.

use super::World;
use super::session::{Action, Open};
use crate::model::{Read, Tick};
use hearth_proto::Request;

/// A keep-read that is due.
enum Next {
    /// All bytes are here.
    Ready(Vec<u8>),
    /// A page is locked by another read.
    Wait,
    /// These pages must be asked for: first and count.
    Fetch(u64, u32),
}

impl World {
    /// Takes the next step of a kept read.
    pub(crate) fn go_on_reading(&mut self, session: usize) {
        let Some((open, offset, len)) = self.reading(session) else {
            return;
        };
        let node = self.sessions[session].node;
        match self.next_of(session, &open, offset, len) {
            Next::Ready(bytes) => self.end_read(session, offset, len, bytes),
            Next::Wait => {
                self.hosts[node].kernel.waiters.insert(session);
            }
            Next::Fetch(first, count) => {
                for page in first..first + u64::from(count) {
                    self.hosts[node].kernel.lock((open.object, page));
                }
                let page_bytes = self.plan.page_bytes;
                let request = Request::Read {
                    handle: open.handle,
                    offset: first * u64::from(page_bytes),
                    len: count * page_bytes,
                    keep: true,
                    aside: false,
                };
                self.ask_for(session, request, Some((first, count)));
            }
        }
    }

    fn reading(&self, session: usize) -> Option<(Open, u64, u32)> {
        match self.sessions[session].doing.as_ref()?.action {
            Action::Read {
                handle,
                offset,
                len,
            } => Some((self.sessions[session].handles[handle].clone(), offset, len)),
            _ => None,
        }
    }

    fn next_of(&self, session: usize, open: &Open, offset: u64, len: u32) -> Next {
        let kernel = &self.hosts[self.sessions[session].node].kernel;
        let doing = self.sessions[session].doing.as_ref();
        let page_bytes = u64::from(self.plan.page_bytes);
        let end = offset + u64::from(len);
        let mut bytes = Vec::new();
        let mut fetch: Option<(u64, u32)> = None;
        for page in offset / page_bytes..end.div_ceil(page_bytes) {
            let from = (offset.max(page * page_bytes) - page * page_bytes) as usize;
            let to = (end.min((page + 1) * page_bytes) - page * page_bytes) as usize;
            let kept = kernel
                .page((open.object, page))
                .filter(|kept| kept.len() >= to);
            let given = doing.and_then(|doing| doing.fetched.get(&page));
            match (kept.or(given), &mut fetch) {
                (Some(known), None) => {
                    bytes.extend(known.get(from..to.min(known.len())).unwrap_or_default());
                    if known.len() < to {
                        return Next::Ready(bytes);
                    }
                }
                (Some(_), Some(_)) => break,
                (None, Some(_)) if kernel.is_locked((open.object, page)) => break,
                (None, Some((_, count))) => *count += 1,
                (None, None) if kernel.is_locked((open.object, page)) => return Next::Wait,
                (None, None) => fetch = Some((page, 1)),
            }
        }
        fetch.map_or(Next::Ready(bytes), |(first, count)| {
            Next::Fetch(first, count)
        })
    }

    /// Locked pages have been read, or not: keeps them and unlocks them.
    pub(crate) fn fetched(
        &mut self,
        session: usize,
        object: usize,
        (first, count): (u64, u32),
        bytes: Option<&[u8]>,
        keep: bool,
    ) {
        let node = self.sessions[session].node;
        let page_bytes = self.plan.page_bytes as usize;
        let mut parts = bytes.unwrap_or_default().chunks(page_bytes);
        for page in first..first + u64::from(count) {
            let part = parts.next().unwrap_or_default();
            let kept = bytes.map(|_| part).filter(|_| keep);
            self.hosts[node].kernel.unlock((object, page), kept);
            if let (Some(_), Some(doing)) = (bytes, &mut self.sessions[session].doing) {
                doing.fetched.insert(page, part.to_vec());
            }
        }
        self.unlocked(node);
    }

    /// Pages of the node have been unlocked: whoever waited for that goes on.
    fn unlocked(&mut self, node: usize) {
        for waiter in std::mem::take(&mut self.hosts[node].kernel.waiters) {
            self.go_on_reading(waiter);
        }
        if self.hosts[node].kernel.blocked {
            self.hosts[node].kernel.blocked = false;
            self.revoke_next(node);
        }
    }

    /// When a reading session last looked what others had published, where it need not each time.
    fn looked(&self, session: usize) -> Option<Tick> {
        let recorded = self
            .plan
            .semantics
            .under(self.plan.policy.rules())
            .is_recorded();
        let (open, ..) = self.reading(session).filter(|_| !recorded)?;
        Some(open.since)
    }

    /// The session has its bytes.
    pub(crate) fn end_read(&mut self, session: usize, offset: u64, len: u32, bytes: Vec<u8>) {
        self.tell_read(session, &bytes);
        let got = bytes.len() as u64;
        let end = offset + got;
        let sizes = match (got == u64::from(len), got) {
            (true, _) => (end, u64::MAX),
            (false, 0) => (0, offset),
            (false, _) => (end, end),
        };
        self.observe_size(session, sizes, "read");
        let span = self.interval(session);
        let since = self.looked(session).unwrap_or(span.began);
        let node = self.sessions[session].node as u32;
        if let Some(doing) = &self.sessions[session].doing {
            let kept = match doing.action {
                Action::Read { handle, .. } => self.sessions[session].handles[handle].keep,
                _ => true,
            };
            let read = Read {
                node,
                offset,
                bytes,
                span,
                since,
                whole: !kept,
            };
            self.store.objects[doing.object].history.reads.push(read);
        }
        self.done(session);
    }
}
