//! The client against real memcached daemons.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what helps a test fails like a test, and says what it skips"
)]

use hearth_bank::daemon::{self, DaemonPlan, End, Seat, StartedDaemon};
use hearth_bank::{
    Address, Answer, Answered, Asked, Bank, BankClientConfig, BankHandler, Lost, OpenedEntry,
    Order, Seal,
};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Nothing here takes so long.
const LIMIT: Duration = Duration::from_secs(120);
const PATIENCE: Duration = Duration::from_secs(60);
/// The patience with a daemon that is not to answer.
const HASTE: Duration = Duration::from_millis(500);
const ENTRY_BYTES: usize = 4096;

#[derive(Debug, PartialEq)]
enum News {
    Answered(u64, Result<Answer, Lost>),
    Up(usize),
    Down(usize, String),
}

struct Tell(Sender<News>);

impl BankHandler for Tell {
    fn answered(&self, answers: Vec<Answered>) {
        for (order, answer) in answers {
            let _ = self.0.send(News::Answered(order, answer));
        }
    }

    fn up(&self, daemon: usize) {
        let _ = self.0.send(News::Up(daemon));
    }

    fn down(&self, daemon: usize, why: &str) {
        let _ = self.0.send(News::Down(daemon, why.to_owned()));
    }
}

struct Desk {
    bank: Bank,
    news: Receiver<News>,
}

impl Desk {
    fn at(daemons: Vec<Address>) -> Desk {
        Desk::of(daemons, ENTRY_BYTES, PATIENCE)
    }

    fn of(daemons: Vec<Address>, entry_bytes: usize, patience: Duration) -> Desk {
        let (tell, news) = channel();
        let config = BankClientConfig {
            daemons,
            seal: Seal::new(&[5; 32]),
            entry_bytes,
            patience,
        };
        let bank = Bank::start(config, Arc::new(Tell(tell))).unwrap();
        Desk { bank, news }
    }

    fn next(&self) -> News {
        self.news
            .recv_timeout(LIMIT)
            .expect("there is news in time")
    }

    /// Passes over tries to connect that failed.
    fn next_up(&self) -> usize {
        loop {
            if let News::Up(daemon) = self.next() {
                return daemon;
            }
        }
    }

    fn order(&self, id: u64, order: Order) {
        let daemon = 0;
        self.bank.order(vec![Asked { id, daemon, order }]);
    }

    fn ask(&self, id: u64, order: Order) -> Result<Answer, Lost> {
        self.order(id, order);
        loop {
            if let News::Answered(of, answer) = self.next() {
                assert_eq!(of, id);
                return answer;
            }
        }
    }
}

fn set(name: &str, bytes: Vec<u8>) -> Order {
    Order::Set {
        name: name.to_owned(),
        version: [1, 2],
        bytes,
        seconds: None,
    }
}

fn get(names: &[&str]) -> Order {
    Order::Get(names.iter().map(|&name| name.to_owned()).collect())
}

/// A daemon that ends with its test.
struct Daemon(StartedDaemon);

impl Daemon {
    fn start(plan: &DaemonPlan) -> Daemon {
        Daemon(daemon::start(plan).unwrap())
    }

    fn signal(&self, name: &str) {
        let pid = self.0.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Comes back once none of its threads runs any more, which is not at once.
    fn stop(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.0.child.id());
        let runs = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap();
            !stat.rsplit(") ").next().unwrap().starts_with('T')
        };
        while std::fs::read_dir(&tasks)
            .unwrap()
            .any(|task| runs(task.unwrap()))
        {
            std::thread::yield_now();
        }
    }

    fn kill(&mut self) {
        self.0.child.kill().unwrap();
        self.0.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.child.kill();
        let _ = self.0.child.wait();
    }
}

fn plan(dir: &Path, seat: Seat) -> DaemonPlan {
    DaemonPlan {
        seat,
        memory_bytes: 16 << 20,
        item_bytes: hearth_bank::item::room_for(ENTRY_BYTES),
        dir: dir.to_owned(),
        end: End::WithStarter,
    }
}

