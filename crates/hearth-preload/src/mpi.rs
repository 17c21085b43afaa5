//! Calls of MPI-IO: timed, made and recorded, whichever MPI the program has.
//!
//! No MPI is linked. Handles are words of the size of a pointer: pointers under Open MPI; under MPICH
//! those of files are pointers and others fit into half of a word, whose upper half nobody reads. All
//! else is asked of the MPI itself, by functions that stay on this process.
//!
//! 1. Programs in C call `MPI_File_*`; those in Fortran come through that name or through
//!    `PMPI_File_*`, as their MPI has it. Both are hooked, and of calls inside each other the outermost
//!    is recorded. MPI's own work on descriptors is recorded as calls of the program.
//! 2. The MPI is asked only questions that cannot fail: about files that are known to be open, and
//!    types that a call has just taken. An error would reach the program's error handler.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use hearth_trace::ring::{OpFacts, tracer};
use hearth_trace::{Layer, Op, clock};

use crate::errno::{errno, set_errno};
use crate::names::{self, At, Failed};
use crate::real::Real;
use crate::thread;

const SUCCESS: c_int = 0;
/// The mode of files that have no place of their own to ask for; all MPIs have this number.
const SEQUENTIAL: u32 = 256;
/// Files that are known at one time; others have no name in their records.
const FILES_MAX: usize = 1024;

/// An open file: its handle, its number among the names, and its mode.
struct File {
    handle: AtomicUsize,
    number: AtomicU32,
    mode: AtomicU32,
}

static FILES: [File; FILES_MAX] = [const {
    File {
        handle: AtomicUsize::new(0),
        number: AtomicU32::new(0),
        mode: AtomicU32::new(0),
    }
}; FILES_MAX];

static TYPE_SIZE: Real = Real::new("PMPI_Type_size\0");
static COUNT: Real = Real::new("PMPI_Get_count\0");
static POSITION: Real = Real::new("PMPI_File_get_position\0");
static BYTE_OFFSET: Real = Real::new("PMPI_File_get_byte_offset\0");

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// This thread is in a call of MPI-IO until it is dropped, by a thread's cancelling too.
struct Inside;

