//! Being one of the commands that use a set.
//!
//! Every command holds `users.lock` shared. The one that started the set ends it once it holds the lock alone. So ranks
//! that start together share one set, whichever of them comes first.
//!
//! Order of the locks: the store's, then the users'; while holding the first, nobody waits for the
//! second.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::settings::Settings;
use hearth_set::control::Busy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::job::{self, Lock, LockKind, SetOwner};
use hearth_set::launch::{self, LaunchPlan, Launched, Members};
use hearth_set::leftovers;
use hearth_set::membership::MembershipChoice;
use hearth_set::program;
use hearth_set::set::{self, Life, Set};
use hearth_set::signals::Signals;
use hearth_set::takedown::{Dirty, How, take_down};
use hearth_set::watch::pause;

/// How long agents whose command was killed may take to end.
const END_SPAN_MAX: Duration = Duration::from_secs(9);

/// A set in use by this command.
pub(super) struct Membership {
    set: Set,
    using: Lock,
    /// The set's processes, if this command started them.
    started: Option<Launched>,
    base: PathBuf,
}

impl Membership {
    /// Joins the set that is up for a store, or starts one whose agents record in `trace`.
    pub(super) fn join(
        store: &Path,
        settings: &Settings,
        trace: Option<&Path>,
        signals: &Signals,
    ) -> Result<Membership, Failure> {
        let base = job::base()?;
        loop {
            let one_at_a_time = job::lock_store(&base, store, |span| pause(span, signals))?;
            let Some(set) = set::for_store(&base, store)? else {
                return start(base, store, settings, (trace, signals));
            };
            if set.file.owner.is_gone() {
                await_end(&set)?;
                return start(base, store, settings, (trace, signals));
            }
            check(&set, settings)?;
            if trace.is_some() {
                hearth_client::say!("agents are up already; the trace is of the command alone");
            }
            if let Some(using) = set.dir.try_lock_users()? {
                return Ok(Membership {
                    set,
                    using,
                    started: None,
                    base,
                });
            }
            // Its owner is about to end it, for which it needs the store's lock.
            drop(one_at_a_time);
            drop(set.dir.lock_users(LockKind::Shared));
        }
    }

    /// The set.
    pub(super) fn set(&self) -> &Set {
        &self.set
    }

    /// Stops using it; who started it ends it after everybody has left.
    pub(super) fn leave(self) -> Result<(), Failure> {
        drop(self.using);
        let Some(launched) = self.started else {
            return Ok(());
        };
        let _alone = self.set.dir.lock_users(LockKind::Exclusive)?;
        let _nobody_comes =
            job::lock_store(&self.base, &self.set.file.store, |_| job::wait_a_little())?;
        let ended = end(&self.set);
        launched.reap();
        ended
    }
}

/// The command that owned a set was killed, and its agents are about to end by themselves.
fn await_end(set: &Set) -> Result<(), Failure> {
    let what = || "cannot wait for agents".to_owned();
    let end = Instant::now() + END_SPAN_MAX;
    for agent in &set.file.agents {
        let left = end.saturating_duration_since(Instant::now());
        if !agent.process.wait_gone(left).or_fail(what)? {
            let job = &set.file.job;
            let what =
                format!("agents of job {job}, whose `hearth run` was killed, have not ended");
            let cause = "its bytes may still be on their way to the store";
            let hint =
                format!("try again later, or give them up: hearth down --job {job} --discard");
            return Err(Failure::new(what).cause(cause).hint(hint));
        }
    }
    Ok(())
}

fn start(
    base: PathBuf,
    store: &Path,
    settings: &Settings,
    (trace, signals): (Option<&Path>, &Signals),
) -> Result<Membership, Failure> {
    leftovers::clear_dead(&base, store)?;
    let plan = LaunchPlan {
        program: program::this()?,
        store: store.to_owned(),
        spec: settings.resolve(1)?,
        owner: SetOwner::this_command()?,
        members: Members::Here,
        trace: trace.map(Path::to_owned),
        metrics: None,
    };
    let launched = launch::start(&base, &plan, signals)?;
    let set = launched.set.clone();
    let using = set.dir.lock_users(LockKind::Shared)?;
    Ok(Membership {
        set,
        using,
        started: Some(launched),
        base,
    })
}

fn check(set: &Set, settings: &Settings) -> Result<(), Failure> {
    let job = &set.file.job;
    let goes_on = set.file.spec.membership == MembershipChoice::Embedded;
    if set.life() != Life::Up && !(goes_on && set.life() == Life::Partly) {
        return Err(cannot_use(job)
            .cause("some of its agents are gone")
            .hint(format!("hearth down --job {job}")));
    }
    check_settings(set, settings)
}

fn cannot_use(job: &str) -> Failure {
    Failure::new(format!("cannot use job {job}, which is up for this store"))
}

/// Fails if a set that is up has other settings than those that are asked for.
pub(crate) fn check_settings(set: &Set, settings: &Settings) -> Result<(), Failure> {
    let job = &set.file.job;
    let heeded = settings.clone().heeded_on(set.file.members.len());
    match heeded.asked().conflict(&set.file.spec) {
        Some(conflict) => Err(cannot_use(job).cause(conflict).hint(format!(
            "leave the option or variable out, or first: hearth down --job {job}"
        ))),
        None => Ok(()),
    }
}

/// Ends a set of our own. Bytes that cannot be flushed are lost with it, which is told.
fn end(set: &Set) -> Result<(), Failure> {
    let gently = How {
        dirty: Dirty::Flush,
        busy: Busy::Detach,
        hurry: false,
    };
    // The directory may be gone: `hearth down` has ended it meanwhile.
    let Some(set) = Set::read(set.dir.clone()) else {
        return Ok(());
    };
    match take_down(&set, gently) {
        Ok(ended) if ended.notes.is_empty() => Ok(()),
        Ok(ended) => {
            let causes = ended.notes.join("; ");
            Err(Failure::new("some of the command's bytes may be lost").cause(causes))
        }
        Err(failure) => {
            take_down(&set, How::AT_ONCE)?;
            Err(Failure::new("some of the command's bytes are lost").after(failure))
        }
    }
}
