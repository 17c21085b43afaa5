//! Programs that use a mount, in any mount namespace. They have to end before it can be taken away.
//!
//! All is read in `/proc`; the mount itself is never asked, as its server may not answer.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::mountinfo::{self, MountPoint};

/// A program that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pid: u32,
    name: String,
    how: &'static str,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (pid {}): {}", self.name, self.pid, self.how)
    }
}

/// The paths at which one mount namespace shows the file system, and their numbers.
type Copies = Vec<MountPoint>;

/// Programs that use the file system which is mounted here, as far as this user may see.
pub(crate) fn of(at: &Path) -> Vec<Holder> {
    let mounts = mountinfo::read().unwrap_or_default();
    let ours = mounts
        .iter()
        .rfind(|mount| mount.at == at && mount.is_hearth());
    let Some(device) = ours.map(|mount| mount.device) else {
        return Vec::new();
    };
    let mut namespaces: HashMap<PathBuf, Copies> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| holder(pid, device, &mut namespaces))
        .collect()
}

/// The device of mappings as `/proc/PID/maps` writes it.
fn of_maps((major, minor): (u32, u32)) -> String {
    format!(" {major:02x}:{minor:02x} ")
}

fn holder(
    pid: u32,
    device: (u32, u32),
    namespaces: &mut HashMap<PathBuf, Copies>,
) -> Option<Holder> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    if is_held_up(&proc) {
        return None;
    }
    let namespace = fs::read_link(proc.join("ns/mnt")).ok()?;
    let copies = namespaces
        .entry(namespace)
        .or_insert_with(|| copies(&proc, device));
    if copies.is_empty() {
        return None;
    }
    let how = how(&proc, copies, device)?;
    let name = fs::read_to_string(proc.join("comm")).unwrap_or_default();
    Some(Holder {
        pid,
        name: name.trim().to_owned(),
        how,
    })
}

/// True for a process in an uninterruptible wait. One that begins a program meanwhile shows this alone: all else that is read of
/// it waits as long, and cannot be called off.
fn is_held_up(proc: &Path) -> bool {
    let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
    let mut lines = status.lines();
    lines.any(|line| line.starts_with("State:\tD"))
}

fn copies(proc: &Path, device: (u32, u32)) -> Copies {
    let mut mounts = mountinfo::read_of(proc).unwrap_or_default();
    mounts.retain(|mount| mount.device == device);
    mounts
}

/// How a process uses one of these mounts, if it does.
fn how(proc: &Path, copies: &Copies, device: (u32, u32)) -> Option<&'static str> {
    let is_inside = |link: &str| {
        let path = fs::read_link(proc.join(link)).map(PathBuf::into_os_string);
        let path = path.map(without_deleted);
        path.is_ok_and(|path| copies.iter().any(|mount| path.starts_with(&mount.at)))
    };
    if is_inside("cwd") || is_inside("root") {
        return Some("its directory is there");
    }
    let infos = fs::read_dir(proc.join("fdinfo")).into_iter().flatten();
    let mut infos = infos.flatten();
    if infos.any(|info| mount_of(&info.path()).is_some_and(|id| copies.iter().any(|c| c.id == id)))
    {
        return Some("it has a file open there");
    }
    let maps = fs::read_to_string(proc.join("maps")).unwrap_or_default();
    maps.contains(&of_maps(device))
        .then_some("it has a file mapped from there")
}

/// The operating system marks the path of what was removed.
fn without_deleted(path: OsString) -> PathBuf {
    let bytes = path.into_vec();
    let end = bytes.strip_suffix(b" (deleted)").unwrap_or(&bytes).len();
    PathBuf::from(OsString::from_vec(bytes[..end].to_vec()))
}

/// The mount that an open file is in.
fn mount_of(info: &Path) -> Option<u32> {
    let text = fs::read_to_string(info).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    line?.trim().parse().ok()
}
