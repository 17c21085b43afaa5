//! Sessions: one operation after another, through the front end of their node.

use super::{Event, World};
use crate::check::Violation;
use crate::model::{ChangeKind, Interval, Sized, Tick};
use hearth_proto::{
    FileId, Handle, Input, NodeId, OpenRequest, Request, Semantics, Stamp, Ticket, Time, WriteAt,
};
use std::collections::BTreeMap;

/// An operation of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Open a file; the handle comes last in the session's list.
    Open {
        /// Which.
        file: FileId,
        /// For writing.
        write: bool,
    },
    /// Read.
    Read {
        /// Place in the session's list of handles.
        handle: usize,
        /// First byte.
        offset: u64,
        /// So many.
        len: u32,
    },
    /// Write.
    Write {
        /// Place in the session's list of handles.
        handle: usize,
        /// The place to write to.
        at: WriteAt,
        /// So many bytes.
        len: u32,
    },
    /// Do what close promises.
    Flush(usize),
    /// Do what fsync promises.
    Sync(usize),
    /// Do what a lock promises.
    Exchange(usize),
    /// Close without a flush.
    Close(usize),
    /// Ask for the size.
    Stat {
        /// Which file.
        file: FileId,
        /// Ask others.
        ask: bool,
    },
    /// Ask for the attributes, and keep them if there is leave.
    Look(FileId),
    /// Set the size.
    Truncate {
        /// Which file.
        file: FileId,
        /// To this.
        size: u64,
    },
    /// Take the last name away.
    Unlink(FileId),
    /// Make a file of a number that is free.
    Create {
        /// Its number.
        file: FileId,
        /// Its size at birth.
        size: u64,
    },
    /// Every dirty byte to the store.
    Settle(FileId),
    /// Have another node be its home.
    HandOver {
        /// Which file.
        file: FileId,
        /// The next home.
        heir: NodeId,
    },
    /// Have the store let nobody write it any more.
    Laminate(FileId),
    /// Change the attributes.
    Restamp(FileId),
    /// Start bringing dirty bytes of the node to the store.
    FlushAll,
    /// Somebody else writes to the store.
    Outside {
        /// Which file.
        file: FileId,
        /// First byte.
        offset: u64,
        /// So many bytes.
        len: u32,
    },
}

/// An open handle of a session.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) handle: Handle,
    pub(crate) object: usize,
    pub(crate) write: bool,
    /// The kernel keeps what it reads through it.
    pub(crate) keep: bool,
    /// When the session last looked what others had published.
    pub(crate) since: Tick,
}

/// Files whose attributes are asked for at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) files: Vec<FileId>,
    /// How often they were asked for.
    pub(crate) questions: u32,
}

/// The operation that a session waits for.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    pub(crate) action: Action,
    pub(crate) object: usize,
    pub(crate) began: Tick,
    pub(crate) since: Time,
    /// Its change in the object's history.
    pub(crate) change: Option<usize>,
    /// The kernel's count of dropped attributes when it began.
    pub(crate) attributes: u64,
    /// Changes of the object's attributes that were over by then.
    pub(crate) mode: u32,
    /// All who lived then knew who was dead.
    pub(crate) all_heard: bool,
    /// An outsider had written, and nobody had opened the object since.
    pub(crate) outside: bool,
    /// The latest write that had been acknowledged began then.
    pub(crate) dated: Time,
    /// Attributes are kept by nobody, as far as this needs that.
    pub(crate) let_go: bool,
    /// Files that it has asked for at once, and what it has asked of them.
    pub(crate) batch: Batch,
    /// It is a close that seals what its node wrote.
    pub(crate) seals: bool,
    /// Pages that a keep-read has been given.
    pub(crate) fetched: BTreeMap<u64, Vec<u8>>,
}

/// One session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) node: usize,
    pub(crate) handles: Vec<Open>,
    pub(crate) doing: Option<Doing>,
    pub(crate) finished: bool,
}

