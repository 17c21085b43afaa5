//! `hearth run`: the command sees the store through Hearth at the store's own path, and nobody else does. In everything
//! else it is as if it ran alone (S14, S17).

#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use fixture::{
    Fixture, LIMIT, finish, lacks_library, signal, skip, skipped, text, that_hears_interrupts,
    until, wait_within, well,
};
use hearth_trace::file::Reader;
use hearth_trace::{Event, Flags, Layer, Source, StreamId};
use rustix::process::Signal;

/// The file system type that a directory is of, as the process sees it.
const TYPE_HERE: &str = "stat -f -c %T . ; findmnt -n -o FSTYPE -T .";

/// Ids of `nobody`.
const NOBODY: u32 = 65534;

#[test]
fn a_run_is_counted_once() {
    if skipped("a_run_is_counted_once", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let mut command = fixture.run_in_store(&["sh", "-c", "\"$0\" status"]);
    let output = finish(command.arg(fixture::program()));
    well(&output);
    let words = text(&output.stdout);
    assert!(words.contains(" 1 x hearth run\n"), "{words}");
}

#[test]
fn the_store_is_served_inside_and_untouched_outside() {
    if skipped(
        "the_store_is_served_inside_and_untouched_outside",
        &["findmnt"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    let store = fixture.store();
    fs::write(store.join("in"), "word\n").expect("the store takes it");
    let script = format!("{TYPE_HERE}; cat in; tr a-z A-Z < in > out; : > ready; cat");
    let mut command = fixture.run_in_store(&["sh", "-c", &script]);
    command.current_dir(&store).stdin(Stdio::piped());
    command.stdout(Stdio::piped());
    let mut child = command.spawn().expect("hearth is there");
    until("the command is inside", LIMIT, || {
        store.join("ready").exists()
    });
    let outside = fs::read_to_string("/proc/self/mountinfo").expect("/proc is there");
    assert!(
        !outside.contains(store.to_str().expect("we named it")),
        "{outside}"
    );
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"went\n").expect("it is read");
    drop(stdin);
    let output = child.wait_with_output().expect("our own child");
    assert!(output.status.success(), "{}", output.status);
    let told = text(&output.stdout);
    assert!(told.starts_with("fuseblk\nfuse.hearth\nword\n"), "{told}");
    assert!(told.ends_with("went\n"), "{told}");
    assert_eq!(
        fs::read_to_string(store.join("out")).expect("it is there"),
        "WORD\n"
    );
    fixture.assert_clean();
}

#[test]
fn a_cached_file_says_that_a_page_is_a_good_size_of_a_request() {
    let name = "a_cached_file_says_that_a_page_is_a_good_size_of_a_request";
    if skipped(name, &[]) {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.store().join("in"), "word").expect("the store takes it");
    let mut command = fixture.run_in_store(&["stat", "-c", "%o", "in"]);
    let output = finish(command.current_dir(fixture.store()));
    assert_eq!(text(&output.stdout), "262144\n");
}

/// Microseconds that the modelled store takes for a request.
const SERVICE_US: u64 = 40_000;

#[test]
fn a_slow_read_says_where_its_time_went() {
    let name = "a_slow_read_says_where_its_time_went";
    if skipped(name, &["dd"]) || lacks_library(name) {
        return;
    }
    let fixture = Fixture::new();
    let store = fixture.store();
    fs::write(store.join("in"), vec![7; 32 << 20]).expect("the store takes it");
    let trace = fixture.path("job.htrace");
    // Far enough apart that none is read ahead of another.
    let script = "for at in 0 40 80 120; do dd if=in of=/dev/null bs=256k skip=$at count=1; done";
    let mut command = fixture.hearth(&["run", "--backing"]);
    command
        .arg(format!("model:service_us={SERVICE_US},bandwidth_mb=100000"))
        .arg("--trace")
        .arg(&trace)
        .arg("--store")
        .arg(&store)
        .args(["--", "sh", "-c", script])
        .current_dir(&store);
    well(&finish(&mut command));
    let slow = Joined::read(&trace);
    assert_eq!(slow.calls, 4, "each is a call of the program");
    assert!(slow.requests >= 4, "each has asked the agent");
    let report = fixture.run(&["trace", "report", "--json", trace.to_str().expect("UTF-8")]);
    well(&report);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("it is JSON");
    let rows = report["waterfall"].as_array().expect("agents were traced");
    let is_it = |row: &&serde_json::Value| row["outcome"] == "store" && row["what"] == "read";
    let row = rows.iter().find(is_it).expect("the store has served reads");
    let part = |name: &str| {
        let parts = row["parts"].as_array().expect("a request has parts");
        let part = parts.iter().find(|part| part["name"] == name);
        part.expect(name)["seconds"].as_f64().expect("a number")
    };
    assert!(part("store") >= SERVICE_US as f64 / 1e6, "{row}");
    assert!(
        part("way in") > 0.0,
        "the program's call is part of it: {row}"
    );
    assert_eq!((part("network"), part("peer")), (0.0, 0.0), "{row}");
    fixture.assert_clean();
}

/// Reads of a program that its agent had to ask the store for.
struct Joined {
    /// Calls of the program, each with requests to the agent inside.
    calls: usize,
    /// These requests, each with an operation of the store under its number.
    requests: usize,
}

impl Joined {
    fn read(trace: &Path) -> Joined {
        let mut reader = Reader::open(&[trace]).expect("the trace is there");
        let tables = reader.tables().clone();
        let mut events = Vec::new();
        let take = &mut |stream: StreamId, run: &[Event]| {
            let tid = tables.streams[stream.0 as usize].tid;
            events.extend(run.iter().map(|event| (tid, *event)));
        };
        reader.each_run(take).expect("the trace is whole");
        let is_in = |event: &Event| {
            event
                .file
                .is_some_and(|it| tables.path(it).ends_with("/in"))
        };
        let of = |layer: Layer| {
            let events = events.iter().filter(move |(_, event)| event.layer == layer);
            events.filter(|(_, event)| event.op.is_read() && is_in(event))
        };
        let mut joined = Joined {
            calls: 0,
            requests: 0,
        };
        for (tid, call) in of(Layer::App) {
            let made = of(Layer::Cache).filter(|(_, request)| {
                request.caller == *tid
                    && request.flags.has(Flags::MISS)
                    && request.start >= call.start
                    && request.end() <= call.end()
            });
            let served = made.filter(|(_, request)| {
                let mut stored = of(Layer::Store).filter(|(_, it)| it.request == request.request);
                stored.any(|(_, it)| it.took >= SERVICE_US * 1000 && it.took <= call.took)
            });
            let served = served.count();
            joined.requests += served;
            joined.calls += usize::from(served > 0);
        }
        joined
    }
}

#[test]
fn exit_codes_and_signals_pass_through() {
    if skipped("exit_codes_and_signals_pass_through", &[]) {
        return;
    }
    let fixture = Fixture::new();
    // One set for all of them; it stays up in between.
    well(&finish(
        fixture.hearth(&["up", "--store"]).arg(fixture.store()),
    ));
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let output = finish(&mut fixture.run_in_store(&["sh", "-c", script]));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{script}: {}",
            text(&output.stderr)
        );
    }
    let output = finish(&mut fixture.run_in_store(&["no-such-program"]));
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("no-such-program"));
    for (sent, trap) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::ALARM, "ALRM"),
    ] {
        let ready = fixture.store().join(trap);
        let script = format!("trap 'exit 33' {trap}; : > {trap}; while :; do sleep 0.05; done");
        let mut command = that_hears_interrupts(&fixture.run_in_store(&["sh", "-c", &script]));
        command.current_dir(fixture.store());
        let mut child = command.spawn().expect("hearth is there");
        until("the command is inside", LIMIT, || ready.exists());
        signal(child.id(), sent);
        let status = wait_within(&mut child, LIMIT).expect("it ends");
        assert_eq!(status.code(), Some(33), "{trap}");
    }
    fixture.down();
}

