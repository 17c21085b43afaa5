//! Attributes: asked for, kept under leave, changed.
//!
//! Sessions ask in one of three ways. One is for one file alone. Another is for what another node reads, and
//! alone if nobody does. The last is as for a directory, with its names, and without if these are not worth being
//! read. In some worlds the first two ask for several files at once, as the FUSE front end does. They ask for
//! leave to read them, then for what others read, then for the first alone. An object has one name, which says
//! how often its attributes were changed. So a name which is too old shows.
//!
//! A look that begins after a change is over must not show what was before. Nodes that were cut off, or
//! had no manager to ask, may not know of a change (S13), so worlds with those are not judged.

use super::World;
use crate::check::Violation;
use hearth_proto::{Attributes, FileId, Input, Learned, Leave, Request, Ticket};

impl World {
    pub(crate) fn begin_look(&mut self, session: usize, object: usize, file: FileId) {
        let node = self.sessions[session].node;
        match self.hosts[node].kernel.looked(object) {
            Some(seen) => {
                self.write_down(|| format!("{node} has the attributes"));
                self.judge_look(session, object, seen, "kept attributes");
            }
            None if self.plan.batches && session % 3 < 2 => self.ask_for_many(session, file),
            None => match session % 3 {
                0 => self.ask(session, Request::Leave(vec![file])),
                1 => self.ask(session, Request::Await(vec![file])),
                _ => self.ask(session, Request::Names(file)),
            },
        }
    }

    /// Asks for a file and for all behind it and round to it. It asks for leave first, then for what others read,
    /// then alone.
    fn ask_for_many(&mut self, session: usize, file: FileId) {
        let store = &self.store;
        let has_name = |of: &FileId| {
            let object = store.current.get(of);
            object.is_some_and(|&at| !store.objects[at].unlinked)
        };
        // The answer for the first is judged, also if it has lost its name meanwhile.
        let named = |of: &FileId| *of == file || has_name(of);
        let behind = store.current.range(file..).map(|(&of, _)| of);
        let before = store.current.range(..file).map(|(&of, _)| of);
        let files: Vec<FileId> = behind.chain(before).filter(named).collect();
        let Some(doing) = &mut self.sessions[session].doing else {
            return;
        };
        let request = match doing.batch.questions {
            0 => Request::Leave(files.clone()),
            1 => Request::Await(files.clone()),
            _ => Request::Leave(vec![file]),
        };
        doing.batch.questions += 1;
        doing.batch.files = files;
        self.ask(session, request);
    }

    /// There is leave to keep attributes of several files, or not. Those that nobody has read are read for all.
    /// The first is what the session wants.
    pub(crate) fn given_leaves(&mut self, session: usize, object: usize, leaves: &[Leave]) {
        let doing = self.sessions[session].doing.as_ref();
        let files = doing.map(|doing| doing.batch.files.clone());
        // Names may have gone, and left one file to ask for. Only the third question is about one file alone.
        let is_of_many = doing.is_some_and(|doing| (1..3).contains(&doing.batch.questions));
        for (&file, &leave) in files.iter().flatten().zip(leaves).skip(1) {
            self.given_another(session, file, leave);
        }
        let leave = leaves.first().copied().unwrap_or(Leave::No);
        match leave {
            Leave::Later if is_of_many => {
                self.ask_for_many(session, self.store.objects[object].file);
            }
            leave => self.given_leave(session, object, leave),
        }
    }

    /// The same of a file that the session does not want yet.
    fn given_another(&mut self, session: usize, file: FileId, leave: Leave) {
        let Some(&object) = self.store.current.get(&file) else {
            return;
        };
        let seen = match leave {
            Leave::Read { number, floor_ns } => {
                self.read_for_all(session, object, number, floor_ns)
            }
            Leave::Known(attributes) => attributes,
            Leave::No | Leave::Later | Leave::Once(_) => return,
        };
        if !self.store.objects[object].unlinked {
            self.keep_look(session, object, seen);
        }
    }

    /// Reads attributes, and tells the manager, who tells others.
    fn read_for_all(
        &mut self,
        session: usize,
        object: usize,
        number: u64,
        floor_ns: i64,
    ) -> Attributes {
        let file = self.store.objects[object].file;
        let seen = self.store.attributes(object);
        let fresh = self.store.objects[object].stamp.ctime_ns >= floor_ns;
        let attributes = Some(seen).filter(|_| fresh && !self.store.objects[object].unlinked);
        let learned = Learned {
            file,
            number,
            attributes,
        };
        self.tell(self.sessions[session].node, Request::Learned(vec![learned]));
        seen
    }

    /// Keeps attributes, unless some were called back since they were asked for.
    fn keep_look(&mut self, session: usize, object: usize, seen: Attributes) {
        let kernel = &mut self.hosts[self.sessions[session].node].kernel;
        let asked = self.sessions[session].doing.as_ref();
        if asked.is_some_and(|doing| doing.attributes == kernel.attributes) {
            kernel.keep_look(object, seen);
        }
    }

