//! How the ranks of a job get to know each other, over MPI itself.
//!
//! 1. Every rank says whether it can take part, with which settings, and on which host it is.
//! 2. Every rank says where its agent will listen: to this host alone if all are on it.
//!
//! All decide by what all have said, so all decide alike.

use std::fs::DirBuilder;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hearth_agent::AgentSettings;
use hearth_agent::net::{Carrier, Endpoint, Secret};
use hearth_agent::store::StoreSpec;
use hearth_mpi::{Comm, Lines, MpiEndpoint};

use crate::job::Parts;
use crate::job_agents::JobAgents;
use crate::mpi::Mpi;
use crate::settings::{Settings, Transport};
use crate::sys;
use crate::words::{self, say};

const FLUSH_AGE: Duration = Duration::from_secs(5);

/// Ranks share cores while they start; one that has died ends the job by itself.
const JOIN_SPAN: Duration = Duration::from_secs(60);

const SECRET_BYTES: usize = 32;
const HOST_BYTES: usize = 64;
const ABOUT_BYTES: usize = 1 + 8 + 8 + SECRET_BYTES + HOST_BYTES;
const PLACE_BYTES: usize = 1 + 2 + 4;

/// A rank's words about itself.
struct About {
    able: bool,
    /// Any thread may call MPI.
    multiple: bool,
    digest: u64,
    /// A name for the job. Paths and words show it, so it says nothing of the secret.
    job: u64,
    secret: [u8; SECRET_BYTES],
    host: [u8; HOST_BYTES],
}

impl About {
    fn encode(&self) -> [u8; ABOUT_BYTES] {
        let mut bytes = [0; ABOUT_BYTES];
        bytes[0] = u8::from(self.able) | u8::from(self.multiple) << 1;
        bytes[1..9].copy_from_slice(&self.digest.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.job.to_le_bytes());
        bytes[17..17 + SECRET_BYTES].copy_from_slice(&self.secret);
        bytes[17 + SECRET_BYTES..].copy_from_slice(&self.host);
        bytes
    }

