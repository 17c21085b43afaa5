//! The side of a node that does not mount the store: a mount of which every call is one of a gateway.

mod fs;
mod link;
mod requests;
#[cfg(test)]
mod tests;
mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{Config, MountOption, SessionACL};
use hearth_net::{Door, Party};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{UnmountFlags, unmount};

use fs::ProxyMountFs;
use link::Link;
use tree::Store;

pub(crate) use link::draw;

/// A gateway that says nothing for so long, though it is asked, is given up.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Requests of the operating system that are served at once: more than an agent has threads that use its store.
const WORKERS: usize = 16;

/// The place of a proxy mount, and the gateways that it uses.
pub struct ProxyMountPlan {
    /// Gateways, the first of which is asked as long as it answers.
    pub gateways: Vec<Door>,
    /// The job and the secret, which they and this side know.
    pub party: Party,
    /// An empty directory, for the moment of mounting.
    pub point: PathBuf,
    /// How long the first answer may take: gateways may be starting.
    pub patience: Duration,
}

/// A mount that stands in for the store. It is in no tree, so nobody finds it by a path, and lasts until the
/// last descriptor of it is closed.
pub struct ProxyMount {
    server: JoinHandle<io::Result<()>>,
}

impl ProxyMount {
    /// Mounts one, and opens its root.
    pub fn mount(plan: ProxyMountPlan) -> io::Result<(ProxyMount, OwnedFd)> {
        let link = Link::new(plan.gateways, plan.party)?;
        link.connect(plan.patience)?;
        let store = Arc::new(Store::new(link));
        store.pulse()?;
        let session = fuser::Session::new(ProxyMountFs::new(store), &plan.point, &config())?;
        let server = std::thread::Builder::new().name("proxy-mount".to_owned());
        let server = server.spawn(move || session.run())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&plan.point, flags, Mode::empty());
        hide(&plan.point)?;
        Ok((ProxyMount { server }, root?))
    }

    /// Waits until nobody has anything of it open.
    pub fn wait(self) -> io::Result<()> {
        match self.server.join() {
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other("the proxy mount panicked")),
        }
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("hearth-store".to_owned()),
        MountOption::Subtype("hearth-store".to_owned()),
    ];
    // The agent's threads are other users to the file system while they act for them, if it is root's.
    config.acl = match rustix::process::geteuid().is_root() {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    config.n_threads = Some(WORKERS);
    let both = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    config.clone_fd = rustix::fs::access("/dev/fuse", both).is_ok();
    config
}

/// Takes the mount out of the tree; what is open of it stays.
fn hide(point: &Path) -> io::Result<()> {
    match unmount(point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
        Err(rustix::io::Errno::PERM) => {
            let mut command = Command::new("fusermount3");
            command.args(["-u", "-q", "-z", "--"]).arg(point);
            match command.stdin(Stdio::null()).status()?.success() {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::EBUSY)),
            }
        }
        result => Ok(result?),
    }
}
