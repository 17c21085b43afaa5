//! Atomic mode: a data call is one thing to all others, whatever its view of the file.
//!
//! The library is left in non-atomic mode; Open MPI knows no other. A call takes the file's turn among
//! all ranks, for its whole length. Bytes show on every rank when a write returns, so calls of all
//! ranks have one order.
//!
//! 1. A rank that waits for its turn keeps nobody: it is in no collective call. So in atomic mode a
//!    collective call is made as the call of one rank that it is equivalent to; the standard asks of
//!    neither that it waits for others.
//! 2. A call that goes on after it returned would keep its turn. So it is complete when it returns,
//!    and what the program waits for later is complete then.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::files::{self, Shared};
use super::hooks::outermost;
use super::{Class, Raw, SUCCESS, mpi};
use crate::claim::Use;
use crate::loose;
use crate::words::say;

/// How many files are in atomic mode: without any, calls look no further.
static ATOMIC: AtomicUsize = AtomicUsize::new(0);

/// The arguments of a data call, in registers: a file, perhaps an offset, memory, a count, a type, and where the status
/// or the request goes. A function does not look at registers beyond its own arguments.
type Data = unsafe extern "C" fn(Raw, Raw, Raw, Raw, Raw, Raw) -> c_int;

/// The event to be waited for before the turn is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// The call itself.
    AtReturn,
    /// The request at the argument of this number.
    WithRequest(usize),
}

pub(super) fn set_atomicity(file: Raw, flag: c_int, real: impl Fn() -> c_int) -> c_int {
    let (Some(mpi), Some(shared)) = (mpi(), files::find(file)) else {
        return real();
    };
    if flag != 0 && shared.claim.is_none() {
        say(&"cannot set atomic mode: the store has no locks, or the file cannot be read");
        return mpi.fail(file, Class::Unsupported);
    }
    match (shared.atomic.swap(flag != 0, Relaxed), flag != 0) {
        (false, true) => ATOMIC.fetch_add(1, Relaxed),
        (true, false) => ATOMIC.fetch_sub(1, Relaxed),
        (true, true) | (false, false) => 0,
    };
    SUCCESS
}

pub(super) fn atomicity(file: Raw, flag: *mut c_int, real: impl Fn() -> c_int) -> c_int {
    match (files::find(file), crate::sys::at_mut(flag)) {
        (Some(shared), Some(flag)) => {
            *flag = c_int::from(shared.atomic.load(Relaxed));
            SUCCESS
        }
        _ => real(),
    }
}

/// A file in atomic mode.
#[inline]
fn atomic(file: Raw) -> Option<std::sync::Arc<Shared>> {
    if ATOMIC.load(Relaxed) == 0 {
        return None;
    }
    files::find(file).filter(|shared| shared.atomic.load(Relaxed))
}

/// Makes a data call within the file's turn.
fn within_turn(
    shared: &Shared,
    (of, ends): (Use, Ends),
    arguments: [Raw; 6],
    make: impl FnOnce() -> c_int,
) -> c_int {
    let (Some(mpi), Some(claim)) = (mpi(), &shared.claim) else {
        return make();
    };
    let turn = match claim.turn(of) {
        Ok(turn) => turn,
        Err(error) => {
            say(&format_args!("cannot take a turn of atomic mode: {error}"));
            return mpi.fail(arguments[0], Class::Io);
        }
    };
    if loose::is_on() {
        files::exchange(shared);
    }
    let done = make();
    if let Ends::WithRequest(number) = ends
        && done == SUCCESS
    {
        mpi.await_request(std::ptr::with_exposed_provenance::<c_void>(
            arguments[number],
        ));
    }
    if loose::is_on() {
        files::exchange(shared);
    }
    drop(turn);
    done
}

/// Makes a data call where bytes may stay at their rank.
fn within_rank(name: &str, file: Raw, make: impl Fn() -> c_int) -> c_int {
    let Some(shared) = files::find(file).filter(|_| loose::is_on()) else {
        return make();
    };
    let goes_on = shared.goes_on.fetch_or(loose::goes_on(name), Relaxed);
    if loose::is_own(name) && !goes_on {
        return loose::within_own(make);
    }
    files::exchange(&shared);
    let done = make();
    files::exchange(&shared);
    done
}

