//! The directory of areas: where it is, who may use it, and what its files are called.
//!
//! Only raw system calls are used here: a traced process comes through here from inside calls that
//! are hooked themselves.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Names another directory for areas.
pub const DIRECTORY_VARIABLE: &str = "HEARTH_TRACE_DIR";

/// The directory of areas, unless the environment says otherwise: in memory, one for each user.
pub fn directory() -> PathBuf {
    match std::env::var_os(DIRECTORY_VARIABLE) {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => PathBuf::from(format!(
            "/dev/shm/hearth-{}",
            rustix::process::geteuid().as_raw()
        )),
    }
}

/// Opens the directory of areas, making it if need be. Refuses one that others can reach.
pub fn open_directory(path: &Path) -> Result<OwnedFd, DirectoryError> {
    let failed = |action: &'static str| {
        move |errno: Errno| DirectoryError::Failed {
            action,
            path: path.to_owned(),
            source: errno.into(),
        }
    };
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed("make")(errno)),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(failed("open"))?;
    let stat = rustix::fs::fstat(&directory).map_err(failed("look at"))?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(DirectoryError::Foreign(path.to_owned()));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(DirectoryError::Open(path.to_owned()));
    }
    Ok(directory)
}

/// Why the directory of areas cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It belongs to somebody else.
    #[error(
        "cannot use {0:?} for traces: it belongs to another user; name another directory in {DIRECTORY_VARIABLE}"
    )]
    Foreign(PathBuf),
    /// Others can reach it.
    #[error("cannot use {0:?} for traces: others can reach it; type `chmod 700 {path}`", path = .0.display())]
    Open(PathBuf),
    /// The system refused.
    #[error("cannot {action} {path:?}")]
    Failed {
        /// The action that was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Which image of which process an area belongs to; also the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AreaName {
    /// Which boot of the machine.
    pub boot: u128,
    /// The process.
    pub pid: u32,
    /// When it began, in clock ticks since boot, to tell it from others of that number.
    pub start_time: u64,
    /// How many images the process had before, that is, how often it called exec.
    pub image: u32,
}

impl AreaName {
    /// The name for the first image of this process.
    pub fn of_this_process() -> io::Result<AreaName> {
        let pid = rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned();
        Ok(AreaName {
            boot: boot()?,
            pid,
            start_time: start_time(pid)?,
            image: 0,
        })
    }
}

impl AreaName {
    /// Whether this is a later image of the same process.
    pub(crate) fn follows(&self, other: &AreaName) -> bool {
        let process = |name: &AreaName| (name.boot, name.pid, name.start_time);
        process(self) == process(other) && self.image > other.image
    }
}

impl fmt::Display for AreaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{}-{}", self.boot, self.pid, self.start_time)?;
        match self.image {
            0 => Ok(()),
            image => write!(f, "-{image}"),
        }
    }
}

/// A file name that is not an area's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnArea;

impl FromStr for AreaName {
    type Err = NotAnArea;

    fn from_str(text: &str) -> Result<AreaName, NotAnArea> {
        let mut parts = text.split('-');
        let mut part = || parts.next().ok_or(NotAnArea);
        let boot = u128::from_str_radix(part()?, 16).map_err(|_| NotAnArea)?;
        let pid = part()?.parse().map_err(|_| NotAnArea)?;
        let start_time = part()?.parse().map_err(|_| NotAnArea)?;
        let image = parts.next().map_or(Ok(0), str::parse);
        let name = AreaName {
            boot,
            pid,
            start_time,
            image: image.map_err(|_| NotAnArea)?,
        };
        // One spelling each, so that two files never have one name.
        if name.to_string() == text {
            Ok(name)
        } else {
            Err(NotAnArea)
        }
    }
}

