//! The next definition of a symbol: what a program would have called without us.
//!
//! Always the next of the *same* name, so that other preloaded libraries stay in the chain.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Versions under which the C library keeps symbols that it no longer links programs against.
const OLD_VERSIONS: [&CStr; 3] = [c"GLIBC_2.2.5", c"GLIBC_2.4", c"GLIBC_2.17"];

/// One symbol, looked up when it is first called: hooks run before this library's own start.
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

    /// Its address; null if no library after this one has it.
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
        // SAFETY: the name is a C string. The call is made from this library, which is what "next"
        // counts from.
        let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        for version in OLD_VERSIONS {
            if address.is_null() {
                // SAFETY: as above, with one more C string.
                address =
                    unsafe { libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr()) };
            }
        }
        if address.is_null() && self.is_of_mpi() {
            address = self.find_in_mpi();
        }
        self.address.store(address, Relaxed);
        address
    }

    fn is_of_mpi(&self) -> bool {
        let name = self.name.to_bytes();
        name.starts_with(b"MPI_") || name.starts_with(b"PMPI_")
    }

    /// Looks in an MPI that a program has loaded for itself alone, as those in Python do: what is next
    /// in the line of all does not have it.
    fn find_in_mpi(&self) -> *mut c_void {
        let mut loaded = Loaded {
            path: [0; PATH_MAX],
            skip: 0,
        };
        for skip in 0.. {
            loaded.skip = skip;
            // SAFETY: the callback gets what it expects, and keeps nothing of it.
            let found = unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut loaded).cast()) };
            if found == 0 {
                break;
            }
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
            // SAFETY: a C string; a library that is loaded already runs nothing. It stays loaded.
            let library = unsafe { libc::dlopen(loaded.path.as_ptr(), flags) };
            if library.is_null() {
                continue;
            }
            // SAFETY: the library was just found, and the name is a C string.
            let address = unsafe { libc::dlsym(library, self.name.as_ptr()) };
            if !address.is_null() {
                return address;
            }
        }
        ptr::null_mut()
    }
}

/// Longer paths of libraries are passed over.
const PATH_MAX: usize = 1024;

/// A loaded library that may be an MPI, after so many others.
struct Loaded {
    path: [c_char; PATH_MAX],
    skip: usize,
}

/// Keeps the path of the next library that is called like an MPI; not 0 ends the walk.
unsafe extern "C" fn note(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    loaded: *mut c_void,
) -> c_int {
    // SAFETY: the walk hands out a valid description and what it was called with.
    let (info, loaded) = unsafe { (&*info, &mut *loaded.cast::<Loaded>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the name of a loaded library is a C string.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes_with_nul();
    let is_mpi = path.windows(6).any(|part| part == b"libmpi");
    if !is_mpi || path.len() > PATH_MAX {
        return 0;
    }
    if loaded.skip > 0 {
        loaded.skip -= 1;
        return 0;
    }
    for (kept, byte) in loaded.path.iter_mut().zip(path) {
        *kept = byte.cast_signed();
    }
    1
}
