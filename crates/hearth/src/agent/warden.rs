//! The process that ends a mount if this one is killed ([`crate::commands::warden`]).

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

/// Tells the process, when it is dropped, that all ends in order.
pub(super) struct Warden(ChildStdin);

impl Warden {
    /// Starts it for the mount at a directory.
    pub(super) fn start(at: &Path) -> io::Result<Warden> {
        // Also where the file has been replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("hearth").arg("warden").arg(at).arg("--agent");
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