/// The number of this boot.
pub fn boot() -> io::Result<u128> {
    let text = read_small("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text
        .iter()
        .map(|&byte| char::from(byte))
        .filter(char::is_ascii_hexdigit)
        .collect();
    u128::from_str_radix(&digits, 16).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// When a process began, in clock ticks since boot.
pub fn start_time(pid: u32) -> io::Result<u64> {
    let stat = read_small(&format!("/proc/{pid}/stat"))?;
    // The program's name stands in parentheses and may hold anything, also parentheses.
    let after_name = stat.iter().rposition(|&byte| byte == b')');
    after_name
        .and_then(|at| str::from_utf8(&stat[at + 1..]).ok())
        .and_then(|rest| rest.split_ascii_whitespace().nth(19)?.parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The space of process numbers that this process is in: a number means nothing outside.
pub(crate) fn pid_space() -> io::Result<u64> {
    Ok(rustix::fs::stat("/proc/self/ns/pid")?.st_ino)
}

/// Most bytes that [`read_small`] takes.
const SMALL_MAX: usize = 64 << 10;

/// Reads a file of the kernel, by raw system calls; what is beyond 64 KiB is left out.
pub(crate) fn read_small(path: &str) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let mut text = vec![0; 4096];
    let mut filled = 0;
    loop {
        match rustix::io::read(&file, &mut text[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if filled == SMALL_MAX {
            break;
        }
        if filled == text.len() {
            text.resize(text.len() * 2, 0);
        }
    }
    text.truncate(filled);
    Ok(text)
}

/// The areas in a directory.
pub fn list(directory: &OwnedFd) -> io::Result<Vec<AreaName>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if let Some(Ok(name)) = name.to_str().map(str::parse) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Opens the file of an area, and nothing else: no link, no pipe, no file of another user.
pub(crate) fn open(directory: &OwnedFd, name: &AreaName) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name.to_string(), flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(file)
}

/// Makes the file of an area under the image number after the last of the process: a lower one that
/// is free again would pass for an image that is over.
pub(crate) fn create(directory: &OwnedFd, first: AreaName) -> io::Result<(AreaName, OwnedFd)> {
    const IMAGES_MAX: u32 = 4096;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let known = list(directory)?;
    let earlier = known
        .iter()
        .filter(|name| AreaName { image: 0, ..**name } == first);
    let last = earlier.map(|name| name.image).max();
    let next = last.map_or(0, |image| image.saturating_add(1));
    for image in next..next.saturating_add(IMAGES_MAX) {
        let name = AreaName { image, ..first };
        match rustix::fs::openat(directory, name.to_string(), flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok((name, file)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes the file of an area.
pub(crate) fn remove(directory: &OwnedFd, name: &AreaName) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name.to_string(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_and_has_one_spelling() {
        let name = AreaName {
            boot: 0xabc,
            pid: 7,
            start_time: 99,
            image: 0,
        };
        assert_eq!(name.to_string().parse(), Ok(name));
        let next = AreaName { image: 3, ..name };
        assert_eq!(next.to_string().parse(), Ok(next));
        for text in ["", "-", "1-2-3", "x-1-2", "drain.lock"] {
            assert_eq!(text.parse::<AreaName>(), Err(NotAnArea), "{text}");
        }
        let other = format!("{name}-0");
        assert_eq!(other.parse::<AreaName>(), Err(NotAnArea));
    }

    #[test]
    fn a_later_image_comes_after_those_that_are_still_there() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        std::fs::set_permissions(
            dir.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .expect("it is ours");
        let directory = open_directory(dir.path()).expect("it is private");
        let first = AreaName::of_this_process().expect("/proc is there");
        let make = || create(&directory, first).expect("a file can be made").0;
        assert_eq!((make().image, make().image), (0, 1));
        remove(&directory, &first).expect("it is there");
        assert_eq!(
            make().image,
            2,
            "0 is free again, and would be taken for over"
        );
    }

    #[test]
    fn this_process_has_a_name() {
        let name = AreaName::of_this_process().expect("/proc is there");
        assert_eq!(name.pid, std::process::id());
        assert!(name.start_time > 0);
    }
}
