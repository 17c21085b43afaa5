//! Readdirplus: names that are read for the sake of the attributes that come along.
//!
//! Some file systems send attributes of files along with the names of their directory, and their clients answer from
//! these for a while. So a node that is about to look at many files of a directory reads its names before, if that
//! takes fewer requests and not too many nodes do so. A look is then a call on this host, and the servers have a few
//! requests instead of one for each file.

use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use hearth_client::asking::names_are_worth;

use crate::core::Core;
use crate::prefetch::Within;

/// So many names come with one request, at least.
const NAMES_A_REQUEST: usize = 128;
/// File systems whose clients are sent attributes along with names, by their number in `statfs`: FUSE, NFS, SMB and Ceph.
const SENDERS: [u64; 5] = [0x6573_5546, 0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x00C3_6400];

/// Whether attributes come along with names in the file system of a directory.
pub(crate) fn come_along(dir: impl AsFd) -> bool {
    rustix::fs::fstatfs(dir).is_ok_and(|about| SENDERS.contains(&(about.f_type as u64)))
}

/// The clock's second. A client has what came along for a second, by default, and GlusterFS's counts in whole ones: what
/// came in one is old in the next. Others have it for longer.
pub(crate) fn second() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

impl Core {
    /// Makes attributes that are about to be looked at come along with names, if that is worth it with so many nodes,
    /// and says whether they have come. A thread that comes meanwhile waits, and has them at hand as well.
    pub(crate) fn prefetch_attributes(&self, within: Within<'_>, looks: usize) -> bool {
        if !self.attributes_come_along {
            return false;
        }
        let requests = within.listing.len().div_ceil(NAMES_A_REQUEST);
        let is_worth = names_are_worth(looks, requests, within.readers);
        let (mut read_in, now) = (within.listing.read_in(), second());
        if *read_in != Some(now) && is_worth && self.read_names(within.dir).is_ok() {
            *read_in = Some(now);
        }
        *read_in == Some(now)
    }
}
