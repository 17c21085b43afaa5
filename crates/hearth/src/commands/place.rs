//! `hearth place`: a node for each job, where its bytes already are.
//!
//! What is computed is advice. A job without a good node gets none, and no job waits for one.

mod arrange;
mod jobs;
mod render;
mod residency;
mod slurm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::Failure;
use crate::output::print;
use arrange::Arranged;
use jobs::Asked;
use residency::Residency;

const EXAMPLES: &str = "\
Examples:
  hearth place --residency now.json jobs.txt               a table of jobs and nodes
  hearth place --residency now.json scripts/               the same for a directory of Slurm scripts
  sbatch $(hearth place --residency now.json scripts/ --as nodelist --job align) scripts/align.sh
  hearth place --residency now.json jobs.txt --as hostfile --job solve > hosts
  mpirun --hostfile hosts --map-by seq ./solve

docs/formats/jobs.md has the two formats. Advice only: no job waits for its node.";

/// Options of `hearth place`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Jobs and their files, or a directory of Slurm scripts
    #[arg(value_name = "JOBS")]
    jobs: PathBuf,
    /// Which node holds how much of which file (JSON)
    #[arg(long, value_name = "FILE")]
    residency: PathBuf,
    /// How jobs are given to nodes
    #[arg(long, value_enum, default_value_t = Method::Improved)]
    method: Method,
    /// What to print
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
    /// A line for each rank, in order, for mpirun
    Hostfile,
    /// One JSON object per line
    Json,
}

/// Places and prints.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let residency = residency::read(&args.residency)?;
    let asked = asked(&args.jobs, &residency)?;
    let arranged = Arranged::new(&asked, &residency, args.method)?;
    let lines = render::lines(&arranged, args.form, args.job.as_deref())?;
    print(&lines)?;
    if args.form == Form::Table {
        eprintln!("{}", render::sentence(&arranged));
    }
    Ok(ExitCode::SUCCESS)
}

fn asked(path: &Path, residency: &Residency) -> Result<Asked, Failure> {
    let asked = if path.is_dir() {
        slurm::read(path, residency)?
    } else {
        jobs::read(path)?
    };
    if asked.jobs.iter().all(|job| job.reads.is_empty()) {
        let what = format!("cannot place the jobs of `{}`", path.display());
        return Err(Failure::new(what)
            .cause("no job names a file that it reads")
            .hint("docs/formats/jobs.md says how jobs name their files"));
    }
    Ok(asked)
}
