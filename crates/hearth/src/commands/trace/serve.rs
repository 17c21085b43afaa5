//! `hearth trace serve`.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hearth_agent::net::Secret;
use hearth_client::words::counted;
use hearth_trace::ship::{Server, party};
use rustix::event::{PollFd, PollFlags, poll};

use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::print;
use hearth_set::secret;
use hearth_set::signals::{self, Signals};

/// Options of `hearth trace serve`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Directory for the traces, one file for each log client; read it as one trace
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// File with the secret that clients must know; made in the directory if not given
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
}

/// Stores what log clients send, until it is interrupted.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let why = || "cannot serve log clients".to_owned();
    let signals = Signals::catch(signals::ENDS)?;
    let path = match &args.secret {
        Some(path) => path.clone(),
        None => args.output.join("secret"),
    };
    std::fs::create_dir_all(&args.output).or_fail(why)?;
    let secret = if args.secret.is_none() && !path.exists() {
        write_secret(&path)?
    } else {
        secret::read(&path)?
    };
    let server = Server::start(args.listen, &args.output, party(secret)).or_fail(why)?;
    print(&format!("{}\n", server.addr()))?;
    hearth_client::say!(
        "log clients: hearth trace client --server {} --secret {}",
        server.addr(),
        path.display()
    );
    let mut fds: Vec<PollFd<'_>> = signals
        .fds()
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    // A signal ends it, whether or not the call is restarted.
    let _ = poll(&mut fds, None);
    let sessions = server.sessions();
    drop(server);
    let sessions = counted(sessions, "session");
    hearth_client::say!("{} has {sessions}", args.output.display());
    Ok(ExitCode::SUCCESS)
}

fn write_secret(path: &Path) -> Result<Secret, Failure> {
    let why = || format!("cannot write the secret to `{}`", path.display());
    let secret = secret::make()?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).or_fail(why)?;
    let text = secret::to_hex(&secret);
    file.write_all(text.as_bytes()).or_fail(why)?;
    Ok(secret)
}