/// A ticket that the kernel has not answered.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) session: usize,
    pub(crate) object: usize,
    pub(crate) request: Request,
    /// Pages that are locked until the answer: first and count.
    pub(crate) pages: Option<(u64, u32)>,
}

impl World {
    /// An operation that begins now.
    fn doing(&mut self, session: usize, object: usize, action: Action) -> Doing {
        Doing {
            action,
            object,
            began: self.tick(),
            since: self.now,
            change: None,
            attributes: self.hosts[self.sessions[session].node].kernel.attributes,
            mode: self.store.objects[object].mode,
            outside: self.store.objects[object].outside,
            dated: self.store.objects[object].dated,
            all_heard: self.have_all_heard(),
            let_go: false,
            batch: Batch::default(),
            seals: false,
            fetched: BTreeMap::new(),
        }
    }

    /// A session begins an operation. If it names a file that is not there, nothing happens.
    pub(crate) fn begin(&mut self, session: usize, action: Action) {
        let Some(object) = self.object_of(session, &action) else {
            return self.rest(session);
        };
        let doing = self.doing(session, object, action.clone());
        self.note(session, &action);
        self.mark_redone(object, &action);
        self.sessions[session].doing = Some(doing);
        self.store.objects[object].users += 1;
        match action {
            Action::Open { file, write } => self.begin_open(session, file, write),
            Action::Read {
                handle,
                offset,
                len,
            } => {
                let Open { handle, keep, .. } = self.sessions[session].handles[handle];
                if keep {
                    return self.go_on_reading(session);
                }
                let (keep, aside) = (false, self.is_aside(offset, len));
                let read = Request::Read {
                    handle,
                    offset,
                    len,
                    keep,
                    aside,
                };
                self.ask(session, read);
            }
            Action::Write { handle, at, len } => self.begin_write(session, handle, at, len),
            Action::Flush(handle) => {
                let handle = self.sessions[session].handles[handle].handle;
                self.ask(session, Request::Flush(handle));
            }
            Action::Sync(handle) => {
                let handle = self.sessions[session].handles[handle].handle;
                self.ask(session, Request::Sync(handle));
            }
            Action::Exchange(handle) => {
                let handle = self.sessions[session].handles[handle].handle;
                self.ask(session, Request::Exchange(handle));
            }
            Action::Close(handle) => self.close(session, handle),
            Action::Stat { file, ask } => self.begin_stat(session, object, file, ask),
            // The store refuses it.
            Action::Truncate { .. } if self.store.objects[object].read_only => self.done(session),
            Action::Truncate { file, size } => {
                self.begin_change(session, ChangeKind::Cut, size..u64::MAX, 0);
                self.ask(session, Request::Truncate { file, size });
            }
            Action::Unlink(file) => self.begin_unlink(session, file),
            Action::Settle(file) => self.ask(session, Request::Settle(file)),
            Action::HandOver { file, heir } => {
                self.ask(session, Request::HandOver { file, heir });
            }
            Action::Laminate(file) => self.begin_laminate(session, object, file),
            Action::Restamp(file) => self.begin_restamp(session, object, file),
            Action::Look(file) => self.begin_look(session, object, file),
            Action::Outside { offset, len, .. } => self.outside(session, object, offset, len),
            Action::Create { .. } => self.done(session),
            Action::FlushAll => {
                let node = self.sessions[session].node;
                let ticket = Ticket(self.hosts[node].new_name());
                self.step(node, Input::Request(ticket, Request::FlushAll));
                self.done(session);
            }
        }
    }

    fn object_of(&mut self, session: usize, action: &Action) -> Option<usize> {
        let named = |world: &World, file: &FileId| {
            let object = *world.store.current.get(file)?;
            (!world.is_leaving(object)).then_some(object)
        };
        match action {
            Action::Open { file, .. }
            | Action::Stat { file, .. }
            | Action::Look(file)
            | Action::Truncate { file, .. }
            | Action::Settle(file)
            | Action::HandOver { file, .. }
            | Action::Laminate(file)
            | Action::Restamp(file) => named(self, file),
            Action::Unlink(file) => named(self, file).filter(|&o| !self.is_being_named(o)),
            Action::Outside { file, .. } => named(self, file).filter(|&o| self.is_at_rest(o)),
            Action::Read { handle, .. }
            | Action::Write { handle, .. }
            | Action::Flush(handle)
            | Action::Sync(handle)
            | Action::Exchange(handle)
            | Action::Close(handle) => Some(self.sessions[session].handles.get(*handle)?.object),
            Action::Create { file, size } => self.create(*file, *size),
            Action::FlushAll => Some(0),
        }
    }

