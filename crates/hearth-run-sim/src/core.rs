//! An agent around a real kernel: one lock, the pool and the gate, as `hearth-agent` has them.

use crate::Pool;
use crate::buffers::Buffers;
use crate::jobs::Job;
use crate::mount::Waiting;
use crate::store::Store;
use crate::world::BrokenMemory;
use crate::write_rings::WriteRings;
use hearth_proto::msg::Envelope;
use hearth_proto::{FileId, Handle, Input, Member, Node, NodeId, Outbox, RevokeId, Ticket, Time};
use std::collections::BTreeMap;
use std::mail::{Mail, Next};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::Duration;

/// Messages with their bytes.
pub(crate) type Net = Mail<(Envelope, Vec<u8>)>;

/// One agent.
pub(crate) struct Core {
    pub(crate) pool: Pool,
    pub(crate) waker: Condvar,
    pub(crate) me: NodeId,
    state: Mutex<State>,
    pub(crate) net: Arc<Net>,
    pub(crate) store: Arc<Store>,
    jobs: std::plain::Mutex<Option<mpsc::Sender<Job>>>,
    pub(crate) fault: Option<BrokenMemory>,
}

/// The state that the lock protects.
pub(crate) struct State {
    pub(crate) member: Member,
    pub(crate) buffers: Buffers,
    pub(crate) files: Files,
    pub(crate) write_rings: WriteRings,
    pub(crate) waiting: BTreeMap<Ticket, Waiting>,
    pub(crate) given: u64,
    due: Option<Duration>,
}

impl State {
    pub(crate) fn node(&self) -> &Node {
        self.member.node()
    }
}

/// Files of open handles.
#[derive(Default)]
pub(crate) struct Files(pub(crate) BTreeMap<Handle, FileId>);

impl Files {
    pub(crate) fn file_of(&self, handle: Handle) -> Option<FileId> {
        self.0.get(&handle).copied()
    }
}

/// Work that may only happen once the lock is free.
pub(crate) enum After {
    Revoke(RevokeId),
}

fn now() -> Time {
    Time(std::clock::now().as_nanos() as u64)
}

impl Core {
    pub(crate) fn start(
        (node, pool): (Node, Pool),
        (net, store): (Arc<Net>, Arc<Store>),
        fault: Option<BrokenMemory>,
    ) -> Arc<Core> {
        let (sender, jobs) = mpsc::channel();
        let core = Arc::new(Core {
            pool,
            waker: Condvar::new(),
            me: node.config().me,
            state: Mutex::new(State {
                member: Member::new(node),
                buffers: Buffers::default(),
                files: Files::default(),
                write_rings: WriteRings::default(),
                waiting: BTreeMap::new(),
                given: 0,
                due: None,
            }),
            net,
            store,
            jobs: std::plain::Mutex::new(Some(sender)),
            fault,
        });
        let own = Arc::clone(&core);
        thread::spawn(move || {
            while let Ok(job) = jobs.recv() {
                job.run(&own);
            }
        });
        core
    }

    /// Takes in what comes from others, until the world ends.
    pub(crate) fn serve(&self) {
        loop {
            match self.net.next(self.me.0) {
                Next::Message(from, (envelope, bytes)) => self.drive_with(|state| {
                    let len = bytes.len() as u32;
                    let data = (len > 0).then(|| (state.buffers.add(bytes), len));
                    Input::Message {
                        from: NodeId(from),
                        envelope,
                        data,
                    }
                }),
                Next::Due => self.drive_with(|state| {
                    state.due = None;
                    Input::Tick
                }),
                Next::End => return,
            }
        }
    }

    /// Ends what is its own.
    pub(crate) fn stop(&self) {
        let mut jobs = self.jobs.lock().expect("nothing panics under this lock");
        *jobs = None;
        drop(jobs);
        self.end_write_rings();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Tells the kernel a fact that is made under the lock.
    pub(crate) fn drive_with(&self, input: impl FnOnce(&mut State) -> Input) {
        self.turn(|state, after| {
            let input = input(state);
            self.step(state, input, after);
        });
    }

    /// Does steps under the lock, and what follows from them when it is free.
    pub(crate) fn turn<R>(&self, steps: impl FnOnce(&mut State, &mut Vec<After>) -> R) -> R {
        let mut after = Vec::new();
        let mut state = self.lock();
        match self.fault {
            Some(BrokenMemory::GateLeftOpen) => {}
            _ => self.shut(&mut state, &mut after),
        }
        let result = steps(&mut state, &mut after);
        self.end_turn(state, after);
        result
    }

    /// Ends a turn: does the work that follows a step, or several.
    pub(crate) fn end_turn(&self, mut state: MutexGuard<'_, State>, after: Vec<After>) {
        self.open(&mut state);
        let due = state
            .member
            .deadline()
            .map(|due| Duration::from_nanos(due.0));
        if due != state.due {
            state.due = due;
            self.net.ring(self.me.0, due);
        }
        drop(state);
        for After::Revoke(id) in after {
            // The mount keeps no pages.
            self.drive_with(|_| Input::Revoked(id));
        }
    }

    pub(crate) fn step(&self, state: &mut State, input: Input, after: &mut Vec<After>) {
        std::tell(|| format!("node {} <- {input:?}", self.me.0));
        let mut out = Outbox::new();
        state.member.step(now(), input, &mut out);
        for effect in out {
            std::tell(|| format!("node {} -> {effect:?}", self.me.0));
            self.carry(state, effect, after);
        }
    }

    /// Has the store's thread do something.
    pub(crate) fn push(&self, job: Job) {
        let jobs = self.jobs.lock().expect("nothing panics under this lock");
        let sender = jobs.clone();
        drop(jobs);
        let _ = sender.map(|jobs| jobs.send(job));
    }
}