    fn decode(bytes: &[u8; ABOUT_BYTES]) -> About {
        let mut about = About {
            able: bytes[0] & 1 != 0,
            multiple: bytes[0] & 2 != 0,
            digest: number(&bytes[1..9]),
            job: number(&bytes[9..17]),
            secret: [0; SECRET_BYTES],
            host: [0; HOST_BYTES],
        };
        let (secret, host) = bytes[17..].split_at(SECRET_BYTES);
        about.secret.copy_from_slice(secret);
        about.host.copy_from_slice(host);
        about
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a number is told in eight bytes"))
}

/// Holds the meeting. `None` if the job runs without a cache; somebody has said why.
pub(crate) fn hold(mpi: &Mpi, settings: Result<Option<Settings>, String>) -> Option<Parts> {
    let (rank, ranks) = mpi.place(mpi.world())?;
    words::begin(rank);
    let settings = match settings {
        Ok(settings) => settings,
        Err(why) => {
            say(&format_args!("no file is cached: {why}"));
            None
        }
    };
    let about = About {
        able: settings.is_some(),
        multiple: hearth_mpi::is_multiple(),
        digest: settings.as_ref().map_or(0, Settings::digest),
        job: number(&random::<8>()),
        secret: random(),
        host: host(),
    };
    let all: Vec<About> = mpi
        .exchange(mpi.world(), &about.encode())?
        .iter()
        .map(About::decode)
        .collect();
    let settings = settings.filter(|_| all.iter().all(|about| about.able))?;
    if all.iter().any(|about| about.digest != all[0].digest) {
        if rank == 0 {
            say(
                &"no file is cached: the ranks' HEARTH_ variables, or their stores, are not the same",
            );
        }
        return None;
    }
    let together = all.iter().all(|about| about.host == all[0].host);
    let own = listen(&settings, together);
    let members = members(mpi, own.as_ref())?;
    let (listener, _) = own?;
    let lines = lines(&settings, rank, all.iter().all(|about| about.multiple));
    let carrier = match settings.transport {
        Transport::Sockets(carrier) => carrier,
        Transport::Mpi => Carrier::Shm,
    };
    let sockets = Endpoint::over(carrier, listener);
    let endpoint = match &lines {
        Some(lines) => MpiEndpoint::new(sockets, Arc::clone(lines)).into(),
        None => sockets,
    };
    let host_leader = all.iter().position(|other| other.host == about.host) == Some(rank as usize);
    build(
        settings,
        (rank, ranks),
        (members, endpoint, lines),
        (all[0].job, all[0].secret, host_leader),
    )
}

/// Lines over MPI, if the settings want them and all ranks can have them; all ranks decide alike.
fn lines(settings: &Settings, rank: u32, multiple: bool) -> Option<Arc<Lines>> {
    if settings.transport != Transport::Mpi {
        return None;
    }
    if !multiple {
        if rank == 0 {
            say(
                &"HEARTH_TRANSPORT=mpi needs a program that begins with MPI_Init_thread and is given MPI_THREAD_MULTIPLE; the ranks reach each other as with HEARTH_TRANSPORT=shm",
            );
        }
        return None;
    }
    match Comm::of_world() {
        Ok(comm) => Some(Arc::new(Lines::new(comm))),
        Err(error) => {
            say(&format_args!(
                "cannot have a communicator of our own: {error}"
            ));
            None
        }
    }
}

fn build(
    settings: Settings,
    (rank, ranks): (u32, u32),
    (members, endpoint, lines): (Vec<SocketAddr>, Endpoint, Option<Arc<Lines>>),
    (id, secret, host_leader): (u64, [u8; SECRET_BYTES], bool),
) -> Option<Parts> {
    let directory = directory(&settings, id);
    let shared = directory.clone().unwrap_or_else(std::env::temp_dir);
    let named = (format!("mpi-{id:016x}"), Secret::new(secret));
    let place = (settings.root.clone(), shared);
    let config = AgentSettings {
        store: settings.backing.clone(),
        policy: settings.policy,
        semantics: settings.semantics,
        close: settings.close,
        page_bytes: settings.page_bytes,
        chunk_bytes: settings.chunk_bytes,
        pool_bytes: settings.pool_bytes,
        flush_age: FLUSH_AGE,
        join_span: JOIN_SPAN,
        ..AgentSettings::plain((rank, members), named, place)
    };
    let agents = JobAgents::asleep(config, endpoint)
        .inspect_err(|error| say(&format_args!("cannot start a thread: {error}")))
        .ok()?;
    Some(Parts {
        id,
        rank,
        ranks,
        settings,
        agents,
        lines,
        directory: directory.filter(|_| host_leader),
    })
}

/// The socket and the address at which this rank's agent listens.
fn listen(settings: &Settings, together: bool) -> Option<(TcpListener, SocketAddr)> {
    let address = if together {
        Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
    } else {
        reachable(settings.interface.as_deref())
    };
    let Some(address) = address else {
        say(
            &"no file is cached: this host has no network interface that others could reach; name one in HEARTH_INTERFACE",
        );
        return None;
    };
    let bound = TcpListener::bind((address, 0)).and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    bound
        .inspect_err(|error| {
            say(&format_args!(
                "no file is cached: cannot listen on {address}: {error}"
            ))
        })
        .ok()
}

fn reachable(interface: Option<&str>) -> Option<IpAddr> {
    let all = sys::addresses();
    let mut wanted = all
        .into_iter()
        .filter(|(name, _)| interface.is_none_or(|interface| interface == name));
    wanted.next().map(|(_, address)| address)
}

fn members(mpi: &Mpi, own: Option<&(TcpListener, SocketAddr)>) -> Option<Vec<SocketAddr>> {
    let mut place = [0_u8; PLACE_BYTES];
    if let Some((_, SocketAddr::V4(address))) = own {
        place[0] = 1;
        place[1..3].copy_from_slice(&address.port().to_le_bytes());
        place[3..].copy_from_slice(&address.ip().octets());
    }
    let all = mpi.exchange(mpi.world(), &place)?;
    let address = |[able, low, high, ip @ ..]: &[u8; PLACE_BYTES]| {
        let port = u16::from_le_bytes([*low, *high]);
        (*able == 1).then(|| SocketAddr::from((*ip, port)))
    };
    all.iter().map(address).collect()
}

/// Random bytes. Agents prove by those of rank 0 that they are of its job.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        // Without randomness agents would trust anybody: better none.
        say(&"cannot get random bytes");
        std::process::abort();
    }
    bytes
}

/// Names a place in the network: this boot of this kernel, and the namespace that we are in.
fn host() -> [u8; HOST_BYTES] {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = Path::new("/proc/self/ns/net");
    let network = network.metadata().map_or(0, |meta| meta.ino());
    let text = format!("{network} {}", boot.trim());
    let mut host = [0; HOST_BYTES];
    let len = text.len().min(HOST_BYTES);
    host[..len].copy_from_slice(&text.as_bytes()[..len]);
    host
}

/// The directory in which agents of one host keep what they share about a modelled store.
fn directory(settings: &Settings, id: u64) -> Option<PathBuf> {
    let StoreSpec::Model(_) = settings.backing else {
        return None;
    };
    let user = rustix::process::geteuid().as_raw();
    let path = std::env::temp_dir().join(format!("hearth-mpi-{user}-{id:016x}"));
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            say(&format_args!("cannot make `{}`: {error}", path.display()));
        }
        _ => {}
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_says_arrives_as_it_was_said() {
        let about = About {
            able: true,
            multiple: false,
            digest: 0x1234_5678_9abc_def0,
            job: 0x0fed_cba9_8765_4321,
            secret: [7; SECRET_BYTES],
            host: host(),
        };
        let read = About::decode(&about.encode());
        assert!(read.able && !read.multiple);
        assert_eq!((read.digest, read.job), (about.digest, about.job));
        assert_eq!(read.secret, about.secret);
        assert_eq!(read.host, about.host);
        assert!(!About::decode(&[0; ABOUT_BYTES]).able);
    }
}
