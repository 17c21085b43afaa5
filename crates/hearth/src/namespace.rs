//! Lets this process see a store through an agent at the store's own path, in a mount namespace
//! that only this process and its children are in.
//!
//! Root makes a mount namespace; an ordinary user first a user namespace in which to have the right to. The agent stays
//! outside and so goes on seeing the store itself. The first command mounts. Later commands of the same agent join its
//! namespaces, so that all share what the kernel keeps.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, StatVfsMountFlags, flock, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::os::{Namespaces, unshare};
use crate::requirements;
use hearth_set::control::{ControlAnswer, ControlRequest, Ids, MountAccess, Peer, ask, connect};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::mountinfo::SOURCE;
use hearth_set::options::Others;
use hearth_set::unmount::connection_at;

/// The way round where namespaces cannot be had.
const AT_HINT: &str = "use --at DIR, which mounts the store there and needs no namespace";

/// The place that a process goes to.
#[derive(Clone, Debug)]
pub(crate) struct Entrance {
    /// Through which agent.
    pub(crate) peer: Peer,
    /// The store's true path.
    pub(crate) store: PathBuf,
    /// The users that may enter the mount.
    pub(crate) others: Others,
    /// Locked while one process looks for the mount or makes it.
    pub(crate) lock: PathBuf,
    /// The path at which the store itself is seen inside, for reading alone.
    pub(crate) behind: PathBuf,
}

impl Entrance {
    /// Goes in. The process must have one thread. Says where the store itself can be seen, if it can.
    pub(crate) fn enter(&self) -> Result<Option<PathBuf>, Failure> {
        let store = identity(&self.store);
        // A path that was deleted needs not be found again.
        let here = std::env::current_dir().ok();
        // Connected before anything hides the socket's path.
        let asking = self.connect()?;
        let attaching = self.connect()?;
        let _one_at_a_time =
            lock(&self.lock).or_fail(|| format!("cannot lock `{}`", self.lock.display()))?;
        let answer = self.ask(&asking, &ControlRequest::Enter, &[])?;
        let mount_access: MountAccess = serde_json::from_value(answer.value)
            .or_fail(|| format!("cannot understand {}", self.peer))?;
        match mount_access {
            MountAccess::Make => self.make(&attaching)?,
            MountAccess::Join => join(&answer.fds)?,
            MountAccess::Bind(at) => self.bind(&at)?,
        }
        if let Some(here) = here {
            // Through the path again: the old directory lies below the new mount.
            std::env::set_current_dir(&here)
                .or_fail(|| format!("cannot enter `{}` again", here.display()))?;
        }
        let is_seen = store.is_some() && identity(&self.behind) == store;
        Ok(is_seen.then(|| self.behind.clone()))
    }

    fn connect(&self) -> Result<UnixStream, Failure> {
        connect(&self.peer).map_err(|error| error.into_failure())
    }

