//! For programs that are ranks and are linked to no MPI library: they load one.

use std::ffi::{CString, c_int, c_void};
use std::mem;
use std::ptr;

use crate::symbols::{SUCCESS, THREAD_MULTIPLE, next};

type Begin = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
type End = unsafe extern "C" fn() -> c_int;

/// A program between init and finalize, whose threads may all call MPI.
#[derive(Debug)]
pub struct Program {
    end: End,
}

impl Program {
    /// Loads the library of a name, such as `libmpi.so.40`, and begins MPI.
    pub fn begin(library: &str) -> Result<Program, String> {
        let name = CString::new(library).map_err(|_| format!("{library:?} is no name"))?;
        // SAFETY: the name is a C string. The library's constructors are those that every program has that is
        // linked to it; the handle is never closed.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        let missing = || format!("there is no MPI library `{library}` here");
        if handle.is_null() {
            return Err(missing());
        }
        let (begin, end) = (next(c"PMPI_Init_thread"), next(c"PMPI_Finalize"));
        if begin.is_null() || end.is_null() {
            return Err(missing());
        }
        // SAFETY: MPI gives the functions of these names these types.
        let (begin, end) = unsafe {
            (
                mem::transmute::<*mut c_void, Begin>(begin),
                mem::transmute::<*mut c_void, End>(end),
            )
        };
        let mut level = 0;
        let no_words = ptr::null_mut();
        // SAFETY: a library takes null for words that a program does not pass on; the level outlives the call.
        let begun = unsafe { begin(ptr::null_mut(), no_words, THREAD_MULTIPLE, &raw mut level) };
        if begun != SUCCESS || level < THREAD_MULTIPLE {
            return Err(format!(
                "`{library}` gives threads level {level} of {THREAD_MULTIPLE}"
            ));
        }
        Ok(Program { end })
    }

    /// Ends MPI; all that was made with it must have been given back.
    pub fn end(self) -> Result<(), String> {
        // SAFETY: it was begun, and is ended once.
        match unsafe { (self.end)() } {
            SUCCESS => Ok(()),
            code => Err(format!("MPI ends with error {code}")),
        }
    }
}
