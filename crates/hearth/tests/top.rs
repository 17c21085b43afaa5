//! `hearth top`: pages of real answers, keys in a terminal, one table for a pipe.

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/fixture.rs"]
mod fixture;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixture::{Fixture, kill, sh, signal, skipped, text, until, wait_within, well};
use hearth_top::{AgentAnswer, AgentKey, AgentLook, Glance, Ui, Watch};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Sizes of terminals: the usual one, one that is small both ways, a large one.
const SIZES: [(u16, u16); 3] = [(80, 24), (40, 10), (200, 50)];

/// The answers of a fixture's agents now.
fn look(fixture: &Fixture, at: Instant) -> Glance {
    let (agents, _) = fixture.status();
    let told = agents.into_iter().map(|line| AgentLook {
        key: AgentKey {
            job: line["job"].as_str().expect("a name").to_owned(),
            node: line["agent"].as_u64().expect("a number") as u32,
        },
        pid: line["pid"].as_u64().map(|pid| pid as u32),
        answer: match line["answers"].as_bool() {
            Some(true) => Ok(AgentAnswer::new(line)),
            _ => Err("gone".to_owned()),
        },
    });
    let agents = told.collect();
    Glance { at, agents }
}

/// A page as the lines of a terminal.
fn page((width, height): (u16, u16), watch: &Watch, ui: &Ui) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    terminal
        .draw(|frame| hearth_top::draw(frame, watch, ui))
        .expect("memory");
    let buffer = terminal.backend().buffer();
    let cells = buffer.content().chunks(usize::from(width));
    let line = |cells: &[ratatui::buffer::Cell]| -> String {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    };
    cells.map(line).collect()
}

fn press(ui: &mut Ui, watch: &Watch, code: KeyCode) {
    let _ = ui.press(KeyEvent::from(code), watch);
}

/// The numbers of agents in a table, from above.
fn order(lines: &[String]) -> Vec<&str> {
    let head = lines.iter().position(|line| line.starts_with("agent "));
    let rows = &lines[head.expect("a head") + 1..];
    let first = rows.iter().map_while(|line| line.split_whitespace().next());
    first
        .take_while(|word| word.parse::<u32>().is_ok())
        .collect()
}

/// Three agents that agree on their members, and an interval of 10 s in which agent 1 reads what agent 0 wrote.
fn watched(fixture: &Fixture) -> Watch {
    fixture.up(3, &["--membership", "embedded"]);
    let begun = Instant::now();
    let mut watch = Watch::default();
    watch.take(look(fixture, begun));
    sh(&fixture.mount(0), "head -c 4194304 /dev/urandom > file");
    sh(&fixture.mount(1), "cat file > /dev/null");
    watch.take(look(fixture, begun + Duration::from_secs(10)));
    watch
}

#[test]
fn pages_fit_terminals_of_all_sizes() {
    if skipped("pages_fit_terminals_of_all_sizes", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let watch = watched(&fixture);
    for size in SIZES {
        let mut ui = Ui::default();
        let agents = page(size, &watch, &ui);
        assert_eq!(order(&agents), ["0", "1", "2"], "{agents:#?}");
        press(&mut ui, &watch, KeyCode::Tab);
        let sources = page(size, &watch, &ui);
        assert!(sources[1].contains("own pool/s"), "{sources:#?}");
        press(&mut ui, &watch, KeyCode::Tab);
        let alarms = page(size, &watch, &ui).join("\n");
        assert!(alarms.contains("nothing needs care"), "{alarms}");
        assert!(alarms.contains("of agents 0, 1, 2"), "{alarms}");
        press(&mut ui, &watch, KeyCode::Char('?'));
        let help = page(size, &watch, &ui).join("\n");
        assert!(help.contains("q, Ctrl-C"), "{help}");
        press(&mut ui, &watch, KeyCode::Char('x'));
        press(&mut ui, &watch, KeyCode::Tab);
        assert_eq!(page(size, &watch, &ui), agents);
    }
    let lines = page((80, 24), &watch, &Ui::default());
    let head = "agent  reads/s writes/s bytes/s   pool  dirty evict/s msgs/s   open  peers";
    assert!(lines.iter().any(|line| line == head), "{lines:#?}");
    assert!(lines[0].contains("view 1, 3 members"), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.ends_with(" 2/2")),
        "{lines:#?}"
    );
    for (width, height) in [(1, 1), (5, 3), (40, 2), (20, 60)] {
        page((width, height), &watch, &Ui::default());
    }
    fixture.down();
}

