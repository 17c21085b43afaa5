//! Leave and attributes, as they cross between the kernel and ways in: each side has types of its own,
//! so that neither has to know the other.

use hearth_client as way_in;
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

pub(crate) fn for_way_in(leave: kernel::Leave) -> way_in::Leave {
    match leave {
        kernel::Leave::No => way_in::Leave::No,
        kernel::Leave::Later => way_in::Leave::Later,
        kernel::Leave::Read { number, floor_ns } => way_in::Leave::Read { number, floor_ns },
        kernel::Leave::Known(told) => way_in::Leave::Known(attributes!(kernel => way_in, told)),
        kernel::Leave::Once(told) => way_in::Leave::Once(attributes!(kernel => way_in, told)),
    }
}

pub(crate) fn for_kernel(told: way_in::Attributes) -> kernel::Attributes {
    attributes!(way_in => kernel, told)
}
