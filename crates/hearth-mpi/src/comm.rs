//! A communicator of our own, and messages in it.
//!
//! Nobody else sends in it, so tags mean what we say. It returns errors, whatever the program wants of its own
//! calls. Any thread may call: a [`Comm`] is made only where the library has said `MPI_THREAD_MULTIPLE`.
//!
//! A message is cut into *pieces*, each with a tag of its own. A piece's bytes belong to MPI until it is
//! complete; a message that is dropped before that leaves them to MPI for good.

use std::cell::Cell;
use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::{fmt, mem};

use crate::symbols::{Abi, Raw, SUCCESS, THREAD_MULTIPLE, abi, next, variable};

/// The most bytes of a piece.
pub(crate) const PIECE_LEN_MAX: usize = 1 << 20;

/// Tags in use: every library has at least so many.
pub(crate) const TAGS: u64 = 1 << 14;

const ERROR_LEN: usize = 1 << 10;

type Start = unsafe extern "C" fn(*mut c_void, c_int, Raw, c_int, c_int, Raw, *mut u64) -> c_int;
type Test = unsafe extern "C" fn(*mut u64, *mut c_int, Raw) -> c_int;
type All = unsafe extern "C" fn(*const c_void, c_int, Raw, *mut c_void, c_int, Raw, Raw) -> c_int;
type Ask = unsafe extern "C" fn(Raw, *mut c_int) -> c_int;
type Duplicate = unsafe extern "C" fn(Raw, *mut u64) -> c_int;
type Set = unsafe extern "C" fn(Raw, Raw) -> c_int;
type Free = unsafe extern "C" fn(*mut u64) -> c_int;
type Query = unsafe extern "C" fn(*mut c_int) -> c_int;
type Text = unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int;

/// A call of MPI that went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommError(String);

impl CommError {
    /// The numbers of pieces that a rank tells make no sense.
    pub(crate) fn numbers() -> CommError {
        CommError("the peer does not count its messages".into())
    }

    pub(crate) fn doorbell() -> CommError {
        CommError("the peer rings a bell that means nothing".into())
    }

    pub(crate) fn stuck(messages: usize) -> CommError {
        CommError(format!("{messages} messages have not arrived"))
    }
}

impl fmt::Display for CommError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for CommError {}

/// A function of the library.
macro_rules! function {
    ($name:literal: $kind:ty) => {{
        let address = next($name);
        if address.is_null() {
            return Err(CommError(format!("the MPI library has no {:?}", $name)));
        }
        // SAFETY: MPI says which type the function of this name has; handles are one register wide.
        unsafe { mem::transmute::<*mut c_void, $kind>(address) }
    }};
}

