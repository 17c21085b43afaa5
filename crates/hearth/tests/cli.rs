//! The command as people meet it: help, bad input, and sets of agents from their start to their end.
//!
//! Every test has a control directory and stores of its own, and leaves nothing behind.

#[path = "support/addresses.rs"]
mod addresses;
#[path = "support/desk.rs"]
mod desk;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use desk::{Desk, code, err, out};
use rustix::process::Signal;

/// Lines and columns of a small terminal.
const SCREEN: (usize, usize) = (24, 100);

const COMMANDS: [&str; 9] = [
    "run", "up", "down", "status", "top", "mount", "umount", "flush", "doctor",
];

#[test]
fn short_help_fits_a_screen() {
    let desk = Desk::new();
    for args in [vec!["-h"]]
        .into_iter()
        .chain(COMMANDS.map(|name| vec![name, "-h"]))
    {
        let output = desk.run(&args);
        assert_eq!(code(&output), 0);
        let text = out(&output);
        assert!(text.lines().count() <= SCREEN.0, "{args:?}:\n{text}");
        assert!(
            text.lines().all(|line| line.len() <= SCREEN.1),
            "{args:?}:\n{text}"
        );
        assert!(!text.contains("enter"), "hidden commands stay hidden");
    }
}

#[test]
fn long_help_has_examples() {
    let desk = Desk::new();
    for name in [
        "run", "up", "down", "status", "top", "mount", "flush", "doctor",
    ] {
        let text = out(&desk.run(&[name, "--help"]));
        assert!(text.contains("Examples:"), "{name}");
    }
    assert!(out(&desk.run(&["--help"])).contains("Exit codes"));
}

#[test]
fn commands_that_moved_say_where_they_are() {
    let desk = Desk::new();
    for (words, said) in [
        (
            &["bench", "btio", "--quick"][..],
            "hearth: `bench` is a command of hearth-lab now: type `hearth-lab bench btio --quick`\n",
        ),
        (
            &["sim"],
            "hearth: `sim` is a command of hearth-lab now: type `hearth-lab sim`\n",
        ),
        (
            &["sim", "run", "--help"],
            "hearth: `sim` is a command of hearth-lab now: type `hearth-lab sim run --help`\n",
        ),
        (
            &[
                "trace",
                "replay",
                "a.htrace",
                "--simulate",
                "--policy",
                "home",
            ],
            "hearth: `trace replay --simulate` is a command of hearth-lab now: \
             type `hearth-lab sim replay a.htrace --policy home`\n",
        ),
    ] {
        let output = desk.run(words);
        assert_eq!(code(&output), 2, "{words:?}");
        assert_eq!(
            (out(&output), err(&output)),
            (String::new(), said.to_owned())
        );
    }
}

#[test]
fn bad_input_is_refused_in_words() {
    let desk = Desk::new();
    let file = desk.path("file");
    fs::write(&file, "").unwrap();
    let (file, store, none) = (file.to_str().unwrap(), desk.store(), desk.path("none"));
    let none = none.to_str().unwrap();
    let inside = format!("{store}/inside");
    fs::create_dir(&inside).unwrap();
    for (args, words) in [
        (vec!["up", "--store", none], "there is no such directory"),
        (vec!["up", "--store", file], "it is not a directory"),
        (vec!["up", "--store", &store, "--agents", "0"], "no agents"),
        (
            vec!["up", "--store", &store, "--pool", "500TiB"],
            "this host has",
        ),
        (
            vec!["up", "--store", &store, "--pool", "1MiB"],
            "does not hold 32",
        ),
        (
            vec!["up", "--store", &store, "--page-size", "3000"],
            "no power of two",
        ),
        (
            vec!["up", "--store", &store, "--chunk", "100K"],
            "whole pages",
        ),
        (
            vec!["up", "--store", &store, "--backing", "nfs"],
            "unknown store `nfs`",
        ),
        (
            vec!["up", "--store", &store, "--pool", "4MB"],
            "use KiB, MiB, GiB",
        ),
        (
            vec!["up", "--store", &store, "--at", none],
            "there is no such directory",
        ),
        (
            vec!["up", "--store", &store, "--at", &inside],
            "it lies inside the store",
        ),
        (vec!["mount", &inside, &store], "the store lies inside it"),
        (vec!["mount", &store, file], "it is not a directory"),
        (
            vec!["run", "--store", none, "--", "true"],
            "there is no such directory",
        ),
        (vec!["run"], "required"),
        (
            vec!["up", "--store", &store, "--hosts", "a:1,b:2"],
            "required",
        ),
        (vec!["agent", "--config", file], "outside of `hearth up`"),
    ] {
        let output = desk.run(&args);
        assert_eq!(code(&output), 2, "{args:?}: {}", err(&output));
        assert!(
            err(&output).starts_with("error: "),
            "{args:?}: {}",
            err(&output)
        );
        assert!(err(&output).contains(words), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "");
    }
}

