//! Functions and variables of the libraries that a program has loaded.
//!
//! A function is always the next of the *same* name, so that other preloaded libraries stay in the chain.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// Versions under which the C library keeps symbols that it no longer links programs against.
const OLD_VERSIONS: [&CStr; 3] = [c"GLIBC_2.2.5", c"GLIBC_2.4", c"GLIBC_2.17"];

/// MPI libraries that a program may have loaded for itself alone, as an extension of Python does, and the part of
/// Open MPI that it loads so itself.
const PRIVATE_LIBRARIES: [&CStr; 4] = [
    c"libmpi.so.40",
    c"libmpich.so.12",
    c"libmpi.so.12",
    c"libmca_common_ompio.so.41",
];

/// Longest text of a library about itself.
const VERSION_LEN: usize = 16 << 10;

/// A handle of MPI, as the library hands it out: one register wide, whatever it is.
pub type Raw = usize;

/// The value that a call of MPI returns when it went well, in every library.
pub const SUCCESS: c_int = 0;

/// The number of the level at which all threads may call MPI at any time, in every library.
pub(crate) const THREAD_MULTIPLE: c_int = 3;

/// The libraries whose binary interface we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// MPICH and those that share its interface: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
    /// Open MPI.
    OpenMpi,
}

/// A variable of a library, where the program sees it: perhaps as a copy of its own.
pub fn variable(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        next(name)
    } else {
        address
    }
}

/// The next symbol of a name after this library; null if there is none.
pub fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string. The call is made from this library, which is what "next"
    // counts from.
    let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    for version in OLD_VERSIONS {
        if address.is_null() {
            // SAFETY: as above, with one more C string.
            address = unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) };
        }
    }
    for library in PRIVATE_LIBRARIES {
        if address.is_null() && is_mpi(name) {
            address = inside(library, name);
        }
    }
    address
}

fn is_mpi(name: &CStr) -> bool {
    let name = name.to_bytes();
    [b"MPI_".as_slice(), b"PMPI_", b"ompi_", b"mca_"]
        .iter()
        .any(|first| name.starts_with(first))
}

/// A symbol of a library that is loaded already.
fn inside(library: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: both are C strings. NOLOAD runs no code of the library, and its handle is never closed.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return ptr::null_mut();
        }
        libc::dlsym(handle, name.as_ptr())
    }
}

/// Which interface the program's library has; `None` if there is none that we know.
pub fn abi() -> Option<Abi> {
    static ABI: OnceLock<Option<Abi>> = OnceLock::new();
    *ABI.get_or_init(find_abi)
}

fn find_abi() -> Option<Abi> {
    if !variable(c"ompi_mpi_comm_world").is_null() {
        return Some(Abi::OpenMpi);
    }
    type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    let address = next(c"PMPI_Get_library_version");
    if address.is_null() {
        return None;
    }
    // SAFETY: MPI gives the function of this name this type.
    let ask = unsafe { std::mem::transmute::<*mut c_void, Version>(address) };
    let mut text = vec![0_u8; VERSION_LEN];
    let mut len = 0;
    // SAFETY: the text has more room than any library asks for.
    let done = unsafe { ask(text.as_mut_ptr().cast(), &raw mut len) };
    let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy();
    let shared = ["MPICH", "Intel(R) MPI", "MVAPICH"];
    (done == SUCCESS && shared.iter().any(|name| text.contains(name))).then_some(Abi::Mpich)
}