/// Exports the two names of each row; those with `_c` take larger counts. A row says whether it reads or writes, when its turn ends, and
/// which function is called in atomic mode.
macro_rules! data_calls {
    ($($name:ident $second:ident = $use:ident, $ends:expr, $instead:ident;)+) => {$(
        data_calls!(one $name, $use, $ends, $instead);
        data_calls!(one $second, $use, $ends, $instead);
    )+};
    (one $name:ident, $use:ident, $ends:expr, $instead:ident) => {
        /// # Safety
        /// As MPI says of the function of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name is MPI's")]
        unsafe extern "C" fn $name(a: Raw, b: Raw, c: Raw, d: Raw, e: Raw, f: Raw) -> c_int {
            static NEXT: $crate::real::Real =
                $crate::real::Real::new(concat!(stringify!($name), "\0"));
            static INSTEAD: $crate::real::Real =
                $crate::real::Real::new(concat!("P", stringify!($instead), "\0"));
            let call = |function: &$crate::real::Real| {
                let address = function.address();
                if address.is_null() {
                    return super::hooks::MISSING;
                }
                // SAFETY: all its arguments are integers or pointers, six at most.
                let function = unsafe { std::mem::transmute::<*mut c_void, Data>(address) };
                // SAFETY: the arguments are the caller's, in the same registers.
                unsafe { function(a, b, c, d, e, f) }
            };
            let Some(shared) = atomic(a) else {
                if !loose::is_on() {
                    return call(&NEXT);
                }
                let name = stringify!($name);
                return outermost(|| call(&NEXT), || within_rank(name, a, || call(&NEXT)));
            };
            let of = (Use::$use, $ends);
            let turn = || within_turn(&shared, of, [a, b, c, d, e, f], || call(&INSTEAD));
            outermost(|| call(&NEXT), turn)
        }
    };
}

/// Exports both names of calls that are made as they are, in atomic mode too.
macro_rules! other_calls {
    ($($name:ident $second:ident;)+) => {$(
        other_calls!(one $name);
        other_calls!(one $second);
    )+};
    (one $name:ident) => {
        /// # Safety
        /// As MPI says of the function of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name is MPI's")]
        unsafe extern "C" fn $name(a: Raw, b: Raw, c: Raw, d: Raw, e: Raw, f: Raw) -> c_int {
            static NEXT: $crate::real::Real =
                $crate::real::Real::new(concat!(stringify!($name), "\0"));
            let call = || {
                let address = NEXT.address();
                if address.is_null() {
                    return super::hooks::MISSING;
                }
                // SAFETY: all its arguments are integers or pointers, six at most.
                let function = unsafe { std::mem::transmute::<*mut c_void, Data>(address) };
                // SAFETY: the arguments are the caller's, in the same registers.
                unsafe { function(a, b, c, d, e, f) }
            };
            if !loose::is_on() {
                return call();
            }
            outermost(call, || within_rank(stringify!($name), a, call))
        }
    };
}

other_calls! {
    MPI_File_read_all_begin PMPI_File_read_all_begin;
    MPI_File_read_all_end PMPI_File_read_all_end;
    MPI_File_read_at_all_begin PMPI_File_read_at_all_begin;
    MPI_File_read_at_all_end PMPI_File_read_at_all_end;
    MPI_File_read_ordered PMPI_File_read_ordered;
    MPI_File_read_ordered_begin PMPI_File_read_ordered_begin;
    MPI_File_read_ordered_end PMPI_File_read_ordered_end;
    MPI_File_write_all_begin PMPI_File_write_all_begin;
    MPI_File_write_all_end PMPI_File_write_all_end;
    MPI_File_write_at_all_begin PMPI_File_write_at_all_begin;
    MPI_File_write_at_all_end PMPI_File_write_at_all_end;
    MPI_File_write_ordered PMPI_File_write_ordered;
    MPI_File_write_ordered_begin PMPI_File_write_ordered_begin;
    MPI_File_write_ordered_end PMPI_File_write_ordered_end;

    MPI_File_read_all_begin_c PMPI_File_read_all_begin_c;
    MPI_File_read_at_all_begin_c PMPI_File_read_at_all_begin_c;
    MPI_File_read_ordered_c PMPI_File_read_ordered_c;
    MPI_File_read_ordered_begin_c PMPI_File_read_ordered_begin_c;
    MPI_File_write_all_begin_c PMPI_File_write_all_begin_c;
    MPI_File_write_at_all_begin_c PMPI_File_write_at_all_begin_c;
    MPI_File_write_ordered_c PMPI_File_write_ordered_c;
    MPI_File_write_ordered_begin_c PMPI_File_write_ordered_begin_c;
}

