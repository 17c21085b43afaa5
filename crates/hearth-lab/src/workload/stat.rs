//! Every process asks for the attributes of every file, as IMCa's stat experiment has it: the files are
//! made beforehand, and are in one directory.

use hearth_set::trial::{IoTimes, ProcessReport, phase_over};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Sizes of files go round below this.
const SIZES: u64 = 97;

/// As much of a directory as is asked for at once.
const LISTING_BYTES: usize = 64 * 1024;

fn name(file: u64) -> PathBuf {
    PathBuf::from(format!("file-{file:06}"))
}

/// Makes the files.
pub(crate) fn make(dir: &Path, files: u64) -> io::Result<()> {
    (0..files)
        .try_for_each(|file| fs::write(dir.join(name(file)), vec![0; (file % SIZES) as usize]))
}

/// Reads all names as an agent does: with a look at one of each part that comes, upon which Linux has the store's client
/// send attributes along with the next.
fn read_names() -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(".", flags, Mode::empty())?;
    let mut buffer = vec![MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(&dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_owned();
        if entries.is_buffer_empty() {
            rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(())
}

/// One process: asks for all of `files` files, twice, from their directory, so that no path to it counts. With
/// `lists` it reads the names before.
pub(crate) fn run(dir: &Path, files: u64, lists: bool) -> io::Result<ProcessReport> {
    std::env::set_current_dir(dir)?;
    phase_over()?;
    if lists {
        read_names()?;
    }
    let mut times = IoTimes::default();
    let mut right = true;
    let mut calls_ns = Vec::new();
    for _pass in 0..2 {
        let mut calls = Vec::with_capacity(files as usize);
        for file in 0..files {
            let name = name(file);
            let begun = Instant::now();
            let meta = fs::symlink_metadata(name)?;
            let span = begun.elapsed();
            times.add_read(span, 0);
            calls.push(span.as_nanos() as u64);
            right &= meta.is_file() && meta.len() == file % SIZES;
        }
        calls_ns.push(calls);
        phase_over()?;
    }
    Ok(ProcessReport {
        times,
        right,
        calls_ns,
    })
}
