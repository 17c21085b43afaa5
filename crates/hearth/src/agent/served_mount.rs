//! The one mount that an agent serves.
//!
//! There is one, because the library takes all that comes through its session for one kernel's cache. With two mounts,
//! a write through one would leave the pages that the other keeps as they were.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hearth_fuse::{Mount, WhenBusy};
use hearth_set::control::{Busy, MountAccess};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::mountinfo;
use hearth_set::process::Process;
use hearth_set::unmount::unmount_at;

use super::warden::Warden;

/// A mount, and the warden that knows of it.
pub(super) struct WardedMount {
    mount: Mount,
    warden: Warden,
}

impl WardedMount {
    /// A mount that the warden has been told of.
    pub(super) fn new(mount: Mount, warden: Warden) -> WardedMount {
        WardedMount { mount, warden }
    }

    /// Somebody has unmounted it: waits for the end.
    fn leave(self) -> io::Result<()> {
        self.warden.serves(None);
        self.mount.leave()
    }

    /// Unmounts, under programs that are inside.
    fn take_away(self) -> io::Result<()> {
        let taken = self.mount.unmount(WhenBusy::Detach);
        self.warden.serves(None);
        taken
    }
}

/// How programs reach an agent.
pub(super) enum Served {
    /// By a mount in the common tree.
    At {
        /// Its path.
        at: PathBuf,
        /// The mount.
        mount: WardedMount,
    },
    /// By a mount in namespaces of its own.
    Apart {
        /// The mount; it lasts as long as the namespaces.
        mount: WardedMount,
        /// Mounts, then users if they are not ours. Holding them keeps the mount between commands.
        namespaces: Vec<OwnedFd>,
    },
}

/// The mount that is served, and the commands that use it.
#[derive(Default)]
pub(super) struct Door {
    served: Option<Served>,
    /// Commands that entered namespaces; some may have ended.
    users: Vec<Process>,
}

impl Door {
    /// The path of the mount in the common tree.
    pub(super) fn at(&mut self) -> Option<&Path> {
        self.forget_if_unmounted();
        match &self.served {
            Some(Served::At { at, .. }) => Some(at),
            Some(Served::Apart { .. }) | None => None,
        }
    }

    /// Commands that are inside namespaces now.
    pub(super) fn users(&mut self) -> Vec<u32> {
        self.users.retain(|user| user.lives());
        self.users.iter().map(|user| user.pid).collect()
    }

    /// Notes that a command enters.
    pub(super) fn admit(&mut self, pid: u32) {
        let user = Process::of(pid);
        // It asks how to enter, and again when it has made the mount.
        self.users
            .extend(user.filter(|user| !self.users.contains(user)));
    }

    /// Fails unless a mount can be made.
    pub(super) fn check_free(&mut self) -> Result<(), Failure> {
        self.forget_if_unmounted();
        let where_to = match &self.served {
            None => return Ok(()),
            Some(Served::At { at, .. }) => format!("at `{}`", at.display()),
            Some(Served::Apart { .. }) => "for `hearth run`".to_owned(),
        };
        Err(
            Failure::new(format!("the agent serves a mount already, {where_to}"))
                .hint("an agent serves one mount; `hearth up --agents N` starts more"),
        )
    }

    /// Keeps what is served from now on.
    pub(super) fn open(&mut self, served: Served) {
        self.served = Some(served);
    }

    /// How a command can enter.
    pub(super) fn mount_access(&mut self) -> Result<(MountAccess, Vec<OwnedFd>), Failure> {
        self.forget_if_unmounted();
        match &self.served {
            None => Ok((MountAccess::Make, Vec::new())),
            Some(Served::At { at, .. }) => Ok((MountAccess::Bind(at.clone()), Vec::new())),
            Some(Served::Apart { namespaces, .. }) => {
                let fds: Result<_, _> = namespaces.iter().map(OwnedFd::try_clone).collect();
                Ok((
                    MountAccess::Join,
                    fds.or_fail(|| "cannot lend a namespace".to_owned())?,
                ))
            }
        }
    }

    /// Takes the mount out of the common tree.
    pub(super) fn unmount(&mut self, at: &Path, busy: Busy) -> Result<(), Failure> {
        self.forget_if_unmounted();
        match self.served.take() {
            Some(Served::At { at: here, mount }) if here == at => self.take_down(here, mount, busy),
            other => {
                self.served = other;
                Err(Failure::no(format!(
                    "nothing is mounted at `{}`",
                    at.display()
                )))
            }
        }
    }

    fn take_down(&mut self, at: PathBuf, mount: WardedMount, busy: Busy) -> Result<(), Failure> {
        let what = format!("cannot unmount `{}`", at.display());
        if let Err(error) = unmount_at(&at, busy) {
            self.served = Some(Served::At { at, mount });
            let is_busy = error.kind() == io::ErrorKind::ResourceBusy;
            let failure = Failure::new(what).because(error);
            return Err(if is_busy {
                failure.hint("let the programs in it end, or take it away under them with --force")
            } else {
                failure
            });
        }
        mount.leave().or_fail(|| what)
    }

    /// Takes everything away, even if programs are inside.
    pub(super) fn close(&mut self) {
        match self.served.take() {
            Some(Served::At { at, mount }) => {
                if let Err(error) = mount.take_away() {
                    log::warn!("cannot unmount {}: {error}", at.display());
                }
            }
            // Its server ends with this process.
            Some(Served::Apart { mount, .. }) => drop(mount),
            None => {}
        }
    }

    /// Somebody else may have unmounted it.
    fn forget_if_unmounted(&mut self) {
        let Some(Served::At { at, .. }) = &self.served else {
            return;
        };
        let mounts = mountinfo::read().unwrap_or_default();
        let is_there = mounts
            .iter()
            .any(|mount| mount.is_hearth() && mount.at == *at);
        if !mounts.is_empty() && !is_there {
            self.served = None;
        }
    }
}
