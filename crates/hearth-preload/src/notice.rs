//! The notice that people get once when the agent's end costs a program something.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::{behind, life, sys};

const ERROR_OUTPUT: c_int = 2;

/// Device and number of standard error when the program began: later the descriptor may be a file
/// of its own.
static ERRORS: OnceLock<Option<(u64, u64)>> = OnceLock::new();
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// The cost to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// A write cannot be done.
    Write,
    /// Bytes that were written may be lost.
    Bytes,
}

/// Notes where words go, before the program begins.
pub(crate) fn start() {
    // Else nothing is ever said, and no system call made for it.
    if !behind::is_on() {
        return;
    }
    let _ = ERRORS.set(sys::what_is(ERROR_OUTPUT));
}

/// Says it, if nothing was said yet.
pub(crate) fn say(cost: Cost) {
    if IS_SAID.load(Relaxed) || (life::is_own_memory() && IS_SAID.swap(true, Relaxed)) {
        return;
    }
    let then = ERRORS.get().copied().flatten();
    if then.is_none() || then != sys::what_is(ERROR_OUTPUT) {
        return;
    }
    sys::say(
        ERROR_OUTPUT,
        match cost {
            Cost::Write => {
                b"hearth: this node's agent is gone: files of its mount can be read and not written \
                  (EIO); end the program and start the job's agents anew\n"
            }
            Cost::Bytes => {
                b"hearth: this node's agent is gone, and with it bytes that were written and not yet \
                  synced (EIO); start the job's agents anew and write them again\n"
            }
        },
    );
}
