//! Names that are read for the sake of the attributes that come along.
//!
//! Some file systems send attributes of files along with the names of their directory, and their clients answer from
//! these for a while. So who is about to look at many files of a directory reads its names before, if that takes fewer
//! requests: a look is then a call on this host, and the servers have a few requests where they would have one for each
//! file.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::core::Core;
use crate::listing::Listing;

/// So many names come with one request, at least.
const NAMES_A_REQUEST: usize = 128;
/// For so long a client has what came along: what GlusterFS and FUSE have by default, and others have more.
const AT_HAND: Duration = Duration::from_secs(1);

/// File systems whose clients are sent attributes along with names, by their number in `statfs`: FUSE, NFS, SMB and Ceph.
const SENDERS: [u64; 5] = [0x6573_5546, 0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x00C3_6400];

/// Whether attributes come along with names in the file system of a directory.
pub(crate) fn come_along(dir: impl AsFd) -> bool {
    rustix::fs::fstatfs(dir).is_ok_and(|about| SENDERS.contains(&(about.f_type as u64)))
}

impl Core {
    /// Makes what is about to be looked at come along with names, if it is worth that. Who comes meanwhile waits, and
    /// has it at hand as well.
    pub(crate) fn bring_to_hand(&self, dir: u64, listing: &Listing, looks: usize) {
        if !self.attributes_come_along || looks <= listing.len().div_ceil(NAMES_A_REQUEST) {
            return;
        }
        let mut read_at = listing.read_at();
        if read_at.is_none_or(|at| at.elapsed() > AT_HAND) && self.read_names(dir).is_ok() {
            *read_at = Some(Instant::now());
        }
    }
}
