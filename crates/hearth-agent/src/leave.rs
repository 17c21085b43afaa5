//! Leave and attributes, as they cross between the kernel and front ends: each side has types of its own,
//! so that neither has to know the other.

use hearth_client::asking::LISTED_AT_ONCE;
use hearth_client::{AttributesLeave, FileKey, InodeAttributes, NamesLeave, NamesRead};
use hearth_proto::{Attributes, FileId, Leave};

/// Attributes of one side as those of the other. A field that is missing here does not compile.
macro_rules! attributes {
    ($from:ident => $to:ident, $told:expr) => {
        attributes!(@ $from $to $told; mode, links, uid, gid, size, blocks, block_bytes,
            atime_ns, mtime_ns, ctime_ns, born_ns)
    };
    (@ $from:ident $to:ident $told:expr; $($field:ident),*) => {{
        let $from { $($field),* } = $told;
        $to { $($field),* }
    }};
}

pub(crate) fn all_for_front_end(leaves: Vec<Leave>) -> Vec<AttributesLeave> {
    leaves.into_iter().map(for_front_end).collect()
}

fn for_front_end(leave: Leave) -> AttributesLeave {
    match leave {
        Leave::No => AttributesLeave::No,
        Leave::Later => AttributesLeave::Later,
        Leave::Read { number, floor_ns } => AttributesLeave::Read { number, floor_ns },
        Leave::Known(told) => {
            AttributesLeave::Known(attributes!(Attributes => InodeAttributes, told))
        }
        Leave::Once(told) => {
            AttributesLeave::Once(attributes!(Attributes => InodeAttributes, told))
        }
    }
}

pub(crate) fn names_for_front_end(
    leave: Leave,
    names: Option<Vec<(Vec<u8>, FileId)>>,
) -> NamesLeave {
    let key = |file: FileId| (file.0 != 0).then_some(FileKey { ino: file.0 });
    let one = |(name, file)| (name, key(file));
    NamesLeave {
        leave: for_front_end(leave),
        names: names.map(|names| names.into_iter().map(one).collect()),
    }
}

/// Names that were read, of which the kernel takes some in a step; one part without names if there are too many, or none.
pub(crate) fn parts_for_kernel(
    names: Option<NamesRead>,
) -> impl Iterator<Item = Option<Vec<(Vec<u8>, FileId)>>> {
    let number = |file: Option<FileKey>| FileId(file.map_or(0, |file| file.ino));
    let is_known = names.is_some();
    let mut rest = names.unwrap_or_default().into_iter();
    let mut is_first = true;
    std::iter::from_fn(move || {
        if !std::mem::take(&mut is_first) && rest.len() == 0 {
            return None;
        }
        let some = rest.by_ref().take(LISTED_AT_ONCE);
        let some: Vec<_> = some.map(|(name, file)| (name, number(file))).collect();
        Some(is_known.then_some(some))
    })
}

pub(crate) fn for_kernel(told: InodeAttributes) -> Attributes {
    attributes!(InodeAttributes => Attributes, told)
}
