//! Everything that programs did and saw. Names and attributes that one sees are held against all that was done before and
//! meanwhile (S7, S8).

use std::collections::BTreeMap;

/// The mode with which files are made.
pub(crate) const MADE: u64 = 0o644;

/// The state of a name, or an attribute of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A number: a file's, or a mode.
    Is(u64),
    /// There is nothing of that name.
    Nothing,
    /// Something, unknown to the program that did it.
    Some,
}

/// A name, or the mode or size of the file of a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    Name(String),
    Mode(u64),
    Size(u64),
}

struct Change {
    began: u64,
    ended: Option<u64>,
    value: Value,
}

/// A change that is under way.
pub(crate) struct Doing {
    thing: Thing,
    number: usize,
}

/// The book of a world.
#[derive(Default)]
pub(crate) struct Book(std::plain::Mutex<Pages>);

#[derive(Default)]
struct Pages {
    tick: u64,
    changes: BTreeMap<Thing, Vec<Change>>,
}

impl Pages {
    fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// At the beginning there was nothing, and files are made with one mode.
    fn changes_of(&mut self, thing: &Thing) -> &mut Vec<Change> {
        let value = match thing {
            Thing::Name(_) => Value::Nothing,
            Thing::Mode(_) => Value::Is(MADE),
            Thing::Size(_) => Value::Is(0),
        };
        let first = || {
            vec![Change {
                began: 0,
                ended: Some(0),
                value,
            }]
        };
        self.changes.entry(thing.clone()).or_insert_with(first)
    }
}

impl Book {
    fn with<T>(&self, look: impl FnOnce(&mut Pages) -> T) -> T {
        look(&mut self.0.lock().expect("nothing panics under this lock"))
    }

    /// At the beginning it was so.
    pub(crate) fn was(&self, thing: Thing, value: Value) {
        self.with(|pages| pages.changes_of(&thing)[0].value = value);
    }

    /// The moment at which a look begins.
    pub(crate) fn begin_look(&self) -> u64 {
        self.with(Pages::tick)
    }

    /// A change begins; of what it leads to, the end says it.
    pub(crate) fn begin(&self, thing: Thing, value: Value) -> Doing {
        self.with(|pages| {
            let began = pages.tick();
            let changes = pages.changes_of(&thing);
            let number = changes.len();
            changes.push(Change {
                began,
                ended: None,
                value,
            });
            Doing { thing, number }
        })
    }

    /// It is over; `None` if nothing was changed.
    pub(crate) fn end(&self, doing: &Doing, value: Option<Value>) {
        self.with(|pages| {
            let now = pages.tick();
            let changes = pages.changes.get_mut(&doing.thing);
            let Some(changes) = changes else { return };
            let first = changes[0].value;
            let change = &mut changes[doing.number];
            match value {
                Some(value) => (change.ended, change.value) = (Some(now), value),
                // As if it had been at the beginning.
                None => (change.began, change.ended, change.value) = (0, Some(0), first),
            }
        });
    }

    /// A look that began then has seen this. Says why that cannot be.
    pub(crate) fn saw(&self, thing: &Thing, (began, seen): (u64, Value)) -> Result<(), String> {
        self.with(|pages| {
            let changes = &*pages.changes_of(thing);
            let is_old = |change: &Change| {
                changes.iter().any(|later| {
                    change.ended.is_some_and(|ended| ended < later.began)
                        && later.ended.is_some_and(|ended| ended < began)
                })
            };
            let fits = |change: &&Change| change.value == seen || change.value == Value::Some;
            let told: Vec<&Change> = changes.iter().filter(fits).collect();
            match told.iter().all(|change| is_old(change)) {
                false => Ok(()),
                true if told.is_empty() => Err(format!("{thing:?} never was {seen:?}")),
                true => Err(format!(
                    "{thing:?} was {seen:?}, and something else before the look began"
                )),
            }
        })
    }
}
