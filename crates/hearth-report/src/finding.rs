//! A finding: one thing to change, what it costs now, and what changing it is worth.

use serde::{Serialize, Serializer};

/// Defines [`WasteKind`] with the word that people and scripts read for each.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// The kind of waste.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum WasteKind { $($(#[$doc])* $name,)+ }

        impl WasteKind {
            /// Every kind.
            pub const ALL: &'static [WasteKind] = &[$(WasteKind::$name,)+];

            /// The word that people and scripts read.
            pub fn name(self) -> &'static str {
                match self { $(WasteKind::$name => $word,)+ }
            }

            /// The kind with this name, if there is one.
            pub fn from_name(name: &str) -> Option<WasteKind> {
                match name { $($word => Some(WasteKind::$name),)+ _ => None }
            }
        }
    };
}

kinds! {
    /// Small writes, one after another, that could be one.
    TinyWrites = "tiny-writes",
    /// Accesses that begin or end inside of a block.
    Unaligned = "unaligned",
    /// Writers of one file that keep each other waiting.
    LockStorm = "lock-storm",
    /// A process that takes longer than others for the same work.
    Straggler = "straggler",
    /// Bytes read again after they were dropped.
    Rereads = "re-reads",
    /// Time spent on names and attributes.
    MetadataStorm = "metadata-storm",
    /// A whole file read or written in no order.
    Random = "random",
    /// The same files opened by every rank.
    SerialOpen = "serial-open",
    /// A sync after each record.
    SyncPerRecord = "sync-per-record",
    /// Blocks read only to change a part of them.
    ReadModifyWrite = "read-modify-write",
    /// A process that has more to do than others.
    Imbalance = "imbalance",
    /// Pages of the cache that do not fit the accesses.
    PageSize = "page-size",
}

impl Serialize for WasteKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A predicted gain of wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PredictedGain {
    /// At least, if the least favourable assumption holds.
    pub low: f64,
    /// Most likely.
    pub mid: f64,
    /// At most.
    pub high: f64,
}

/// One thing to change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The kind of waste.
    pub kind: WasteKind,
    /// The same in a sentence, with the file or rank that it is about.
    pub title: String,
    /// The numbers that say so.
    pub evidence: Vec<String>,
    /// The change that would help.
    pub change: String,
    /// The part of the job's wall time that the change saves.
    pub seconds: PredictedGain,
    /// How the prediction was made.
    pub basis: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        assert_eq!(WasteKind::ALL.len(), 12);
        for &kind in WasteKind::ALL {
            assert_eq!(WasteKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(WasteKind::from_name("nothing"), None);
    }
}
