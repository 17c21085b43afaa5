//! A mount from beginning to end.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fuser::{Config, MountOption, SessionACL};
use hearth_client::Session;
use rustix::mount::{UnmountFlags, unmount};

use crate::again::Before;
use crate::background::WORKERS;
use crate::core::Core;
use crate::fs::HearthFs;
use crate::ledger::{Fact, Ledger};
use crate::options::{Identity, MountOptions, OtherUsers, WhenBusy};
use crate::takeover::{Device, greet};

/// How long an unmount waits for the end of what served it. Other mount namespaces may have copies of the mount, and
/// programs may stay inside of one that was taken out of the tree: it then lasts for as long as they do.
const END_SPAN: Duration = Duration::from_secs(2);

/// The lock is there so that a mount can be shared: nobody waits for it.
fn word<T>(told: &mut Mutex<Receiver<T>>) -> &mut Receiver<T> {
    told.get_mut().unwrap_or_else(PoisonError::into_inner)
}

/// A mounted store. Dropping it unmounts, lazily if somebody is still inside.
#[derive(Debug)]
pub struct Mount {
    /// `None` if somebody else mounted it and will unmount it.
    point: Option<PathBuf>,
    /// Says once how the serving ended; `None` when that was heard, or nobody waits any more.
    server: Option<Mutex<Receiver<io::Result<()>>>>,
}

impl Mount {
    /// Mounts at a directory: with `mount(2)` as root, with `fusermount3` otherwise.
    pub fn at(
        point: &Path,
        ledger: Arc<Ledger>,
        store_root: OwnedFd,
        session: Arc<dyn Session>,
        options: MountOptions,
    ) -> io::Result<Mount> {
        let point = point.canonicalize()?;
        let config = config(&options);
        let ledger = (ledger, Before::default());
        let core = Arc::new(Core::new(ledger, store_root, session, options)?);
        let server = fuser::Session::new(HearthFs::new(Arc::clone(&core)), &point, &config)?;
        Mount::begin(server, &core, Some(point))
    }

    /// Serves a `/dev/fuse` descriptor that somebody has already mounted, perhaps in another namespace. The process
    /// that mounted it unmounts it.
    pub fn attach(
        device: OwnedFd,
        ledger: Arc<Ledger>,
        store_root: OwnedFd,
        session: Arc<dyn Session>,
        options: MountOptions,
    ) -> io::Result<Mount> {
        let config = config(&options);
        let ledger = (ledger, Before::default());
        let core = Arc::new(Core::new(ledger, store_root, session, options)?);
        let fs = HearthFs::new(Arc::clone(&core));
        // The kernel lets in whom the mount allows; user numbers here may be of another namespace.
        let server = fuser::Session::from_fd(fs, device, SessionACL::All, config)?;
        Mount::begin(server, &core, None)
    }

    /// Takes over the mount of an agent that is gone, with the ledger that it has left. Programs see a pause.
    ///
    /// This process has the descriptors of that agent under their old numbers, as far as [`Ledger::descriptors`] names
    /// them, and serves no other mount. It owns them from now on.
    pub fn resume(
        ledger: Arc<Ledger>,
        store_root: OwnedFd,
        session: Arc<dyn Session>,
        options: MountOptions,
    ) -> io::Result<Mount> {
        let known = ledger.known()?;
        let no_mount = || io::Error::other("no mount was begun with this ledger");
        let (agreed, point) = known.agreed.as_ref().ok_or_else(no_mount)?;
        let point = Some(PathBuf::from(OsStr::from_bytes(point)));
        let config = config(&options);
        let ledger = (ledger, Before::of(&known));
        let core = Arc::new(Core::new(ledger, store_root, session, options)?);
        core.restore(&known);
        let device = Device::left()?;
        let server = greet((&core, &device), *agreed, config)?;
        let (notifier, fresh) = (server.notifier(), server.as_fd().try_clone_to_owned()?);
        let revoker = core.revoker.start()?;
        core.reopen_all(&known);
        core.drop_attributes(&notifier);
        device.send_again()?;
        let point = point.filter(|point| !point.as_os_str().is_empty());
        let mount = Mount::serve(server, revoker, point)?;
        core.revoker.speak_by(notifier);
        core.drop_pages(fresh)?;
        Ok(mount)
    }

    fn begin(
        server: fuser::Session<HearthFs>,
        core: &Core,
        point: Option<PathBuf>,
    ) -> io::Result<Mount> {
        let lost = || io::Error::other("the mount has begun without an agreement");
        let agreed = core.agreed.get().ok_or_else(lost)?;
        let at = point
            .as_ref()
            .map_or(OsStr::new(""), |point| point.as_os_str());
        core.ledger.note(Fact::Agreed(*agreed, at.as_bytes()));
        core.revoker.speak_by(server.notifier());
        let revoker = core.revoker.start()?;
        Mount::serve(server, revoker, point)
    }

