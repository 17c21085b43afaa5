//! Orders that a daemon can be given, and their written form.

use crate::item::{OpenedEntry, Seal};

/// One order, answered as a whole. Names are without the job's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Look for entries.
    Get(Vec<String>),
    /// Make an entry.
    Set {
        /// Its name.
        name: String,
        /// The version that the writer gives it.
        version: [u64; 2],
        /// The bytes.
        bytes: Vec<u8>,
        /// It is forgotten after so many seconds, if any.
        seconds: Option<u32>,
    },
    /// Take entries away, whether they are there or not.
    Delete(Vec<String>),
}

/// An answer of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// For each name of a [`Order::Get`] the entry, if there is one.
    Found(Vec<Option<OpenedEntry>>),
    /// The entry is there now, until the daemon forgets it.
    Stored,
    /// The daemon had no room for the entry; an older one under that name is gone.
    NoRoom,
    /// The entries are gone.
    Deleted,
}

/// There is no answer and there will be none. The daemon may carry out the order all the same, at any
/// later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// The answer that is expected to an order on its way.
#[derive(Debug)]
pub(crate) enum Expected {
    /// Entries under these keys, then the end.
    Items {
        keys: Vec<String>,
        found: Vec<Option<OpenedEntry>>,
    },
    /// One line.
    Stored,
    /// Nothing but the end.
    Gone,
}

impl Order {
    /// Writes the order down and says what must come back.
    pub(crate) fn write(self, seal: &Seal, out: &mut Vec<u8>) -> Expected {
        match self {
            Order::Get(names) => {
                let keys: Vec<String> = names.iter().map(|name| seal.key(name)).collect();
                for (index, key) in keys.iter().enumerate() {
                    // Quiet: a miss says nothing.
                    line(out, &format!("mg {key} v q O{index}"));
                }
                line(out, "mn");
                let found = vec![None; keys.len()];
                Expected::Items { keys, found }
            }
            Order::Set {
                name,
                version,
                bytes,
                seconds,
            } => {
                let key = seal.key(&name);
                let value = seal.close(&key, version, &bytes);
                let ends = seconds.map_or(String::new(), |seconds| format!(" T{seconds}"));
                line(out, &format!("ms {key} {}{ends}", value.len()));
                out.extend_from_slice(&value);
                line(out, "");
                Expected::Stored
            }
            Order::Delete(names) => {
                for name in &names {
                    line(out, &format!("md {} q", seal.key(name)));
                }
                line(out, "mn");
                Expected::Gone
            }
        }
    }
}

fn line(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}
