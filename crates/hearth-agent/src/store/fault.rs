//! A store that breaks by a script, for tests of what the agent does then.
//!
//! The script is a [`FaultPlan`]. A test steers the rest: it waits until calls are stalled, lets
//! them go, makes room on a full store, or crashes the store, which takes back what no sync has
//! covered.

use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use hearth_client::{Errno, FileStamp};
use hearth_shm::{FramePart, Pool};

use super::{Store, StoreCounts, SyncKind, parts, posix};
use plan::{Action, Op};
use undo::UndoLog;

mod plan;
mod undo;

pub use plan::{FaultPlan, PlanError};

/// Breaks the calls of `S` as planned.
///
/// Lock order: `undo` and `script` are never held together.
#[derive(Debug)]
pub struct Fault<S> {
    inner: S,
    plan: FaultPlan,
    script: Mutex<Script>,
    /// Signalled when `stalled` or `releases` changes.
    moved: Condvar,
    undo: Mutex<UndoLog>,
}

/// How far the script has run.
#[derive(Debug, Default)]
struct Script {
    reads: u64,
    writes: u64,
    syncs: u64,
    truncates: u64,
    /// Bytes that may still be written, if that is limited.
    budget: Option<u64>,
    /// Calls that wait now.
    stalled: usize,
    /// Times that waiting calls were let go.
    releases: u64,
}

/// The fate of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// Fails once the first `after` bytes have been written.
    Fail {
        errno: Errno,
        after: u64,
    },
}

impl<S> Fault<S> {
    /// Breaks `inner` by `plan`.
    pub fn new(inner: S, plan: FaultPlan) -> Self {
        let budgets = plan.rules.iter().filter_map(|rule| match rule.action {
            Action::Budget(bytes) => Some(bytes),
            Action::Fail { .. } | Action::Stall { .. } | Action::Volatile => None,
        });
        let script = Script {
            budget: budgets.min(),
            ..Script::default()
        };
        let undo = Mutex::default();
        Self {
            inner,
            plan,
            script: Mutex::new(script),
            moved: Condvar::new(),
            undo,
        }
    }

    /// Lets every call go that is stalled now.
    pub fn release(&self) {
        let mut script = self.script();
        script.releases += 1;
        // Here, not in the calls as they wake: who asks next must not count them any more.
        script.stalled = 0;
        self.moved.notify_all();
    }

    /// Waits until at least `calls` calls are stalled.
    pub fn wait_stalled(&self, calls: usize) {
        let script = self.script();
        let stalled = self
            .moved
            .wait_while(script, |script| script.stalled < calls);
        drop(stalled.unwrap_or_else(PoisonError::into_inner));
    }

    /// Makes room for more bytes on a store with a budget.
    pub fn grant(&self, bytes: u64) {
        if let Some(budget) = &mut self.script().budget {
            *budget = budget.saturating_add(bytes);
        }
    }

    /// Crashes the store and brings it back: under `write:volatile`, what was written or cut
    /// since the last sync of a file that succeeded is undone.
    pub fn crash(&self) -> Result<(), Errno> {
        self.undo().restore()
    }

    /// Counts a call and judges it; waits here if it is to stall.
    fn judge(&self, op: Op, bytes: usize) -> Verdict {
        let mut script = self.script();
        let call = script.count(op);
        if self.stalls(op, call) {
            script = self.stall(script);
        }
        match self.failure(op, call) {
            Some(failure) => failure,
            None if op == Op::Write => script.spend(bytes as u64),
            None => Verdict::Pass,
        }
    }

    fn stalls(&self, op: Op, call: u64) -> bool {
        self.plan
            .rules
            .iter()
            .filter(|rule| rule.op == op)
            .any(|rule| match rule.action {
                Action::Stall { when } => when.covers(call),
                Action::Fail { .. } | Action::Budget(_) | Action::Volatile => false,
            })
    }

