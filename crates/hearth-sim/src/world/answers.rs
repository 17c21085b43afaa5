//! Answers that sessions are told, and their meaning for the history of a file.

use super::World;
use super::session::{Action, Call, Open};
use crate::check::durable;
use crate::model::ChangeKind;
use hearth_proto::errno::EHOSTDOWN;
use hearth_proto::{FileId, Handle, Leave, RawErrno, Span, Time};

/// By then the manager has heard of a time that was set.
const RESTAMP_HEARD: Span = Span::secs(1);

/// An answer with its bytes.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Opened {
        handle: Handle,
        direct: bool,
        kept_valid: bool,
        size: u64,
    },
    Data {
        bytes: Vec<u8>,
        /// They came from the cache, which revokes them.
        cached: bool,
    },
    Written {
        offset: u64,
        size: u64,
    },
    Leaves(Vec<Leave>),
    Names(Leave, Option<Vec<(Vec<u8>, FileId)>>),
    Size {
        size: Option<u64>,
        mtime_ns: Option<i64>,
        keep: bool,
    },
    Done,
    Failed(RawErrno),
}

impl World {
    /// An answer reaches its session.
    pub(crate) fn answered(&mut self, call: &Call, answer: Answer) {
        let session = call.session;
        self.note_answer(session, &answer);
        if let Some(pages) = call.pages {
            return self.fetch_answered(call, pages, &answer);
        }
        let Some(doing) = self.sessions[session].doing.clone() else {
            return;
        };
        match (doing.action, answer) {
            (
                Action::Open { write, .. },
                Answer::Opened {
                    handle,
                    direct,
                    kept_valid,
                    size,
                },
            ) => {
                let open = Open {
                    handle,
                    object: doing.object,
                    write,
                    keep: !write && !direct,
                    since: doing.began,
                };
                self.opened(session, open, kept_valid, size);
            }
            (Action::Read { offset, len, .. }, Answer::Data { bytes, .. }) => {
                self.end_read(session, offset, len, bytes);
            }
            (Action::Write { len, .. }, Answer::Written { offset, size }) => {
                self.written(session, offset, len, size);
            }
            (Action::Flush(handle), Answer::Done) => self.flushed(session, handle, false),
            (Action::Sync(handle), Answer::Done) => self.flushed(session, handle, true),
            (Action::Exchange(handle), Answer::Done) => {
                self.look(session, handle, true);
                self.done(session);
            }
            (Action::Settle(_), Answer::Done) => {
                self.check_durable(session, doing.object, durable::Whose::Everybody);
                self.done(session);
            }
            (Action::HandOver { .. }, Answer::Done) => self.done(session),
            (Action::Laminate(_), Answer::Done) => self.laminated(session, doing.object),
            (Action::Truncate { .. }, Answer::Done) => self.truncated(session, doing.object),
            (Action::Unlink(file), Answer::Done) => {
                self.take_name(session, doing.object, file);
            }
            (Action::Restamp(_), Answer::Done) => self.change_attributes(session, doing.object),
            (Action::Look(_), Answer::Leaves(leaves)) => {
                self.given_leaves(session, doing.object, &leaves);
            }
            (Action::Look(_), Answer::Names(leave, names)) => {
                self.given_names(session, doing.object, leave, names);
            }
            (Action::Stat { ask, .. }, told @ Answer::Size { .. }) => {
                self.stated(session, (doing.object, doing.dated), ask, &told);
            }
            (action, Answer::Failed(errno)) => self.failed(session, &action, errno),
            (action, answer) => {
                let what = format!("{action:?} was answered with {answer:?}");
                self.violate(crate::check::Violation::contract(what));
            }
        }
    }

    /// No session hears that a node is gone, where others go on without it (VIEW-3).
    fn failed(&mut self, session: usize, action: &Action, errno: RawErrno) {
        if errno == EHOSTDOWN && self.plan.has_views() {
            let what = format!("{action:?} was told that a node is gone");
            self.violate(crate::check::Violation::contract(what));
        }
        match action {
            Action::Unlink(file) => self.keep_name(session, *file),
            _ => self.done(session),
        }
    }

    fn fetch_answered(&mut self, call: &Call, pages: (u64, u32), answer: &Answer) {
        let (bytes, keep) = match answer {
            Answer::Data { bytes, cached } => (Some(bytes.as_slice()), *cached),
            _ => (None, false),
        };
        self.fetched(call.session, call.object, pages, bytes, keep);
        match bytes {
            Some(_) => self.go_on_reading(call.session),
            None => self.done(call.session),
        }
    }

    fn opened(&mut self, session: usize, open: Open, kept_valid: bool, size: u64) {
        let node = self.sessions[session].node;
        if !kept_valid {
            self.hosts[node].kernel.forget(open.object);
        }
        self.hosts[node].kernel.forget_size(open.object);
        self.store.objects[open.object].outside = false;
        self.observe_size(session, (size, size), "open");
        self.sessions[session].handles.push(open);
        self.done(session);
    }

    pub(super) fn written(&mut self, session: usize, offset: u64, len: u32, size: u64) {
        let end = offset + u64::from(len);
        if size < end {
            self.violate(crate::check::Violation::contract(format!(
                "a write to {offset}+{len} says that the file has {size} bytes"
            )));
        }
        let node = self.sessions[session].node;
        if let Some(doing) = &self.sessions[session].doing
            && let Some(change) = doing.change
        {
            self.hosts[node].kernel.forget_size(doing.object);
            let object = &mut self.store.objects[doing.object];
            object.dated = object.dated.max(doing.since);
            let change = &mut object.history.changes[change];
            change.append = change.kind == ChangeKind::Placeless;
            change.kind = ChangeKind::Write;
            change.place = offset..end;
        }
        self.end_change(session);
        self.done(session);
    }

