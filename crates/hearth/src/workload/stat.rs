//! Every process asks for the attributes of every file, as IMCa's stat experiment has it: the files are
//! made beforehand, by one process, and are in one directory.

use super::{IoTimes, phase_over};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Sizes of files go round below this.
const SIZES: u64 = 97;

fn path(dir: &Path, file: u64) -> PathBuf {
    dir.join("stat").join(format!("file-{file:06}"))
}

/// One process: the first makes `files` files, then all ask for all of them, twice.
pub(crate) fn run(dir: &Path, files: u64, rank: usize) -> io::Result<(IoTimes, bool)> {
    if rank == 0 {
        fs::create_dir(dir.join("stat"))?;
        for file in 0..files {
            fs::write(path(dir, file), vec![0; (file % SIZES) as usize])?;
        }
    }
    phase_over()?;
    let mut times = IoTimes::default();
    let mut right = true;
    for _pass in 0..2 {
        for file in 0..files {
            let name = path(dir, file);
            let begun = Instant::now();
            let meta = fs::symlink_metadata(name)?;
            times.add_read(begun.elapsed(), 0);
            right &= meta.is_file() && meta.len() == file % SIZES;
        }
        phase_over()?;
    }
    Ok((times, right))
}
