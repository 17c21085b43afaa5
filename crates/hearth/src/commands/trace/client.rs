//! `hearth trace client`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use hearth_client::words::counted;
use hearth_trace::area;
use hearth_trace::ship::{ClientConfig, LogClient, SpoolLimits, party};

use hearth_set::failure::{Failure, OrFail};
use hearth_set::secret;
use hearth_set::signals::{self, Signals};

/// The client gives way to the programs that are measured.
const NICE: i32 = 10;

/// Options of `hearth trace client`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Address of `hearth trace serve`
    #[arg(long, value_name = "ADDR")]
    server: SocketAddr,
    /// File with the server's secret
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
    /// Directory for what waits while the server is away
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    spill: PathBuf,
    /// At most so many MiB wait there; beyond, records are counted only
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    spill_max: u64,
    /// At the end wait so many seconds for the server to take all
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    linger: u64,
}

/// Sends what is traced on this machine, until it is interrupted.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let why = || "cannot send what is traced".to_owned();
    let signals = Signals::catch(signals::ENDS)?;
    // A refusal only means that it is not as modest as it would be.
    let _ = rustix::process::nice(NICE);
    let party = party(secret::read(&args.secret)?);
    let mut config = ClientConfig::here(args.server, party, &args.spill).or_fail(why)?;
    config.limits = SpoolLimits {
        spill: args.spill_max << 20,
        ..config.limits
    };
    let mut client = LogClient::start(&area::directory(), config).or_fail(why)?;
    let mut trouble = None;
    while signals.take().is_empty() {
        client.round(signals.fds().next()).or_fail(why)?;
        let now = client.trouble();
        if now.is_some() && now != trouble {
            let what = now.as_deref().unwrap_or_default();
            hearth_client::say!("the log server at {} is away: {what}", args.server);
        }
        trouble = now;
    }
    let finished = client
        .finish(Duration::from_secs(args.linger))
        .or_fail(why)?;
    let records = counted(finished.records, "record");
    hearth_client::say!("{records}, {}", counted(finished.bytes, "byte"));
    match finished.undelivered {
        None => Ok(ExitCode::SUCCESS),
        Some((path, cause)) => Err(Failure::new("the log server does not have everything")
            .cause(cause)
            .hint(format!(
                "the rest is in {0}; put it beside the others on the server",
                path.display()
            ))),
    }
}
