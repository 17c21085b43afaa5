//! Programs of a world: what they do, and what they hold against the book.

use crate::book::{Book, Thing, Value};
use crate::os::{Errno, Open, Os};
use crate::requests::FileAttr;
use std::Dice;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// A call that takes longer, by the world's clock, has waited for nothing that it needs.
const CALL_MAX: Duration = Duration::from_secs(1);
/// The one directory.
pub(crate) const DIR: &str = "d";

/// The calls that a program likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything.
    Mixed,
    /// It makes, opens and closes files of its own.
    Own,
    /// It looks at all files in their order.
    Walker,
    /// It changes attributes, and looks at some.
    Changer,
    /// It has a file open, and looks at that.
    Watcher,
}

/// One program.
pub(crate) struct Program {
    pub(crate) os: Arc<Os>,
    pub(crate) book: Arc<Book>,
    pub(crate) node: u32,
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) names: u64,
    pub(crate) pauses: u64,
    /// Attributes of an open file may be so old.
    pub(crate) dice: Dice,
    /// Each with whether it may be written.
    pub(crate) open: Vec<(Open, bool)>,
    /// The waits of the world's kernels, for people.
    pub(crate) waits: Arc<dyn Fn() -> String + Send + Sync>,
}

impl Program {
    /// Does so many things.
    pub(crate) fn run(mut self, calls: u64) {
        for number in 0..calls {
            match self.kind {
                Kind::Mixed => self.anything(),
                Kind::Own => self.own(number),
                Kind::Changer => self.change(),
                Kind::Watcher if self.open.is_empty() => self.open_to_read(),
                Kind::Watcher => self.watch(),
                Kind::Walker => self.walk(&format!("f{}", number % self.names)),
            }
            if self.dice.chance(self.pauses) {
                let pause = Duration::from_millis(self.dice.below(1500));
                std::thread::sleep(pause);
            }
        }
        while !self.open.is_empty() {
            self.timed_close();
        }
    }

    fn anything(&mut self) {
        let drawn = self.dice.below(self.names);
        let name = format!("f{drawn}");
        match self.dice.below(100) {
            0..40 => self.look(&name),
            40..52 => self.create(&name),
            52..62 => self.remove(&name),
            62..70 => {
                let to = (drawn + 1 + self.dice.below(self.names - 1)) % self.names;
                self.rename(&name, &format!("f{to}"));
            }
            70..80 => self.set(&name),
            80..90 => self.open(&name),
            90..94 => self.list(),
            94..97 => self.transfer(),
            _ => self.timed_close(),
        }
    }

    fn walk(&mut self, name: &str) {
        match self.open.is_empty() && self.dice.chance(10) {
            true => self.open(name),
            false => self.look(name),
        }
    }

    fn change(&mut self) {
        let name = format!("f{}", self.dice.below(self.names));
        match self.dice.below(6) {
            0 => self.look(&name),
            1 if self.open.is_empty() => self.open(&name),
            2 if self.dice.chance(50) => self.timed_close(),
            _ => self.set(&name),
        }
    }

    fn timed_close(&mut self) {
        if let Some((open, _)) = self.open.pop() {
            self.timed("a close", |os| os.close_file(open));
        }
    }

    fn own(&mut self, number: u64) {
        let name = format!("own{}-{}", self.number, number / 4);
        match number % 4 {
            0 => self.create(&name),
            1 => self.look(&name),
            2 => self.open(&name),
            _ => self.remove(&name),
        }
    }

    /// Makes a call, which must not take long.
    fn timed<T>(&self, what: &str, call: impl FnOnce(&Arc<Os>) -> Result<T, Errno>) -> Option<T> {
        let began = std::clock::now();
        std::tell(|| format!("node {} program {} begins {what}", self.node, self.number));
        let done = call(&self.os);
        let took = std::clock::now() - began;
        std::tell(|| {
            format!(
                "node {} program {} ends {what}: {:?}",
                self.node,
                self.number,
                done.as_ref().err()
            )
        });
        let who = format!("program {} of node {}", self.number, self.node);
        if took > CALL_MAX {
            let waits = (self.waits)();
            std::find(format!("{what} of {who} took {took:?}\n{waits}"));
        }
        match done {
            Ok(done) => Some(done),
            Err(libc::ENOENT | libc::EEXIST | libc::ESTALE) => None,
            Err(error) => {
                std::find(format!("{what} of {who} failed with error {error}"));
                None
            }
        }
    }

    fn saw(&self, thing: &Thing, began: u64, seen: Value) {
        if let Err(why) = self.book.saw(thing, (began, seen)) {
            std::find(format!(
                "program {} of node {}: {why}",
                self.number, self.node
            ));
        }
    }

    fn saw_attributes(&self, began: u64, attr: &FileAttr) {
        let (mode, size) = (u64::from(attr.perm), attr.size);
        self.saw(&Thing::Mode(attr.ino.0), began, Value::Is(mode));
        self.saw(&Thing::Size(attr.ino.0), began, Value::Is(size));
    }

