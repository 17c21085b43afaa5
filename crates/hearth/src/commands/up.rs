//! `hearth up`.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use hearth_client::words::counted;

use crate::hosts;
use crate::place;
use crate::probe::known;
use crate::requirements;
use crate::settings::{Settings, Typed};
use hearth_set::control::{CallError, ControlRequest, call};
use hearth_set::failure::Failure;
use hearth_set::job::{self, SetOwner};
use hearth_set::launch::{self, LaunchPlan, Members};
use hearth_set::leftovers;
use hearth_set::options::SetArgs;
use hearth_set::output;
use hearth_set::program;
use hearth_set::secret;
use hearth_set::set::{self, Life, Set};
use hearth_set::signals::{self, Signals};
use hearth_set::takedown::{How, health, successors, take_down};
use hearth_set::watch::pause;

const EXAMPLES: &str = "\
Examples:
  hearth up --store /scratch --at /mnt/scratch
  hearth up --store /scratch --agents 2 --at /mnt/a --at /mnt/b
  mpirun -n 4 hearth run --store /scratch -- ./solver      uses agents that are up

Several hosts: run the same line on each, with its own place in the list. The secret is 64
hexadecimal digits in a file that only you can read, the same on all of them.
  srun sh -c 'hearth up --store /scratch --hosts n1:7000,n2:7000 --node $SLURM_NODEID \\
    --secret-file ~/.hearth-secret'

Prints the name of the job. The agents stay until `hearth down`.";

/// How long an agent that takes the place of another may need.
const AGAIN_SPAN: Duration = Duration::from_secs(60);

/// Options of `hearth up`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory to cache
    #[arg(long, value_name = "DIR", env = "HEARTH_STORE", hide_env = true)]
    store: PathBuf,
    /// Mount agent 0 here; again for agent 1, and so on
    #[arg(long, value_name = "DIR", env = "HEARTH_OPTION_AT", hide_env = true)]
    at: Vec<PathBuf>,
    /// Tell Prometheus how agents are, each at its port from this one on
    ///
    /// A port alone is for programs of this host. ADDRESS:PORT is for all that reach the address.
    #[arg(long, value_name = "PORT", value_parser = metrics_address, env = "HEARTH_METRICS", hide_env = true)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    settings: Typed<SetArgs>,
    #[command(flatten)]
    hosts: HostArgs,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Several hosts")]
struct HostArgs {
    /// Address of the agent of each host, in the same order everywhere
    #[arg(long, value_name = "A:PORT,B:PORT", value_delimiter = ',', requires_all = ["node", "secret_file"])]
    #[arg(conflicts_with = "agents", env = "HEARTH_HOSTS", hide_env = true)]
    hosts: Vec<String>,
    /// This host's place in the list, from 0
    #[arg(long, value_name = "I", env = "HEARTH_NODE", hide_env = true)]
    node: Option<u32>,
    /// File with the secret that the agents prove to know
    #[arg(long, value_name = "FILE", env = "HEARTH_SECRET_FILE", hide_env = true)]
    secret_file: Option<PathBuf>,
}

/// Starts a set that stays.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let members = args.hosts.members()?;
    let hosts = match &members {
        Members::Here => 1,
        Members::Hosts { members, .. } => members.len(),
    };
    let spec = settings(args)?.resolve(hosts)?;
    let store = match (&spec.store_at, &members) {
        (Some(at), Members::Hosts { node, .. }) if !at.has(*node) => {
            place::store_elsewhere(&args.store)?
        }
        _ => place::store(&args.store)?,
    };
    known::check(&store, members.is_several())?;
    let plan = LaunchPlan {
        program: program::this()?,
        spec,
        owner: SetOwner::Nobody,
        members,
        trace: None,
        metrics: args.metrics,
        store,
    };
    let base = job::base()?;
    let signals = Signals::catch(signals::ENDS)?;
    let _one_at_a_time = job::lock_store(&base, &plan.store, |span| pause(span, &signals))?;
    if let Some(set) = up_already(&base, &plan)? {
        return tell_again(&set, &args.at);
    }
    let points = mount_points(args, &plan)?;
    check_alone(&base, &plan)?;
    leftovers::clear_dead(&base, &plan.store)?;
    let launched = launch::start(&base, &plan, &signals)?;
    if let Err(failure) = mount_all(&launched.set, &points, &signals) {
        // Mounts were written down since it was read.
        take_down(&launched.set.again()?, How::AT_ONCE)?;
        return Err(failure);
    }
    if args.metrics.is_some() {
        tell_metrics(&launched.set);
    }
    tell(&launched.set, &points)?;
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &Args) -> Result<Settings, Failure> {
    let settings = Settings::of(&args.store, &args.settings)?;
    Ok(match args.hosts.hosts.is_empty() {
        true => settings,
        // Each host has one.
        false => settings.but_typed("agents"),
    })
}

impl HostArgs {
    fn members(&self) -> Result<Members, Failure> {
        let (Some(node), Some(file), false) = (self.node, &self.secret_file, self.hosts.is_empty())
        else {
            return Ok(Members::Here);
        };
        let members = hosts::resolve(&self.hosts, node)?;
        let secret = secret::read(file)?;
        Ok(Members::Hosts {
            members,
            node,
            secret,
            secret_file: file.clone(),
        })
    }
}

