//! Worlds: some nodes over one directory, each with a mount, a kernel and programs. A seed draws all of it.

use crate::again::Before;
use crate::agent::{Agent, Net};
use crate::book::{Book, MADE, Thing, Value};
use crate::core::Core;
use crate::handlers::HearthFs;
use crate::ledger::Ledger;
use crate::opened::Opened;
use crate::options::MountOptions;
use crate::os::Os;
use crate::programs::{DIR, Kind, Program};
use crate::requests::Notifier;
use crate::stat::Stat;
use hearth_proto::{Config, Node, NodeId, Policy};
use real_rustix::fs::{CWD, Mode, OFlags};
use std::Dice;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub use hearth_proto::Guard;
pub use std::{Trial, WorldOutcome};

/// Something that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A recall is answered before the front end and the operating system have let go.
    RecallsAnsweredEarly,
    /// Leave for several files is asked for one by one, also by who reads names that others wait for.
    LeaveAskedAlone,
    /// The kernels lack a guard.
    Without(Guard),
}

/// Policies of worlds: no names are kept under `none`, and `bank` has daemons beside the nodes.
const POLICIES: &[Policy] = &[
    Policy::Home,
    Policy::Home,
    Policy::HomePlus,
    Policy::Hint,
    Policy::Single,
    Policy::Local,
];

/// The size of a world.
#[derive(Clone, Copy, Debug)]
struct Shape {
    nodes: u32,
    programs: u32,
    names: u64,
    calls: u64,
    /// Programs are one of these.
    kinds: &'static [Kind],
    /// Files that are there at the beginning.
    made: u64,
    /// Calls of a hundred after which a program pauses.
    pauses: u64,
    policy: Policy,
}

impl Shape {
    fn of(seed: u64) -> Shape {
        let mut dice = Dice::new(seed, 2);
        Shape {
            nodes: 2 + dice.below(3) as u32,
            programs: 1 + dice.below(5) as u32,
            names: 2 + dice.below(14),
            calls: 8 << dice.below(3),
            kinds: [
                &[Kind::Own, Kind::Own, Kind::Mixed][..],
                &[Kind::Walker, Kind::Walker, Kind::Mixed],
                &[Kind::Walker, Kind::Changer, Kind::Mixed],
                &[Kind::Walker, Kind::Changer],
                &[Kind::Watcher, Kind::Changer],
                &[Kind::Mixed],
            ][dice.below(6) as usize],
            made: dice.below(16),
            pauses: dice.below(3) * 5,
            policy: POLICIES[dice.below(POLICIES.len() as u64) as usize],
        }
    }
}

/// A node's mount.
struct Mounted {
    os: Arc<Os>,
    core: Arc<Core>,
    agent: Arc<Agent>,
}

/// Runs the world of a seed.
pub fn run(seed: u64, fault: Option<Broken>) -> WorldOutcome {
    let dir = match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm"),
        false => tempfile::tempdir(),
    };
    let dir = dir.expect("there is room for a directory");
    std::fs::create_dir(dir.path().join(DIR)).expect("the directory is empty");
    let path = dir.path().to_owned();
    std::run(seed, move || live(seed, fault, &path))
}

fn root(path: &Path) -> OwnedFd {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    real_rustix::fs::openat(CWD, path, flags, Mode::empty()).expect("it was just made")
}

fn mount(path: &Path, (me, nodes): (u32, u32), shared: &Shared) -> Mounted {
    let mut config = Config {
        frames: 64,
        policy: shared.policy,
        ..Config::new(NodeId(me), nodes)
    };
    if let Some(Broken::Without(guard)) = shared.fault {
        config.without = Some(guard);
    }
    let net = (Arc::clone(&shared.net), Arc::clone(&shared.opened));
    let agent = Agent::start(Node::new(config), net, shared.fault);
    let options = MountOptions {
        name_ttl: Duration::ZERO,
        ..MountOptions::default()
    };
    let session = Arc::clone(&agent) as Arc<dyn hearth_client::Session>;
    // Nobody takes these mounts over.
    let ledger = Arc::new(Ledger::new().expect("there is room for a ledger"));
    let ledger = (ledger, Before::default());
    let core = Core::new(ledger, root(path), session, options).expect("threads can be started");
    let (core, os) = (Arc::new(core), Os::new());
    let notifier = Notifier(Arc::downgrade(&os));
    core.revoker.speak_by(notifier);
    core.revoker.start().expect("a thread can be started");
    os.serve(HearthFs::new(Arc::clone(&core)));
    Mounted { os, core, agent }
}

