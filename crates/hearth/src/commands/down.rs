//! `hearth down`.

use std::process::ExitCode;

use hearth_set::control::Busy;
use hearth_set::failure::Failure;
use hearth_set::job;
use hearth_set::set::{NamedSet, Set, choose};
use hearth_set::takedown::{Dirty, How, TakenDown, take_down};

const EXAMPLES: &str = "\
Examples:
  hearth down                     the only set that is up
  hearth down --store /scratch
  hearth down --all --discard     end everything, even if the store takes no more bytes

Exit codes: 0 down, 1 no agents were up or bytes may be lost, 2 still up.";

/// Options of `hearth down`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamedSet,
    /// End agents that cannot flush or do not answer; what is not flushed is lost
    #[arg(long)]
    discard: bool,
    /// End the set though programs still use it, within ten seconds; they are named
    #[arg(long)]
    force: bool,
}

/// Ends the chosen sets; goes on with the others if one cannot be ended.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let how = How {
        dirty: if args.discard {
            Dirty::Discard
        } else {
            Dirty::Flush
        },
        busy: if args.force {
            Busy::Detach
        } else {
            Busy::Refuse
        },
        hurry: args.force || args.discard,
    };
    let mut worst = 0;
    for set in choose(&args.named.choice())? {
        worst = worst.max(end(&set, how));
    }
    Ok(ExitCode::from(worst))
}

fn end(set: &Set, how: How) -> u8 {
    let job = &set.file.job;
    match lock_and_end(set, how) {
        Ok(ended) => {
            for note in &ended.notes {
                hearth_client::say!("note: {note}");
            }
            hearth_client::say!("job {job} is down");
            u8::from(ended.may_lack_bytes)
        }
        Err(failure) => {
            hearth_client::say!(
                "{}",
                Failure::new(format!("job {job} is still up")).after(failure)
            );
            2
        }
    }
}

fn lock_and_end(set: &Set, how: How) -> Result<TakenDown, Failure> {
    let _nobody_starts_one = job::lock_store_soon(&job::base()?, &set.file.store)?;
    take_down(set, how)
}
