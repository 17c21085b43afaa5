//! `hearth run --way-in mpiio`: an MPI job whose own ranks are the cache.
//!
//! No agent is started here: each rank carries one, in a library that is loaded into it. This side
//! only says so in the command's environment, and adds up what the ranks counted.
//!
//! Files of settings are of sets. Ranks do not heed them: a pool for each agent of a host is too much for each rank.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use super::Args;
use super::child::wait;
use super::report::Counts;
use crate::commands::enter;
use crate::settings::Settings;
use hearth_agent::{Policy, Semantics};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::{SetArgs, TransportName};
use hearth_set::signals::{self, Signals};
use hearth_set::typed::Typed;
use hearth_set::{preload, program};

/// Names the variables that Open MPI hands on to ranks of other hosts.
const HANDED_ON: &str = "OMPI_MCA_mca_base_env_list";

/// Runs the command to its end.
pub(super) fn run(args: &Args, store: &Path) -> Result<ExitCode, Failure> {
    let settings = Settings::without_files(&args.settings)?;
    refuse_what_needs_agents(args, &settings.typed())?;
    let reports = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let signals = Signals::catch(signals::HANDED_ON)?;
    let [program, words @ ..] = args.command.as_slice() else {
        unreachable!("the command line requires a command");
    };
    let mut environment =
        environment(store, &settings.options().set).map_err(|failure| settings.blame(failure))?;
    if args.report {
        environment.push(("HEARTH_REPORT", reports.path().into()));
    }
    let mut command = super::apart(program);
    command.args(words).envs(environment.iter().cloned());
    // Open MPI takes its own list or those of its command line, not both.
    if !words.iter().any(|word| word == "-x") && std::env::var_os(HANDED_ON).is_none() {
        let names: Vec<&str> = environment.iter().map(|(name, _)| *name).collect();
        command.env(HANDED_ON, names.join(";"));
    }
    let exit = match command.spawn() {
        Ok(child) => wait(child, &signals)?,
        Err(error) => return Ok(enter::cannot_run(program, &error)),
    };
    if args.report {
        let counts = Counts::of_ranks(reports.path()).to_string();
        hearth_client::say!("{}", counts.trim_end());
    }
    Ok(exit.code())
}

fn refuse_what_needs_agents(args: &Args, typed: &SetArgs) -> Result<(), Failure> {
    // Each by its name: an option that is new is not forgotten here.
    let SetArgs {
        agents,
        policy: _,
        semantics: _,
        atomic,
        rules,
        pool: _,
        page_size: _,
        chunk,
        allocation,
        transport: _,
        close: _,
        backing: _,
        store_at,
        attr_ttl,
        allow_other,
        replicas,
        balance,
        membership,
        lease,
        bank,
        tier,
    } = typed;
    let asked = [
        ("--at", args.at.is_some()),
        ("--trace", args.trace.is_some()),
        ("--agents", agents.is_some()),
        ("--allow-other", allow_other.is_some()),
        ("--atomic", atomic.is_some()),
        ("--rules", rules.is_some()),
        ("--chunk", chunk.is_some()),
        ("--allocation", allocation.is_some()),
        ("--store-at", store_at.is_some()),
        ("--attr-ttl", attr_ttl.is_some()),
        ("--replicas", replicas.is_some()),
        ("--balance", balance.is_some()),
        ("--membership", membership.is_some()),
        ("--lease", lease.is_some()),
        ("--bank and what goes with it", !bank.is_silent()),
        ("--tier and what goes with it", tier.is_said()),
    ];
    match asked.iter().find(|(_, asked)| *asked) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::new(format!(
            "cannot heed {option}: with --way-in mpiio there is no mount, and ranks are the agents"
        ))
        .hint("leave it out, or another --way-in")),
    }
}

/// The environment that configures the library. A value that the command line lacks has its default there.
fn environment(store: &Path, set: &SetArgs) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut environment = vec![
        super::loading(&preload::mpi_library(&program::this()?)?),
        ("HEARTH_STORE", store.into()),
    ];
    let mut say = |name, value: Option<String>| {
        environment.extend(value.map(|value| (name, OsString::from(value))));
    };
    say("HEARTH_POLICY", set.policy.map(policy).transpose()?);
    say("HEARTH_SEMANTICS", set.semantics.map(level).transpose()?);
    say(
        "HEARTH_PAGE_SIZE",
        set.page_size.map(|size| size.0.to_string()),
    );
    say("HEARTH_POOL", set.pool.map(|size| size.0.to_string()));
    say(
        "HEARTH_CLOSE",
        set.close.map(|close| close.word().to_owned()),
    );
    say("HEARTH_BACKING", set.backing.clone());
    let transport = set.transport.map(TransportName::of_ranks);
    say("HEARTH_TRANSPORT", transport.transpose()?);
    Ok(environment)
}

fn level(level: Semantics) -> Result<String, Failure> {
    match level {
        Semantics::Posix | Semantics::Mpi => Ok(level.to_string()),
        other => Err(Failure::new(format!(
            "cannot promise {other} in ranks: posix or mpi"
        ))),
    }
}

fn policy(policy: Policy) -> Result<String, Failure> {
    match policy {
        Policy::Home
        | Policy::HomePlus
        | Policy::Hint
        | Policy::Single
        | Policy::Local
        | Policy::None => Ok(policy.to_string()),
        other => Err(Failure::new(format!(
            "cannot run policy {other} in ranks: home, hint, single, local or none"
        ))),
    }
}