    /// There is leave to keep names and attributes, or not.
    pub(crate) fn given_names(
        &mut self,
        session: usize,
        object: usize,
        leave: Leave,
        names: Option<Vec<(Vec<u8>, FileId)>>,
    ) {
        if let Leave::Read { number, .. } = leave {
            let (file, mode) = (
                self.store.objects[object].file,
                self.store.objects[object].mode,
            );
            let name = mode.to_le_bytes().to_vec();
            let listed = Request::Listed {
                dir: file,
                number,
                first: 0,
                names: Some(vec![(name, FileId(0))]),
                more: false,
            };
            self.tell(self.sessions[session].node, listed);
        }
        if let Leave::Known(attributes) | Leave::Once(attributes) = leave {
            let known = attributes.mode.to_le_bytes();
            let same = |(name, _): &(Vec<u8>, FileId)| *name == known;
            if !names.is_some_and(|names| names.len() == 1 && names.iter().all(same)) {
                let what = format!("names of object {object} are not those of its attributes");
                return self.violate(Violation::new("attributes", what));
            }
        }
        self.given_leave(session, object, leave);
    }

    /// There is leave to keep attributes, or not.
    pub(crate) fn given_leave(&mut self, session: usize, object: usize, leave: Leave) {
        let seen = match leave {
            Leave::No => return self.done(session),
            Leave::Later if !session.is_multiple_of(3) => {
                let file = self.store.objects[object].file;
                return self.ask(session, Request::Leave(vec![file]));
            }
            Leave::Later => {
                let what = "a question about one file was answered with: later".to_owned();
                return self.violate(Violation::contract(what));
            }
            Leave::Known(attributes) => attributes,
            Leave::Once(seen) => {
                return self.judge_look(session, object, seen, "a daemon's attributes");
            }
            Leave::Read { number, floor_ns } => {
                self.read_for_all(session, object, number, floor_ns)
            }
        };
        self.keep_look(session, object, seen);
        self.judge_look(session, object, seen, "attributes");
    }

    fn judge_look(&mut self, session: usize, object: usize, seen: Attributes, by: &'static str) {
        let began = self.sessions[session].doing.as_ref();
        let floor = began.map_or(0, |doing| doing.mode);
        // Until a death is heard of what is kept may be told, and again once the dead are back with nothing (S13).
        let all_heard = began.is_some_and(|doing| doing.all_heard) && !self.parted;
        if seen.mode < floor && (!self.apart || all_heard) {
            let node = self.sessions[session].node;
            let what = format!(
                "node {node} sees attributes {} of object {object}, {floor} before it asked ({by})",
                seen.mode
            );
            self.violate(Violation::new("attributes", what));
        }
        if !self.may_miss_outsider(session, object) {
            self.observe_size(session, (seen.size, seen.size), by);
        }
        self.done(session);
    }

    /// Attributes are about to change. If nobody looks, nobody has to let go of them.
    pub(crate) fn begin_restamp(&mut self, session: usize, object: usize, file: FileId) {
        if self.plan.looks {
            return self.ask(session, Request::Change(file));
        }
        self.change_attributes(session, object);
    }

    /// Everybody has let go: attributes change.
    pub(crate) fn change_attributes(&mut self, session: usize, object: usize) {
        let file = self.store.objects[object].file;
        let node = self.sessions[session].node;
        let before = self.store.objects[object].stamp;
        let after = self.store.touch(object);
        self.store.objects[object].mode += 1;
        self.store.objects[object].restamped = self.now;
        let restamp = Request::Restamp {
            file,
            before,
            after,
        };
        self.tell(node, restamp);
        if self.plan.looks {
            let ctime_ns = after.ctime_ns;
            self.tell(node, Request::Changed { file, ctime_ns });
        }
        self.done(session);
    }

    /// The last name is to go: first what is kept of the file's attributes, then what is cached of it.
    pub(crate) fn begin_unlink(&mut self, session: usize, file: FileId) {
        if self.plan.looks {
            return self.ask(session, Request::Change(file));
        }
        self.go_on_unlinking(session, file);
    }

    fn go_on_unlinking(&mut self, session: usize, file: FileId) {
        if let Some(doing) = &mut self.sessions[session].doing {
            doing.let_go = true;
        }
        self.ask(session, Request::Detach(file));
    }

    /// A step towards the end of the last name is done.
    pub(crate) fn take_name(&mut self, session: usize, object: usize, file: FileId) {
        let doing = self.sessions[session].doing.as_ref();
        if doing.is_some_and(|doing| !doing.let_go) {
            return self.go_on_unlinking(session, file);
        }
        let node = self.sessions[session].node;
        // The store has the last word.
        let gone = !self.plan.store_faults || self.rng.chance(80);
        self.store.objects[object].unlinked = gone;
        self.tell(node, Request::Detached { file, gone });
        self.keep_name(session, file);
    }

    /// Its attributes may be looked at again.
    pub(crate) fn keep_name(&mut self, session: usize, file: FileId) {
        if self.plan.looks {
            let node = self.sessions[session].node;
            self.tell(node, Request::Changed { file, ctime_ns: 0 });
        }
        self.done(session);
    }

    /// Gives a node a request that is not answered.
    fn tell(&mut self, node: usize, request: Request) {
        let ticket = Ticket(self.hosts[node].new_name());
        self.step(node, Input::Request(ticket, request));
    }
}