/// A directory, unless there is no memcached.
fn place(test: &str) -> Option<tempfile::TempDir> {
    if Command::new("memcached").arg("-V").output().is_err() {
        println!("skipped: {test}: no memcached");
        return None;
    }
    Some(tempfile::tempdir().unwrap())
}

fn unix(dir: &Path) -> Seat {
    Seat::Unix(dir.join("bank.sock"))
}

#[test]
fn entries_go_round_over_a_socket_of_either_kind() {
    let Some(dir) = place("entries_go_round_over_a_socket_of_either_kind") else {
        return;
    };
    for seat in [unix(dir.path()), Seat::AnyPort([127, 0, 0, 1].into())] {
        let daemon = Daemon::start(&plan(dir.path(), seat));
        let desk = Desk::at(vec![daemon.0.addr.clone()]);
        assert_eq!(desk.next_up(), 0);
        let bytes: Vec<u8> = (0..ENTRY_BYTES).map(|at| at as u8).collect();
        assert_eq!(desk.ask(1, set("a", bytes.clone())), Ok(Answer::Stored));
        assert_eq!(desk.ask(2, set("b", Vec::new())), Ok(Answer::Stored));
        let item = |bytes| {
            Some(OpenedEntry {
                version: [1, 2],
                bytes,
            })
        };
        let found = vec![item(Vec::new()), None, item(bytes.clone())];
        assert_eq!(desk.ask(3, get(&["b", "c", "a"])), Ok(Answer::Found(found)));
        let gone = Order::Delete(vec!["b".to_owned(), "never".to_owned()]);
        assert_eq!(desk.ask(4, gone), Ok(Answer::Deleted));
        let found = vec![item(bytes), None];
        assert_eq!(desk.ask(5, get(&["a", "b"])), Ok(Answer::Found(found)));
        let status = desk.bank.status().remove(0);
        assert_eq!((status.hits, status.misses, status.up), (3, 2, true));
    }
}

#[test]
fn thousands_of_entries_are_asked_for_at_once() {
    let Some(dir) = place("thousands_of_entries_are_asked_for_at_once") else {
        return;
    };
    let daemon = Daemon::start(&plan(dir.path(), unix(dir.path())));
    let desk = Desk::at(vec![daemon.0.addr.clone()]);
    assert_eq!(desk.next_up(), 0);
    let names: Vec<String> = (0..2000).map(|n| format!("entry:{n}")).collect();
    for (id, name) in (0..).zip(&names) {
        desk.order(id, set(name, name.clone().into_bytes()));
    }
    for id in 0..2000 {
        assert_eq!(desk.next(), News::Answered(id, Ok(Answer::Stored)));
    }
    let Ok(Answer::Found(items)) = desk.ask(2000, Order::Get(names.clone())) else {
        panic!("the daemon is there");
    };
    for (name, item) in names.iter().zip(items) {
        assert_eq!(item.expect("it was stored").bytes, name.as_bytes());
    }
}

#[test]
fn a_daemon_that_dies_is_known_at_once_and_one_in_its_place_is_found() {
    let Some(dir) = place("a_daemon_that_dies_is_known_at_once_and_one_in_its_place_is_found")
    else {
        return;
    };
    let mut daemon = Daemon::start(&plan(dir.path(), unix(dir.path())));
    let desk = Desk::at(vec![daemon.0.addr.clone()]);
    assert_eq!(desk.next_up(), 0);
    assert_eq!(desk.ask(1, set("a", vec![1])), Ok(Answer::Stored));
    let killed = Instant::now();
    daemon.kill();
    assert!(matches!(desk.next(), News::Down(0, _)));
    assert!(killed.elapsed() < LIMIT);
    assert_eq!(desk.ask(2, get(&["a"])), Err(Lost));
    let _again = Daemon::start(&plan(dir.path(), unix(dir.path())));
    assert_eq!(desk.next_up(), 0);
    assert_eq!(desk.ask(3, get(&["a"])), Ok(Answer::Found(vec![None])));
}