    fn stall<'a>(&self, mut script: MutexGuard<'a, Script>) -> MutexGuard<'a, Script> {
        let releases = script.releases;
        script.stalled += 1;
        self.moved.notify_all();
        let released = self
            .moved
            .wait_while(script, |script| script.releases == releases);
        released.unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, op: Op, call: u64) -> Option<Verdict> {
        let mut rules = self.plan.rules.iter().filter(|rule| rule.op == op);
        rules.find_map(|rule| match rule.action {
            Action::Fail { errno, when, after } if when.covers(call) => Some(Verdict::Fail {
                errno: errno.errno(),
                after,
            }),
            Action::Fail { .. } | Action::Stall { .. } | Action::Budget(_) | Action::Volatile => {
                None
            }
        })
    }

    /// Does a change of `len` bytes at `offset` so that a crash can take it back.
    fn change(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        change: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if !self
            .plan
            .rules
            .iter()
            .any(|rule| rule.action == Action::Volatile)
        {
            return change();
        }
        // Held over the change: no other may come between it and what is remembered.
        let mut undo = self.undo();
        undo.remember(file, offset, len)?;
        change()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn undo(&self) -> MutexGuard<'_, UndoLog> {
        self.undo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Script {
    /// The number of this call among its kind, from 1.
    fn count(&mut self, op: Op) -> u64 {
        let calls = match op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Sync => &mut self.syncs,
            Op::Truncate => &mut self.truncates,
        };
        *calls += 1;
        *calls
    }

    /// Takes `bytes` from the budget; what does not fit fails, as on a full disk.
    fn spend(&mut self, bytes: u64) -> Verdict {
        match &mut self.budget {
            None => Verdict::Pass,
            Some(left) if bytes <= *left => {
                *left -= bytes;
                Verdict::Pass
            }
            Some(left) => {
                let errno = posix::from_rustix(rustix::io::Errno::NOSPC);
                Verdict::Fail {
                    errno,
                    after: std::mem::take(left),
                }
            }
        }
    }
}

impl Verdict {
    fn check(self) -> Result<(), Errno> {
        match self {
            Self::Pass => Ok(()),
            Self::Fail { errno, .. } => Err(errno),
        }
    }

    /// Bytes of a write of `len` that are written for real.
    fn written(self, len: usize) -> usize {
        match self {
            Self::Pass => len,
            Self::Fail { after, .. } => usize::try_from(after).unwrap_or(usize::MAX).min(len),
        }
    }
}

impl<S: Store> Store for Fault<S> {
    fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<usize, Errno> {
        self.judge(Op::Read, parts::total(parts)).check()?;
        self.inner.read(file, offset, parts, pool)
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.judge(Op::Read, len).check()?;
        self.inner.read_vec(file, offset, len)
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        let verdict = self.judge(Op::Write, parts::total(parts));
        let parts = parts::first(parts, verdict.written(parts::total(parts)));
        self.change(file, offset, parts::total(&parts), || {
            self.inner.write(file, offset, &parts, pool)
        })?;
        verdict.check()
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let verdict = self.judge(Op::Write, bytes.len());
        let bytes = &bytes[..verdict.written(bytes.len())];
        self.change(file, offset, bytes.len(), || {
            self.inner.write_bytes(file, offset, bytes)
        })?;
        verdict.check()
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        let verdict = self.judge(Op::Write, bytes.len());
        let bytes = &bytes[..verdict.written(bytes.len())];
        let end = self.inner.stamp(file)?.size;
        let mut place = end;
        // If others append beside this, only the store below knows the end.
        self.change(file, end, bytes.len(), || {
            place = self.inner.append(file, bytes)?;
            Ok(())
        })?;
        verdict.check().map(|()| place)
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        self.judge(Op::Sync, 0).check()?;
        // Held over the sync: a write that it may not cover must not be forgotten with the rest.
        let mut undo = self.undo();
        self.inner.sync(file, kind)?;
        undo.forget(file)
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        self.judge(Op::Truncate, 0).check()?;
        let cut = self.inner.stamp(file)?.size.saturating_sub(size);
        let cut = usize::try_from(cut).expect("a 64-bit machine addresses any file");
        self.change(file, size, cut, || self.inner.truncate(file, size))
    }

    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        self.inner.stamp(file)
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.inner.renew(file)
    }

    fn counts(&self) -> StoreCounts {
        self.inner.counts()
    }

    fn describe(&self) -> String {
        format!(
            "a store with planned FAULTS ({}), over {}",
            self.plan,
            self.inner.describe()
        )
    }
}

#[cfg(test)]
mod tests;
