//! The next definition of a symbol: what a program would have called without us.
//!
//! Always the next of the *same* name, so that other preloaded libraries stay in the chain.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Versions under which the C library keeps symbols that it no longer links programs against.
const OLD_VERSIONS: [&CStr; 3] = [c"GLIBC_2.2.5", c"GLIBC_2.4", c"GLIBC_2.17"];

/// MPI libraries that a program may have loaded for itself alone, as an extension of Python does.
const PRIVATE_LIBRARIES: [&CStr; 3] = [c"libmpi.so.40", c"libmpich.so.12", c"libmpi.so.12"];

/// One symbol, looked up when it is first called.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    /// The symbol of this name, which ends with a zero byte.
    pub(crate) const fn new(name: &'static str) -> Real {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("a symbol's name ends with its only zero byte");
        };
        Real {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Where it is; null if no library after this one has it.
    #[inline(always)]
    pub(crate) fn address(&self) -> *mut c_void {
        // Relaxed: the address is all there is, and every thread finds the same.
        let address = self.address.load(Relaxed);
        if address.is_null() {
            return self.find();
        }
        address
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        let address = next(self.name);
        self.address.store(address, Relaxed);
        address
    }
}

/// A variable of a library, where the program sees it: perhaps as a copy of its own.
pub(crate) fn variable(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        next(name)
    } else {
        address
    }
}

/// The next symbol of a name after this library; null if there is none.
pub(crate) fn next(name: &CStr) -> *mut c_void {
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
    [b"MPI_".as_slice(), b"PMPI_", b"ompi_"]
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