data_calls! {
    MPI_File_read PMPI_File_read = Read, Ends::AtReturn, MPI_File_read;
    MPI_File_read_all PMPI_File_read_all = Read, Ends::AtReturn, MPI_File_read;
    MPI_File_read_at PMPI_File_read_at = Read, Ends::AtReturn, MPI_File_read_at;
    MPI_File_read_at_all PMPI_File_read_at_all = Read, Ends::AtReturn, MPI_File_read_at;
    MPI_File_read_shared PMPI_File_read_shared = Read, Ends::AtReturn, MPI_File_read_shared;
    MPI_File_write PMPI_File_write = Write, Ends::AtReturn, MPI_File_write;
    MPI_File_write_all PMPI_File_write_all = Write, Ends::AtReturn, MPI_File_write;
    MPI_File_write_at PMPI_File_write_at = Write, Ends::AtReturn, MPI_File_write_at;
    MPI_File_write_at_all PMPI_File_write_at_all = Write, Ends::AtReturn, MPI_File_write_at;
    MPI_File_write_shared PMPI_File_write_shared = Write, Ends::AtReturn, MPI_File_write_shared;
    MPI_File_iread PMPI_File_iread = Read, Ends::WithRequest(4), MPI_File_iread;
    MPI_File_iread_all PMPI_File_iread_all = Read, Ends::WithRequest(4), MPI_File_iread;
    MPI_File_iread_at PMPI_File_iread_at = Read, Ends::WithRequest(5), MPI_File_iread_at;
    MPI_File_iread_at_all PMPI_File_iread_at_all = Read, Ends::WithRequest(5), MPI_File_iread_at;
    MPI_File_iread_shared PMPI_File_iread_shared = Read, Ends::WithRequest(4), MPI_File_iread_shared;
    MPI_File_iwrite PMPI_File_iwrite = Write, Ends::WithRequest(4), MPI_File_iwrite;
    MPI_File_iwrite_all PMPI_File_iwrite_all = Write, Ends::WithRequest(4), MPI_File_iwrite;
    MPI_File_iwrite_at PMPI_File_iwrite_at = Write, Ends::WithRequest(5), MPI_File_iwrite_at;
    MPI_File_iwrite_at_all PMPI_File_iwrite_at_all = Write, Ends::WithRequest(5), MPI_File_iwrite_at;
    MPI_File_iwrite_shared PMPI_File_iwrite_shared = Write, Ends::WithRequest(4), MPI_File_iwrite_shared;

    MPI_File_read_c PMPI_File_read_c = Read, Ends::AtReturn, MPI_File_read_c;
    MPI_File_read_all_c PMPI_File_read_all_c = Read, Ends::AtReturn, MPI_File_read_c;
    MPI_File_read_at_c PMPI_File_read_at_c = Read, Ends::AtReturn, MPI_File_read_at_c;
    MPI_File_read_at_all_c PMPI_File_read_at_all_c = Read, Ends::AtReturn, MPI_File_read_at_c;
    MPI_File_read_shared_c PMPI_File_read_shared_c = Read, Ends::AtReturn, MPI_File_read_shared_c;
    MPI_File_write_c PMPI_File_write_c = Write, Ends::AtReturn, MPI_File_write_c;
    MPI_File_write_all_c PMPI_File_write_all_c = Write, Ends::AtReturn, MPI_File_write_c;
    MPI_File_write_at_c PMPI_File_write_at_c = Write, Ends::AtReturn, MPI_File_write_at_c;
    MPI_File_write_at_all_c PMPI_File_write_at_all_c = Write, Ends::AtReturn, MPI_File_write_at_c;
    MPI_File_write_shared_c PMPI_File_write_shared_c = Write, Ends::AtReturn, MPI_File_write_shared_c;
    MPI_File_iread_c PMPI_File_iread_c = Read, Ends::WithRequest(4), MPI_File_iread_c;
    MPI_File_iread_all_c PMPI_File_iread_all_c = Read, Ends::WithRequest(4), MPI_File_iread_c;
    MPI_File_iread_at_c PMPI_File_iread_at_c = Read, Ends::WithRequest(5), MPI_File_iread_at_c;
    MPI_File_iread_at_all_c PMPI_File_iread_at_all_c = Read, Ends::WithRequest(5), MPI_File_iread_at_c;
    MPI_File_iread_shared_c PMPI_File_iread_shared_c = Read, Ends::WithRequest(4), MPI_File_iread_shared_c;
    MPI_File_iwrite_c PMPI_File_iwrite_c = Write, Ends::WithRequest(4), MPI_File_iwrite_c;
    MPI_File_iwrite_all_c PMPI_File_iwrite_all_c = Write, Ends::WithRequest(4), MPI_File_iwrite_c;
    MPI_File_iwrite_at_c PMPI_File_iwrite_at_c = Write, Ends::WithRequest(5), MPI_File_iwrite_at_c;
    MPI_File_iwrite_at_all_c PMPI_File_iwrite_at_all_c = Write, Ends::WithRequest(5), MPI_File_iwrite_at_c;
    MPI_File_iwrite_shared_c PMPI_File_iwrite_shared_c = Write, Ends::WithRequest(4), MPI_File_iwrite_shared_c;
}