/// A file that was there before.
fn make(path: &Path) -> Value {
    let file = std::fs::File::create(path).expect("there is room for a file");
    let mode = std::fs::Permissions::from_mode(MADE as u32);
    file.set_permissions(mode)
        .expect("it is this process's own");
    Value::Is(Stat::of(&file).expect("it is open").key().ino)
}

struct Shared {
    net: Arc<Net>,
    opened: Arc<Opened>,
    fault: Option<Broken>,
    policy: Policy,
}

fn live(seed: u64, fault: Option<Broken>, path: &Path) {
    let shape = Shape::of(seed);
    let shared = Shared {
        net: Arc::new(Net::new(seed, shape.nodes)),
        opened: Arc::default(),
        fault,
        policy: shape.policy,
    };
    let book = Arc::new(Book::default());
    for name in (0..shape.names.min(shape.made)).map(|name| format!("f{name}")) {
        book.was(Thing::Name(name.clone()), make(&path.join(DIR).join(&name)));
    }
    let nodes = 0..shape.nodes;
    let mounts: Vec<Mounted> = nodes
        .map(|me| mount(path, (me, shape.nodes), &shared))
        .collect();
    for mounted in &mounts {
        let agent = Arc::clone(&mounted.agent);
        thread::spawn(move || agent.serve());
    }
    work(seed, &shape, &mounts, &book);
    if !std::is_over() {
        rest(&shape, &mounts, path);
    }
    for mounted in mounts {
        mounted.core.close_all();
        mounted.os.close();
        mounted.agent.stop();
    }
    shared.net.close();
    // Threads that were told to end do so.
    thread::sleep(Duration::from_secs(1));
}

/// All programs from their beginning to their end.
fn work(seed: u64, shape: &Shape, mounts: &[Mounted], book: &Arc<Book>) {
    let agents: Vec<Arc<Agent>> = mounts.iter().map(|one| Arc::clone(&one.agent)).collect();
    let waits: Arc<dyn Fn() -> String + Send + Sync> = Arc::new(move || {
        let each = agents.iter().flat_map(|agent| agent.waits());
        each.collect::<Vec<_>>().join("\n")
    });
    let mut programs = Vec::new();
    for number in 0..shape.nodes * shape.programs {
        let node = number % shape.nodes;
        let mut dice = Dice::new(seed, 100 + u64::from(number));
        let kind = shape.kinds[dice.below(shape.kinds.len() as u64) as usize];
        let program = Program {
            os: Arc::clone(&mounts[node as usize].os),
            book: Arc::clone(book),
            node,
            number,
            kind,
            names: shape.names,
            pauses: shape.pauses,
            dice,
            open: Vec::new(),
            waits: Arc::clone(&waits),
        };
        let calls = shape.calls;
        programs.push(thread::spawn(move || program.run(calls)));
    }
    for program in programs {
        // A panic is a finding already.
        let _ = program.join();
    }
}

/// When all is done, each node tells what the store has.
fn rest(shape: &Shape, mounts: &[Mounted], path: &Path) {
    // A close need not have brought bytes to the store.
    let size_of = |size| {
        if shape.policy == Policy::Local {
            0
        } else {
            size
        }
    };
    for _ in 0..2 {
        for (node, mounted) in mounts.iter().enumerate() {
            for name in (0..shape.names).map(|name| format!("f{name}")) {
                let told = match mounted.os.stat(DIR, &name) {
                    Ok(attr) => {
                        let (mode, size) = (u32::from(attr.perm), size_of(attr.size));
                        Some((attr.ino.0, mode, attr.nlink, size))
                    }
                    Err(libc::ENOENT) => None,
                    Err(error) => {
                        return std::find(format!("node {node}: error {error} for {name}"));
                    }
                };
                let seen = stored(&path.join(DIR).join(&name)).map(|stat| {
                    let (ino, mode) = (stat.key().ino, stat.permissions());
                    (ino, mode, stat.links(), size_of(stat.size()))
                });
                if told != seen {
                    std::find(format!(
                        "node {node} tells {told:?} of {name}: it is {seen:?}"
                    ));
                }
            }
        }
        thread::sleep(Duration::from_secs(3));
    }
}

fn stored(path: &Path) -> Option<Stat> {
    Stat::of(std::fs::File::open(path).ok()?).ok()
}
