//! Bodies: one byte that names them, then their fields.

use super::WireError;
use super::fields::{Fields, Reader, Writer};
use crate::msg::Body;

/// Declares the tag and field order of every body once, for both directions.
macro_rules! bodies {
    ($($tag:literal => $name:ident $( ( $($inner:ident),* ) )? $( { $($field:ident),* } )? ;)*) => {
        impl Fields for Body {
            fn put(&self, to: &mut Writer<'_>) {
                match self {
                    $(Body::$name $( ( $($inner),* ) )? $( { $($field),* } )? => {
                        let tag: u8 = $tag;
                        tag.put(to);
                        $( $($inner.put(to);)* )?
                        $( $($field.put(to);)* )?
                    })*
                }
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                match u8::get(from)? {
                    $($tag => {
                        $( $(let $inner = Fields::get(from)?;)* )?
                        $( $(let $field = Fields::get(from)?;)* )?
                        Ok(Body::$name $( ( $($inner),* ) )? $( { $($field),* } )?)
                    })*
                    _ => Err(WireError::Value),
                }
            }
        }

        impl Body {
            /// The name of its kind.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Body::$name { .. } => concat!("a message ", stringify!($name)),)*
                }
            }
        }

        /// Every tag.
        #[cfg(test)]
        pub(super) const TAGS: &[u8] = &[$($tag),*];
    };
}

bodies! {
    1 => Whois;
    2 => WhoisOk(manager);
    3 => Open { write, stamp, private, semantics, all };
    4 => OpenOk { size, shared, homes, holders, semantics, version, left, dated };
    5 => Close { write, wrote, stamp, mtime_ns };
    6 => Size { dated, mtime_ns };
    7 => SizeIs { size, mtime_ns, keep };
    8 => Extend { end, append, mtime_ns };
    9 => ExtendOk(size);
    10 => Append(len);
    11 => AppendAt(offset);
    12 => HomeOf { chunk, has };
    13 => HomeIs { chunk, home };
    14 => Truncate(size);
    15 => TruncateGo;
    16 => Truncated(result);
    17 => TruncateOk;
    18 => Detach;
    19 => DetachGo;
    20 => Settle { store };
    21 => SettleOk;
    22 => Restamp { before, after };
    23 => Forget { size, service };
    24 => ForgetOk(mtime_ns);
    25 => Cut(cut);
    26 => CutOk(result);
    27 => Resume { done };
    28 => Read { first, count, keep, record, aside, skip, spare, here };
    29 => Grant { first, skip, lens, ver, good, origin };
    30 => Write { offset, len, dropped, record, alone, aside };
    31 => WriteOk;
    32 => Flush(goal);
    33 => FlushOk(stamp);
    34 => Inval { first, count, ver };
    35 => InvalOk;
    36 => Failed(errno);
    37 => OldGeneration;
    38 => Ping;
    39 => Pong;
    40 => Window { at, len };
    41 => WindowOk(size);
    42 => WindowGo { asked, offset };
    43 => WindowOver(result);
    44 => Peek { first, count, held };
    45 => Peeked { first, lens, held };
    46 => BankAsk;
    47 => BankIs(epochs);
    48 => BankOver { daemon, epoch };
    49 => BankOverOk;
    50 => WhoisEach(files);
    51 => WhoisEachOk(nodes);
    52 => AskLeave { files, alone };
    53 => Leaves(leaves);
    54 => Learned(learned);
    55 => Change;
    56 => ChangeGo;
    57 => Changed(ctime_ns);
    58 => Recall;
    59 => AwaitLeave(files);
    60 => Laminate(stamp);
    61 => LaminateOk;
    62 => Stage { offset, len, dropped, age };
    63 => Staged { clock };
    64 => Apply { of };
    65 => Release { of };
    66 => Hold { first, count, age };
    67 => Wound { clock };
    68 => Yield { of };
    69 => WriteOwn { page, grant };
    70 => TakeBack { page, grant, wanted };
    71 => Return { page, grant, ranges, left };
    72 => Push { page, number, len };
    73 => PushNo { page, number };
    74 => Claim { page, dropped };
    75 => WriteHere;
    76 => Elsewhere(pages);
    77 => Fetch { page, skip, spare };
    78 => Detached(gone);
    79 => Left;
    80 => Collect { cut };
    81 => Scatter { page, ranges };
    82 => AskNames(name);
    83 => Names { leave, names, more };
    84 => Listed(listed);
    90 => Copy { offset, pieces, ver };
    91 => Mark;
    92 => Trim { first, count, ver };
    93 => Kept(taken);
    94 => Rescue { gone, back };
    95 => Rescued(here);
    96 => Orphaned { back };
    100 => Shard { stripe, place, ver, keepers, pages, ranges };
    101 => Over { home, life, ver };
    102 => OverIs(fate);
    103 => Gather { home, life, stripe, ver };
    104 => Gathered;
    105 => Sealed;
    106 => HandOver(heir);
    107 => HandedOver;
    108 => Hand { page };
    109 => Handed { taken };
    110 => Inherit { is };
    111 => Date;
    112 => DateIs(mtime_ns);
    113 => Reached(stage);
    114 => HasLeft;
}
