//! Leave and attributes, as they cross between the kernel and ways in: each side has types of its own,
//! so that neither has to know the other.

use hearth_client as way_in;
use hearth_client::asking::LISTED_AT_ONCE;
use hearth_proto as kernel;

/// Attributes of one side as those of the other. A field that is missing here does not compile.
macro_rules! attributes {
    ($from:ident => $to:ident, $told:expr) => {
        attributes!(@ $from $to $told; mode, links, uid, gid, size, blocks, block_bytes,
            atime_ns, mtime_ns, ctime_ns, born_ns)
    };
    (@ $from:ident $to:ident $told:expr; $($field:ident),*) => {{
        let $from::Attributes { $($field),* } = $told;
        $to::Attributes { $($field),* }
    }};
}

pub(crate) fn all_for_way_in(leaves: Vec<kernel::Leave>) -> Vec<way_in::Leave> {
    leaves.into_iter().map(for_way_in).collect()
}

fn for_way_in(leave: kernel::Leave) -> way_in::Leave {
    match leave {
        kernel::Leave::No => way_in::Leave::No,
        kernel::Leave::Later => way_in::Leave::Later,
        kernel::Leave::Read { number, floor_ns } => way_in::Leave::Read { number, floor_ns },
        kernel::Leave::Known(told) => way_in::Leave::Known(attributes!(kernel => way_in, told)),
        kernel::Leave::Once(told) => way_in::Leave::Once(attributes!(kernel => way_in, told)),
    }
}

pub(crate) fn names_for_way_in(
    leave: kernel::Leave,
    names: Option<Vec<(Vec<u8>, kernel::FileId)>>,
) -> way_in::Names {
    let key = |file: kernel::FileId| (file.0 != 0).then_some(way_in::FileKey { ino: file.0 });
    let one = |(name, file)| (name, key(file));
    way_in::Names {
        leave: for_way_in(leave),
        names: names.map(|names| names.into_iter().map(one).collect()),
    }
}

/// Names that were read, of which the kernel takes some in a step; one part without names if there are too many, or none.
pub(crate) fn parts_for_kernel(
    names: Option<way_in::NamesRead>,
) -> impl Iterator<Item = Option<Vec<(Vec<u8>, kernel::FileId)>>> {
    let number = |file: Option<way_in::FileKey>| kernel::FileId(file.map_or(0, |file| file.ino));
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

pub(crate) fn for_kernel(told: way_in::Attributes) -> kernel::Attributes {
    attributes!(way_in => kernel, told)
}
