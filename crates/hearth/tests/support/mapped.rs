//! Reading a file through a mapping, as programs that map their input do.
//!
//! A process must not map files that it serves itself: the kernel holds its memory map while it waits
//! for the page. So a child does it: the test program again, with one test.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

const FROM: &str = "HEARTH_MAP_FROM";
const TO: &str = "HEARTH_MAP_TO";

/// Maps a file in a child and returns its bytes; `through` is a file for them.
pub(crate) fn read_in_child(path: &Path, through: &Path) -> io::Result<Vec<u8>> {
    let child = Command::new(std::env::current_exe()?)
        .args(["--exact", "mapping_child"])
        .env(FROM, path)
        .env(TO, through)
        .output()?;
    if !child.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&child.stdout).into_owned(),
        ));
    }
    std::fs::read(through)
}

/// The child's work; nothing if this is not the child.
pub(crate) fn child() {
    if let (Some(from), Some(to)) = (std::env::var_os(FROM), std::env::var_os(TO)) {
        let bytes = read(&File::open(from).expect("opens")).expect("maps");
        std::fs::write(to, bytes).expect("writes");
    }
}

fn read(file: &File) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len() as usize;
    if len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: a fresh mapping at a place of the kernel's choice, gone before this returns; the test
    // lets nobody shorten the file meanwhile, and the bytes are copied without a reference to them.
    unsafe {
        let at = mmap(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ,
            MapFlags::SHARED,
            file.as_fd(),
            0,
        )?;
        let mut bytes = vec![0; len];
        std::ptr::copy_nonoverlapping(at.cast::<u8>(), bytes.as_mut_ptr(), len);
        munmap(at, len)?;
        Ok(bytes)
    }
}