#[test]
fn agents_are_in_the_order_of_any_column() {
    if skipped("agents_are_in_the_order_of_any_column", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let watch = watched(&fixture);
    let mut ui = Ui::default();
    press(&mut ui, &watch, KeyCode::Char('s'));
    let by_reads = page((80, 24), &watch, &ui);
    assert_eq!(order(&by_reads)[0], "1", "{by_reads:#?}");
    press(&mut ui, &watch, KeyCode::Char('s'));
    let by_writes = page((80, 24), &watch, &ui);
    assert_eq!(order(&by_writes)[0], "0", "{by_writes:#?}");
    // The agent that is chosen stays so when rows move.
    press(&mut ui, &watch, KeyCode::Char('j'));
    let chosen = |lines: &[String]| lines[lines.len() - 3].clone();
    let before = chosen(&page((80, 24), &watch, &ui));
    assert!(before.starts_with("agent 1, pid "), "{before}");
    for _ in 2..hearth_top::Column::ALL.len() {
        press(&mut ui, &watch, KeyCode::Char('s'));
        assert_eq!(chosen(&page((80, 24), &watch, &ui)), before);
    }
    assert_eq!(ui.sort, hearth_top::Column::Agent);
    fixture.down();
}

#[test]
fn an_agent_that_dies_is_shown_as_gone() {
    if skipped("an_agent_that_dies_is_shown_as_gone", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &[]);
    let begun = Instant::now();
    let mut watch = Watch::default();
    watch.take(look(&fixture, begun));
    kill(&fixture.agents()[..1]);
    until("the loss is told", fixture::LIMIT, || {
        fixture.status_words().contains("agent 0 is gone: ")
    });
    watch.take(look(&fixture, begun + Duration::from_secs(1)));
    let mut ui = Ui::default();
    let agents = page((80, 24), &watch, &ui);
    let row = agents.iter().find(|line| line.starts_with("0 "));
    let row = row.expect("it is still there");
    assert!(
        row.split_whitespace().skip(1).all(|cell| cell == "-"),
        "{row}"
    );
    assert!(agents[0].contains("alarms: 2"), "{agents:#?}");
    ui.page = hearth_top::Page::Alarms;
    let alarms = page((80, 24), &watch, &ui);
    assert_eq!(alarms[1], "agent 0: gone", "{alarms:#?}");
    assert!(
        alarms[2].starts_with("agent 1: agent 0 is gone: "),
        "{alarms:#?}"
    );
    let output = fixture.run(&["down"]);
    assert!(output.status.code() < Some(2), "{output:?}");
    watch.take(Glance {
        at: begun + Duration::from_secs(2),
        agents: Vec::new(),
    });
    assert!(page((80, 24), &watch, &ui)[2].ends_with("agent 1: gone"));
    fixture.assert_clean();
}

#[test]
fn a_pipe_gets_one_table() {
    if skipped("a_pipe_gets_one_table", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let output = fixture.run(&["top"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no agents are up"));
    fixture.up(2, &[]);
    for words in [&["top"][..], &["top", "--once"]] {
        let output = fixture.run(words);
        well(&output);
        let table = text(&output.stdout);
        let lines: Vec<String> = table.lines().map(str::to_owned).collect();
        assert_eq!(order(&lines), ["0", "1"], "{table}");
        assert!(table.contains("own pool"), "{table}");
        assert!(!table.contains('\u{1b}'), "{table}");
    }
    kill(&fixture.agents()[1..]);
    let output = fixture.run(&["top", "--once"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.contains("warning: agent 1: gone\n"), "{told}");
    let output = fixture.run(&["down"]);
    assert!(output.status.code() < Some(2), "{output:?}");
    fixture.assert_clean();
}

/// A program with a terminal of its own.
struct Seat {
    child: Child,
    keyboard: File,
    seen: Arc<Mutex<Vec<u8>>>,
    terminal: OwnedFd,
    size: Winsize,
    before: Termios,
}

impl Seat {
    fn take(command: &Command, (columns, rows): (u16, u16)) -> Seat {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keyboard = openpt(flags).expect("a terminal");
        grantpt(&keyboard)
            .and_then(|()| unlockpt(&keyboard))
            .expect("ours");
        let name = ptsname(&keyboard, Vec::new()).expect("it has a name");
        let open = || {
            let path = name.to_str().expect("a plain path");
            let options = File::options().read(true).write(true).clone();
            OwnedFd::from(options.open(path).expect("it is there"))
        };
        let terminal = open();
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).expect("ours");
        let before = tcgetattr(&terminal).expect("ours");
        // So a change of its size and its end reach the program.
        let mut seated = Command::new("setsid");
        seated.args(["--ctty", "--wait"]);
        seated.arg(command.get_program()).args(command.get_args());
        let set = command.get_envs();
        seated.envs(set.filter_map(|(name, value)| Some((name, value?))));
        seated.env("TERM", "xterm-256color");
        seated.stdin(open()).stdout(open()).stderr(open());
        let child = seated.spawn().expect("setsid is there");
        let keyboard = File::from(keyboard);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut output, sink) = (keyboard.try_clone().expect("ours"), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                sink.lock()
                    .expect("ours")
                    .extend_from_slice(&bytes[..count]);
            }
        });
        Seat {
            child,
            keyboard,
            seen,
            terminal,
            size,
            before,
        }
    }

    fn seen(&self) -> String {
        text(&self.seen.lock().expect("ours"))
    }

    /// Presses a key.
    fn press(&mut self, key: &str) {
        self.seen.lock().expect("ours").clear();
        self.keyboard.write_all(key.as_bytes()).expect("ours");
    }

    /// Waits until a word is shown. Only what changes is drawn, and so parts of a word; a new size has all drawn.
    fn await_word(&self, word: &str) {
        let mut columns = self.size.ws_col;
        until(&format!("`{word}` is shown"), fixture::LIMIT, || {
            columns ^= 1;
            let size = Winsize {
                ws_col: columns,
                ..self.size
            };
            tcsetwinsize(&self.terminal, size).expect("ours");
            self.seen().contains(word)
        });
    }

    /// The program itself: the child of `setsid`.
    fn program(&self) -> u32 {
        let own = self.child.id();
        let list = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let list = list.expect("it lives");
        let first = list.split_whitespace().next();
        first.map_or(own, |pid| pid.parse().expect("a number"))
    }

    /// Waits for the end, and checks that the terminal is as it was.
    fn end(mut self) -> (ExitStatus, String) {
        let ended = wait_within(&mut self.child, fixture::LIMIT).expect("it ends");
        // Out of the screen of its own, and a cursor.
        for sequence in ["\u{1b}[?1049l", "\u{1b}[?25h"] {
            until("the terminal is left", fixture::LIMIT, || {
                self.seen().contains(sequence)
            });
        }
        let after = tcgetattr(&self.terminal).expect("ours");
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        (ended, self.seen())
    }
}

#[test]
fn keys_lead_through_pages_and_q_gives_the_terminal_back() {
    let test = "keys_lead_through_pages_and_q_gives_the_terminal_back";
    if skipped(test, &["setsid"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &[]);
    let mut seat = Seat::take(&fixture.hearth(&["top"]), (80, 24));
    seat.await_word("reads/s");
    for (key, word) in [
        ("\t", "pool/s"),
        ("\t", "nothing"),
        ("?", "Shift-Tab,"),
        ("?", "nothing"),
        ("\t", "writes/s"),
    ] {
        seat.press(key);
        seat.await_word(word);
    }
    kill(&fixture.agents()[..1]);
    seat.await_word("gone");
    seat.press("q");
    let (ended, _) = seat.end();
    assert_eq!(ended.code(), Some(0));
    let output = fixture.run(&["down"]);
    assert!(output.status.code() < Some(2), "{output:?}");
    fixture.assert_clean();
}

#[test]
fn signals_and_a_set_that_ends_leave_the_terminal_as_it_was() {
    let test = "signals_and_a_set_that_ends_leave_the_terminal_as_it_was";
    if skipped(test, &["setsid"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &[]);
    for (sent, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let seat = Seat::take(&fixture.hearth(&["top"]), (40, 10));
        seat.await_word("reads/s");
        signal(seat.program(), sent);
        let (ended, _) = seat.end();
        assert_eq!(ended.code(), Some(code), "{sent:?}");
    }
    let mut seat = Seat::take(&fixture.hearth(&["top"]), (80, 24));
    seat.await_word("reads/s");
    well(&fixture.run(&["down"]));
    seat.await_word("gone");
    // Ctrl-C is a key while every key is read.
    seat.press("\u{3}");
    let (ended, _) = seat.end();
    assert_eq!(ended.code(), Some(0));
    fixture.assert_clean();
}

/// The same test, started once more as the program of a terminal, in which it panics.
#[test]
fn a_panic_gives_the_terminal_back_and_is_told_there() {
    let test = "a_panic_gives_the_terminal_back_and_is_told_there";
    let inside = "HEARTH_TOP_PANICS";
    if std::env::var_os(inside).is_some() {
        let _screen = hearth_top::Screen::open().expect("a terminal");
        let other = std::thread::spawn(|| panic!("it was to panic"));
        let _ = other.join();
        unreachable!("a panic of any thread ends the program");
    }
    if skipped(test, &["setsid"]) {
        return;
    }
    let mut again = Command::new(std::env::current_exe().expect("it runs"));
    again
        .args(["--exact", test, "--nocapture"])
        .env(inside, "1");
    let seat = Seat::take(&again, (80, 24));
    let (ended, seen) = seat.end();
    assert_eq!(ended.code(), Some(101));
    let (_, after) = seen.rsplit_once("\u{1b}[?1049l").expect("it was left");
    assert!(after.contains("it was to panic"), "{after}");
}
