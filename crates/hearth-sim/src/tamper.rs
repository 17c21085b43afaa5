//! Guards broken from outside, to see every checker fire.

/// The fault that a world commits on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tamper {
    /// Nothing.
    Nothing,
    /// A front end says that it has dropped its pages and has not (C3).
    KeepRevoked,
    /// An invalidation is acknowledged before its receiver has seen it (A1).
    EarlyInvalOk,
    /// Copies into frames are left out.
    DropFill,
    /// Each home takes its part of a write over several by itself.
    PartsApart,
    /// Store writes happen once more, much later.
    LateStoreWrite,
    /// Store writes are reported as done and are not.
    SkipStoreWrite,
    /// Messages are swallowed.
    SwallowMessages,
    /// Buffers are freed twice.
    FreeTwice,
    /// Buffers are not freed.
    FreeNever,
    /// The pool is larger than the checker knows.
    LargerPool,
    /// Bytes that programs have left are brought after some other input (A7).
    LateLocals,
}
