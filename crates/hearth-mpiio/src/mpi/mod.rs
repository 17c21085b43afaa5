//! The MPI library of this program, whichever it is.
//!
//! Handles pass through here as they are, in a register, and mean nothing to us. The differences between the libraries
//! that matter are in [`Mpi`]: the type of a handle in memory, and a few constants.

mod access;
mod files;
mod hooks;
mod progress;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use hearth_mpi::symbols::{Abi, abi, next, variable};
pub(crate) use hearth_mpi::symbols::{Raw, SUCCESS};

/// Longest value of a hint, with the zero at its end.
const HINT_LEN: usize = 256;

/// Error classes that we return; the classes are error codes themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    FileInUse,
    Io,
    NoSpace,
    Quota,
    Unsupported,
}

type Allgather =
    unsafe extern "C" fn(*const c_void, c_int, Raw, *mut c_void, c_int, Raw, Raw) -> c_int;
type Ask = unsafe extern "C" fn(Raw, *mut c_int) -> c_int;
type Wait = unsafe extern "C" fn(Raw) -> c_int;
type Tell = unsafe extern "C" fn(Raw, c_int) -> c_int;
type Look = unsafe extern "C" fn(Raw, *mut c_int, Raw) -> c_int;
type End = unsafe extern "C" fn(*mut Raw) -> c_int;
type InfoGet = unsafe extern "C" fn(Raw, *const c_char, c_int, *mut c_char, *mut c_int) -> c_int;
type InfoSet = unsafe extern "C" fn(Raw, *const c_char, *const c_char) -> c_int;

/// The parts of the library that we use.
pub(crate) struct Mpi {
    abi: Abi,
    byte: Raw,
    world: Raw,
    info_null: Raw,
    allgather: Allgather,
    barrier: Wait,
    comm_rank: Ask,
    comm_size: Ask,
    info_get: InfoGet,
    info_set: InfoSet,
    request_get_status: Look,
    call_errhandler: Tell,
    close: End,
    file_null: Raw,
}

/// The library; `None` if there is none that we know.
pub(crate) fn mpi() -> Option<&'static Mpi> {
    static MPI: OnceLock<Option<Mpi>> = OnceLock::new();
    MPI.get_or_init(Mpi::find).as_ref()
}

/// A function of the library.
macro_rules! function {
    ($name:literal: $kind:ty) => {{
        let address = next($name);
        if address.is_null() {
            return None;
        }
        // SAFETY: MPI says which type the function of this name has; handles are one register wide.
        unsafe { std::mem::transmute::<*mut c_void, $kind>(address) }
    }};
}

impl Mpi {
    fn find() -> Option<Mpi> {
        let abi = abi()?;
        let (byte, world, info_null, file_null) = match abi {
            Abi::Mpich => (0x4c00_010d, 0x4400_0000, 0x1c00_0000, 0),
            Abi::OpenMpi => (
                variable(c"ompi_mpi_byte").addr(),
                variable(c"ompi_mpi_comm_world").addr(),
                variable(c"ompi_mpi_info_null").addr(),
                variable(c"ompi_mpi_file_null").addr(),
            ),
        };
        Some(Mpi {
            abi,
            byte,
            world,
            info_null,
            allgather: function!(c"PMPI_Allgather": Allgather),
            barrier: function!(c"PMPI_Barrier": Wait),
            comm_rank: function!(c"PMPI_Comm_rank": Ask),
            comm_size: function!(c"PMPI_Comm_size": Ask),
            info_get: function!(c"PMPI_Info_get": InfoGet),
            info_set: function!(c"PMPI_Info_set": InfoSet),
            request_get_status: function!(c"PMPI_Request_get_status": Look),
            call_errhandler: function!(c"PMPI_File_call_errhandler": Tell),
            close: function!(c"PMPI_File_close": End),
            file_null,
        })
    }

    /// The communicator of all ranks.
    pub(crate) fn world(&self) -> Raw {
        self.world
    }

    /// This rank's number in a communicator, and how many there are.
    pub(crate) fn place(&self, comm: Raw) -> Option<(u32, u32)> {
        let (mut rank, mut size) = (-1, -1);
        // SAFETY: the communicator is the program's own or the world; both numbers outlive the calls.
        let went = unsafe {
            (self.comm_rank)(comm, &raw mut rank) == SUCCESS
                && (self.comm_size)(comm, &raw mut size) == SUCCESS
        };
        let number = |number: c_int| u32::try_from(number).ok();
        went.then_some((number(rank)?, number(size)?))
    }

    /// The bytes that every rank of a communicator says, in the order of ranks.
    pub(crate) fn exchange<const N: usize>(
        &self,
        comm: Raw,
        mine: &[u8; N],
    ) -> Option<Vec<[u8; N]>> {
        let (_, size) = self.place(comm)?;
        let mut all = vec![[0_u8; N]; size as usize];
        let count = c_int::try_from(N).ok()?;
        // SAFETY: `N` bytes go, and `N` come from each rank; both buffers outlive the call.
        let done = unsafe {
            (self.allgather)(
                mine.as_ptr().cast(),
                count,
                self.byte,
                all.as_mut_ptr().cast(),
                count,
                self.byte,
                comm,
            )
        };
        (done == SUCCESS).then_some(all)
    }