    fn flushed(&mut self, session: usize, handle: usize, sync: bool) {
        let object = self.sessions[session].handles[handle].object;
        let node = self.sessions[session].node as u32;
        let buffered =
            self.hosts[0].node().config().close_rule() == hearth_proto::CloseRule::Buffered;
        match (sync, buffered) {
            (true, _) => self.check_durable(session, object, durable::Whose::Node(node)),
            (false, false) => self.check_durable(session, object, durable::Whose::Node(node)),
            (false, true) => self.note_sealed(session, handle, object),
        }
        self.look(session, handle, sync);
        self.done(session);
    }

    /// Bytes that the node wrote before outlive so many nodes as there are parity shards, if the close sealed
    /// them. If the node has begun to write through another handle meanwhile, the close of that one seals
    /// (S35).
    fn note_sealed(&mut self, session: usize, handle: usize, object: usize) {
        let span = self.interval(session);
        let node = self.sessions[session].node;
        let closed = self.sessions[session].handles[handle].handle;
        let still = self.hosts[node].node().seals(closed);
        let doing = self.sessions[session].doing.as_ref();
        if still && doing.is_some_and(|doing| doing.seals) {
            let sealed = &mut self.store.objects[object].history.sealed;
            sealed.push((node as u32, span));
        }
    }

    /// Everything that was written is final.
    fn laminated(&mut self, session: usize, object: usize) {
        let span = self.interval(session);
        if self.plan.semantics == hearth_proto::Semantics::Commit {
            self.store.objects[object].history.laminate(span);
        }
        self.done(session);
    }

    /// A close or a sync has come to its end: it has published, and a sync has looked.
    fn look(&mut self, session: usize, handle: usize, sync: bool) {
        let span = self.interval(session);
        let node = self.sessions[session].node as u32;
        let looks = match self.sessions_do_exchange(session) {
            true => self.plan.semantics.gathers(),
            false => sync && self.plan.semantics == hearth_proto::Semantics::Mpi,
        };
        let open = &mut self.sessions[session].handles[handle];
        if looks {
            open.since = span.began;
        }
        let object = open.object;
        self.store.objects[object].history.publish(node, span);
    }

    fn sessions_do_exchange(&self, session: usize) -> bool {
        let doing = self.sessions[session].doing.as_ref();
        doing.is_some_and(|doing| matches!(doing.action, Action::Exchange(_)))
    }

    fn check_durable(&mut self, session: usize, object: usize, whose: durable::Whose) {
        let span = self.interval(session);
        let object = &mut self.store.objects[object];
        if let Some(violation) = durable::check(&object.history, &object.data, whose, span) {
            return self.violate(violation);
        }
        let node = match whose {
            durable::Whose::Node(node) => Some(node),
            durable::Whose::Everybody => None,
        };
        object.history.confirm(node, &span);
    }

    fn truncated(&mut self, session: usize, object: usize) {
        let node = self.sessions[session].node;
        self.hosts[node].kernel.forget_size(object);
        self.end_change(session);
        self.done(session);
    }

    fn stated(&mut self, session: usize, (object, dated): (usize, Time), ask: bool, told: &Answer) {
        if let &Answer::Size {
            size,
            mtime_ns,
            keep,
        } = told
        {
            if ask {
                self.check_date(object, dated, mtime_ns);
            }
            self.sized(session, object, ask, size, keep);
        }
    }

    /// A session is told when the object was last written: no earlier than the last write began that was acknowledged
    /// before it asked.
    fn check_date(&mut self, number: usize, least: Time, mtime_ns: Option<i64>) {
        let loses = self.apart || self.parted;
        let weak = !self.promised().is_recorded() || self.plan.policy == hearth_proto::Policy::None;
        let object = &self.store.objects[number];
        if loses || weak || object.unlinked || object.history.lossy || object.history.parted {
            return;
        }
        // Word of a time that was set is not answered: it may come after that of a later write.
        if object.restamped > Time(0) && least < object.restamped + RESTAMP_HEARD {
            return;
        }
        let told = mtime_ns.map_or(object.touched, |at| Time(at.cast_unsigned()));
        if let Some(violation) = crate::check::date::missed(least, told) {
            self.violate(violation);
        }
    }

    fn sized(&mut self, session: usize, object: usize, ask: bool, size: Option<u64>, keep: bool) {
        let node = self.sessions[session].node;
        let size = size.unwrap_or(self.store.objects[object].data.len() as u64);
        if ask && !self.may_miss_outsider(session, object) {
            self.observe_size(session, (size, size), "stat");
            let asked = self.sessions[session]
                .doing
                .as_ref()
                .map(|doing| doing.attributes);
            // Without a cache nobody revokes attributes: they are kept for a time that a mount option
            // sets, here none.
            let revoked = self.plan.policy != hearth_proto::Policy::None;
            if keep && revoked && asked == Some(self.hosts[node].kernel.attributes) {
                self.hosts[node].kernel.keep_size(object, size);
            }
        }
        self.done(session);
    }
}
