//! The next definition of a symbol: what a program would have called without us.
//!
//! Always the next of the *same* name, so that other preloaded libraries stay in the chain.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use hearth_mpi::symbols::next;

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
        let address = next(self.name);
        self.address.store(address, Relaxed);
        address
    }
}
