//! One round: a set is started, programs run beside its agents, a nemesis comes, all is ended, and the history is checked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::check::{self, Break, Checked, Fault, Finding, History, Snapshot};
use super::history::{Call, SECOND, now, read_log};
use super::net::Net;
use super::plan::{Nemesis, Plan};
use super::process::{Interrupts, signal, stacks, wait_for};
use super::set::HostSet;
use super::worker::{FILES, NAMES, PAGES, Spec, Way};
use rustix::process::Signal;

/// Settings that stay the same for all rounds.
pub(crate) struct Lab {
    pub(crate) hearth: PathBuf,
    pub(crate) interrupts: Interrupts,
    /// Busy processes beside every round.
    pub(crate) load: usize,
    /// Seconds of quiet work before and after a nemesis.
    pub(crate) seconds: u64,
}

/// How a round went.
pub(crate) struct Done {
    pub(crate) checked: Checked,
    pub(crate) calls: u64,
    pub(crate) faults: u64,
}

/// Runs a round in a directory of its own.
pub(crate) fn run(lab: &Lab, plan: &Plan, dir: &Path) -> io::Result<Done> {
    let net = match plan.nemesis {
        Nemesis::Cut(_) => Some(Net::new(plan.nodes)?),
        _ => None,
    };
    let mut set = HostSet::new(&lab.hearth, dir, plan.nodes, &plan.options, net)?;
    if plan.nemesis == Nemesis::Full {
        set.bound_store("24m")?;
    }
    if plan.policy == "bank" {
        set.start_daemon()?;
    }
    prepare(&set.store, plan)?;
    set.up()?;
    let mut round = Round {
        lab,
        plan,
        set,
        programs: Vec::new(),
        spinners: Vec::new(),
        breaks: None,
        faults: Vec::new(),
        snapshots: Vec::new(),
        findings: Vec::new(),
    };
    let ran = round.play();
    let ended = round.finish();
    ran?;
    ended?;
    let history = round.history()?;
    let mut checked = check::check(&history);
    checked.findings.append(&mut round.findings);
    Ok(Done {
        checked,
        calls: history.calls.len() as u64,
        faults: history.faults.len() as u64,
    })
}

/// Files that must be there, as long as they will be, before an agent runs.
fn prepare(store: &Path, plan: &Plan) -> io::Result<()> {
    fs::create_dir(store.join("names"))?;
    for file in 0..FILES {
        fs::write(
            store.join(format!("register{file}")),
            vec![0; (PAGES * plan.page) as usize],
        )?;
        for stem in ["log", "cut", "counter"] {
            fs::write(store.join(format!("{stem}{file}")), b"")?;
        }
    }
    Ok(())
}

struct Program {
    child: Child,
    node: usize,
    log: PathBuf,
}

struct Round<'a> {
    lab: &'a Lab,
    plan: &'a Plan,
    set: HostSet,
    programs: Vec<Program>,
    spinners: Vec<Child>,
    breaks: Option<Break>,
    faults: Vec<Fault>,
    snapshots: Vec<Snapshot>,
    findings: Vec<Finding>,
}

/// Errors of a full store.
const FULL: &[i32] = &[libc::ENOSPC, libc::EDQUOT];
/// Errors of a failing store.
const FAILING: &[i32] = &[libc::EIO];
/// Errors that the end of an agent explains on others (S13).
const GONE: &[i32] = &[
    libc::EIO,
    libc::EHOSTDOWN,
    libc::ENOTCONN,
    libc::ECONNABORTED,
];
/// Time for all to notice what happened, and for leases of names to run out.
const NOTICE: u64 = 4 * SECOND;