impl Inside {
    /// `None` if it is in one already.
    fn enter() -> Option<Inside> {
        let was = IS_INSIDE.replace(true);
        (!was).then_some(Inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

/// The place in the file at which a call works, in units of its view.
#[derive(Clone, Copy)]
enum Place {
    /// Nowhere that can be known.
    Unknown,
    /// At the handle's own pointer.
    Pointer,
    /// At the offset that the call names.
    Given(i64),
}

/// A call on an open file.
#[derive(Clone, Copy)]
pub(crate) struct OnFile {
    op: Op,
    handle: usize,
    place: Place,
    /// Bytes, if no type is there to multiply with.
    asked: u64,
    items: i64,
    datatype: Option<usize>,
    status: *const c_void,
}

/// A call on the file that `handle` stands for.
pub(crate) fn on_file(op: Op, handle: usize) -> OnFile {
    OnFile {
        op,
        handle,
        place: Place::Unknown,
        asked: 0,
        items: 0,
        datatype: None,
        status: std::ptr::null(),
    }
}

impl OnFile {
    /// It begins at `offset` of the view.
    pub(crate) fn at(mut self, offset: i64) -> OnFile {
        self.place = Place::Given(offset);
        self
    }

    /// It begins at the handle's own pointer.
    pub(crate) fn at_pointer(mut self) -> OnFile {
        self.place = Place::Pointer;
        self
    }

    /// It is about so many bytes.
    pub(crate) fn asks(mut self, bytes: i64) -> OnFile {
        self.asked = u64::try_from(bytes).unwrap_or(0);
        self
    }

    /// It moves so many items of a type.
    pub(crate) fn moves(mut self, items: i64, datatype: usize) -> OnFile {
        self.items = items;
        self.datatype = Some(datatype);
        self
    }

    /// The call says here how much it has moved, unless the program does not want to know.
    pub(crate) fn told(mut self, status: *const c_void) -> OnFile {
        self.status = status;
        self
    }

    /// Makes the real call and records it.
    pub(crate) fn call(self, real: impl FnOnce() -> c_int) -> c_int {
        let Some(_inside) = tracer::is_on().then(Inside::enter).flatten() else {
            return real();
        };
        let file = known(self.handle);
        let mut done = OpFacts::new(self.op);
        done.layer = Layer::Mpi;
        if let Some(file) = file {
            done.file = file.number.load(Relaxed);
            done.offset = self.offset(file).cast_unsigned();
        }
        let started = clock::now();
        let code = real();
        let ended = clock::now();
        let errno = errno();
        (done.asked, done.result) = self.outcome(code);
        tracer::record(started, ended, &done);
        set_errno(errno);
        code
    }

    /// The offset at which the call begins; a pointer that it moves is asked for before.
    fn offset(self, file: &File) -> i64 {
        if file.mode.load(Relaxed) & SEQUENTIAL != 0 {
            return 0;
        }
        let at = match self.place {
            Place::Unknown => return 0,
            Place::Given(_) if self.datatype.is_none() => return self.given(),
            Place::Given(offset) => offset,
            Place::Pointer => position(self.handle).unwrap_or(0),
        };
        if at < 0 {
            return 0;
        }
        byte_offset(self.handle, at).unwrap_or(0)
    }

    /// An offset that is one in bytes already.
    fn given(self) -> i64 {
        match self.place {
            Place::Given(offset) => offset.max(0),
            Place::Unknown | Place::Pointer => 0,
        }
    }

    /// Bytes asked for and done. If the program does not want to know, all that it asked for; so
    /// too if the call only begins work that another ends.
    fn outcome(self, code: c_int) -> (u64, i64) {
        if code != SUCCESS {
            return (self.asked, -i64::from(libc::EIO));
        }
        let Some(datatype) = self.datatype else {
            return (self.asked, 0);
        };
        let size = i64::from(type_size(datatype).unwrap_or(0).max(0));
        let asked = self.items.max(0).saturating_mul(size);
        // One MPI has null for "does not matter", the other one.
        let told = (self.status.addr() > 1).then(|| count(self.status, datatype));
        let done = told.flatten().filter(|items| *items >= 0);
        let done = done.map_or(asked, |items| i64::from(items).saturating_mul(size));
        (asked.cast_unsigned(), done)
    }
}

/// Makes a real call that opens `path` and writes the handle to `made`.
pub(crate) fn opening(
    path: *const c_char,
    mode: c_int,
    made: *const usize,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let inside = Inside::enter();
    let started = clock::now();
    let code = real();
    let ended = clock::now();
    if inside.is_none() {
        return code;
    }
    let errno = errno();
    let failed = if code == SUCCESS {
        Failed::No
    } else {
        Failed::Yes
    };
    let mode = mode.cast_unsigned();
    let file = number(path, failed);
    if code == SUCCESS {
        // SAFETY: the real call has just written a handle there.
        know(unsafe { made.read() }, file, mode);
    }
    record_path((Op::MpiOpen, u64::from(mode)), file, (started, ended), code);
    set_errno(errno);
    code
}

/// Makes a real call that ends the file whose handle stands at `handle`, which it overwrites.
pub(crate) fn closing(handle: *const usize, real: impl FnOnce() -> c_int) -> c_int {
    if handle.is_null() {
        return real();
    }
    // SAFETY: the real call is about to read it.
    let handle = unsafe { handle.read() };
    let file = known(handle);
    let code = on_file(Op::MpiClose, handle).call(real);
    if let Some(file) = file.filter(|_| code == SUCCESS && !IS_INSIDE.get()) {
        file.handle.store(0, Relaxed);
    }
    code
}

/// Makes a real call on a file that is not open.
pub(crate) fn on_path(op: Op, path: *const c_char, real: impl FnOnce() -> c_int) -> c_int {
    let Some(_inside) = tracer::is_on().then(Inside::enter).flatten() else {
        return real();
    };
    let started = clock::now();
    let code = real();
    let ended = clock::now();
    let errno = errno();
    // Never read by us: a failed call may not have read it.
    record_path((op, 0), number(path, Failed::Yes), (started, ended), code);
    set_errno(errno);
    code
}

fn record_path((op, asked): (Op, u64), file: u32, (started, ended): (u64, u64), code: c_int) {
    if !tracer::is_on() {
        return;
    }
    let mut done = OpFacts::new(op);
    done.layer = Layer::Mpi;
    done.file = file;
    done.asked = asked;
    done.result = if code == SUCCESS {
        0
    } else {
        -i64::from(libc::EIO)
    };
    tracer::record(started, ended, &done);
}

/// The number of a file's name, without the kind of file system that may stand before a colon.
fn number(path: *const c_char, failed: Failed) -> u32 {
    const KINDS: [&[u8]; 5] = [b"ufs:", b"nfs:", b"lustre:", b"testfs:", b"gpfs:"];
    let named = thread::inside(|| {
        let mut start = [0; 8];
        let len = crate::sys::copy_foreign_string(path, &mut start).unwrap_or(0);
        let kind = KINDS.iter().find(|kind| start[..len].starts_with(kind));
        let path = path.wrapping_add(kind.map_or(0, |kind| kind.len()));
        names::of_path(At::cwd(path), failed)
    });
    named.flatten().map_or(0, |named| named.file)
}

fn known(handle: usize) -> Option<&'static File> {
    let files = FILES.iter().filter(|_| handle != 0);
    files
        .into_iter()
        .find(|file| file.handle.load(Relaxed) == handle)
}

fn know(handle: usize, number: u32, mode: u32) {
    for file in known(handle).into_iter().chain(&FILES) {
        let place = file.handle.load(Relaxed);
        let is_ours = place == handle
            || place == 0 && {
                let taken = file.handle.compare_exchange(0, handle, Relaxed, Relaxed);
                taken.is_ok()
            };
        if is_ours {
            file.number.store(number, Relaxed);
            file.mode.store(mode, Relaxed);
            return;
        }
    }
}

/// Makes a question to the MPI, if it has that function.
macro_rules! ask {
    ($real:ident, ($($ty:ty),+), ($($arg:expr),+)) => {{
        let address = $real.address();
        if address.is_null() {
            return None;
        }
        type Ask = unsafe extern "C-unwind" fn($($ty),+) -> c_int;
        // SAFETY: the function of this name has this type in every MPI, with handles as words.
        let ask = unsafe { std::mem::transmute::<*mut c_void, Ask>(address) };
        // SAFETY: handles are of an open file or of a type that a call has just taken, and the answer
        // is written to a place of ours.
        unsafe { ask($($arg),+) }
    }};
}

fn type_size(datatype: usize) -> Option<c_int> {
    let mut size = 0;
    let code = ask!(TYPE_SIZE, (usize, *mut c_int), (datatype, &raw mut size));
    (code == SUCCESS).then_some(size)
}

fn count(status: *const c_void, datatype: usize) -> Option<c_int> {
    let mut items = 0;
    let code = ask!(
        COUNT,
        (*const c_void, usize, *mut c_int),
        (status, datatype, &raw mut items)
    );
    (code == SUCCESS).then_some(items)
}

fn position(handle: usize) -> Option<i64> {
    let mut at = 0;
    let code = ask!(POSITION, (usize, *mut i64), (handle, &raw mut at));
    (code == SUCCESS).then_some(at)
}

fn byte_offset(handle: usize, at: i64) -> Option<i64> {
    let mut bytes = 0;
    let code = ask!(
        BYTE_OFFSET,
        (usize, i64, *mut i64),
        (handle, at, &raw mut bytes)
    );
    (code == SUCCESS).then_some(bytes)
}
