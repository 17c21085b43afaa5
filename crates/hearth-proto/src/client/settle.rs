//! Work of a node before it goes: bytes that it alone has go to homes, and from there to the store.
//!
//! 1. Gathered bytes are scattered, and pages that this node wrote by itself are returned.
//! 2. A home that has taken bytes of this node is asked to flush them. One that refuses is asked again.
//! 3. It is over once nothing is gathered or on its way, and no home has to be asked.
//!
//! The order to settle is given again until then: each time it does what can be done.

use super::file::File;
use super::{Client, Desk, What};
use crate::RawErrno;
use crate::authority::Authority;
use crate::config::{Config, Delegates};
use crate::ctx::Ctx;
use crate::ids::{FileId, NodeId};
use crate::msg::{Body, Goal};
use crate::nodeset::NodeSet;
use alloc::vec::Vec;

impl File {
    /// Bytes of this file are kept here until they go to homes.
    fn is_kept_behind(&self, config: &Config) -> bool {
        !self.bypass && (config.rules().delegates != Delegates::Never || self.semantics.gathers())
    }

    pub(super) fn is_settled(&self, me: NodeId) -> bool {
        let elsewhere = |&home: &NodeId| home != me;
        self.gathering.is_idle() && !self.unflushed().iter().any(elsewhere)
    }
}

impl Client {
    /// Brings what this node alone has to homes, and has them bring it to the store.
    pub(crate) fn settle_all(&mut self, ctx: &mut Ctx<'_>, authority: &mut Authority) {
        self.scatter_all(ctx, authority);
        let files = self.files.iter();
        let kept = files.filter(|(_, file)| file.is_kept_behind(ctx.config));
        let ids: Vec<FileId> = kept.map(|(&id, _)| id).collect();
        let mut desk = Desk {
            client: self,
            authority,
            ctx,
        };
        for id in ids {
            desk.return_file(id);
            desk.settle_homes(id);
        }
    }

    /// True while bytes of this node have not been said to be in the store.
    pub(crate) fn is_settling(&self, config: &Config) -> bool {
        let mut files = self.files.values();
        files.any(|file| file.is_kept_behind(config) && !file.is_settled(config.me))
    }

    /// The error of the last home that would not bring bytes of this node to the store.
    pub(crate) fn refused(&self) -> Option<(FileId, RawErrno)> {
        self.refused
    }
}

impl Desk<'_, '_> {
    pub(super) fn settle_homes(&mut self, id: FileId) {
        let me = self.ctx.me();
        let Some(file) = self.client.files.get_mut(&id) else {
            return;
        };
        let homes = file.wrote.iter().chain(file.sealed.iter());
        let homes: NodeSet = homes.filter(|&home| home != me).collect();
        let homes: Vec<NodeId> = homes.iter().collect();
        file.begin_flush(&homes);
        for home in homes {
            self.ask(home, id, Body::Flush(Goal::Own), What::Settled, Vec::new());
        }
    }

    /// A home has brought to the store what this node wrote, or could not.
    pub(super) fn settled(&mut self, id: FileId, home: NodeId, body: &Body) {
        let has_more = !matches!(body, Body::FlushOk(_)) && !self.ctx.peers.is_down(home);
        if let Some(file) = self.client.files.get_mut(&id) {
            file.end_flush(home, has_more);
        }
        self.client.refused = match body {
            Body::Failed(errno) if has_more => Some((id, *errno)),
            _ => None,
        };
        self.stops_lingering(id);
    }
}
