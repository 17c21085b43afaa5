//! The parts that messages are made of.

use super::{PAGES_MAX, WireError};
use crate::bank::{Daemon, Epoch};
use crate::ids::{
    Age, Attributes, FileId, Gen, Learned, Leave, Listed, Named, NodeId, ReqId, Stamp, Ver, View,
};
use crate::member::ViewStage;
use crate::msg::{
    Cut, Fate, Goal, Handles, Held, Here, HomeMap, Left, Moved, Origin, Service, Use, Wanted,
};
use crate::ranges::Ranges;
use crate::semantics::Semantics;
use alloc::vec::Vec;

/// Bytes being written.
pub(super) struct Writer<'a>(pub(super) &'a mut Vec<u8>);

/// Bytes being read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*head)
    }
}

/// Something with a place on the wire.
pub(super) trait Fields: Sized {
    fn put(&self, to: &mut Writer<'_>);
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Fields for $number {
            fn put(&self, to: &mut Writer<'_>) {
                to.0.extend_from_slice(&self.to_le_bytes());
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok(<$number>::from_le_bytes(from.take()?))
            }
        }
    )*};
}

numbers!(u8, u32, u64, i32, i64);

/// An enum of names alone: one byte.
macro_rules! tags {
    ($name:ident { $($variant:ident = $tag:literal),* }) => {
        impl Fields for $name {
            fn put(&self, to: &mut Writer<'_>) {
                let tag: u8 = match self { $($name::$variant => $tag,)* };
                tag.put(to);
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                match u8::get(from)? {
                    $($tag => Ok($name::$variant),)*
                    _ => Err(WireError::Value),
                }
            }
        }
    };
}

/// A struct whose fields stand one after another.
macro_rules! in_order {
    ($name:ident { $($field:tt),* }) => {
        impl Fields for $name {
            fn put(&self, to: &mut Writer<'_>) {
                $(self.$field.put(to);)*
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok($name { $($field: Fields::get(from)?),* })
            }
        }
    };
}

in_order!(NodeId { 0 });
in_order!(View { 0 });
in_order!(Daemon { 0 });
in_order!(Epoch { 0 });
in_order!(FileId { 0 });
in_order!(Age { clock, node });
in_order!(Gen { life, cut });
in_order!(Handles { readers, writers });
in_order!(Ver { view, seq });
in_order!(ReqId { node, inc, seq });
in_order!(Stamp {
    ctime_ns,
    mtime_ns,
    size
});

in_order!(Attributes {
    mode,
    links,
    uid,
    gid,
    size,
    blocks,
    block_bytes,
    atime_ns,
    mtime_ns,
    ctime_ns,
    born_ns
});
in_order!(Named {
    name,
    file,
    manager
});
in_order!(Listed {
    number,
    first,
    names,
    more
});
in_order!(Learned {
    file,
    number,
    attributes
});

impl Fields for Leave {
    fn put(&self, to: &mut Writer<'_>) {
        match self {
            Leave::No => 0u8.put(to),
            Leave::Later => 1u8.put(to),
            Leave::Read { number, floor_ns } => {
                2u8.put(to);
                number.put(to);
                floor_ns.put(to);
            }
            Leave::Known(attributes) => {
                3u8.put(to);
                attributes.put(to);
            }
            Leave::Once(attributes) => {
                4u8.put(to);
                attributes.put(to);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Ok(Leave::No),
            1 => Ok(Leave::Later),
            2 => Ok(Leave::Read {
                number: u64::get(from)?,
                floor_ns: i64::get(from)?,
            }),
            3 => Ok(Leave::Known(Attributes::get(from)?)),
            4 => Ok(Leave::Once(Attributes::get(from)?)),
            _ => Err(WireError::Value),
        }
    }
}

impl Fields for bool {
    fn put(&self, to: &mut Writer<'_>) {
        u8::from(*self).put(to);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Value),
        }
    }
}

impl<T: Fields> Fields for Option<T> {
    fn put(&self, to: &mut Writer<'_>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        if bool::get(from)? {
            Ok(Some(T::get(from)?))
        } else {
            Ok(None)
        }
    }
}

