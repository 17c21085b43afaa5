//! Attributes that a front end keeps, and a thread of the agent that is held up.

use super::*;
use hearth_client::{AttributesLeave, PageRange, Revoker};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;

/// A front end in which one thread is held up when it revokes.
struct HeldUp {
    forgot: AtomicBool,
    thread: OnceLock<ThreadId>,
    gate: Mutex<Receiver<()>>,
}

impl Revoker for HeldUp {
    fn revoke(&self, _file: FileKey, _pages: Option<PageRange>, done: Box<dyn FnOnce() + Send>) {
        if self.thread.get() == Some(&thread::current().id()) {
            // It opens when nobody can send any more.
            let _ = self.gate.lock().expect("one thread").recv();
        }
        done();
    }

    fn forget(&self, _file: FileKey) {
        self.forgot.store(true, Ordering::SeqCst);
    }
}

/// S8: else a program that has written looks, and is told the size from before.
#[test]
fn attributes_are_forgotten_before_an_open_to_write_is_answered() {
    let set = set(3, |_| ());
    let path = set.dir.path().join("f");
    std::fs::write(&path, b"f").expect("a file");
    let ino = std::fs::metadata(&path).expect("attributes").ino();
    let (open, gate) = mpsc::channel();
    let front_end = Arc::new(HeldUp {
        forgot: AtomicBool::new(false),
        thread: OnceLock::new(),
        gate: Mutex::new(gate),
    });
    set.session(0).attach(front_end.clone());
    // Another node manages the file.
    let closed = set.open(1, "f", true).expect("opens").handle;
    wait(|done| set.session(1).flush(closed, done)).expect("flushes");
    set.session(1).close(closed);
    let leaves = wait(|done| set.session(0).leave(vec![FileKey { ino }], done));
    let leaves = leaves.expect("an answer");
    assert!(
        matches!(leaves[..], [AttributesLeave::Read { .. }]),
        "{leaves:?}"
    );
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let done = Box::new(move |outcome| {
                let _ = tell.send(outcome);
            });
            front_end.thread.get_or_init(|| thread::current().id());
            set.begin_open((0, "f"), true, done);
        });
        let opened = told.recv_timeout(Duration::from_secs(20));
        assert!(matches!(opened, Ok(Outcome::Serve(_))), "{opened:?}");
        assert!(front_end.forgot.load(Ordering::SeqCst));
        drop(open);
    });
}
