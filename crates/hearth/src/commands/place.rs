//! `hearth place`: a node for each job, where its bytes already are.
//!
//! The result is advice. A job without a good node gets none, and no job waits for one.

mod arrange;
mod jobs;
mod live;
mod render;
mod residency;
mod seats;
mod slurm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arrange::Arranged;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::print;
use hearth_set::set::Choice;
use jobs::Asked;
use live::Live;
use residency::Residency;
use seats::Seats;

const EXAMPLES: &str = "\
Examples:
  hearth place jobs.txt                        a table of jobs and nodes, by what the agents hold now
  hearth place scripts/                        the same for a directory of Slurm scripts
  sbatch $(hearth place scripts/ --seats slurm --as nodelist --job align) scripts/align.sh
  hearth place jobs.txt --as hostfile --job solve > hosts
  mpirun --hostfile hosts --map-by seq ./solve
  SLURM_HOSTFILE=hosts srun --distribution=arbitrary ./solve

Agents of several hosts: any host of the job places for all of them, and records what all of them hold.
  hearth place --as residency > now.json
  hearth place --residency now.json jobs.txt

Slurm takes --nodelist for a demand: with --seats slurm a job is bound to no node that is busy now.
Where nodes have their names as features, --as prefer is a wish that no job ever waits for.
docs/formats/jobs.md has the formats. Advice only.";

/// Options of `hearth place`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Jobs and their files, or a directory of Slurm scripts
    #[arg(value_name = "JOBS")]
    jobs: Option<PathBuf>,
    /// Recorded holdings of nodes (JSON), instead of what agents hold now; several add up, but holdings that an agent
    /// told twice count once
    #[arg(long, value_name = "FILE", conflicts_with_all = ["store", "set", "nodes"])]
    residency: Vec<PathBuf>,
    /// Ask the agents for this store
    #[arg(long, value_name = "DIR", conflicts_with = "set")]
    store: Option<PathBuf>,
    /// Ask the agents with this name, as `hearth status` shows it
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// The scheduler's names of the agents' nodes, agent 0 first [default: as they tell]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Jobs that each node takes now; `slurm`: its idle processors [default: 1, or as recorded]
    #[arg(long, value_name = "N")]
    seats: Option<Seats>,
    /// How jobs are given to nodes
    #[arg(long, value_enum, default_value_t = Method::Improved)]
    method: Method,
    /// Form of the output
    #[arg(long = "as", value_enum, default_value_t = Form::Table, value_name = "FORM")]
    form: Form,
    /// Only this job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Method {
    /// The fewest bytes, with seats, and shared by jobs on one node
    Improved,
    /// The published greedy method
    Paper,
    /// The same as printed, which takes the first node
    PaperLiteral,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For people
    Table,
    /// `--nodelist=...` for sbatch and srun
    Nodelist,
    /// `--prefer=...`, where nodes have their names as features
    Prefer,
    /// A line for each rank, in order, for mpirun
    Hostfile,
    /// One JSON object per line
    Json,
    /// Holdings of nodes (JSON), for --residency; needs no jobs
    Residency,
}

/// Places and prints.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (mut residency, live) = match args.residency.as_slice() {
        [] => {
            let Live { residency, set } = live::ask(&args.choice(), &args.nodes)?;
            (residency, Some(set.file.store))
        }
        paths => (residency::read(paths)?, None),
    };
    if let Some(seats) = args.seats {
        seats.fill(&mut residency)?;
    }
    if args.form == Form::Residency {
        return tell(&residency);
    }
    let jobs = args.jobs.as_ref().ok_or_else(|| {
        Failure::new("cannot place: no jobs are named").hint("hearth place --help has examples")
    })?;
    let asked = asked(jobs, &residency, live.as_deref())?;
    let arranged = Arranged::new(&asked, &residency, args.method)?;
    let lines = render::lines(&arranged, args.form, args.job.as_deref())?;
    print(&lines)?;
    if args.form == Form::Table {
        hearth_client::say!("{}", render::sentence(&arranged));
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The set to ask.
    fn choice(&self) -> Choice {
        match (&self.store, &self.set) {
            (Some(store), _) => Choice::Store(store.clone()),
            (None, Some(job)) => Choice::Job(job.clone()),
            (None, None) => Choice::Only,
        }
    }
}

fn tell(residency: &Residency) -> Result<ExitCode, Failure> {
    let what = || "cannot print what nodes hold".to_owned();
    let line = serde_json::to_string(residency).or_fail(what)?;
    print(&format!("{line}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The jobs. Of files that no agent holds the `store` knows the size.
fn asked(path: &Path, residency: &Residency, store: Option<&Path>) -> Result<Asked, Failure> {
    let mut asked = if path.is_dir() {
        slurm::read(path, residency)?
    } else {
        jobs::read(path)?
    };
    let what = || format!("cannot place the jobs of `{}`", path.display());
    if asked.jobs.iter().all(|job| job.reads.is_empty()) {
        return Err(Failure::new(what())
            .cause("no job names a file that it reads")
            .hint("docs/formats/jobs.md says how jobs name their files"));
    }
    let settled = asked.settle(residency);
    settled.map_err(|why| Failure::new(what()).cause(why))?;
    if let Some(store) = store {
        live::complete(&mut asked, residency, store);
    }
    Ok(asked)
}