#[test]
fn a_report_that_nobody_can_read_changes_no_exit_code() {
    if skipped("a_report_that_nobody_can_read_changes_no_exit_code", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let mut command = fixture.hearth(&["run", "--report", "--store"]);
    command
        .arg(fixture.store())
        .args(["--", "sh", "-c", "exit 3"]);
    let full = fs::File::options().write(true).open("/dev/full");
    command.stderr(full.expect("each system has it"));
    let mut child = command.spawn().expect("hearth is there");
    let status = wait_within(&mut child, LIMIT).expect("it ends");
    assert_eq!(status.code(), Some(3));
    fixture.assert_clean();
}

#[test]
fn pipes_stdin_and_the_directory_work() {
    if skipped("pipes_stdin_and_the_directory_work", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let deep = fixture.store().join("deep/er");
    fs::create_dir_all(&deep).expect("the store takes it");
    let script = "pwd; tee kept | sort -r | head -n 2; echo complaint >&2";
    let mut command = fixture.run_in_store(&["sh", "-c", script]);
    command.current_dir(&deep).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("hearth is there");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"1\n3\n2\n").expect("it is read");
    drop(stdin);
    let output = child.wait_with_output().expect("our own child");
    well(&output);
    assert_eq!(text(&output.stdout), format!("{}\n3\n2\n", deep.display()));
    assert_eq!(text(&output.stderr), "complaint\n");
    assert_eq!(
        fs::read(deep.join("kept")).expect("it is there"),
        b"1\n3\n2\n"
    );
    fixture.assert_clean();
}

#[test]
fn commands_with_agents_of_their_own_share_files() {
    if skipped("commands_with_agents_of_their_own_share_files", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let up = ["up", "--agents", "3", "--store"];
    well(&finish(fixture.hearth(&up).arg(fixture.store())));
    let of_rank = |rank: u32, script: &str| {
        let mut command = fixture.run_in_store(&["sh", "-euc", script]);
        command.env("PMI_RANK", rank.to_string());
        let output = finish(command.current_dir(fixture.store()));
        well(&output);
        text(&output.stdout)
    };
    for round in 0..6 {
        let (writer, reader) = (round % 3, (round + 1) % 3);
        of_rank(writer, &format!("seq {round} 20000 > f"));
        let sum = of_rank(reader, "md5sum < f");
        let stored = finish(
            Command::new("sh")
                .args(["-c", "md5sum < f"])
                .current_dir(fixture.store()),
        );
        assert_eq!(sum, text(&stored.stdout), "round {round}");
    }
    fixture.down();
}

/// Asks for the attributes of a file until the answers are kept ones. Then it says the file's size and mode, by path
/// and by descriptor, for each line that it gets.
const ASKING: &str = "import os, sys\n\
    path = os.path.abspath('f'); f = os.open(path, os.O_RDONLY); os.read(f, 1)\n\
    def look(): return [os.stat(path), os.fstat(f)]\n\
    for line in sys.stdin:\n\
    \x20 try: seen = look()\n\
    \x20 except FileNotFoundError: seen = [os.fstat(f)]\n\
    \x20 print(*['%d:%o:%d' % (s.st_size, s.st_mode & 0o777, s.st_nlink) for s in seen], flush=True)\n\
    \x20 for again in range(300):\n\
    \x20   try: look()\n\
    \x20   except FileNotFoundError: pass\n";

/// A program that keeps what it was told of a file, and changes by others.
fn asking(fixture: &Fixture, agents: &str, changes: &[(&str, &str)]) -> String {
    fs::write(fixture.store().join("f"), [b'x'; 1000]).expect("the store takes it");
    let up = ["up", "--agents", agents, "--store"];
    well(&finish(fixture.hearth(&up).arg(fixture.store())));
    let mut command = fixture.hearth(&["run", "--report", "--store"]);
    command.arg(fixture.store());
    command.args(["--", "python3", "-c", ASKING]);
    command.env("PMI_RANK", "0").current_dir(fixture.store());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("hearth is there");
    let mut asked = child.stdin.take().expect("a pipe");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let other = if agents == "1" { "0" } else { "1" };
    for (script, want) in changes {
        let mut command = fixture.run_in_store(&["sh", "-euc", script]);
        command.env("PMI_RANK", other);
        well(&finish(command.current_dir(fixture.store())));
        writeln!(asked).expect("it is read");
        let line = said.next().expect("an answer").expect("words");
        assert_eq!(&line, want, "after `{script}` with {agents} agents");
    }
    drop(asked);
    let output = child.wait_with_output().expect("our own child");
    well(&output);
    fixture.down();
    text(&output.stderr)
}

/// S7, S8, S23.
#[test]
fn what_a_program_is_told_again_is_what_the_mount_says() {
    if skipped(
        "what_a_program_is_told_again_is_what_the_mount_says",
        &["python3"],
    ) {
        return;
    }
    let changes = [
        ("true", "1000:644:1 1000:644:1"),
        ("printf yy >> f", "1002:644:1 1002:644:1"),
        ("truncate -s 10 f", "10:644:1 10:644:1"),
        ("chmod 640 f", "10:640:1 10:640:1"),
        ("ln f g", "10:640:2 10:640:2"),
        ("mv g h", "10:640:2 10:640:2"),
        ("rm h", "10:640:1 10:640:1"),
        (
            "dd if=/dev/zero of=f bs=1 seek=99 count=1 conv=notrunc status=none",
            "100:640:1 100:640:1",
        ),
        ("mv f elsewhere", "100:640:1"),
        ("umask 022; printf new > f", "3:644:1 100:640:1"),
        (
            "rm f; mkdir d; mv elsewhere d/f; ln d/f f",
            "100:640:2 100:640:2",
        ),
    ];
    let report = asking(&Fixture::new(), "1", &changes);
    assert!(
        report.contains("`stat` was answered again in this node's memory"),
        "{report}"
    );
    // On another node names are not kept, and what is kept of a file is called back.
    asking(&Fixture::new(), "2", &changes[..3]);
}

#[test]
fn an_ordinary_user_runs_commands_too() {
    let test = "an_ordinary_user_runs_commands_too";
    if skipped(test, &["runuser", "unshare"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.let_others_in();
    let store = fixture.store();
    let control = own_control(&fixture, "theirs");
    for place in [&store, &control] {
        chown(place, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let script = "id -u; stat -f -c %T .; echo mine > f; cat f; exit 5";
    let output = as_nobody(&fixture, &control, script);
    if !can_be_tried(test, &output) {
        return;
    }
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "65534\nfuseblk\nmine\n",
        "{}",
        text(&output.stderr)
    );
    let stored = fs::metadata(store.join("f")).expect("it is there");
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&stored), NOBODY);
    fixture.assert_clean();
}

#[test]
fn what_an_agent_keeps_is_not_shown_to_who_may_not_read_it() {
    let test = "what_an_agent_keeps_is_not_shown_to_who_may_not_read_it";
    if skipped(test, &["runuser"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.let_others_in();
    fixture.up(2, &["--allow-other"]);
    for agent in 0..2 {
        fs::set_permissions(fixture.mount(agent), Permissions::from_mode(0o755)).expect("our own");
    }
    let secret = fixture.mount(0).join("secret");
    fs::write(&secret, "for root alone").expect("the mount takes it");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("our own file");
    fs::write(fixture.mount(0).join("open"), "for all").expect("the mount takes it");
    for agent in [0, 1] {
        let secret = fixture.mount(agent).join("secret");
        assert_eq!(
            fs::read_to_string(&secret).expect("root may"),
            "for root alone"
        );
        for attempt in ["cat", "cp -t /tmp/nowhere", "truncate -s 0", "rm -f"] {
            let output = nobody_does(&format!("{attempt} {}", secret.display()));
            assert!(!output.status.success(), "{attempt}");
            assert_eq!(text(&output.stdout), "", "{attempt}");
        }
        let open = fixture.mount(agent).join("open");
        let output = nobody_does(&format!("cat {}", open.display()));
        assert_eq!(text(&output.stdout), "for all", "{}", text(&output.stderr));
        let output = nobody_does(&format!("echo x >> {}", open.display()));
        assert!(!output.status.success());
    }
    assert_eq!(
        fs::read_to_string(&secret).expect("root may"),
        "for root alone"
    );
    fixture.down();
}

#[test]
fn a_users_own_agent_shows_only_what_the_user_may_read() {
    let test = "a_users_own_agent_shows_only_what_the_user_may_read";
    if skipped(test, &["runuser", "unshare"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.let_others_in();
    let secret = fixture.store().join("secret");
    fs::write(&secret, "for root alone").expect("the store takes it");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("our own file");
    fixture.up(1, &[]);
    // Root's agent has it now.
    let seen = fs::read_to_string(fixture.mount(0).join("secret")).expect("root may");
    assert_eq!(seen, "for root alone");
    let control = own_control(&fixture, "theirs");
    chown(&control, Some(NOBODY), Some(NOBODY)).expect("root may");
    let output = as_nobody(&fixture, &control, "cat secret; echo more >> secret; ls");
    if !can_be_tried(test, &output) {
        return;
    }
    assert_eq!(text(&output.stdout), "secret\n", "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("Permission denied"),
        "{}",
        text(&output.stderr)
    );
    fixture.down();
    assert_eq!(
        fs::read_to_string(&secret).expect("root may"),
        "for root alone"
    );
}

fn own_control(fixture: &Fixture, name: &str) -> std::path::PathBuf {
    let control = fixture.dir(name);
    fs::set_permissions(&control, Permissions::from_mode(0o700)).expect("our own directory");
    control
}

/// `hearth run` by an ordinary user, with a device that everybody may open; only the user's
/// processes see it.
fn as_nobody(fixture: &Fixture, control: &Path, script: &str) -> Output {
    const WITH_DEVICE: &str = "set -e; mknod -m 666 \"$1/fuse\" c 10 229; \
        mount --bind \"$1/fuse\" /dev/fuse; cp \"$2\" \"$1/hearth\"; chmod 755 \"$1/hearth\"; \
        cd \"$3\"; exec runuser -u nobody -- env HEARTH_DIR=\"$4\" XDG_RUNTIME_DIR= \
        \"$1/hearth\" run --store . -- sh -c \"$5\"";
    let tools = fixture.dir("tools");
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", WITH_DEVICE, "sh"])
        .arg(tools);
    command
        .arg(fixture::program())
        .arg(fixture.store())
        .arg(control)
        .arg(script);
    finish(command.stdin(Stdio::null()))
}

/// Whether the machine lets ordinary users have what the test needs; says why not.
fn can_be_tried(test: &str, output: &Output) -> bool {
    let words = text(&output.stderr);
    let obstacle = ["cannot make a namespace", "mknod", "mount:", "unshare"];
    let found = obstacle.iter().any(|obstacle| words.contains(obstacle));
    if found {
        skip(test, &words.replace('\n', "; "));
    }
    !found
}

fn nobody_does(script: &str) -> Output {
    let mut command = Command::new("runuser");
    command.args(["-u", "nobody", "--", "sh", "-c", script]);
    finish(command.current_dir("/").stdin(Stdio::null()))
}