impl<T: Fields, E: Fields> Fields for Result<T, E> {
    fn put(&self, to: &mut Writer<'_>) {
        self.is_ok().put(to);
        match self {
            Ok(value) => value.put(to),
            Err(error) => error.put(to),
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        if bool::get(from)? {
            Ok(Ok(T::get(from)?))
        } else {
            Ok(Err(E::get(from)?))
        }
    }
}

impl Fields for () {
    fn put(&self, _: &mut Writer<'_>) {}
    fn get(_: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(())
    }
}

macro_rules! lists {
    ($($member:ty),*) => {$(
        impl Fields for Vec<$member> {
            fn put(&self, to: &mut Writer<'_>) {
                (self.len() as u32).put(to);
                self.iter().for_each(|value| value.put(to));
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                let count = u32::get(from)? as usize;
                if count > PAGES_MAX {
                    return Err(WireError::Value);
                }
                (0..count).map(|_| <$member>::get(from)).collect()
            }
        }
    )*};
}

lists!(
    u8, u32, u64, Epoch, FileId, NodeId, Leave, Learned, Named, Moved
);

/// Starts and ends, in turn. A list that is not ascending, or that touches, has no meaning.
impl Fields for Ranges {
    fn put(&self, to: &mut Writer<'_>) {
        let ends: Vec<u32> = self.iter().flat_map(|(start, end)| [start, end]).collect();
        ends.put(to);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let ends = Vec::<u32>::get(from)?;
        let (pairs, rest) = ends.as_chunks::<2>();
        let list = pairs.iter().map(|&[start, end]| (start, end)).collect();
        let ranges = Ranges::from_sorted(list).filter(|_| rest.is_empty());
        ranges.ok_or(WireError::Value)
    }
}

impl Fields for Held {
    fn put(&self, to: &mut Writer<'_>) {
        self.0.iter().for_each(|word| word.put(to));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut held = Held::default();
        for word in &mut held.0 {
            *word = u64::get(from)?;
        }
        Ok(held)
    }
}

tags!(Origin { Memory = 0, Store = 1, Peer = 2 });

tags!(Here { Nothing = 0, Home = 1, Manager = 2, Left = 3, Named = 4 });

tags!(Service { Homes = 0, Store = 1, StoreAfterLoss = 2, Laminated = 3 });

impl Fields for Use {
    fn put(&self, to: &mut Writer<'_>) {
        match self {
            Use::Copy => 0u8.put(to),
            Use::Once => 1u8.put(to),
            Use::Own(grant) => {
                2u8.put(to);
                grant.put(to);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Ok(Use::Copy),
            1 => Ok(Use::Once),
            2 => Ok(Use::Own(Ver::get(from)?)),
            _ => Err(WireError::Value),
        }
    }
}

tags!(Left { Nothing = 0, Copy = 1, Own = 2 });

in_order!(Moved { page, node });

tags!(Wanted { Bytes = 0, Part = 1, All = 2 });

tags!(ViewStage {
    Ending = 0, Quiet = 1, Settling = 2, Settled = 3, Still = 4, Beginning = 5, Begun = 6, Left = 7
});
tags!(Goal { Own = 0, Synced = 1, All = 2, Sealed = 3 });

tags!(Fate { Stored = 0, Lost = 1, Unknown = 2 });

impl Fields for Cut {
    fn put(&self, to: &mut Writer<'_>) {
        match self {
            Cut::Shrink(size) => {
                0u8.put(to);
                size.put(to);
            }
            Cut::Outside => 1u8.put(to),
            Cut::Detach => 2u8.put(to),
            Cut::Window { first, count } => {
                3u8.put(to);
                first.put(to);
                count.put(to);
            }
            Cut::Laminate => 4u8.put(to),
            Cut::HandOver(heir) => {
                5u8.put(to);
                heir.put(to);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Ok(Cut::Shrink(u64::get(from)?)),
            1 => Ok(Cut::Outside),
            2 => Ok(Cut::Detach),
            3 => Ok(Cut::Window {
                first: u64::get(from)?,
                count: u32::get(from)?,
            }),
            4 => Ok(Cut::Laminate),
            5 => Ok(Cut::HandOver(NodeId::get(from)?)),
            _ => Err(WireError::Value),
        }
    }
}

tags!(Semantics { Posix = 0, MpiAtomic = 1, Mpi = 2, Cto = 3, Commit = 4, Laminated = 5, Job = 6 });

impl Fields for HomeMap {
    fn put(&self, to: &mut Writer<'_>) {
        match self {
            HomeMap::Slot => 0u8.put(to),
            HomeMap::Ask => 1u8.put(to),
            HomeMap::Fixed(node) => {
                2u8.put(to);
                node.put(to);
            }
            HomeMap::Own => 3u8.put(to),
            HomeMap::Keepers => 4u8.put(to),
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Ok(HomeMap::Slot),
            1 => Ok(HomeMap::Ask),
            2 => Ok(HomeMap::Fixed(NodeId::get(from)?)),
            3 => Ok(HomeMap::Own),
            4 => Ok(HomeMap::Keepers),
            _ => Err(WireError::Value),
        }
    }
}
