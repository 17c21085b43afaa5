//! The agent's sign of life. No agent of a world dies.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory with such a word in it.
pub(crate) trait HasLife: Send + Sync + 'static {
    fn life(&self) -> &AtomicU32;
}

/// Whether the agent that owns the word is there.
pub(crate) fn is_alive(word: &AtomicU32) -> bool {
    word.load(Ordering::Acquire) != 0
}

/// A sign of life.
#[derive(Debug)]
pub(crate) struct Life;

impl Life {
    pub(crate) fn begin(memory: Arc<impl HasLife>) -> io::Result<Life> {
        memory.life().store(1, Ordering::Release);
        Ok(Life)
    }
}