    fn ask(
        &self,
        stream: &UnixStream,
        request: &ControlRequest,
        fds: &[std::os::fd::BorrowedFd<'_>],
    ) -> Result<ControlAnswer, Failure> {
        ask(stream, &self.peer, request, fds).map_err(|error| error.into_failure())
    }

    fn make(&self, attaching: &UnixStream) -> Result<(), Failure> {
        let namespaces = leave()?;
        self.show_store();
        // Opened inside: a device opened in another user namespace cannot be mounted in this one.
        let device = requirements::open_device()?;
        self.mount(&device)?;
        let mut fds = vec![device, namespace("mnt")?];
        let ids = match namespaces {
            Namespaces::Mounts => Ids::AsStored,
            Namespaces::UsersAndMounts => {
                fds.push(namespace("user")?);
                Ids::Mine
            }
        };
        let lent: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        // Without it all goes well, unless the agent is killed.
        let connection = connection_at(&self.store).ok().flatten();
        let attach = ControlRequest::Attach { ids, connection };
        self.ask(attaching, &attach, &lent)?;
        // The agent alone has the device from here on: should it end, the mount ends with it. A process that held the
        // device too would wait for ever for an answer that nobody gives.
        drop(fds);
        // Until it has asked once, the kernel takes the root of the mount for user 0's, who does not
        // exist in here, and lets nobody make a file in it.
        fs::metadata(&self.store)
            .map(drop)
            .or_fail(|| format!("cannot see `{}` through the agent", self.store.display()))
    }

    /// Keeps the store in sight before something is mounted over it. Never to be written to: a program that removes the
    /// directory around it must not remove the files of the store.
    fn show_store(&self) {
        let shown = fs::create_dir(&self.behind)
            .or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })
            .and_then(|()| Ok(mount_bind(&self.store, &self.behind)?))
            .and_then(|()| {
                forbid_writing(&self.behind).inspect_err(|_| {
                    // Seen by nobody yet.
                    let _ = unmount(&self.behind, UnmountFlags::DETACH);
                })
            });
        if let Err(error) = shown {
            log::warn!("programs cannot read on when the agent is gone: {error}");
        }
    }

    fn mount(&self, device: &OwnedFd) -> Result<(), Failure> {
        let what = || format!("cannot mount over `{}`", self.store.display());
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let fd = device.as_raw_fd();
        let mut data = format!("fd={fd},rootmode=40000,user_id={uid},group_id={gid}");
        if self.others == Others::Allowed {
            data.push_str(",allow_other,default_permissions");
        }
        let data = CString::new(data).expect("numbers and words hold no zero");
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount(SOURCE, &self.store, "fuse.hearth", flags, data.as_c_str())
            .or_fail(what)
            .map_err(|failure| failure.hint(AT_HINT))
    }

    fn bind(&self, at: &Path) -> Result<(), Failure> {
        leave()?;
        self.show_store();
        mount_bind_recursive(at, &self.store).or_fail(|| {
            let (at, store) = (at.display(), self.store.display());
            format!("cannot mount `{at}` over `{store}`")
        })
    }
}

/// Makes a mount of this namespace one for reading alone.
fn forbid_writing(at: &Path) -> io::Result<()> {
    let now = statvfs(at)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    // The flags that came from another user's namespace must stay as they are.
    for (kept, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ] {
        flags.set(flag, now.contains(kept));
    }
    Ok(mount_remount(at, flags, c"")?)
}

/// Device and number of a directory.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
    Ok(file)
}

/// Moves into new namespaces.
fn leave() -> Result<Namespaces, Failure> {
    let (uid, gid) = (geteuid(), getegid());
    if uid.is_root() && unshare(Namespaces::Mounts).is_ok() {
        keep_mounts_inside()?;
        return Ok(Namespaces::Mounts);
    }
    unshare(Namespaces::UsersAndMounts)
        .and_then(|()| map_user(uid.as_raw(), gid.as_raw()))
        .map_err(|error| no_namespace(&error))?;
    keep_mounts_inside()?;
    Ok(Namespaces::UsersAndMounts)
}

/// Gives the new namespace our own user and group, under the same numbers.
fn map_user(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Mounts made outside still arrive; those made here do not leave.
fn keep_mounts_inside() -> Result<(), Failure> {
    let how = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", how)
        .or_fail(|| "cannot keep mounts inside of a namespace".to_owned())
        .map_err(|failure| failure.hint(AT_HINT))
}

fn no_namespace(error: &io::Error) -> Failure {
    let failure = Failure::new("cannot make a namespace for the command").because(error);
    match requirements::namespace_obstacle() {
        Some(why) => failure.cause(why),
        None => failure,
    }
    .hint(AT_HINT)
}

fn join(namespaces: &[OwnedFd]) -> Result<(), Failure> {
    let what = || "cannot join the namespaces of the agent's mount".to_owned();
    let [mounts, users @ ..] = namespaces else {
        return Err(Failure::new(what()).cause("they did not come"));
    };
    // Users first: the right to change mounts comes from there.
    if let Some(users) = users.first() {
        move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User)).or_fail(what)?;
    }
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount)).or_fail(what)
}

fn namespace(kind: &str) -> Result<OwnedFd, Failure> {
    let path = format!("/proc/self/ns/{kind}");
    File::open(&path)
        .map(OwnedFd::from)
        .or_fail(|| format!("cannot open `{path}`"))
}