    /// Writes that meet the end of the last name may be done twice.
    fn mark_redone(&mut self, object: usize, action: &Action) {
        if !matches!(action, Action::Unlink(_)) {
            return;
        }
        let changes = self.store.objects[object].history.changes.iter_mut();
        let open = changes.filter(|change| change.span.ended == crate::model::OPEN);
        open.for_each(|change| change.redone = true);
    }

    fn doing_to(&self, object: usize, what: fn(&Action) -> bool) -> bool {
        let doing = self
            .sessions
            .iter()
            .filter_map(|session| session.doing.as_ref());
        let mut same = doing.filter(|doing| doing.object == object);
        same.any(|doing| what(&doing.action))
    }

    /// True if the object has no name any more, or is about to lose it.
    fn is_leaving(&self, object: usize) -> bool {
        let unlinks = |action: &Action| matches!(action, Action::Unlink(_));
        self.store.objects[object].unlinked || self.doing_to(object, unlinks)
    }

    /// True if an operation is under way that found the object by its name. An open that races with
    /// the end of the last name may be served as one of the next file of that number.
    fn is_being_named(&self, object: usize) -> bool {
        self.doing_to(object, |action| {
            matches!(
                action,
                Action::Open { .. }
                    | Action::Truncate { .. }
                    | Action::Settle(_)
                    | Action::HandOver { .. }
                    | Action::Laminate(_)
            )
        })
    }

    /// A file of this number, if the number is free.
    pub(crate) fn create(&mut self, file: FileId, size: u64) -> Option<usize> {
        let free = self.store.current.get(&file).is_none_or(|&object| {
            let object = &self.store.objects[object];
            object.unlinked && object.users == 0
        });
        let holds = |host: &super::Host| host.held.contains(&file) || host.node().is_home_of(file);
        if !free || self.hosts.iter().any(holds) {
            return None;
        }
        let mut history = crate::model::History::born(size, self.tick(), self.tick());
        // Nodes that have been apart may serve the new file as they did the last of that number.
        history.parted = self.apart;
        history.lossy = self.apart && !self.keeps_bytes();
        history.strict = self.plan.strict && self.plan.replicas.shards().is_some();
        history.semantics = self.promised();
        let value = history.changes[1].value;
        Some(self.store.create(file, vec![value; size as usize], history))
    }

    /// Nobody uses the object, all of it is in the store, and its manager has heard of the last close (S11).
    fn is_at_rest(&self, object: usize) -> bool {
        // Bytes that reach the store after their last close change its stamp as an outsider does, so
        // only a file that the job itself has not written can tell the two apart.
        let changes = &self.store.objects[object].history.changes;
        changes.iter().all(|change| change.node == u32::MAX)
            && self.store.objects[object].users == 0
            && self.store_busy == 0
            && !self.links.carry_close(self.store.objects[object].file)
            && self
                .hosts
                .iter()
                .all(|host| host.node().status().dirty_bytes == 0)
            && self.store.objects[object].history.has_values()
    }

    fn begin_open(&mut self, session: usize, file: FileId, write: bool) {
        let object = self.store.current[&file];
        let node = self.sessions[session].node;
        self.hosts[node].store_client.forget(object);
        let read_only = self.store.objects[object].read_only;
        if write && read_only {
            // The store refuses it.
            return self.done(session);
        }
        let semantics = match self.plan.semantics {
            Semantics::Commit if read_only => Semantics::Laminated,
            semantics => semantics,
        };
        let open = OpenRequest {
            file,
            write,
            stamp: self.store.objects[object].stamp,
            private: self.private.contains_key(&file),
            view: self.hosts[node].member.stamp_view(),
            semantics,
        };
        self.ask(session, Request::Open(open));
    }

