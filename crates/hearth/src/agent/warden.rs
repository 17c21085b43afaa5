//! A mount, and the process that ends it if this one is killed ([`crate::commands::warden`]).

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use hearth_fuse::{Mount, WhenBusy};

/// A mount that ends with this process, however that ends.
pub(super) struct WardedMount {
    mount: Mount,
    /// Dropped after the mount.
    _warden: Option<Warden>,
}

impl WardedMount {
    /// A mount, and the number of its connection if it is known.
    pub(super) fn new(mount: Mount, connection: Option<u32>) -> WardedMount {
        let warden = connection
            .ok_or_else(|| io::Error::other("the number of its mount is not known"))
            .and_then(Warden::start);
        if let Err(error) = &warden {
            log::warn!("programs may wait for ever if this agent is killed: {error}");
        }
        WardedMount {
            mount,
            _warden: warden.ok(),
        }
    }

    /// Somebody has unmounted it: waits for the end.
    pub(super) fn leave(self) -> io::Result<()> {
        self.mount.leave()
    }

    /// Unmounts, under programs that are inside.
    pub(super) fn take_away(self) -> io::Result<()> {
        self.mount.unmount(WhenBusy::Detach)
    }
}

/// Tells the process, when it is dropped, that all ends in order.
struct Warden(ChildStdin);

impl Warden {
    fn start(connection: u32) -> io::Result<Warden> {
        // Also where the file has been replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("hearth").arg("warden");
        command.arg(connection.to_string()).arg("--agent");
        command.arg(std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let (tell, told) = channel();
        // The process hears of the end of the thread that started it: so that one stays.
        thread::Builder::new()
            .name("mount-warden".to_owned())
            .spawn(move || reap(command.spawn(), |started| tell.send(started).is_ok()))?;
        let input = told.recv().map_err(io::Error::other)??;
        Ok(Warden(input))
    }
}

fn reap(started: io::Result<Child>, tell: impl FnOnce(io::Result<ChildStdin>) -> bool) {
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            tell(Err(error));
            return;
        }
    };
    let input = child.stdin.take().expect("it has a pipe");
    if tell(Ok(input)) {
        // Its exit code says nothing that anybody could act on.
        let _ = child.wait();
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // It is gone already if somebody has ended it.
        let _ = self.0.write_all(b".");
    }
}
