//! The state that all parts of the front end share.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use hearth_client::extent::Extents;
use hearth_client::{FileKey, Revoker, Session};

use crate::again::Before;
use crate::background::BackgroundTasks;
use crate::bases::Bases;
use crate::calls::Calls;
use crate::directories::OpenDirectory;
use crate::handles::{Handles, OpenHandle};
use crate::identity::Wardrobe;
use crate::idle::IdleHandles;
use crate::init::Agreed;
use crate::leaving::Leaving;
use crate::ledger::Ledger;
use crate::lock_waiter::LockWaiter;
use crate::locks::Locks;
use crate::memory::Memory;
use crate::nodes::Nodes;
use crate::options::MountOptions;
use crate::readdirplus::come_along;
use crate::revoke::KernelRevoker;
use crate::stat::Stat;

/// One mount's state. The impls are spread over the modules, one per concern.
pub(crate) struct Core {
    pub(crate) options: MountOptions,
    pub(crate) ledger: Arc<Ledger>,
    /// How far the agent before came with requests that come again.
    pub(crate) before: Before,
    /// The agreement with the operating system, once there is one.
    pub(crate) agreed: OnceLock<Agreed>,
    pub(crate) session: Arc<dyn Session>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) files: Handles<OpenHandle>,
    pub(crate) idle: Arc<IdleHandles>,
    pub(crate) directories: Handles<OpenDirectory>,
    pub(crate) locks: Locks,
    pub(crate) lock_waiter: LockWaiter,
    pub(crate) background: BackgroundTasks,
    pub(crate) calls: Arc<Calls>,
    pub(crate) bases: Bases,
    pub(crate) revoker: Arc<KernelRevoker>,
    pub(crate) wardrobe: Wardrobe,
    /// How large files of the store can be.
    pub(crate) extents: Extents,
    /// The store's servers send attributes of files along with the names of their directory.
    pub(crate) attributes_come_along: bool,
    /// The store may know less of a closed file than programs must see.
    pub(crate) store_is_behind: bool,
}

impl Core {
    pub(crate) fn new(
        (ledger, before): (Arc<Ledger>, Before),
        store_root: OwnedFd,
        session: Arc<dyn Session>,
        options: MountOptions,
    ) -> io::Result<Core> {
        let attributes_come_along = come_along(&store_root);
        let extents = Extents::of(&store_root);
        let store_is_behind = session.store_is_behind();
        let nodes = Arc::new(Nodes::noted_in(Some(Arc::clone(&ledger)), store_root)?);
        let memory = Memory::new(options.attr_ttl);
        let (known, kept) = (Arc::clone(&nodes), Arc::clone(&memory));
        let calls = Arc::new(Calls::default());
        let own = Arc::clone(&calls);
        let leaving = Leaving::start(Arc::clone(&nodes))?;
        let idle = Arc::<IdleHandles>::default();
        let voided = (kept, Arc::clone(&idle));
        let revoker = KernelRevoker::new(known, voided, (own, leaving), Arc::downgrade(&session));
        session.attach(Arc::clone(&revoker) as Arc<dyn Revoker>);
        if !options.name_ttl.is_zero() {
            session.names_are_kept();
        }
        Ok(Core {
            wardrobe: Wardrobe::new(options.identity)?,
            background: BackgroundTasks::start()?,
            calls,
            bases: Bases::default(),
            lock_waiter: LockWaiter::start()?,
            locks: Locks::new(Arc::clone(&ledger)),
            files: Handles::default(),
            idle,
            directories: Handles::default(),
            options,
            ledger,
            before,
            agreed: OnceLock::new(),
            session,
            nodes,
            memory,
            revoker,
            extents,
            attributes_come_along,
            store_is_behind,
        })
    }

    /// Tells the session that a change of the store's stamps between two looks was ours.
    pub(crate) fn restamp(&self, before: &Stat, after: &Stat) {
        let (old, new) = (before.stamp(), after.stamp());
        if self.nodes.is_cacheable(before) && old != new {
            self.session.restamp(
                FileKey {
                    ino: before.key().ino,
                },
                old,
                new,
            );
        }
    }

    /// Ends what the kernel did not: at an unmount, closes may be lost.
    pub(crate) fn close_all(&self) {
        self.end_all(self.files.drain());
        self.end_all(self.idle.drain());
        self.directories.drain();
        self.revoker.stop();
    }
}
