//! Shared parts of the tests of rings: a private directory, and a sink that keeps everything.

pub(crate) mod script;

use std::collections::HashMap;
use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use hearth_trace::Record;
use hearth_trace::ring::{Account, AreaId, Ended, Facts, Name, Sink, StreamKey};
use tempfile::TempDir;

/// Set in a process that runs one test alone.
const ALONE_VARIABLE: &str = "HEARTH_TEST_ALONE";

/// Whether this process may run the test `name` itself, as the only traced thing in it. If not, has
/// it run in a process of its own, which must pass.
pub(crate) fn is_alone(name: &str) -> bool {
    if std::env::var_os(ALONE_VARIABLE).is_some() {
        return true;
    }
    let test = std::env::current_exe().expect("the system knows this program");
    let run = Command::new(test)
        .args([name, "--exact", "--nocapture"])
        .env(ALONE_VARIABLE, "1")
        .output();
    let run = run.expect("this program can be started");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{name}, alone: {said}");
    false
}

/// A directory in memory that only this user can reach.
pub(crate) fn private_directory() -> TempDir {
    let directory = tempfile::Builder::new()
        .prefix("hearth-test-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in("/dev/shm");
    directory.expect("/dev/shm takes a directory")
}

/// All that a drain handed out.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) began: Vec<(AreaId, Facts)>,
    pub(crate) names: Vec<String>,
    pub(crate) streams: Vec<CollectedStream>,
    pub(crate) ended: Vec<(AreaId, Ended)>,
    pub(crate) ranks: HashMap<AreaId, u32>,
}

/// All of one thread.
#[derive(Debug)]
pub(crate) struct CollectedStream {
    pub(crate) key: StreamKey,
    pub(crate) records: Vec<Record>,
    pub(crate) account: Option<Account>,
}

impl Collected {
    fn stream(&mut self, key: StreamKey) -> &mut CollectedStream {
        if let Some(at) = self.streams.iter().position(|stream| stream.key == key) {
            return &mut self.streams[at];
        }
        self.streams.push(CollectedStream {
            key,
            records: Vec::new(),
            account: None,
        });
        self.streams.last_mut().expect("it was just pushed")
    }
}

impl Sink for Collected {
    type Error = Infallible;

    fn began(&mut self, area: AreaId, facts: &Facts) -> Result<(), Infallible> {
        self.began.push((area, *facts));
        Ok(())
    }

    fn named(&mut self, area: AreaId, name: Name<'_>) -> Result<(), Infallible> {
        self.names.push(match name {
            Name::File(id, path) => format!("file {id} {}", String::from_utf8_lossy(path)),
            Name::Rank(rank) => {
                self.ranks.insert(area, rank);
                format!("rank {rank}")
            }
            other => format!("{other:?}"),
        });
        Ok(())
    }

    fn records(&mut self, stream: StreamKey, records: &[Record]) -> Result<(), Infallible> {
        self.stream(stream).records.extend_from_slice(records);
        Ok(())
    }

    fn stream_ended(&mut self, stream: StreamKey, account: &Account) -> Result<(), Infallible> {
        self.stream(stream).account = Some(account.clone());
        Ok(())
    }

    fn ended(&mut self, area: AreaId, ended: &Ended) -> Result<(), Infallible> {
        self.ended.push((area, ended.clone()));
        Ok(())
    }
}