    fn saw_file(&self, name: &str, began: u64, attr: &FileAttr) {
        let ino = attr.ino.0;
        self.saw(&Thing::Name(name.to_owned()), began, Value::Is(ino));
        self.saw_attributes(began, attr);
    }

    /// Looks at a file that it has open.
    fn watch(&mut self) {
        let Some(((held, _), _)) = self.open.last() else {
            return;
        };
        let began = self.book.begin_look();
        let seen = self.timed("a look at an open file", |os| os.attributes(held));
        if let Some(attr) = seen {
            self.saw_attributes(began, &attr);
        }
    }

    fn look(&mut self, name: &str) {
        if self.dice.chance(40) && !self.open.is_empty() {
            return self.watch();
        }
        let began = self.book.begin_look();
        let seen = self.timed("a look", |os| match os.stat(DIR, name) {
            Err(libc::ENOENT) => Ok(None),
            other => other.map(Some),
        });
        match seen {
            Some(Some(attr)) => self.saw_file(name, began, &attr),
            Some(None) => self.saw(&Thing::Name(name.to_owned()), began, Value::Nothing),
            None => {}
        }
    }

    /// Reads or writes a file that it has open.
    fn transfer(&mut self) {
        let (offset, len) = (self.dice.below(600_000), 1 + self.dice.below(5000) as u32);
        let Some((open, is_written)) = self.open.last() else {
            return;
        };
        if !is_written || offset % 3 == 0 {
            self.timed("a read", |os| os.read(open, offset, len));
            return;
        }
        let size = Thing::Size(open.0.ino);
        let doing = self.book.begin(size, Value::Some);
        let done = self.timed("a write", |os| os.write(open, offset, len));
        self.book.end(&doing, done.map(|_| Value::Some));
    }

    fn create(&mut self, name: &str) {
        let doing = self.book.begin(Thing::Name(name.to_owned()), Value::Some);
        let access = self.access();
        let flags = libc::O_CREAT | libc::O_EXCL | access;
        let made = self.timed("a create", |os| os.create((DIR, name), flags));
        let ino = made.as_ref().map(|(held, _)| held.ino);
        self.book.end(&doing, ino.map(Value::Is));
        self.keep(made, access);
    }

    fn access(&mut self) -> i32 {
        match self.dice.chance(50) {
            true => libc::O_RDWR,
            false => libc::O_RDONLY,
        }
    }

    /// Some files stay open for a while.
    fn keep(&mut self, opened: Option<Open>, access: i32) {
        let Some(open) = opened else { return };
        self.open.push((open, access == libc::O_RDWR));
        if self.dice.chance(50) {
            self.transfer();
        }
        if self.dice.chance(70) {
            self.timed_close();
        }
    }

    fn open_to_read(&mut self) {
        let name = format!("f{}", self.dice.below(self.names));
        let opened = self.timed("an open", |os| os.open((DIR, &name), libc::O_RDONLY));
        self.open.extend(opened.map(|open| (open, false)));
    }

    fn open(&mut self, name: &str) {
        let flags = self.access();
        let opened = self.timed("an open", |os| os.open((DIR, name), flags));
        self.keep(opened, flags);
    }

    fn remove(&mut self, name: &str) {
        let doing = self
            .book
            .begin(Thing::Name(name.to_owned()), Value::Nothing);
        let done = self.timed("a removal", |os| os.unlink((DIR, name)));
        self.book.end(&doing, done.map(|()| Value::Nothing));
    }

    fn rename(&mut self, from: &str, to: &str) {
        let old = self
            .book
            .begin(Thing::Name(from.to_owned()), Value::Nothing);
        let new = self.book.begin(Thing::Name(to.to_owned()), Value::Some);
        let done = self.timed("a rename", |os| os.rename(DIR, (from, to)));
        let moved = done == Some(true);
        self.book.end(&old, moved.then_some(Value::Nothing));
        self.book.end(&new, moved.then_some(Value::Some));
    }

    fn set(&mut self, name: &str) {
        let is_cut = self.dice.chance(25);
        let (value, change) = match is_cut {
            true => {
                let size = self.dice.below(100_000);
                (size, (None, Some(size)))
            }
            false => {
                let mode = 0o600 + self.dice.below(64);
                (mode, (Some(mode as u32), None))
            }
        };
        let thing = if is_cut { Thing::Size } else { Thing::Mode };
        let doing = RefCell::new(None);
        let begins = |ino| {
            let begun = self.book.begin(thing(ino), Value::Is(value));
            doing.replace(Some(begun));
        };
        let done = self.timed("a change", |os| os.change((DIR, name), change, begins));
        if let Some(doing) = doing.take() {
            self.book.end(&doing, done.map(|()| Value::Is(value)));
        }
    }

    fn list(&mut self) {
        let began = self.book.begin_look();
        let listed = self.timed("a listing", |os| os.list(DIR));
        for (name, ino, attr) in listed.unwrap_or_default() {
            let name = name.to_string_lossy().into_owned();
            self.saw(&Thing::Name(name), began, Value::Is(ino));
            if let Some(attr) = attr {
                self.saw_attributes(began, &attr);
            }
        }
    }
}