    fn begin_write(&mut self, session: usize, handle: usize, at: WriteAt, len: u32) {
        let open = self.sessions[session].handles[handle].clone();
        if !self.store.objects[open.object].history.has_values() {
            return self.done(session);
        }
        let value = self.store.objects[open.object].history.next_value();
        let (kind, place) = match at {
            WriteAt::Offset(offset) => (ChangeKind::Write, offset..offset + u64::from(len)),
            WriteAt::End => (ChangeKind::Placeless, 0..u64::MAX),
        };
        self.begin_change(session, kind, place, value);
        if let (true, WriteAt::Offset(offset)) =
            (self.leave_write(session, handle, (at, len), value), at)
        {
            return self.written(session, offset, len, offset + u64::from(len));
        }
        let node = self.sessions[session].node;
        let buf = self.hosts[node].hold(vec![value; len as usize]);
        let handle = open.handle;
        let mtime_ns = self.now.0 as i64;
        let aside = match at {
            WriteAt::Offset(offset) => self.is_aside(offset, len),
            WriteAt::End => false,
        };
        self.ask(
            session,
            Request::Write {
                handle,
                at,
                buf,
                len,
                mtime_ns,
                aside,
            },
        );
    }

    /// True if an operation is to be part of a call that is larger than the pool. In such runs half of the
    /// operations that are longer than a page are. Their places decide which, so that all else of a seed is
    /// as it was.
    fn is_aside(&self, offset: u64, len: u32) -> bool {
        let page = u64::from(self.plan.page_bytes);
        self.plan.asides
            && u64::from(len) > page
            && (offset / page + u64::from(len)).is_multiple_of(2)
    }

    fn begin_change(
        &mut self,
        session: usize,
        kind: ChangeKind,
        place: std::ops::Range<u64>,
        value: u8,
    ) {
        let node = self.sessions[session].node as u32;
        let Some(object) = self.sessions[session]
            .doing
            .as_ref()
            .map(|doing| doing.object)
        else {
            return;
        };
        let redone = self.is_leaving(object);
        if let Some(doing) = &mut self.sessions[session].doing {
            let history = &mut self.store.objects[object].history;
            let change = history.begin(node, kind, place, value, doing.began);
            history.changes[change].redone = redone;
            doing.change = Some(change);
        }
    }

    fn begin_stat(&mut self, session: usize, object: usize, file: FileId, ask: bool) {
        let node = self.sessions[session].node;
        match self.hosts[node].kernel.size(object) {
            Some(size) => {
                self.observe_size(session, (size, size), "kept attributes");
                self.done(session);
            }
            None => self.ask(session, Request::Size { file, ask }),
        }
    }

    /// The semantics that sessions are promised of each file.
    pub(super) fn promised(&self) -> Semantics {
        self.plan.semantics.under(self.plan.policy.rules())
    }

    /// The store lets nobody write from now on, and the cache is told.
    fn begin_laminate(&mut self, session: usize, object: usize, file: FileId) {
        self.store.objects[object].read_only = true;
        let stamp = self.restamp_at(session, object, file);
        self.ask(session, Request::Laminate { file, stamp });
    }

    fn restamp_at(&mut self, session: usize, object: usize, file: FileId) -> Stamp {
        let before = self.store.objects[object].stamp;
        let after = self.store.touch(object);
        let node = self.sessions[session].node;
        let ticket = Ticket(self.hosts[node].new_name());
        let request = Request::Restamp {
            file,
            before,
            after,
        };
        self.step(node, Input::Request(ticket, request));
        after
    }

    /// A write from outside is seen by operations that begin after the next open, not before: true if this
    /// one may miss it.
    pub(crate) fn may_miss_outsider(&self, session: usize, object: usize) -> bool {
        let doing = self.sessions[session].doing.as_ref();
        self.store.objects[object].outside || doing.is_some_and(|doing| doing.outside)
    }