    fn serve(
        server: fuser::Session<HearthFs>,
        revoker: thread::JoinHandle<()>,
        point: Option<PathBuf>,
    ) -> io::Result<Mount> {
        let (tell, told) = channel();
        let server = run_without_unmount(server)?;
        thread::Builder::new()
            .name("fuse-mount".to_owned())
            .spawn(move || {
                let ended = server
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("the mount panicked")));
                let ended = match ended {
                    // A worker was taking a request at the moment of the unmount.
                    Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
                    ended => ended,
                };
                let revoked = revoker.join();
                let revoked = revoked.map_err(|_| io::Error::other("the revoker panicked"));
                // Nobody may wait any more.
                tell.send(revoked.and(ended)).ok();
            })?;
        Ok(Mount {
            point,
            server: Some(Mutex::new(told)),
        })
    }

    /// Unmounts and waits until everything has ended, for two seconds at most. Programs that are still inside, with
    /// [`WhenBusy::Detach`], keep it until this process ends. So do other mount namespaces, which may have copies.
    pub fn unmount(mut self, busy: WhenBusy) -> io::Result<()> {
        self.end(busy)
    }

    /// Somebody has unmounted it: waits for the end in the same way.
    pub fn leave(mut self) -> io::Result<()> {
        self.point = None;
        self.join()
    }

    fn end(&mut self, busy: WhenBusy) -> io::Result<()> {
        let ended = self
            .server
            .as_mut()
            .and_then(|told| word(told).try_recv().ok());
        if let Some(ended) = ended {
            self.point = None;
            self.server = None;
            return ended;
        }
        let Some(point) = self.point.take() else {
            return Ok(());
        };
        match take_down(&point, Force::None) {
            Ok(()) => self.join(),
            // Not mounted there any more.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.join(),
            Err(_) if busy == WhenBusy::Detach => take_down(&point, Force::Detach),
            Err(error) => {
                self.point = Some(point);
                Err(error)
            }
        }
    }

    fn join(&mut self) -> io::Result<()> {
        let told = self
            .server
            .take()
            .map(|mut server| word(&mut server).recv_timeout(END_SPAN));
        match told {
            Some(Ok(ended)) => ended,
            Some(Err(RecvTimeoutError::Disconnected)) => {
                Err(io::Error::other("the mount panicked"))
            }
            Some(Err(RecvTimeoutError::Timeout)) => {
                log::info!("somebody still has a copy of the mount");
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Serves until the mount is gone. The library would unmount once more then, and take away what was there before.
fn run_without_unmount(
    server: fuser::Session<HearthFs>,
) -> io::Result<thread::JoinHandle<io::Result<()>>> {
    let mut background = server.spawn()?;
    let nothing = thread::Builder::new().spawn(|| Ok(()))?;
    let served = std::mem::replace(&mut background.guard, nothing);
    // Its drop would unmount. It keeps a path, and a descriptor of the connection.
    std::mem::forget(background);
    Ok(served)
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.end(WhenBusy::Detach) {
            log::warn!("cannot unmount {:?}: {error}", self.point);
        }
    }
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.fs_name.clone()),
        MountOption::Subtype("hearth".to_owned()),
    ];
    // Set-user-id programs and devices stay off, whatever the identity: the store may be mounted so
    // because it is not trusted, and this mount must not lend it trust.
    if options.identity == Identity::AsCaller {
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    config.acl = match (options.others, options.identity) {
        (OtherUsers::Refused, Identity::SingleUser) => SessionACL::Owner,
        (OtherUsers::Allowed, _) | (_, Identity::AsCaller) => SessionACL::All,
    };
    config.n_threads = Some(WORKERS);
    // Each clone opens the device again, which an attached mount's process may not be able to.
    config.clone_fd = rustix::fs::access("/dev/fuse", device_access()).is_ok();
    config
}

fn device_access() -> rustix::fs::Access {
    rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Force {
    None,
    Detach,
}

fn take_down(point: &Path, force: Force) -> io::Result<()> {
    let flags = match force {
        Force::None => UnmountFlags::NOFOLLOW,
        Force::Detach => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match unmount(point, flags) {
        Err(rustix::io::Errno::PERM) => take_down_unprivileged(point, force),
        result => Ok(result?),
    }
}

fn take_down_unprivileged(point: &Path, force: Force) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg("-u").arg("-q").stdin(Stdio::null());
    if force == Force::Detach {
        command.arg("-z");
    }
    let status = command.arg("--").arg(point).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EBUSY))
    }
}
