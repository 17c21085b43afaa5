//! Worlds: some agents over one store, each with programs that share its memory. A seed draws all of it.

use crate::book::Book;
use crate::core::{Core, Net};
use crate::programs::{Process, Shape, Thread, VALUE_BYTES, value_of};
use crate::store::Store;
use crate::{Pool, PoolConfig, write_rings};
use hearth_proto::{Config, Node, NodeId, Policy};
use std::Dice;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub use hearth_proto::Guard;
pub use std::{Trial, WorldOutcome};

/// Something that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenMemory {
    /// Pages that are called back stay readable.
    PagesStayShown,
    /// The kernel hears of other things before writes that were left.
    GateLeftOpen,
    /// The kernels lack a guard.
    Without(Guard),
}

/// Two in three worlds offer pages, which `home` alone does.
const POLICIES: &[Policy] = &[
    Policy::Home,
    Policy::Home,
    Policy::HomePlus,
    Policy::HomePlus,
    Policy::Hint,
    Policy::Local,
];

const PAGE_BYTES: u64 = 4096;
/// So many that three write rings fit under half of the limit of dirty bytes.
const FRAMES: u32 = 16 << 10;

/// The size of a world.
#[derive(Clone, Copy, Debug)]
struct Size {
    nodes: u32,
    processes: u64,
    threads: u64,
    calls: u64,
    policy: Policy,
    shape: Shape,
}

impl Size {
    fn of(seed: u64) -> Size {
        let mut dice = Dice::new(seed, 2);
        Size {
            nodes: 1 + dice.below(3) as u32,
            processes: 1 + dice.below(3),
            threads: 1 + dice.below(2),
            calls: 10 << dice.below(3),
            policy: POLICIES[dice.below(POLICIES.len() as u64) as usize],
            shape: Shape {
                files: 1 + dice.below(2),
                pages: 1 + dice.below(3),
                page_bytes: PAGE_BYTES,
                slots: 1 + dice.below(3),
                writes: [20, 50, 80][dice.below(3) as usize],
                pauses: dice.below(3) * 10,
            },
        }
    }
}

/// Runs the world of a seed.
pub fn run(seed: u64, fault: Option<BrokenMemory>) -> WorldOutcome {
    std::run(seed, move || live(seed, fault))
}

fn live(seed: u64, fault: Option<BrokenMemory>) {
    std::sync::atomic::take_turns();
    let size = Size::of(seed);
    let net = Arc::new(Net::new(seed, size.nodes));
    let bytes = size.shape.pages * PAGE_BYTES;
    let store = Arc::new(Store::new(size.shape.files, bytes as usize));
    let cores: Vec<Arc<Core>> = (0..size.nodes)
        .map(|me| {
            let node = Node::new(config(me, &size, fault));
            let pool = Pool::new(PoolConfig::new(PAGE_BYTES as usize, FRAMES));
            let pool = pool.expect("there is memory");
            pool.share().expect("there is memory");
            Core::start((node, pool), (Arc::clone(&net), Arc::clone(&store)), fault)
        })
        .collect();
    let mut minds = Vec::new();
    for core in &cores {
        let own = Arc::clone(core);
        thread::spawn(move || own.serve());
        minds.push(write_rings::mind(core).expect("a thread can be started"));
    }
    let book = Arc::new(Book::default());
    work(seed, &size, &cores, (&book, &store));
    if !std::is_over() {
        rest(&size.shape, &book, &store);
    }
    cores.iter().for_each(|core| core.stop());
    net.close();
    for mind in minds {
        // A panic is a finding already.
        let _ = mind.join();
    }
    // Threads that were told to end do so.
    thread::sleep(Duration::from_secs(1));
}

fn config(me: u32, size: &Size, fault: Option<BrokenMemory>) -> Config {
    let without = match fault {
        Some(BrokenMemory::Without(guard)) => Some(guard),
        _ => None,
    };
    Config {
        policy: size.policy,
        page_bytes: PAGE_BYTES as u32,
        chunk_pages: 1,
        frames: FRAMES,
        without,
        ..Config::new(NodeId(me), size.nodes)
    }
}

/// All programs from their beginning to their end.
fn work(seed: u64, size: &Size, cores: &[Arc<Core>], (book, store): (&Arc<Book>, &Arc<Store>)) {
    let mut threads = Vec::new();
    for (node, core) in cores.iter().enumerate() {
        for process in 0..size.processes {
            let shared = Arc::new(Process::new(core));
            for number in 0..size.threads {
                let place = (node as u64 * 8 + process) * 8 + number;
                let one = Thread {
                    process: Arc::clone(&shared),
                    book: Arc::clone(book),
                    store: Arc::clone(store),
                    dice: Dice::new(seed, 100 + place),
                    name: format!("thread {number} of program {process} of node {node}"),
                    shape: size.shape,
                    ring: None,
                };
                let calls = size.calls;
                threads.push(thread::spawn(move || one.run(calls)));
            }
        }
    }
    for one in threads {
        // A panic is a finding already.
        let _ = one.join();
    }
}

/// All files are closed: in time the store has what was written last.
fn rest(shape: &Shape, book: &Book, store: &Store) {
    // Longer than bytes may stay dirty.
    thread::sleep(Duration::from_secs(20));
    for file in 1..=shape.files {
        for offset in (0..shape.pages * shape.page_bytes).step_by(512) {
            let began = book.now();
            let seen = value_of(&store.read(file, offset, VALUE_BYTES));
            let right = seen.and_then(|value| book.saw((file, offset), (began, value)));
            if let Err(why) = right {
                std::find(format!("the store at the end: {why}"));
            }
        }
    }
}