impl Round<'_> {
    fn play(&mut self) -> io::Result<()> {
        self.spin(self.lab.load)?;
        if self.plan.nemesis == Nemesis::Fail {
            self.faults.push(Fault {
                what: "store".into(),
                begun: 0,
                ended: 0,
                errors: FAILING,
            });
        }
        for (worker, (node, way, maps)) in self.plan.programs.clone().into_iter().enumerate() {
            let spec = Spec {
                worker: worker as u64,
                life: 0,
                node,
                way,
                maps,
                root: self.root(node, way),
                log: self.set.dir.join(format!("program{worker}.log")),
                seed: self.plan.seed,
                page: self.plan.page,
                kinds: self.plan.kinds.clone(),
                every_addition_synced: self.is_lossy(),
            };
            self.start(&spec)?;
        }
        self.quiet()?;
        self.strike()?;
        self.snapshot(None)?;
        self.quiet()
    }

    /// Whether bytes may be lost that nobody confirmed.
    fn is_lossy(&self) -> bool {
        !matches!(
            self.plan.nemesis,
            Nemesis::None | Nemesis::Load | Nemesis::Full | Nemesis::Stop(3)
        )
    }

    fn root(&self, node: usize, way: Way) -> PathBuf {
        match way {
            Way::Mount => self.set.mount(node),
            Way::Run => self.set.store.clone(),
        }
    }

    fn start(&mut self, spec: &Spec) -> io::Result<()> {
        let path = spec.log.with_extension("json");
        fs::write(&path, serde_json::to_vec(spec)?)?;
        let lab = std::env::current_exe()?;
        let mut command = match spec.way {
            Way::Mount => Command::new(lab),
            Way::Run => {
                let mut command = self.set.command(spec.node);
                command
                    .args(["run", "--store"])
                    .arg(&self.set.store)
                    .arg("--")
                    .arg(lab);
                command
            }
        };
        let words = fs::File::create(spec.log.with_extension("err"))?;
        let child = command
            .arg("worker")
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(words.try_clone()?)
            .stderr(words)
            .spawn()?;
        self.programs.push(Program {
            child,
            node: spec.node,
            log: spec.log.clone(),
        });
        Ok(())
    }

    fn spin(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            self.spinners
                .push(command.arg("spin").stdin(Stdio::piped()).spawn()?);
        }
        Ok(())
    }

    fn quiet(&self) -> io::Result<()> {
        self.wait(self.lab.seconds)
    }

    fn wait(&self, seconds: u64) -> io::Result<()> {
        self.lab.interrupts.pause(Duration::from_secs(seconds))
    }

    fn strike(&mut self) -> io::Result<()> {
        let target = self.plan.target;
        let begun = now();
        match self.plan.nemesis {
            Nemesis::None | Nemesis::Fail | Nemesis::Lie => {}
            Nemesis::Load => {
                self.spin(10)?;
                self.wait(6)?;
                self.fault("load", begun, &[]);
            }
            Nemesis::Kill => {
                self.set.signal(target, Signal::KILL);
                self.snapshot(Some(begun))?;
                self.broken(begun, now() + NOTICE);
                self.wait(NOTICE / SECOND + 4)?;
                self.fault("kill", begun, GONE);
            }
            Nemesis::Restart => self.restart(target)?,
            Nemesis::Stop(seconds) => {
                self.set.signal(target, Signal::STOP);
                let waited = self.wait(seconds);
                self.set.signal(target, Signal::CONT);
                waited?;
                if seconds > 5 {
                    self.broken(begun, now() + NOTICE);
                    self.wait(NOTICE / SECOND)?;
                    self.fault("stop", begun, GONE);
                } else {
                    self.fault("stop", begun, &[]);
                }
            }
            Nemesis::Cut(cut) => {
                let net = self
                    .set
                    .net()
                    .ok_or_else(|| io::Error::other("no network to cut"))?;
                net.cut(target, cut)?;
                let waited = self.wait(14);
                self.set.net().map_or(Ok(()), |net| net.heal(target, cut))?;
                waited?;
                self.broken(begun, now() + NOTICE);
                self.wait(NOTICE / SECOND)?;
                self.fault("cut", begun, GONE);
            }
            Nemesis::Full => self.fill()?,
        }
        Ok(())
    }

    fn fill(&mut self) -> io::Result<()> {
        let begun = now();
        let filler = self.set.store.join("filler");
        let mut file = fs::File::create(&filler)?;
        let block = vec![1; 1 << 16];
        for _ in 0..10 {
            while io::Write::write_all(&mut file, &block).is_ok() {}
            self.lab.interrupts.pause(Duration::from_millis(300))?;
        }
        drop(file);
        fs::remove_file(filler)?;
        // Bytes that were refused are tried again some time later, and their errors told then (S6).
        self.fault("full", begun, FULL);
        self.faults.push(Fault {
            what: "full before".into(),
            begun,
            ended: begun,
            errors: FULL,
        });
        Ok(())
    }

    fn restart(&mut self, target: usize) -> io::Result<()> {
        let begun = now();
        self.set.signal(target, Signal::KILL);
        self.snapshot(Some(begun))?;
        self.broken(begun, u64::MAX);
        self.lab.interrupts.pause(Duration::from_millis(500))?;
        // Once the dead mount is taken away they would write into the directory below it.
        for program in self
            .programs
            .iter_mut()
            .filter(|program| program.node == target)
        {
            drop(program.child.stdin.take());
            wait_for(&mut program.child, Duration::from_secs(10))?;
        }
        let again = self.set.again(target)?;
        if let Some(gap) = &mut self.breaks {
            gap.ended = now() + NOTICE;
        }
        self.fault("restart", begun, GONE);
        if again.code == Some(0) {
            let worker = self.programs.len() as u64;
            let spec = Spec {
                worker,
                life: 1,
                node: target,
                way: Way::Mount,
                maps: super::worker::Maps::None,
                root: self.set.mount(target),
                log: self.set.dir.join(format!("program{worker}.log")),
                seed: self.plan.seed,
                page: self.plan.page,
                kinds: self.plan.kinds.clone(),
                every_addition_synced: true,
            };
            self.start(&spec)?;
        }
        self.wait(NOTICE / SECOND)
    }

    /// A fault from then to now; what it explains may be told some time after.
    fn fault(&mut self, what: &str, begun: u64, errors: &'static [i32]) {
        self.faults.push(Fault {
            what: what.into(),
            begun,
            ended: now(),
            errors,
        });
    }

    fn broken(&mut self, begun: u64, ended: u64) {
        let victims = (0..self.programs.len())
            .filter(|index| self.programs[*index].node == self.plan.target)
            .collect();
        self.breaks = Some(Break {
            begun,
            ended,
            victims,
            is_death: matches!(self.plan.nemesis, Nemesis::Kill | Nemesis::Restart),
        });
    }

    /// Reads the store itself; what was confirmed before `begun` must be there.
    fn snapshot(&mut self, begun: Option<u64>) -> io::Result<()> {
        let begun = begun.unwrap_or_else(now);
        let mut snapshot = Snapshot {
            begun,
            ..Snapshot::default()
        };
        for stem in ["register", "cut", "log", "counter", "version"] {
            for file in (0..FILES).map(|file| format!("{stem}{file}")) {
                if let Ok(bytes) = fs::read(self.set.store.join(&file)) {
                    snapshot.files.insert(file, bytes);
                }
            }
        }
        for name in (0..NAMES).map(|name| format!("names/{name}")) {
            if self.set.store.join(&name).symlink_metadata().is_ok() {
                snapshot.files.insert(name, Vec::new());
            }
        }
        snapshot.ended = now();
        self.snapshots.push(snapshot);
        Ok(())
    }

    /// Ends the programs, then the set, and reads what it left.
    fn finish(&mut self) -> io::Result<()> {
        for program in &mut self.programs {
            drop(program.child.stdin.take());
        }
        let mut spinners = std::mem::take(&mut self.spinners);
        for spinner in &mut spinners {
            drop(spinner.stdin.take());
            wait_for(spinner, Duration::from_secs(10))?;
        }
        self.end_programs()?;
        if self.plan.nemesis == Nemesis::Lie {
            self.lose()?;
        }
        self.snapshot(None)?;
        let said = self.set.down()?;
        let in_order = said.is_empty();
        let is_calm = matches!(
            self.plan.nemesis,
            Nemesis::None | Nemesis::Load | Nemesis::Stop(3)
        );
        for refusal in said {
            if is_calm || refusal.hangs {
                self.findings.push(Finding {
                    what: refusal.what,
                    key: "down".into(),
                    lines: refusal.words.lines().map(str::to_owned).collect(),
                });
            }
        }
        self.snapshot(None)?;
        if let Some(last) = self.snapshots.last_mut() {
            last.is_final = in_order;
        }
        self.set.end();
        Ok(())
    }

    /// Takes from the store what agents brought there.
    fn lose(&self) -> io::Result<()> {
        for file in 0..FILES {
            let len = PAGES * self.plan.page;
            fs::write(
                self.set.store.join(format!("register{file}")),
                vec![0; len as usize],
            )?;
            fs::write(self.set.store.join(format!("log{file}")), b"")?;
        }
        Ok(())
    }

    fn end_programs(&mut self) -> io::Result<()> {
        let agents: Vec<i32> = (0..self.plan.nodes)
            .filter_map(|node| self.set.pid(node))
            .collect();
        let mut most = 15;
        for (worker, program) in self.programs.iter_mut().enumerate() {
            let ended = wait_for(&mut program.child, Duration::from_secs(most))?;
            if ended.is_some() {
                continue;
            }
            most = 1;
            let pid = fs::read_to_string(program.log.with_extension("pid"))
                .ok()
                .and_then(|pid| pid.trim().parse().ok());
            let mut lines = vec![format!(
                "program {worker}:\n{}",
                pid.map_or(String::new(), stacks)
            )];
            lines.extend(
                agents
                    .iter()
                    .map(|pid| format!("agent {pid}:\n{}", stacks(*pid))),
            );
            let what = format!(
                "program {worker} beside agent {} did not end in 15 s",
                program.node
            );
            self.findings.push(Finding {
                what,
                key: "end".into(),
                lines,
            });
            if let Some(pid) = pid {
                signal(pid, Signal::KILL);
            }
            let _ = program.child.kill();
            // It may hang in the operating system until its agent goes.
            let _ = wait_for(&mut program.child, Duration::from_secs(1))?;
        }
        Ok(())
    }

    fn history(&mut self) -> io::Result<History> {
        let mut calls: Vec<Call> = Vec::new();
        for (worker, program) in self.programs.iter().enumerate() {
            match read_log(&program.log, worker, program.node) {
                Ok(mut more) => calls.append(&mut more),
                Err(error) => {
                    let said =
                        fs::read_to_string(program.log.with_extension("err")).unwrap_or_default();
                    let what = format!("program {worker} did not run: {error}: {}", said.trim());
                    self.findings.push(Finding {
                        what,
                        key: "start".into(),
                        lines: Vec::new(),
                    });
                }
            }
        }
        calls.sort_by_key(|call| call.begun);
        Ok(History {
            calls,
            promise: self.plan.promise,
            breaks: self.breaks.clone(),
            faults: self.faults.clone(),
            snapshots: self.snapshots.clone(),
            page: self.plan.page,
        })
    }
}