    /// Waits for all ranks of the world.
    pub(crate) fn barrier(&self) {
        // SAFETY: between init and finalize, where the callers are, the world can be used.
        let _ = unsafe { (self.barrier)(self.world) };
    }

    /// The value of a hint.
    pub(crate) fn hint(&self, info: Raw, name: &CStr) -> Option<String> {
        let null = match self.abi {
            Abi::Mpich => info & 0xffff_ffff == self.info_null,
            Abi::OpenMpi => info == self.info_null || info == 0,
        };
        if null {
            return None;
        }
        let mut value = [0_u8; HINT_LEN];
        let mut found = 0;
        let longest = c_int::try_from(HINT_LEN - 1).ok()?;
        // SAFETY: the info object is the program's; the value has room for `longest` and a zero.
        let done = unsafe {
            let value = value.as_mut_ptr().cast();
            (self.info_get)(info, name.as_ptr(), longest, value, &raw mut found)
        };
        let value = CStr::from_bytes_until_nul(&value).ok()?.to_str().ok()?;
        (done == SUCCESS && found != 0).then(|| value.trim().to_owned())
    }

    /// Sets a hint of an info object that the library has just put at `place`.
    pub(crate) fn set_hint(&self, place: *const c_void, name: &CStr, value: &str) {
        let Ok(value) = CString::new(value) else {
            return;
        };
        // SAFETY: the library has put a handle there, of the width that its interface has.
        let info = unsafe { self.handle(place) };
        // SAFETY: the handle is good, and both strings outlive the call.
        let _ = unsafe { (self.info_set)(info, name.as_ptr(), value.as_ptr()) };
    }

    /// Waits until a request is complete, and leaves it to be waited for.
    pub(crate) fn await_request(&self, place: *const c_void) {
        // Both libraries take this for a status that nobody wants.
        let ignored = match self.abi {
            Abi::Mpich => 1,
            Abi::OpenMpi => 0,
        };
        let mut complete = 0;
        loop {
            // SAFETY: the library has put a request there that is not yet complete for the program.
            let done = unsafe {
                let request = self.handle(place);
                (self.request_get_status)(request, &raw mut complete, ignored)
            };
            if done != SUCCESS || complete != 0 {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Lets the file's error handler know, and returns the error for the program.
    pub(crate) fn fail(&self, file: Raw, class: Class) -> c_int {
        let code = self.code(class);
        // Open MPI takes no null file there, though that has a handler; it returns errors by default.
        if self.abi == Abi::OpenMpi && file == self.file_null {
            return code;
        }
        // SAFETY: the file is open, or is the null file, which has a handler as well.
        let _ = unsafe { (self.call_errhandler)(file, code) };
        code
    }

    /// The file that is none; errors of opens are told to its handler.
    pub(crate) fn file_null(&self) -> Raw {
        self.file_null
    }

    /// The library's own close.
    pub(crate) fn close(&self, file: *mut Raw) -> c_int {
        // SAFETY: the library has just put an open file there.
        unsafe { (self.close)(file) }
    }

    /// The number that a class has.
    pub(crate) fn code(&self, class: Class) -> c_int {
        match (self.abi, class) {
            (Abi::Mpich, Class::FileInUse) => 26,
            (Abi::Mpich, Class::Io) => 32,
            (Abi::Mpich, Class::NoSpace) => 36,
            (Abi::Mpich, Class::Quota) => 39,
            (Abi::Mpich, Class::Unsupported) => 44,
            (Abi::OpenMpi, Class::FileInUse) => 29,
            (Abi::OpenMpi, Class::Io) => 35,
            (Abi::OpenMpi, Class::NoSpace) => 41,
            (Abi::OpenMpi, Class::Quota) => 44,
            (Abi::OpenMpi, Class::Unsupported) => 52,
        }
    }

    /// # Safety
    /// The library has put a handle there.
    unsafe fn handle(&self, place: *const c_void) -> Raw {
        match self.abi {
            // SAFETY: the caller says so; handles of MPICH are ints.
            Abi::Mpich => unsafe { place.cast::<u32>().read() as Raw },
            // SAFETY: the caller says so; handles of Open MPI are pointers.
            Abi::OpenMpi => unsafe { place.cast::<Raw>().read() },
        }
    }
}

impl Class {
    /// The class of a system error.
    pub(crate) fn of(error: &std::io::Error) -> Class {
        match error.raw_os_error() {
            Some(libc::ENOSPC) => Class::NoSpace,
            Some(libc::EDQUOT) => Class::Quota,
            Some(_) | None => Class::Io,
        }
    }
}
