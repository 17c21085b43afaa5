//! The mounts that this process sees.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

/// The source of a mount of ours, as `mount(8)` shows it.
pub const SOURCE: &str = "hearth";

/// A mount that does not answer for so long is silent.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Its number in its namespace.
    pub id: u32,
    /// The device of its file system, which copies of the mount share.
    pub device: (u32, u32),
    /// The directory of its file system that it shows.
    pub root: PathBuf,
    /// Its path.
    pub at: PathBuf,
    /// Its type, `fuse.hearth` for one.
    pub kind: String,
    /// The source that it shows.
    pub source: String,
}

impl MountPoint {
    /// Whether Hearth mounted it.
    pub fn is_hearth(&self) -> bool {
        self.source == SOURCE && (self.kind == "fuse" || self.kind.starts_with("fuse."))
    }

    /// Whether somebody serves it.
    pub fn service(&self) -> MountHealth {
        Question::ask(self).answer(Instant::now() + SILENCE_MAX)
    }
}

/// Whether somebody serves each of some mounts; takes as long as one of them does.
pub fn services(mounts: &[MountPoint]) -> Vec<MountHealth> {
    let asked: Vec<Question> = mounts.iter().map(Question::ask).collect();
    let end = Instant::now() + SILENCE_MAX;
    asked
        .into_iter()
        .map(|question| question.answer(end))
        .collect()
}

/// Asked on a thread of its own, which may wait for ever. The kernel always asks for the free room. It remembers
/// attributes, past the end of the process that told it.
struct Question(Receiver<io::Result<()>>);

impl Question {
    fn ask(mount: &MountPoint) -> Question {
        let (told, answer) = channel();
        let at = mount.at.clone();
        thread::spawn(move || {
            let looked = statvfs(&at).map(drop).map_err(io::Error::from);
            // Late is as good as never: the caller has gone on.
            told.send(looked).ok();
        });
        Question(answer)
    }

    fn answer(self, end: Instant) -> MountHealth {
        let left = end.saturating_duration_since(Instant::now());
        match self.0.recv_timeout(left) {
            Ok(Err(error)) if is_not_connected(&error) => MountHealth::Gone,
            Ok(_) => MountHealth::Answers,
            Err(_) => MountHealth::Silent,
        }
    }
}

/// Whether somebody serves a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountHealth {
    /// Yes.
    Answers,
    /// There is somebody, who does not answer.
    Silent,
    /// Nobody does any more.
    Gone,
}

/// Whether an error says that the process behind a FUSE mount is gone.
pub fn is_not_connected(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error())
        || error.raw_os_error() == Some(rustix::io::Errno::CONNABORTED.raw_os_error())
}

/// All mounts, in the order they were made.
pub fn read() -> io::Result<Vec<MountPoint>> {
    read_of(Path::new("/proc/self"))
}

/// All mounts that a process sees.
pub fn read_of(process: &Path) -> io::Result<Vec<MountPoint>> {
    let text = fs::read(process.join("mountinfo"))?;
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(parse).collect())
}

/// The mount that a path lies in. The path is canonical.
pub fn holding(path: &Path) -> io::Result<Option<MountPoint>> {
    let mounts = read()?.into_iter();
    // Among equals the last one hides the others.
    Ok(mounts
        .filter(|mount| path.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.components().count()))
}

/// `36 35 98:0 /root /at options shared:1 - kind source super-options`.
fn parse(line: &[u8]) -> Option<MountPoint> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let mut device = fields.nth(1)?.split(|byte| *byte == b':');
    let device = (number(device.next()?)?, number(device.next()?)?);
    let root = unescape(fields.next()?);
    let at = unescape(fields.next()?);
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = rest.next()?;
    let source = rest.next()?;
    Some(MountPoint {
        id,
        device,
        root: PathBuf::from(OsString::from_vec(root)),
        at: PathBuf::from(OsString::from_vec(at)),
        kind: String::from_utf8_lossy(kind).into_owned(),
        source: String::from_utf8_lossy(&unescape(source)).into_owned(),
    })
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Spaces and the like are written as `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match (first, octal(tail)) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let line =
            br"36 35 0:40 / /mnt/a\040b rw,nosuid shared:1 - fuse.hearth hearth rw,user_id=0";
        let mount = parse(line).unwrap();
        assert_eq!(mount.at, Path::new("/mnt/a b"));
        assert!(mount.is_hearth());
        assert_eq!((mount.id, mount.device), (36, (0, 40)));
        let line = b"36 35 0:40 / /mnt rw - fuse.sshfs host:/ rw";
        assert!(!parse(line).unwrap().is_hearth());
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn every_path_lies_in_a_mount() {
        assert!(holding(Path::new("/")).unwrap().is_some());
        assert!(!read().unwrap().is_empty());
    }
}