fn mount_points(args: &Args, plan: &LaunchPlan) -> Result<Vec<PathBuf>, Failure> {
    let agents = plan.members.here(&plan.spec) as usize;
    if args.at.len() > agents {
        let count = args.at.len();
        return Err(Failure::new(format!(
            "cannot mount {} through {}",
            counted(count, "time"),
            counted(agents, "agent")
        ))
        .hint(format!("--agents {count}")));
    }
    let points = place::mount_points(&args.at, &plan.store)?;
    if !points.is_empty() {
        requirements::check_mounting()?;
    }
    Ok(points)
}

/// A port alone is one that only programs of this host reach.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let form = "use PORT for programs of this host, or ADDRESS:PORT";
    let found = text.to_socket_addrs();
    let mut found = found.map_err(|error| format!("{error}; {form}"))?;
    found
        .next()
        .ok_or_else(|| format!("the name has no address; {form}"))
}

/// The same agent, if it is up, or another one is about to take its place.
fn up_already(base: &Path, plan: &LaunchPlan) -> Result<Option<Set>, Failure> {
    let Some((job, node)) = plan.seat()? else {
        return Ok(None);
    };
    let is_it = |set: &Set| {
        let mut agents = set.file.agents.iter();
        set.file.job == job
            && set.file.store == plan.store
            && agents.all(|agent| agent.node == node)
    };
    let mut sets = set::all(base)?.into_iter();
    Ok(sets.find(|set| is_it(set) && set.life() != Life::Dead))
}

/// Comes back once it answers. It is not started a second time, nor mounted elsewhere.
fn tell_again(set: &Set, points: &[PathBuf]) -> Result<ExitCode, Failure> {
    let set = successors(set, AGAIN_SPAN)?;
    for peer in set.peers() {
        call(&peer, &ControlRequest::Status).map_err(CallError::into_failure)?;
        hearth_client::say!("note: {peer} is up already");
    }
    // A mount that is taken over answers from here on.
    let points = points
        .iter()
        .map(|at| at.canonicalize().unwrap_or_else(|_| at.clone()));
    let points: Vec<PathBuf> = points.collect();
    let mounted: Vec<&PathBuf> = set.file.mounts.iter().map(|mount| &mount.at).collect();
    if let Some(other) = points.iter().find(|at| !mounted.contains(at)) {
        let (job, other) = (&set.file.job, other.display());
        let what = format!("job {job} is up already, and not mounted at `{other}`");
        let hint = format!("hearth mount {} {other}", set.file.store.display());
        return Err(Failure::new(what).hint(hint));
    }
    tell(&set, &points)?;
    Ok(ExitCode::SUCCESS)
}

/// Two sets over one store would know nothing of each other.
fn check_alone(base: &Path, plan: &LaunchPlan) -> Result<(), Failure> {
    let sets = set::all(base)?.into_iter();
    let mut others = sets.filter(|set| set.file.store == plan.store && set.life() != Life::Dead);
    let Some(other) = others.next() else {
        return Ok(());
    };
    if let (Members::Hosts { members, .. }, true) = (&plan.members, other.file.agents.len() == 1)
        && other.file.members == *members
    {
        // Another host of the same list on this machine; a port that is taken shows soon enough.
        return Ok(());
    }
    let store = plan.store.display();
    let up = Failure::new(format!("agents are up for `{store}` already"))
        .cause(format!("job {}", other.file.job));
    // A set that is up has settled what was left open.
    let asked = plan.spec.clone().settled(other.file.members.len())?;
    let differences = other.file.spec.differences(&asked).into_iter();
    Err(differences
        .fold(up, Failure::cause)
        .hint(format!("hearth down --job {}", other.file.job)))
}

fn mount_all(set: &Set, points: &[PathBuf], signals: &Signals) -> Result<(), Failure> {
    for (peer, at) in set.peers().iter().zip(points) {
        set::mount(set, peer, at)?;
        if !signals.take().is_empty() {
            return Err(Failure::new("interrupted; nothing is left running"));
        }
    }
    Ok(())
}

fn tell(set: &Set, points: &[PathBuf]) -> Result<(), Failure> {
    let file = &set.file;
    let count = counted(file.agents.len(), "agent");
    let are = if file.agents.len() == 1 { "is" } else { "are" };
    hearth_client::say!(
        "{count} {are} up for {}, policy {}",
        file.store.display(),
        file.spec.policy
    );
    for (peer, at) in set.peers().iter().zip(points) {
        hearth_client::say!("agent {} is mounted at {}", peer.node, at.display());
    }
    output::print(&format!("{}\n", file.job))
}

/// Agents know their ports, which the system may have chosen.
fn tell_metrics(set: &Set) {
    let peers = set.peers();
    let answers = set::ask_all(&peers, &ControlRequest::Status);
    for (peer, answer) in peers.iter().zip(answers) {
        let at = answer.ok().and_then(|value| health(value).metrics);
        if let Some(at) = at {
            hearth_client::say!("metrics of agent {} are at http://{at}/metrics", peer.node);
        }
    }
}
