//! Agents whose hosts do not have the store. Ordinary programs work on it through the gateways of other agents, under
//! their own rights, and go on when a gateway dies.

#[path = "support/addresses.rs"]
mod addresses;
#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, LIMIT, finish, kill, sh, skipped, text, until, well};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Somebody whom this machine does not know.
const USER: &str = "54321";
const GROUP: &str = "54322";

/// Two hosts, the second of which sees an empty directory where the first has the store.
struct Hosts {
    fixture: Fixture,
    /// A process in the mounts of the second.
    second: Child,
}

impl Hosts {
    fn new() -> Hosts {
        let fixture = Fixture::new();
        fixture.let_others_in();
        let store = fixture.dir("only-here").join("store");
        fs::create_dir(&store).expect("a directory");
        fs::set_permissions(store, fs::Permissions::from_mode(0o777)).expect("our own directory");
        fixture.dir("mount0");
        fixture.dir("mount1");
        let secret = fixture.path("secret");
        fs::write(&secret, "5a".repeat(32)).expect("a file");
        fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).expect("our own file");
        let hide = format!(
            "mount -t tmpfs none {}; echo; exec sleep 1000",
            fixture.path("only-here").display()
        );
        let mut second = Command::new("unshare")
            .args(["--mount", "--propagation", "slave", "sh", "-ec", &hide])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is there");
        let mut said = [0];
        let output = second.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(output, &mut said).expect("the store is hidden");
        Hosts { fixture, second }
    }

    fn store(&self) -> PathBuf {
        self.fixture.path("only-here/store")
    }

    /// A command on the second host.
    fn there(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.second.id().to_string();
        command.args(["--mount", "--target", &pid, "--", program]);
        command.stdin(Stdio::null());
        command
    }

    /// A script in a directory there; any failure of it fails the test.
    fn sh(&self, dir: &Path, script: &str) -> String {
        let mut command = self.there("bash");
        let output = finish(
            command
                .arg("-euc")
                .arg(format!("cd {}; {script}", dir.display())),
        );
        well(&output);
        text(&output.stdout)
    }

    /// The same as somebody else; what it says, if it fails.
    fn sh_as(&self, user: &str, groups: &str, dir: &Path, script: &str) -> Result<String, String> {
        let mut command = self.there("setpriv");
        command.args(["--reuid", user, "--regid", user, "--groups", groups]);
        let script = format!("cd {}; {script}", dir.display());
        let output = finish(command.args(["--", "bash", "-euc", &script]));
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    /// An agent on each, with a mount.
    fn up(&self, options: &[&str]) {
        let [first, mut second, gateway] = [(); 3].map(|()| addresses::own_address());
        // Gateways of all hosts have the same port: the second's address is another one.
        let port = gateway.port();
        second.set_ip([127, 0, 0, 9].into());
        let mut words = vec![
            "up".to_owned(),
            "--hosts".to_owned(),
            format!("{first},{second}"),
        ];
        words.extend(["--allow-other", "--store-at"].map(str::to_owned));
        words.push(format!("0:{port}"));
        words.extend(options.iter().map(|&word| word.to_owned()));
        words.extend(
            ["--store", "--secret-file"]
                .into_iter()
                .zip([self.store(), self.fixture.path("secret")])
                .flat_map(|(word, path)| [word.to_owned(), path.display().to_string()]),
        );
        let at = |agent: usize| self.fixture.mount(agent).display().to_string();
        let host = |agent: usize| {
            let own = [
                "--node".to_owned(),
                agent.to_string(),
                "--at".to_owned(),
                at(agent),
            ];
            [words.clone(), own.to_vec()].concat()
        };
        let there = || {
            let mut command = self.there("env");
            command.arg(format!("HEARTH_DIR={}", self.control(1).display()));
            let output = finish(command.arg(fixture::program()).args(host(1)));
            well(&output);
        };
        std::thread::scope(|scope| {
            let second = scope.spawn(there);
            let words = host(0);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            well(&self.fixture.run(&words));
            second.join().expect("the second host is up");
        });
    }

    fn control(&self, host: usize) -> PathBuf {
        let control = self.fixture.path(&format!("control-{host}"));
        fs::create_dir_all(&control).expect("a directory");
        fs::set_permissions(&control, fs::Permissions::from_mode(0o700)).expect("our own");
        control
    }

    /// Ends both; nothing may be left.
    fn down(mut self) {
        std::thread::scope(|scope| {
            scope.spawn(|| well(&self.fixture.run(&["down"])));
            let mut command = self.there("env");
            command.arg(format!("HEARTH_DIR={}", self.control(1).display()));
            well(&finish(command.arg(fixture::program()).arg("down")));
        });
        self.second.kill().expect("our own process");
        self.second.wait().expect("our own process");
        self.fixture.assert_clean();
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // After a test that failed it is still there.
        let _ = self.second.kill();
        let _ = self.second.wait();
    }
}