thread_local! {
    /// Whether this thread is inside of a call that goes on with messages of ours.
    static GOING_ON: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside of a call of MPI that this library makes for a message of its own.
pub fn is_going_on() -> bool {
    GOING_ON.get()
}

fn going_on<T>(call: impl FnOnce() -> T) -> T {
    GOING_ON.set(true);
    let done = call();
    GOING_ON.set(false);
    done
}

/// Whether any thread of this program may call MPI at any time.
pub fn is_multiple() -> bool {
    let ask = || -> Result<bool, CommError> {
        let query = function!(c"PMPI_Query_thread": Query);
        let mut level = 0;
        // SAFETY: the number outlives the call.
        let done = unsafe { query(&raw mut level) };
        Ok(done == SUCCESS && level >= THREAD_MULTIPLE)
    };
    ask().unwrap_or(false)
}

/// A duplicate of the communicator of all ranks.
#[derive(Debug)]
pub struct Comm {
    comm: u64,
    byte: Raw,
    /// For a status that nobody wants.
    no_status: Raw,
    rank: u32,
    ranks: u32,
    send: Start,
    receive: Start,
    test: Test,
    all_to_all: All,
    free: Free,
    error_string: Text,
}

impl Comm {
    /// Duplicates the world. All ranks must make this call, between init and finalize.
    pub fn of_world() -> Result<Comm, CommError> {
        let abi = abi().ok_or_else(|| CommError("the MPI library is not known".into()))?;
        let (byte, world, returns, no_status) = match abi {
            Abi::Mpich => (0x4c00_010d, 0x4400_0000, 0x5400_0001, 1),
            Abi::OpenMpi => (
                variable(c"ompi_mpi_byte").addr(),
                variable(c"ompi_mpi_comm_world").addr(),
                variable(c"ompi_mpi_errors_return").addr(),
                0,
            ),
        };
        let duplicate = function!(c"PMPI_Comm_dup": Duplicate);
        let set_errors = function!(c"PMPI_Comm_set_errhandler": Set);
        let rank = function!(c"PMPI_Comm_rank": Ask);
        let size = function!(c"PMPI_Comm_size": Ask);
        let mut comm = Comm {
            comm: 0,
            byte,
            no_status,
            rank: 0,
            ranks: 0,
            send: function!(c"PMPI_Isend": Start),
            receive: function!(c"PMPI_Irecv": Start),
            test: function!(c"PMPI_Test": Test),
            all_to_all: function!(c"PMPI_Alltoall": All),
            free: function!(c"PMPI_Comm_free": Free),
            error_string: function!(c"PMPI_Error_string": Text),
        };
        // SAFETY: the caller says that MPI can be used; a handle is no longer than a word, and a shorter one
        // fills its lower half.
        let duplicated = unsafe { duplicate(world, &raw mut comm.comm) };
        comm.check(duplicated)?;
        // SAFETY: the communicator was just made.
        comm.check(unsafe { set_errors(comm.raw(), returns) })?;
        let number = |ask: Ask| {
            let mut number = 0;
            // SAFETY: as above; the number outlives the call.
            comm.check(unsafe { ask(comm.raw(), &raw mut number) })?;
            u32::try_from(number).map_err(|_| CommError(format!("MPI says {number}")))
        };
        (comm.rank, comm.ranks) = (number(rank)?, number(size)?);
        Ok(comm)
    }

    fn raw(&self) -> Raw {
        self.comm as Raw
    }

    fn check(&self, code: c_int) -> Result<(), CommError> {
        if code == SUCCESS {
            return Ok(());
        }
        let mut text = [0_u8; ERROR_LEN];
        let mut len = 0;
        // SAFETY: the text has more room than any library asks for.
        let _ = unsafe { (self.error_string)(code, text.as_mut_ptr().cast(), &raw mut len) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Err(CommError(format!("MPI: {}", text.to_string_lossy())))
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Begins to send a message, whose first piece has a number; the others follow it.
    pub(crate) fn send(
        &self,
        to: u32,
        first: u64,
        parts: [Vec<u8>; 2],
    ) -> Result<Message, CommError> {
        self.start(self.send, to, first, parts)
    }

    /// Begins to receive a message of these lengths.
    pub(crate) fn receive(
        &self,
        from: u32,
        first: u64,
        lens: [usize; 2],
    ) -> Result<Message, CommError> {
        self.start(self.receive, from, first, lens.map(|len| vec![0; len]))
    }

    fn start(
        &self,
        call: Start,
        peer: u32,
        first: u64,
        parts: [Vec<u8>; 2],
    ) -> Result<Message, CommError> {
        let peer = c_int::try_from(peer).map_err(|_| CommError(format!("no rank {peer}")))?;
        let mut message = Message {
            parts,
            pieces: Vec::new(),
        };
        let mut number = first;
        for part in &mut message.parts {
            for piece in part.chunks_mut(PIECE_LEN_MAX) {
                let (at, len) = (piece.as_mut_ptr().cast(), piece.len() as c_int);
                let tag = (number % TAGS) as c_int;
                let mut request = 0;
                // SAFETY: the bytes are the message's own, which keeps them until the piece is complete, and
                // touches them no more; the request is kept as well.
                let started = going_on(|| unsafe {
                    let (byte, comm) = (self.byte, self.raw());
                    call(at, len, byte, peer, tag, comm, &raw mut request)
                });
                self.check(started)?;
                message.pieces.push(request);
                number += 1;
            }
        }
        Ok(message)
    }

    /// A number for each rank, and those that they have for this one. All ranks must make this call.
    pub fn exchange(&self, numbers: &[u64]) -> Result<Vec<u64>, CommError> {
        assert_eq!(numbers.len(), self.ranks as usize, "a number for each rank");
        let mut got = vec![0_u64; numbers.len()];
        let each = size_of::<u64>() as c_int;
        // SAFETY: a word goes to each rank, and one comes; both buffers outlive the call.
        let done = unsafe {
            let (to, from) = (numbers.as_ptr().cast(), got.as_mut_ptr().cast());
            (self.all_to_all)(to, each, self.byte, from, each, self.byte, self.raw())
        };
        self.check(done).map(|()| got)
    }

    /// Gives the communicator back. All ranks must make this call, when no message is under way.
    pub(crate) fn give_back(&self) -> Result<(), CommError> {
        let mut comm = self.comm;
        // SAFETY: it was made by this library, and nobody uses it any more.
        self.check(unsafe { (self.free)(&raw mut comm) })
    }
}

/// Pieces that parts of these lengths are cut into.
pub(crate) fn pieces_of(lens: [usize; 2]) -> u64 {
    lens.iter()
        .map(|len| len.div_ceil(PIECE_LEN_MAX) as u64)
        .sum()
}

/// A message under way.
#[derive(Debug)]
pub(crate) struct Message {
    parts: [Vec<u8>; 2],
    /// Requests of pieces that are not known to be complete.
    pieces: Vec<u64>,
}

impl Message {
    /// Whether it is complete; has MPI go on with all that is under way.
    pub(crate) fn is_complete(&mut self, comm: &Comm) -> Result<bool, CommError> {
        while let Some(request) = self.pieces.last_mut() {
            let mut complete = 0;
            // SAFETY: the request is one of this message that was not complete; MPI takes it back when it is.
            let tested = going_on(|| unsafe {
                (comm.test)(&raw mut *request, &raw mut complete, comm.no_status)
            });
            comm.check(tested)?;
            if complete == 0 {
                return Ok(false);
            }
            self.pieces.pop();
        }
        Ok(true)
    }

    /// The parts of a message that is complete.
    pub(crate) fn into_parts(mut self) -> [Vec<u8>; 2] {
        assert!(self.pieces.is_empty(), "MPI still has these bytes");
        mem::take(&mut self.parts)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if !self.pieces.is_empty() {
            // MPI may still read or fill them.
            mem::forget(mem::take(&mut self.parts));
        }
    }
}
