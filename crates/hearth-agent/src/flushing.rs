//! Bringing all to the store, before an end: what is left, and why.
//!
//! An agent that ends takes its descriptors along, and what it manages. So all agents of a set are asked before any of them
//! ends: a byte that the store refuses leaves the set as it is. An agent that is asked by another begins a flush and says
//! what is left; the other asks again until nothing is.

use crate::core::Core;
use crate::intro::ASK_FLUSHED;
use crate::residency::{NotTold, told};
use hearth_client::Errno;
use hearth_client::words::counted;
use hearth_proto::{FileId, Input, NodeId, Request};
use std::fmt;
use std::io;
use std::time::Duration;

/// A store may refuse what it takes a moment later.
const REFUSED_SPAN: Duration = Duration::from_millis(500);

/// Files that are named; there may be many.
const NAMED_MAX: usize = 8;

/// Bytes of an agent that the store lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unflushed {
    /// Bytes, in memory or in a tier.
    pub bytes: u64,
    /// The first of the files that the store refused, by their paths, and the error.
    pub refused: Vec<(String, i32)>,
    /// More files that it refused.
    pub more: u64,
    /// Other homes have bytes of this agent that are not in the store yet.
    pub elsewhere: bool,
}

/// Why what other agents have is not in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OthersUnflushed {
    /// This agent did not say.
    Silent(u32),
    /// This agent has so much left.
    Left(u32, Unflushed),
}

impl Unflushed {
    pub(crate) fn in_tier(bytes: u64, errno: Errno) -> Unflushed {
        Unflushed {
            bytes,
            refused: vec![("the tier".to_owned(), errno.0)],
            ..Unflushed::default()
        }
    }

    /// All is in the store.
    pub(crate) fn is_nothing(&self) -> bool {
        self.bytes == 0 && !self.elsewhere
    }

    /// True if it is no use to wait longer.
    pub(crate) fn gives_up(&self, waited: Duration, span: Duration) -> bool {
        waited > span || waited > REFUSED_SPAN && !self.refused.is_empty()
    }

    fn encode(&self) -> Vec<u8> {
        let mut told = Vec::new();
        for number in [self.bytes, self.more, u64::from(self.elsewhere)] {
            told.extend_from_slice(&number.to_le_bytes());
        }
        for (file, errno) in &self.refused {
            told.extend_from_slice(&errno.to_le_bytes());
            told::write_text(&mut told, file);
        }
        told
    }

    /// Reads an answer, if it is whole and means something.
    fn decode(mut told: &[u8]) -> Option<Unflushed> {
        let mut left = Unflushed {
            bytes: told::read_number(&mut told)?,
            more: told::read_number(&mut told)?,
            elsewhere: told::read_number(&mut told)? != 0,
            refused: Vec::new(),
        };
        while let Some((errno, rest)) = told.split_first_chunk() {
            told = rest;
            let file = told::read_text(&mut told)?;
            left.refused.push((file, i32::from_le_bytes(*errno)));
        }
        (told.is_empty() && left.refused.len() <= NAMED_MAX).then_some(left)
    }

    /// A sentence for each file that the store refused, and one about the bytes.
    pub fn words(&self) -> Vec<String> {
        let refused = self.refused.iter().map(|(file, errno)| {
            let why = io::Error::from_raw_os_error(*errno);
            format!("the store refuses what was written to {file}: {why}")
        });
        let more = (self.more > 0).then(|| format!("and to {}", counted(self.more, "other file")));
        let bytes = format!("{} not in the store yet", is_or_are(self.bytes));
        let bytes = (self.bytes > 0).then_some(bytes);
        refused.chain(more).chain(bytes).collect()
    }
}

fn is_or_are(bytes: u64) -> String {
    let verb = if bytes == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(bytes, "byte"))
}

impl fmt::Display for Unflushed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join("; "))
    }
}

impl Core {
    /// Begins to bring everything to the store, or goes on with it.
    pub(crate) fn flush_some(&self) -> Unflushed {
        self.drive_with(|state| Input::Request(state.tickets.next(), Request::FlushAll));
        let mut state = self.lock();
        let failing: Vec<(FileId, i32)> = state.node().failing().collect();
        let named = failing.iter().take(NAMED_MAX);
        let refused = named.map(|&(file, errno)| {
            let path = state.files.whole_path(file);
            let name = path.map_or(format!("inode {}", file.0), |path| {
                format!("`{}`", path.display())
            });
            (name, errno)
        });
        Unflushed {
            refused: refused.collect(),
            more: failing.len().saturating_sub(NAMED_MAX) as u64,
            bytes: state.node().status().dirty_bytes,
            elsewhere: state.node().is_settling(),
        }
    }

    /// Other agents that are connected.
    pub(crate) fn others_up(&self) -> Vec<NodeId> {
        let state = self.lock();
        let nodes = (0..).map(NodeId).zip(&state.up);
        nodes.filter(|(_, up)| **up).map(|(node, _)| node).collect()
    }

    /// Has another agent begin to bring everything to the store; says what it has left.
    pub(crate) fn flushed_of(&self, node: NodeId) -> Result<Unflushed, NotTold> {
        let told = self.asked_of(ASK_FLUSHED, node)?;
        let me = self.lock().node().config().me;
        Unflushed::decode(&told).ok_or(NotTold::Silent(node.0, me.0))
    }

    /// Another agent has this one bring everything to the store.
    pub(crate) fn tell_flushed(&self, to: NodeId, question: &[u8]) {
        let Ok(number) = question.try_into() else {
            return self.disconnect(to, "it sent a torn question");
        };
        let left = self.flush_some();
        self.tell_parts(to, u64::from_le_bytes(number), &left.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_in_words() {
        let mut left = Unflushed {
            bytes: 1,
            refused: vec![("`/s/f`".to_owned(), 27)],
            ..Unflushed::default()
        };
        assert_eq!(
            left.to_string(),
            "the store refuses what was written to `/s/f`: File too large (os error 27); 1 byte is not in the store yet"
        );
        left.more = 1;
        left.bytes = 2;
        assert_eq!(Unflushed::decode(&left.encode()), Some(left.clone()));
        assert_eq!(Unflushed::decode(&left.encode()[..30]), None);
        assert_eq!(
            left.words()[1..],
            ["and to 1 other file", "2 bytes are not in the store yet"]
        );
    }

    #[test]
    fn a_refusal_is_told_soon_and_a_slow_store_waited_for() {
        let mut left = Unflushed {
            bytes: 1,
            ..Unflushed::default()
        };
        let (soon, later) = (Duration::from_secs(1), Duration::from_secs(9));
        assert!(!left.gives_up(soon, later));
        assert!(left.gives_up(later + soon, later));
        left.refused.push((String::new(), 28));
        assert!(left.gives_up(soon, later) && !left.gives_up(Duration::ZERO, later));
    }
}
