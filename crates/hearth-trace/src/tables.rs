//! The facts of a trace beside its events: who did them, on what, and what is missing.

use crate::Op;

/// Index of a [`Host`] in its [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub u32);

/// Index of a [`TracedProcess`] in its [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// Index of a [`Stream`] in its [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// Index of a [`TracedFile`] in its [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TracedFileId(pub u32);

/// One machine of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The corrected time of this host's events is off by at most so many nanoseconds; `None` if
    /// nobody measured it.
    pub clock_bound: Option<u64>,
}

/// One process, from its start (or exec) to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedProcess {
    /// The host on which it ran.
    pub host: HostId,
    /// Its number there.
    pub pid: u32,
    /// Its rank in an MPI job or a job step.
    pub rank: Option<u32>,
    /// The program's path.
    pub exe: String,
    /// When tracing of it began, nanoseconds since the Unix epoch.
    pub start: i64,
    /// When it ended or tracing of it did.
    pub end: i64,
    /// Sums per operation, whether or not its record was kept.
    pub totals: Vec<Tally>,
}

/// One thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The process of the thread.
    pub process: ProcessId,
    /// The thread's number in the operating system.
    pub tid: u32,
    /// Records tried, kept, counted as lost, and half-written when the thread was killed:
    /// `attempted = stored + dropped + torn`.
    pub attempted: u64,
    /// Records kept.
    pub stored: u64,
    /// Records lost and counted.
    pub dropped: u64,
    /// Half-written by a killed thread; at most 1.
    pub torn: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFile {
    /// Its path as the program gave it, made absolute.
    pub path: String,
    /// Type of the file system it is on, as `/proc/mounts` says; empty if unknown.
    pub fs: String,
    /// Number of storage targets it is spread over and the bytes on one before the next, where known.
    pub stripe: Option<(u32, u64)>,
}

/// Records of one stream that were counted and not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The stream that it is in.
    pub stream: StreamId,
    /// Number of the first that is missing.
    pub first: u64,
    /// How many are missing.
    pub count: u64,
    /// From the last kept record before, nanoseconds since the Unix epoch.
    pub from: i64,
    /// To the first kept record after.
    pub to: i64,
}

/// A sum over operations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Which operation.
    pub op: Op,
    /// How many.
    pub count: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Nanoseconds spent in them.
    pub took: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Machines.
    pub hosts: Vec<Host>,
    /// Processes.
    pub processes: Vec<TracedProcess>,
    /// Threads.
    pub streams: Vec<Stream>,
    /// Files.
    pub files: Vec<TracedFile>,
    /// The gaps.
    pub gaps: Vec<Gap>,
    /// Sums over the records that are missing.
    pub lost: Vec<Tally>,
    /// Sentences about what else is missing or doubtful, for people.
    pub remarks: Vec<String>,
}

impl Tables {
    /// The process whose thread a stream is.
    pub fn process_of(&self, stream: StreamId) -> &TracedProcess {
        let process = self.streams[stream.0 as usize].process;
        &self.processes[process.0 as usize]
    }

    /// Path of a file.
    pub fn path(&self, file: TracedFileId) -> &str {
        &self.files[file.0 as usize].path
    }
}
