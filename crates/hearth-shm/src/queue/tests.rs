use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::*;

const PATH_VARIABLE: &str = "HEARTH_TEST_QUEUE";
const TURNS: usize = 5000;

fn queue(servers: usize) -> (tempfile::TempDir, ServerQueue) {
    let dir = tempfile::tempdir().unwrap();
    let queue = ServerQueue::open(&dir.path().join("queue"), servers).unwrap();
    (dir, queue)
}

#[test]
fn a_free_server_starts_at_once_and_a_busy_one_when_it_is_free() {
    let (_dir, queue) = queue(2);
    assert_eq!(
        queue.reserve_at(1000, 0, 50),
        Turn {
            start_ns: 1000,
            end_ns: 1050
        }
    );
    assert_eq!(
        queue.reserve_at(1010, 0, 50),
        Turn {
            start_ns: 1050,
            end_ns: 1100
        }
    );
    assert_eq!(
        queue.reserve_at(1010, 1, 5),
        Turn {
            start_ns: 1010,
            end_ns: 1015
        }
    );
    assert_eq!(
        queue.reserve_at(9000, 0, 50),
        Turn {
            start_ns: 9000,
            end_ns: 9050
        }
    );
}

#[test]
fn a_backlog_beyond_a_minute_is_forgotten() {
    let (_dir, queue) = queue(1);
    let backlog = queue.reserve_at(1000, 0, BACKLOG_MAX_NS);
    assert_eq!(
        queue.reserve_at(1000, 0, 1).start_ns,
        backlog.end_ns,
        "a minute exactly is kept"
    );
    assert_eq!(
        queue.reserve_at(1000, 0, 7),
        Turn {
            start_ns: 1000,
            end_ns: 1007
        }
    );
    queue.reserve_at(u64::MAX - 5, 0, 10);
    assert_eq!(
        queue.reserve_at(2000, 0, 7),
        Turn {
            start_ns: 2000,
            end_ns: 2007
        }
    );
}

#[test]
fn everybody_agrees_on_the_number_of_servers() {
    let (dir, _queue) = queue(3);
    let path = dir.path().join("queue");
    assert_eq!(ServerQueue::open(&path, 3).unwrap().servers(), 3);
    assert_eq!(
        ServerQueue::open(&path, 4).unwrap_err().kind(),
        io::ErrorKind::InvalidData
    );
    for servers in [0, SERVERS_MAX + 1] {
        assert_eq!(
            ServerQueue::open(&path, servers).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
    let other = dir.path().join("other");
    std::fs::write(&other, b"not a queue").unwrap();
    assert_eq!(
        ServerQueue::open(&other, 1).unwrap_err().kind(),
        io::ErrorKind::InvalidData
    );
    assert_eq!(std::fs::read(&other).unwrap(), b"not a queue");
}

#[test]
fn threads_never_share_a_turn() {
    let (_dir, queue) = queue(1);
    let queue = Arc::new(queue);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                (0..TURNS)
                    .map(|_| queue.reserve(0, 100))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    assert_disjoint(
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect(),
    );
}

// Runs itself as a second process, told by a variable which queue to use.
#[test]
fn processes_never_share_a_turn() {
    if let Some(path) = std::env::var_os(PATH_VARIABLE) {
        return take_turns_and_print_them(Path::new(&path));
    }
    let (dir, queue) = queue(1);
    let mut child = second_process("processes_never_share_a_turn", &dir.path().join("queue"));
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(
        lines.any(|line| line.ends_with("ready")),
        "the second process takes turns"
    );
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();

    let mut turns: Vec<Turn> = (0..TURNS).map(|_| queue.reserve(0, 100)).collect();
    let theirs: Vec<Turn> = lines.filter_map(|line| parse_turn(&line)).collect();
    assert!(child.wait().unwrap().success());
    assert_eq!(theirs.len(), TURNS);
    turns.extend(theirs);
    assert_disjoint(turns);
}

#[test]
fn a_process_that_dies_leaves_the_queue_usable() {
    if let Some(path) = std::env::var_os(PATH_VARIABLE) {
        ServerQueue::open(Path::new(&path), 1)
            .unwrap()
            .reserve(0, 2_000_000);
        std::process::abort();
    }
    let (dir, queue) = queue(1);
    let mut child = second_process(
        "a_process_that_dies_leaves_the_queue_usable",
        &dir.path().join("queue"),
    );
    drop(child.stdout.take());
    assert!(!child.wait().unwrap().success());
    let first = queue.reserve(0, 1000);
    let second = queue.reserve(0, 1000);
    assert!(
        first.start_ns <= monotonic_ns() + 2_000_000,
        "only the dead process's turn is in the way"
    );
    assert!(second.start_ns >= first.end_ns);
}

fn second_process(test: &str, queue: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("queue::tests::{test}"), "--exact", "--nocapture"])
        .env(PATH_VARIABLE, queue)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn take_turns_and_print_them(path: &Path) {
    let queue = ServerQueue::open(path, 1).unwrap();
    println!("ready");
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .unwrap();
    let turns: Vec<Turn> = (0..TURNS).map(|_| queue.reserve(0, 100)).collect();
    for turn in turns {
        println!("turn {} {}", turn.start_ns, turn.end_ns);
    }
}

fn parse_turn(line: &str) -> Option<Turn> {
    let mut numbers = line
        .strip_prefix("turn ")?
        .split(' ')
        .map(|word| word.parse().unwrap());
    Some(Turn {
        start_ns: numbers.next()?,
        end_ns: numbers.next()?,
    })
}

fn assert_disjoint(mut turns: Vec<Turn>) {
    turns.sort_by_key(|turn| turn.start_ns);
    for pair in turns.windows(2) {
        assert!(pair[0].end_ns <= pair[1].start_ns, "{pair:?} overlap");
    }
}