    /// A write by somebody who does not know of the cache.
    fn outside(&mut self, session: usize, object: usize, offset: u64, len: u32) {
        let value = self.store.objects[object].history.next_value();
        self.begin_change(
            session,
            ChangeKind::Write,
            offset..offset + u64::from(len),
            value,
        );
        self.store.write(object, offset, &vec![value; len as usize]);
        self.store.objects[object].outside = true;
        if let Some(change) = self.store.objects[object].history.changes.last_mut() {
            change.node = u32::MAX;
        }
        for host in &mut self.hosts {
            host.kernel.forget_size(object);
        }
        self.end_change(session);
        self.done(session);
    }

    fn close(&mut self, session: usize, handle: usize) {
        let open = self.sessions[session].handles.remove(handle);
        let node = self.sessions[session].node;
        let ticket = Ticket(self.hosts[node].new_name());
        self.step(node, Input::Request(ticket, Request::Close(open.handle)));
        if !self.hosts[node]
            .handles
            .values()
            .any(|&other| other == open.object)
        {
            // Of what it did not flush before its last close a node knows nothing any more.
            let file = self.store.objects[open.object].file;
            self.lose_unsealed(node as u32, Some(file));
        }
        // A writer's descriptor may stay for a while.
        if !open.write && self.hosts[node].handles.contains_key(&open.handle) {
            self.violate(Violation::contract(format!(
                "{:?} is not released",
                open.handle
            )));
        }
        // A writer's close is the flush before it.
        self.done(session);
    }

    /// A request is about to be taken in: is it a close that is promised to outlive its node?
    pub(crate) fn note_seal(&mut self, node: usize, session: usize, request: &Request) {
        if let (Request::Flush(handle), Some(doing)) = (request, &mut self.sessions[session].doing)
        {
            doing.seals = self.hosts[node].node().seals(*handle);
        }
    }

    /// Gives a request to the session's node, after the usual delay.
    pub(crate) fn ask(&mut self, session: usize, request: Request) {
        self.ask_for(session, request, None);
    }

    pub(crate) fn ask_for(&mut self, session: usize, request: Request, pages: Option<(u64, u32)>) {
        let node = self.sessions[session].node;
        let object = self.sessions[session]
            .doing
            .as_ref()
            .map_or(0, |doing| doing.object);
        let ticket = Ticket(self.hosts[node].new_name());
        let call = Call {
            session,
            object,
            request,
            pages,
        };
        self.hosts[node].calls.insert(ticket, call);
        let delay = self.local_delay();
        self.after(delay, Event::Asked { node, ticket });
    }

    /// The change of the operation that ends now has taken place.
    pub(crate) fn end_change(&mut self, session: usize) {
        let tick = self.tick();
        if let Some(doing) = &self.sessions[session].doing
            && let Some(change) = doing.change
        {
            self.store.objects[doing.object].history.end(change, tick);
        }
    }

    /// The interval of the session's operation, which ends now.
    pub(crate) fn interval(&mut self, session: usize) -> Interval {
        let ended = self.tick();
        let began = self.sessions[session]
            .doing
            .as_ref()
            .map_or(ended, |doing| doing.began);
        Interval { began, ended }
    }

    pub(crate) fn observe_size(
        &mut self,
        session: usize,
        (low, high): (u64, u64),
        by: &'static str,
    ) {
        let span = self.interval(session);
        let node = self.sessions[session].node as u32;
        if let Some(doing) = &self.sessions[session].doing {
            let sized = Sized {
                node,
                low,
                high,
                span,
                by,
            };
            self.store.objects[doing.object].history.sizes.push(sized);
        }
    }

    /// The session's operation is over.
    pub(crate) fn done(&mut self, session: usize) {
        if let Some(doing) = self.sessions[session].doing.take() {
            self.store.objects[doing.object].users -= 1;
            self.check_pace(session, &doing);
        }
        self.rest(session);
    }
}