#[test]
fn orders_to_a_daemon_that_is_stopped_are_lost_in_time() {
    let Some(dir) = place("orders_to_a_daemon_that_is_stopped_are_lost_in_time") else {
        return;
    };
    let daemon = Daemon::start(&plan(dir.path(), unix(dir.path())));
    let desk = Desk::of(vec![daemon.0.addr.clone()], ENTRY_BYTES, HASTE);
    assert_eq!(desk.next_up(), 0);
    daemon.stop();
    desk.order(1, set("a", vec![1]));
    desk.order(2, get(&["a"]));
    assert_eq!(desk.next(), News::Answered(1, Err(Lost)));
    assert_eq!(desk.next(), News::Answered(2, Err(Lost)));
    let why = "it did not answer in time".to_owned();
    assert_eq!(desk.next(), News::Down(0, why));
    daemon.signal("CONT");
    assert_eq!(desk.next_up(), 0);
}

#[test]
fn a_daemon_whose_items_are_too_small_is_refused_by_name() {
    let Some(dir) = place("a_daemon_whose_items_are_too_small_is_refused_by_name") else {
        return;
    };
    let small = DaemonPlan {
        memory_bytes: 1 << 20,
        ..plan(dir.path(), unix(dir.path()))
    };
    let daemon = Daemon::start(&small);
    let desk = Desk::of(vec![daemon.0.addr.clone()], 1 << 20, PATIENCE);
    let News::Down(0, why) = desk.next() else {
        panic!("its items hold half a MiB");
    };
    let limit = "its items end at 524288 bytes";
    assert!(
        why.starts_with(limit) && why.contains("start it with -I"),
        "{why}"
    );
}

#[test]
fn a_full_daemon_forgets_and_goes_on() {
    let Some(dir) = place("a_full_daemon_forgets_and_goes_on") else {
        return;
    };
    let small = DaemonPlan {
        memory_bytes: 1 << 20,
        ..plan(dir.path(), unix(dir.path()))
    };
    let daemon = Daemon::start(&small);
    let desk = Desk::at(vec![daemon.0.addr.clone()]);
    assert_eq!(desk.next_up(), 0);
    let stored = (0..3000)
        .map(|id| desk.ask(id, set(&format!("n:{id}"), vec![id as u8; 4000])))
        .filter(|answer| *answer == Ok(Answer::Stored))
        .count();
    let stats = hearth_bank::stats::ask(&daemon.0.addr, LIMIT).unwrap();
    let forgot = stats.evictions + (3000 - stored as u64);
    assert!(
        forgot > 1000,
        "it kept all but {forgot} of 12 MB: {stats:?}"
    );
    let Ok(Answer::Found(items)) = desk.ask(9000, get(&["n:0"])) else {
        panic!("the daemon is there");
    };
    assert_eq!(items, [None]);
}

#[test]
fn data_of_others_in_a_daemon_is_never_ours() {
    let Some(dir) = place("data_of_others_in_a_daemon_is_never_ours") else {
        return;
    };
    let daemon = Daemon::start(&plan(dir.path(), unix(dir.path())));
    let Address::Unix(path) = &daemon.0.addr else {
        unreachable!("it has a socket");
    };
    let key = Seal::new(&[5; 32]).key("a");
    let mut other = std::os::unix::net::UnixStream::connect(path).unwrap();
    let words = format!("set {key} 0 0 40\r\n{}\r\n", "x".repeat(40));
    std::io::Write::write_all(&mut other, words.as_bytes()).unwrap();
    let mut said = [0; 8];
    std::io::Read::read_exact(&mut other, &mut said).unwrap();
    assert_eq!(&said, b"STORED\r\n");
    let desk = Desk::at(vec![daemon.0.addr.clone()]);
    assert_eq!(desk.next_up(), 0);
    assert_eq!(desk.ask(1, get(&["a"])), Ok(Answer::Found(vec![None])));
}

#[test]
fn what_is_no_memcached_is_never_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let desk = Desk::at(vec![Address::Tcp(listener.local_addr().unwrap())]);
    let (mut stream, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    match desk.next() {
        News::Down(0, why) => assert!(why.contains("HTTP/1.1 400"), "{why}"),
        news => panic!("{news:?}"),
    }
}