#[test]
fn nothing_up_is_answered_with_no() {
    let desk = Desk::new();
    for args in [
        &["status"][..],
        &["down"],
        &["flush"],
        &["down", "--all"],
        &["status", "--job", "none"],
        &["umount", "/nowhere"],
    ] {
        let output = desk.run(args);
        assert_eq!(code(&output), 1, "{args:?}: {}", err(&output));
        assert!(err(&output).starts_with("error: no"), "{}", err(&output));
    }
}

#[test]
fn a_control_directory_that_others_may_enter_is_refused() {
    let desk = Desk::new();
    fs::set_permissions(desk.control(), fs::Permissions::from_mode(0o755)).unwrap();
    let output = desk.run(&["up", "--store", &desk.store()]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("others may enter it"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_set_goes_up_is_asked_and_goes_down() {
    let desk = Desk::new();
    let store = desk.store();
    let output = desk.run(&["up", "--store", &store, "--agents", "3"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let job = out(&output).trim().to_owned();
    let agents = desk.agents();
    assert_eq!(agents.len(), 3);

    let output = desk.run(&["status"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(
        out(&output).contains(&job) && out(&output).contains("2 of 2"),
        "{}",
        out(&output)
    );
    let lines = out(&desk.run(&["status", "--json"]));
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["agent"], 2);
    assert_eq!(lines[2]["answers"], true);
    assert_eq!(lines[2]["node"]["node"], 2);

    let output = desk.run(&["up", "--store", &store]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("are up for"), "{}", err(&output));
    assert_eq!(code(&desk.run(&["flush", "--store", &store])), 0);

    let output = desk.run(&["down", "--job", &job]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    agents.iter().for_each(|agent| assert!(agent.is_gone()));
    assert_eq!(desk.jobs(), Vec::<String>::new());
}

#[test]
fn status_names_the_policy_as_the_option_does() {
    for policy in ["home:plus", "hint:paper"] {
        let desk = Desk::new();
        let up = desk.run(&["up", "--store", &desk.store(), "--policy", policy]);
        assert_eq!(code(&up), 0, "{}", err(&up));
        let line = out(&desk.run(&["status", "--json"]));
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["node"]["policy"], policy);
        assert_eq!(code(&desk.run(&["down"])), 0);
    }
}

#[test]
fn of_several_sets_one_has_to_be_named() {
    let desk = Desk::new();
    let (one, two) = (desk.store(), desk.another_store());
    for store in [&one, &two] {
        assert_eq!(code(&desk.run(&["up", "--store", store])), 0);
    }
    let output = desk.run(&["down"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("2 sets are up"), "{}", err(&output));
    assert_eq!(code(&desk.run(&["down", "--store", &one])), 0);
    assert_eq!(code(&desk.run(&["down"])), 0);
}

#[test]
fn dead_and_stopped_agents_are_named() {
    let desk = Desk::new();
    assert_eq!(
        code(&desk.run(&["up", "--store", &desk.store(), "--agents", "2"])),
        0
    );
    let agents = desk.agents();
    agents[1].signal(Signal::STOP);
    let output = desk.run(&["status"]);
    assert_eq!(code(&output), 1);
    let words = format!("agent 1 (pid {}) does not answer", agents[1].pid());
    assert!(err(&output).contains(&words), "{}", err(&output));

    agents[1].signal(Signal::KILL);
    agents[1].wait();
    let output = desk.run(&["status"]);
    assert_eq!(code(&output), 1);
    let words = format!("agent 1 (pid {}) is gone", agents[1].pid());
    assert!(err(&output).contains(&words), "{}", err(&output));

    let output = desk.run(&["down"]);
    assert_eq!(
        code(&output),
        0,
        "it is down, as was asked: {}",
        err(&output)
    );
    assert!(
        err(&output).contains("was gone already"),
        "{}",
        err(&output)
    );
    assert!(agents[0].is_gone());
}

#[test]
fn agents_end_when_their_directory_vanishes_or_a_signal_comes() {
    let desk = Desk::new();
    assert_eq!(
        code(&desk.run(&["up", "--store", &desk.store(), "--agents", "3"])),
        0
    );
    let agents = desk.agents();
    for (agent, signal) in agents.iter().zip([Signal::TERM, Signal::HUP]) {
        agent.signal(signal);
        agent.wait();
    }
    for job in desk.jobs() {
        let dir = desk.control().join(job);
        for agent in 0..2 {
            let log = fs::read_to_string(dir.join(format!("agent-{agent}.log"))).unwrap();
            assert!(log.contains("ending: a signal came"), "{log}");
        }
        fs::remove_dir_all(dir).unwrap();
    }
    agents[2].wait();
}

#[test]
fn the_doctor_clears_what_a_crash_left() {
    let desk = Desk::new();
    assert_eq!(code(&desk.run(&["up", "--store", &desk.store()])), 0);
    let agent = desk.agents().remove(0);
    agent.signal(Signal::KILL);
    agent.wait();
    let output = desk.run(&["doctor"]);
    assert_eq!(code(&output), 1);
    assert!(out(&output).contains("is dead"), "{}", out(&output));
    let output = desk.run(&["doctor", "--fix"]);
    assert!(out(&output).contains("cleared"), "{}", out(&output));
    assert_eq!(desk.jobs(), Vec::<String>::new());
}

#[test]
fn a_crashed_set_makes_way_for_the_next() {
    let desk = Desk::new();
    let store = desk.store();
    assert_eq!(code(&desk.run(&["up", "--store", &store])), 0);
    let agent = desk.agents().remove(0);
    agent.signal(Signal::KILL);
    agent.wait();
    let output = desk.run(&["up", "--store", &store]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(
        err(&output).contains("clearing what job"),
        "{}",
        err(&output)
    );
    assert_eq!(code(&desk.run(&["down"])), 0);
}

#[test]
fn agents_of_several_hosts_find_each_other() {
    let desk = Desk::new();
    let secret = desk.path("secret");
    fs::write(&secret, "5a".repeat(32)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let (store, secret) = (desk.store(), secret.to_str().unwrap().to_owned());
    let [a, b] = [(); 2].map(|()| addresses::own_address());
    let hosts = format!("{a},{b}");
    let args = |node| {
        let options = [
            "up",
            "--store",
            &store,
            "--hosts",
            &hosts,
            "--secret-file",
            &secret,
        ];
        let options = options.into_iter().chain(["--node", node]);
        options.map(str::to_owned).collect::<Vec<String>>()
    };
    let output = desk.run(&args("0"));
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("others may read it"),
        "{}",
        err(&output)
    );

    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let hosts = [Desk::new(), Desk::new()];
    thread::scope(|scope| {
        for (host, node) in hosts.iter().zip(["0", "1"]) {
            let args = args(node);
            scope.spawn(move || {
                let output = host.run(&args);
                assert_eq!(code(&output), 0, "{}", err(&output));
            });
        }
    });
    assert!(out(&hosts[1].run(&["status"])).contains("1 of 1"));
    let output = desk.run(&args("1"));
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains(&format!("cannot listen on {b}")),
        "{}",
        err(&output)
    );
    hosts
        .iter()
        .for_each(|host| drop(host.run(&["down", "--all"])));
}

/// S7
#[test]
fn two_mounts_of_one_store_see_each_other() {
    let desk = Desk::new();
    if !desk.can_mount("two_mounts_of_one_store_see_each_other") {
        return;
    }
    let (store, a, b) = (desk.store(), desk.dir("a"), desk.dir("b"));
    fs::write(format!("{store}/f"), "one").unwrap();
    let args = [
        "up", "--store", &store, "--agents", "2", "--at", &a, "--at", &b,
    ];
    let output = desk.run(&args);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(fs::read_to_string(format!("{b}/f")).unwrap(), "one");
    fs::write(format!("{a}/f"), "two").unwrap();
    assert_eq!(fs::read_to_string(format!("{b}/f")).unwrap(), "two");

    let output = desk.run(&["up", "--store", &a]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("Hearth already serves it"),
        "{}",
        err(&output)
    );
    let output = desk.run(&["mount", &store, &desk.dir("c")]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("serves a mount already"),
        "{}",
        err(&output)
    );

    let inside = fs::File::open(format!("{a}/f")).unwrap();
    let output = desk.run(&["down"]);
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("cannot unmount"), "{}", err(&output));
    drop(inside);
    let output = desk.run(&["down"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(fs::read_to_string(format!("{store}/f")).unwrap(), "two");
    assert!(!Path::new(&format!("{a}/f")).exists());
}

#[test]
fn mount_starts_an_agent_and_umount_leaves_it() {
    let desk = Desk::new();
    if !desk.can_mount("mount_starts_an_agent_and_umount_leaves_it") {
        return;
    }
    let (store, a) = (desk.store(), desk.dir("a"));
    let output = desk.run(&["mount", &store, &a]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    fs::write(format!("{a}/f"), "one").unwrap();
    assert_eq!(code(&desk.run(&["umount", &a])), 0);
    assert!(!Path::new(&format!("{a}/f")).exists());
    assert_eq!(code(&desk.run(&["mount", &store, &a])), 0);
    assert_eq!(fs::read_to_string(format!("{a}/f")).unwrap(), "one");
    assert_eq!(code(&desk.run(&["down", "--store", &store])), 0);
}

#[test]
fn a_mount_of_a_dead_agent_is_cleared() {
    let desk = Desk::new();
    if !desk.can_mount("a_mount_of_a_dead_agent_is_cleared") {
        return;
    }
    let (store, a) = (desk.store(), desk.dir("a"));
    assert_eq!(code(&desk.run(&["mount", &store, &a])), 0);
    let agent = desk.agents().remove(0);
    agent.signal(Signal::KILL);
    agent.wait();
    let output = desk.run(&["mount", &desk.another_store(), &a]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("hint: hearth doctor --fix"),
        "{}",
        err(&output)
    );
    assert_eq!(code(&desk.run(&["down"])), 0);
    assert!(fs::read_dir(&a).unwrap().next().is_none());
}

#[test]
fn a_command_runs_over_its_store_and_leaves_nothing() {
    let desk = Desk::new();
    if !desk.can_mount("a_command_runs_over_its_store_and_leaves_nothing") {
        return;
    }
    let store = desk.store();
    fs::write(format!("{store}/f"), "one\n").unwrap();
    let script = "grep -q 'fuse.hearth' /proc/self/mountinfo && cat f && echo two > g";
    let output = desk.run_in(&store, &["run", "--report", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(out(&output), "one\n");
    assert!(err(&output).contains("the store gave"), "{}", err(&output));
    assert_eq!(fs::read_to_string(format!("{store}/g")).unwrap(), "two\n");
    assert_eq!(desk.jobs(), Vec::<String>::new());
}

#[test]
fn run_ends_as_its_command_does() {
    let desk = Desk::new();
    if !desk.can_mount("run_ends_as_its_command_does") {
        return;
    }
    let store = desk.store();
    for (command, expected) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["no-such-program"], 127),
        (&["/dev/null"], 126),
    ] {
        let args = [&["run", "--store", &store, "--"], command].concat();
        let output = desk.run(&args);
        assert_eq!(code(&output), expected, "{command:?}: {}", err(&output));
    }
}

#[test]
fn run_hands_signals_on() {
    let desk = Desk::new();
    if !desk.can_mount("run_hands_signals_on") {
        return;
    }
    let script = "trap 'echo told; exit 3' TERM; echo ready; read line";
    let mut run = desk.spawn(&["run", "--store", &desk.store(), "--", "bash", "-c", script]);
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    desk::signal(run.id(), Signal::TERM);
    assert_eq!(lines.next().unwrap().unwrap(), "told");
    assert_eq!(run.wait().unwrap().code(), Some(3));
    assert_eq!(desk.jobs(), Vec::<String>::new());
}

#[test]
fn a_killed_run_leaves_no_agent() {
    let desk = Desk::new();
    if !desk.can_mount("a_killed_run_leaves_no_agent") {
        return;
    }
    let mut run = desk.spawn(&[
        "run",
        "--store",
        &desk.store(),
        "--",
        "sh",
        "-c",
        "echo up; read x",
    ]);
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    let agents = desk.agents();
    run.kill().unwrap();
    run.wait().unwrap();
    agents.iter().for_each(desk::Agent::wait);
    assert_eq!(code(&desk.run(&["down"])), 0);
}

#[test]
fn commands_that_run_together_share_one_set() {
    let desk = Desk::new();
    if !desk.can_mount("commands_that_run_together_share_one_set") {
        return;
    }
    let store = desk.store();
    let mut first = desk.spawn(&[
        "run",
        "--store",
        &store,
        "--",
        "sh",
        "-c",
        &format!("echo up; read x; cat {store}/f"),
    ]);
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    let conflicting = ["run", "--store", &store, "--policy", "none", "--", "true"];
    let output = desk.run(&conflicting);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("it has policy home, not none"),
        "{}",
        err(&output)
    );
    let output = desk.run(&["down"]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("is in use by `hearth run`"),
        "{}",
        err(&output)
    );

    let output = desk.run(&[
        "run",
        "--store",
        &store,
        "--",
        "sh",
        "-c",
        &format!("echo two > {store}/f"),
    ]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(desk.agents().len(), 1);
    writeln!(first.stdin.take().unwrap(), "go on").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "two");
    assert!(first.wait().unwrap().success());
    assert_eq!(desk.jobs(), Vec::<String>::new());
}

#[test]
fn ranks_that_start_at_once_share_one_set() {
    let desk = Desk::new();
    if !desk.can_mount("ranks_that_start_at_once_share_one_set") {
        return;
    }
    let store = desk.store();
    thread::scope(|scope| {
        for rank in 0..4 {
            let (desk, store) = (&desk, &store);
            scope.spawn(move || {
                let script = format!("echo {rank} > {store}/{rank}; cat {store}/{rank}");
                let args = [
                    "run", "--store", store, "--agents", "2", "--", "sh", "-c", &script,
                ];
                let command = desk
                    .command(&args)
                    .env("PMI_RANK", rank.to_string())
                    .output();
                let output = command.unwrap();
                assert_eq!(code(&output), 0, "{}", err(&output));
                assert_eq!(out(&output), format!("{rank}\n"));
            });
        }
    });
    assert_eq!(desk.jobs(), Vec::<String>::new());
}

#[test]
fn run_at_another_place_tells_the_command_where() {
    let desk = Desk::new();
    if !desk.can_mount("run_at_another_place_tells_the_command_where") {
        return;
    }
    let (store, a) = (desk.store(), desk.dir("a"));
    fs::write(format!("{store}/f"), "one\n").unwrap();
    let args = [
        "run",
        "--store",
        &store,
        "--at",
        &a,
        "--",
        "sh",
        "-c",
        "cat $HEARTH_AT/f",
    ];
    let output = desk.run(&args);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(out(&output), "one\n");
    assert!(fs::read_dir(&a).unwrap().next().is_none());
}

#[test]
fn what_the_store_refuses_is_told() {
    let desk = Desk::new();
    if !desk.can_mount("what_the_store_refuses_is_told") {
        return;
    }
    let (store, a) = (desk.store(), desk.dir("a"));
    let options = ["--backing", "fault:write:eio@1-", "--close", "buffered"];
    let args = [&["up", "--store", &store, "--at", &a][..], &options].concat();
    let output = desk.run(&args);
    assert_eq!(code(&output), 0, "{}", err(&output));
    fs::write(format!("{a}/f"), "one").unwrap();
    let output = desk.run(&["down"]);
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("is still up"), "{}", err(&output));
    let output = desk.run(&["down", "--discard"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(desk.jobs(), Vec::<String>::new());
}

#[test]
fn an_ordinary_user_runs_a_command() {
    let desk = Desk::new();
    let test = "an_ordinary_user_runs_a_command";
    if !desk.can_mount(test) {
        return;
    }
    if !rustix::process::geteuid().is_root() || !desk::has_programs(&["unshare", "runuser"]) {
        println!("skipped: {test}: needs root, unshare and runuser");
        return;
    }
    // A device for everybody, that nobody else sees.
    let script = "set -e; mount -t tmpfs -o mode=755 none \"$1\"; mknod -m 666 \"$1/fuse\" c 10 229
        mknod -m 666 \"$1/null\" c 1 3; mount --move \"$1\" /dev; chown -R nobody \"$2\"; cd \"$2\"
        exec runuser -u nobody -- env HEARTH_DIR=\"$2/control\" \"$3\" run --store \"$2/store\" -- \
            sh -c 'id -un; cat store/f; echo two > store/g; stat -c %U store/g'";
    let (dev, user) = (desk.dir("dev"), desk.open_dir("user"));
    fs::create_dir(format!("{user}/store")).unwrap();
    fs::write(format!("{user}/store/f"), "one\n").unwrap();
    let program = format!("{user}/hearth");
    fs::copy(desk::program(), &program).unwrap();
    let output = std::process::Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .args([&dev, &user, &program])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if err(&output).contains("cannot make a namespace") {
        println!("skipped: {test}: {}", err(&output));
        return;
    }
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(out(&output), "nobody\none\nnobody\n");
    assert_eq!(
        fs::read_to_string(format!("{user}/store/g")).unwrap(),
        "two\n"
    );
}

/// Two agents, and a program that reads at one what another wrote at the other.
#[test]
fn every_transport_carries_a_job() {
    let desk = Desk::new();
    if !desk.can_mount("every_transport_carries_a_job") {
        return;
    }
    let store = desk.path("carried");
    fs::create_dir(&store).unwrap();
    for name in ["tcp", "unix", "shm", "udp", "udt"] {
        let script = "head -c 3000000 /dev/urandom > bytes && cksum < bytes && cksum < bytes";
        let store = store.to_str().unwrap();
        let output = desk.run_in(
            store,
            &[
                "run",
                "--store",
                store,
                "--agents",
                "2",
                "--transport",
                name,
                "--",
                "sh",
                "-c",
                script,
            ],
        );
        assert_eq!(code(&output), 0, "{name}: {}", err(&output));
        let said = out(&output);
        let sums: Vec<_> = said.lines().collect();
        assert_eq!(sums.len(), 2, "{name}: {said}");
        assert_eq!(sums[0], sums[1], "{name}");
    }
    let output = desk.run(&[
        "up",
        "--store",
        store.to_str().unwrap(),
        "--transport",
        "pigeon",
    ]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("take tcp, unix, shm, udp or udt"),
        "{}",
        err(&output)
    );
}