const NEEDED: &[&str] = &["unshare", "nsenter", "setpriv", "git", "tar", "setfattr"];

/// Programs that make, move, read and remove files and directories in many ways.
const PROGRAMS: &str = "
    mkdir d; echo hello > d/f; cp -r /usr/share/common-licenses d/many; mv d/f d/g
    ln -s g d/l; ln d/g d/h; [ \"$(readlink d/l)\" = g ]; [ \"$(cat d/l)\" = hello ]
    [ \"$(stat -c %h d/g)\" = 2 ]; rm d/h; [ \"$(stat -c %h d/g)\" = 1 ]
    tar cf t.tar d; mkdir x; tar xf t.tar -C x; diff -r --no-dereference d x/d; rm -r x
    truncate -s 100000 d/g; [ \"$(stat -c %s d/g)\" = 100000 ]; chmod 640 d/g; touch -d @1000 d/g
    [ \"$(stat -c '%a %Y' d/g)\" = '640 1000' ]
    setfattr -n user.x -v y d/g; [ \"$(getfattr --only-values -n user.x d/g)\" = y ]
    flock d/g true; mkfifo d/p; rmdir d/nothing 2> /dev/null && exit 1; ! stat d/nothing 2> /dev/null
    dd if=/dev/zero of=d/z bs=64k count=20 conv=fsync status=none; [ \"$(stat -c %s d/z)\" = 1310720 ]
    (exec 5<> d/u; rm d/u; echo unnamed >&5; [ \"$(cat /proc/self/fd/5)\" = unnamed ])
    git init -q r; cd r; git config user.email a@b; git config user.name x; cp -r ../d/many .
    git add .; git commit -qm one; git mv many some; git commit -qm two; git fsck --strict 2> /dev/null
    git checkout -q HEAD~1; [ -d many ]; git checkout -q -; [ -d some ]
    df . | grep -q hearth";

fn programs_work(test: &str, options: &[&str]) {
    if skipped(test, &[NEEDED, &["memcached"]].concat()) {
        return;
    }
    let hosts = Hosts::new();
    hosts.up(options);
    let (here, there) = (hosts.fixture.mount(0), hosts.fixture.mount(1));
    assert_eq!(
        hosts.sh(
            Path::new("/"),
            &format!("ls {}", hosts.fixture.path("only-here").display())
        ),
        ""
    );
    hosts.sh(&there, PROGRAMS);
    // Bytes are in the store, and both ways see what the other does, at once.
    let all = "find . -type f -not -path './r/.git/*' | sort | xargs sha256sum";
    assert_eq!(sh(&hosts.store(), all), hosts.sh(&there, all));
    for turn in 0..5 {
        sh(&here, &format!("echo {turn} > d/here; rm -f d/there"));
        assert_eq!(
            hosts.sh(&there, "cat d/here; ls d | grep -c there || true"),
            format!("{turn}\n0\n")
        );
        hosts.sh(
            &there,
            &format!("echo {turn} >> d/there; mv d/here d/moved"),
        );
        assert_eq!(
            sh(&here, "cat d/there d/moved; ls d | grep -c here"),
            format!("{turn}\n{turn}\n1\n")
        );
    }
    // Numbers are the store's: agents know files by them.
    let number = |at: &Path| fs::metadata(at).expect("a file").ino();
    let seen = hosts.sh(&there, "stat -c %i . d d/moved");
    let seen: Vec<u64> = seen
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    let store = hosts.store();
    let known = [number(&store.join("d")), number(&store.join("d/moved"))];
    assert_eq!(seen[1..], known);
    hosts.down();
}

#[test]
fn programs_work_where_the_store_is_not_under_bank() {
    let test = "programs_work_where_the_store_is_not_under_bank";
    let port = format!(":{}", addresses::own_address().port() + 20_000);
    programs_work(test, &["--policy", "bank", "--bank", &port]);
}

#[test]
fn programs_work_where_the_store_is_not_under_home() {
    programs_work("programs_work_where_the_store_is_not_under_home", &[]);
}

#[test]
fn nobody_may_through_a_gateway_what_he_may_not_at_the_store() {
    let test = "nobody_may_through_a_gateway_what_he_may_not_at_the_store";
    if skipped(test, NEEDED) {
        return;
    }
    let hosts = Hosts::new();
    let store = hosts.store();
    sh(
        &store,
        &format!(
            "mkdir -m 700 private; echo x > private/f; echo x > f; chmod 600 f
             mkdir -m 770 group; chgrp {GROUP} group; mkdir -m 1777 sticky; echo x > sticky/root
             echo x > readable; cp /bin/true suid; chown {USER} suid; chmod 6777 suid"
        ),
    );
    hosts.up(&[]);
    let there = hosts.fixture.mount(1);
    let may = |groups: &str, script: &str| hosts.sh_as(USER, groups, &there, script);
    for (script, says) in [
        ("cat f", "Permission denied"),
        ("cat private/f", "Permission denied"),
        ("ls private", "Permission denied"),
        ("echo y > private/new", "Permission denied"),
        ("echo y > readable", "Permission denied"),
        ("truncate -s 0 readable", "Permission denied"),
        ("chmod 777 readable", "not permitted"),
        ("chown 0 suid", "not permitted"),
        ("touch -d @1 readable", "Permission denied"),
        ("rm -f sticky/root", "not permitted"),
        ("mv sticky/root sticky/mine", "not permitted"),
        ("touch group/x", "Permission denied"),
        ("setfattr -n user.x -v y readable", "Permission denied"),
    ] {
        let said = may(USER, script).expect_err(script);
        assert!(said.contains(says), "{script}: {said}");
    }
    may(
        USER,
        "echo mine > sticky/mine; cat readable; mkdir sticky/d; echo y > sticky/d/f",
    )
    .expect("this is allowed");
    may(GROUP, "echo x > group/x; rm group/x; touch group/y").expect("the group may");
    let made = fs::metadata(store.join("sticky/mine")).expect("it is there");
    assert_eq!(made.uid().to_string(), USER);
    // A write to a program takes its marks away.
    may(USER, "echo y >> suid").expect("the mode allows it");
    let mode = fs::metadata(store.join("suid"))
        .expect("it is there")
        .mode();
    assert_eq!(mode & 0o6000, 0, "{mode:o}");
    hosts.down();
}

#[test]
fn programs_go_on_through_the_next_gateway_and_fail_in_words_without_one() {
    let test = "programs_go_on_through_the_next_gateway_and_fail_in_words_without_one";
    if skipped(test, &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(3, &["--store-at", "0,1"]);
    let at = fixture.mount(2);
    sh(&at, "mkdir -p d/e; for n in {1..20}; do mkdir d/$n; done");
    let (agents, _) = fixture.status();
    let calls = [0, 1].map(|agent: usize| agents[agent]["calls_for_others"].as_u64());
    assert!(calls.iter().flatten().sum::<u64>() > 20, "{calls:?}");
    assert!(agents[2]["calls_for_others"].is_null());
    let pids = fixture.agents();
    // Whichever was up first is in use.
    let used = usize::from(calls[1] > calls[0]);
    kill(&pids[used..=used]);
    sh(
        &at,
        "cd d/e; mkdir f ../21; rmdir ../1; mv ../2 two; ls ..; stat two",
    );
    assert_eq!(
        sh(&fixture.store(), "ls d | wc -l; ls d/e").trim(),
        "20\nf\ntwo"
    );
    let log = || sh(&fixture.path("control"), "cat */agent-2.log");
    let next = format!("store-{}.sock from now on", 1 - used);
    assert!(log().contains(&next), "{}", log());
    kill(&pids[1 - used..=1 - used]);
    let made = fs::create_dir(at.join("d/more")).expect_err("there is no gateway");
    assert_eq!(made.raw_os_error(), Some(5), "{made}");
    until("the log says so", LIMIT, || {
        log().contains("no gateway answers")
    });
    assert!(!fixture.store().join("d/more").exists());
    kill(&pids[2..]);
    // Whatever is killed, nothing is left.
    fixture.run(&["down", "--force"]);
    fixture.assert_clean();
}

#[test]
fn what_cannot_work_is_refused_in_words() {
    let fixture = Fixture::new();
    let store = fixture.store().display().to_string();
    for (words, says) in [
        (
            vec!["--policy", "none", "--store-at", "0"],
            "policy none leaves all to the store",
        ),
        (
            vec!["--agents", "2", "--store-at", "2"],
            "agent 2, which is to have the store",
        ),
        (
            vec![
                "--policy",
                "bank",
                "--agents",
                "2",
                "--store-at",
                "0",
                "--gateways",
                "1",
            ],
            "cannot be a gateway",
        ),
        (vec!["--store-at", "x"], "`x` is no agent's number"),
    ] {
        let output = fixture.run(&[&["up", "--store", &store], words.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            text(&output.stderr).contains(says),
            "{}",
            text(&output.stderr)
        );
    }
}
