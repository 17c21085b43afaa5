//! Programs are recorded: their areas are collected into a file while they run.
//!
//! A recording has a directory of areas of its own, below that of the user. So its file has nothing of other programs
//! that are traced on this machine.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use hearth_trace::area;
use hearth_trace::collect::{CollectError, Collection};
use hearth_trace::file::Writer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use hearth_set::failure::{Failure, OrFail};
use hearth_set::{preload, program};

/// Begins the names of recordings' directories; the recorder's process number follows.
const RUN: &str = "run-";

/// A recording that is under way.
pub(crate) struct Recording {
    directory: PathBuf,
    output: PathBuf,
    library: PathBuf,
    collector: JoinHandle<io::Result<Left>>,
    /// Closed to tell the collector that the programs have ended.
    stop: PipeWriter,
}

/// The state in which a recording ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Processes that go on and are recorded no longer.
    pub(crate) processes: usize,
}

impl Recording {
    /// Begins to collect into `output`.
    pub(crate) fn start(output: &Path) -> Result<Recording, Failure> {
        let library = preload::loadable(&program::this()?)?;
        let base = area::directory();
        reclaim(&base, output);
        area::open_directory(&base).or_fail(|| "cannot trace".to_owned())?;
        let directory = base.join(format!("{RUN}{}", std::process::id()));
        let what = || format!("cannot write `{}`", output.display());
        let writer = Writer::here(File::create(output).or_fail(what)?).or_fail(what)?;
        let collection = Collection::open(&directory, writer)
            .or_fail(|| format!("cannot collect from `{}`", directory.display()))?;
        let (stopped, stop) = io::pipe().or_fail(what)?;
        let collector = thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || collect(collection, &stopped))
            .or_fail(what)?;
        Ok(Recording {
            directory,
            output: output.to_owned(),
            library,
            collector,
            stop,
        })
    }

    /// The directory of its areas.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The variables that a program needs in its environment to be recorded.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            loading(&self.library),
            ("HEARTH_TRACE", OsString::from("on")),
            (area::DIRECTORY_VARIABLE, self.directory.clone().into()),
        ]
    }

    /// The programs have ended: takes what is left and ends the file.
    pub(crate) fn finish(self) -> Result<Left, Failure> {
        drop(self.stop);
        let collected = self.collector.join();
        let left = collected
            .unwrap_or_else(|_| Err(io::Error::other("the collector panicked")))
            .or_fail(|| format!("cannot write `{}`", self.output.display()))?;
        // Stays for the processes that go on; the next recording takes it away.
        let _ = fs::remove_dir(&self.directory);
        Ok(left)
    }
}

/// Takes what the rings hold until the programs have ended.
fn collect(mut collection: Collection<File>, stopped: &PipeReader) -> io::Result<Left> {
    while !has_stopped(stopped)? {
        collection.round()?;
        collection.wait(Some(stopped.as_fd()))?;
    }
    collection.round()?;
    let processes = collection.areas();
    collection.finish()?;
    Ok(Left { processes })
}

fn has_stopped(stopped: &PipeReader) -> io::Result<bool> {
    let mut polled = [PollFd::new(stopped, PollFlags::IN)];
    let at_once = Timespec::default();
    poll(&mut polled, Some(&at_once))?;
    Ok(!polled[0].revents().is_empty())
}

/// The variable that has a library loaded into programs, before those that are loaded already.
pub(in crate::commands) fn loading(library: &Path) -> (&'static str, OsString) {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty()) {
        list.push(":");
        list.push(others);
    }
    ("LD_PRELOAD", list)
}

/// Directories that may hold areas: the user's, and those of recordings.
pub(super) fn directories() -> Vec<PathBuf> {
    let base = area::directory();
    let runs = runs(&base);
    [base].into_iter().chain(runs).collect()
}

fn runs(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let is_run = |name: &OsStr| name.as_encoded_bytes().starts_with(RUN.as_bytes());
    let runs = entries.filter(|entry| is_run(&entry.file_name()));
    runs.map(|entry| entry.path()).collect()
}

/// Takes away the directories of recordings that were killed, as far as no process uses them; their records go to files
/// beside `output`. A directory that cannot be taken away now can be later.
fn reclaim(base: &Path, output: &Path) {
    for directory in runs(base) {
        let name = directory.file_name().and_then(OsStr::to_str);
        let owner = name.and_then(|name| name.strip_prefix(RUN));
        if owner.is_none_or(|owner| Path::new("/proc").join(owner).exists()) {
            continue;
        }
        let path = output.with_file_name(format!("left-by-{}.htrace", owner.unwrap_or_default()));
        match keep(&directory, &path) {
            Ok(0) => {}
            Ok(records) => hearth_client::say!(
                "an earlier recording was killed: what it had not kept, {records} records, is in {}",
                path.display()
            ),
            Err(error) => log::warn!("`{}` stays: {error}", directory.display()),
        }
        let _ = fs::remove_dir(&directory);
    }
}

/// Writes what is in a directory's areas to a file; how many records that is. No file for none.
fn keep(directory: &Path, path: &Path) -> Result<u64, CollectError> {
    if area::list(&area::open_directory(directory)?)?.is_empty() {
        return Ok(0);
    }
    let writer = Writer::here(File::create(path)?)?;
    let mut collection = Collection::open(directory, writer)?;
    let records = collection.round()?.records;
    collection.finish()?;
    if records == 0 {
        fs::remove_file(path)?;
    }
    Ok(records)
}
