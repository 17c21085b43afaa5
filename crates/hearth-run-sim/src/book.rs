//! All that programs wrote and read: each value is a register of its own, and all of them are held to be atomic.

use std::collections::BTreeMap;
use std::plain::Mutex;

/// A place of a file: its number, and the offset.
pub(crate) type Slot = (u64, u64);

struct Write {
    value: u64,
    began: u64,
    /// When it had ended, or its value was seen by a read that ended.
    done: Option<u64>,
}

/// The book of a world.
#[derive(Default)]
pub(crate) struct Book(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    tick: u64,
    writes: BTreeMap<Slot, Vec<Write>>,
    values: u64,
}

impl Pages {
    fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// At the beginning there are zeros.
    fn of(&mut self, slot: Slot) -> &mut Vec<Write> {
        let first = || {
            vec![Write {
                value: 0,
                began: 0,
                done: Some(0),
            }]
        };
        self.writes.entry(slot).or_insert_with(first)
    }
}

impl Book {
    fn with<T>(&self, look: impl FnOnce(&mut Pages) -> T) -> T {
        look(&mut self.0.lock().expect("nothing panics under this lock"))
    }

    /// The moment at which a read begins.
    pub(crate) fn now(&self) -> u64 {
        self.with(Pages::tick)
    }

    /// A write begins; its value, which nobody writes again.
    pub(crate) fn begin(&self, slot: Slot) -> u64 {
        self.with(|pages| {
            pages.values += 1;
            let (value, began) = (pages.values, pages.tick());
            let write = Write {
                value,
                began,
                done: None,
            };
            pages.of(slot).push(write);
            value
        })
    }

    /// The write of this value is over.
    pub(crate) fn end(&self, slot: Slot, value: u64) {
        self.with(|pages| pages.done(slot, value));
    }

    /// A read that began then has seen this value, and ends now. Says why that cannot be.
    pub(crate) fn saw(&self, slot: Slot, (began, value): (u64, u64)) -> Result<(), String> {
        self.with(|pages| {
            let writes = pages.of(slot);
            let Some(seen) = writes.iter().find(|write| write.value == value) else {
                return Err(format!("{slot:?} has {value}, which nobody wrote there"));
            };
            let later = writes.iter().find(|later| {
                seen.done.is_some_and(|done| done < later.began)
                    && later.done.is_some_and(|done| done < began)
            });
            if let Some(later) = later {
                let later = later.value;
                return Err(format!(
                    "{slot:?} has {value}, though {later} was there before the read began"
                ));
            }
            pages.done(slot, value);
            Ok(())
        })
    }
}

impl Pages {
    fn done(&mut self, slot: Slot, value: u64) {
        let now = self.tick();
        let write = self
            .of(slot)
            .iter_mut()
            .find(|write| write.value == value)
            .expect("it was begun");
        write.done.get_or_insert(now);
    }
}
