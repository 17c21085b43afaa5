//! The parts of stdio that tell about a stream and change nothing in it, and what makes streams and
//! listings of descriptors.

use std::ffi::{c_char, c_int, c_void};

use libc::{DIR, FILE, size_t};

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
    static stderr: *mut FILE;
    fn __fbufsize(file: *mut FILE) -> size_t;
    fn __fpending(file: *mut FILE) -> size_t;
    fn __fwriting(file: *mut FILE) -> c_int;
    fn flockfile(file: *mut FILE);
    fn scandirat(
        dir: c_int,
        path: *const c_char,
        list: *mut c_void,
        filter: *const c_void,
        order: *const c_void,
    ) -> c_int;
    fn ftrylockfile(file: *mut FILE) -> c_int;
    fn funlockfile(file: *mut FILE);
}

/// The streams that every program begins with.
pub(crate) fn standard() -> [*mut FILE; 3] {
    // SAFETY: the C library sets them before anything of this library runs, and programs that
    // assign to them do so before they start threads.
    unsafe { [stdin, stdout, stderr] }
}

/// The descriptor below a stream, -1 if there is none.
pub(crate) fn descriptor(file: *mut FILE) -> c_int {
    // SAFETY: the program passed it to a call that takes a stream.
    unsafe { libc::fileno(file) }
}

/// The program's position in it.
pub(crate) fn position(file: *mut FILE) -> Option<i64> {
    // SAFETY: as above.
    let position = unsafe { libc::ftello(file) };
    (position >= 0).then_some(position)
}

/// Whether it was used at all.
pub(crate) fn has_buffer(file: *mut FILE) -> bool {
    // SAFETY: as above.
    unsafe { __fbufsize(file) > 0 }
}

/// Bytes that were written to it and wait.
pub(crate) fn pending(file: *mut FILE) -> i64 {
    // SAFETY: as above.
    unsafe {
        if __fwriting(file) == 0 {
            return 0;
        }
        i64::try_from(__fpending(file)).unwrap_or(0)
    }
}

/// Whether it was last written to.
pub(crate) fn is_writing(file: *mut FILE) -> bool {
    // SAFETY: as above.
    unsafe { __fwriting(file) != 0 }
}

/// Whether a call on it has failed, rather than come to the end.
pub(crate) fn has_failed(file: *mut FILE) -> bool {
    // SAFETY: as above.
    unsafe { libc::ferror(file) != 0 }
}

/// Forgets a failure, and goes to where the program stood; whether that went well.
pub(crate) fn begin_again(file: *mut FILE, at: i64) -> bool {
    // SAFETY: as above.
    unsafe {
        libc::clearerr(file);
        libc::fseeko(file, at, libc::SEEK_SET) == 0
    }
}

/// The flags of a mode that a call has failed with; `None` if it cannot be read.
pub(crate) fn flags_of(mode: *const c_char) -> Option<c_int> {
    let mut bytes = [0; 16];
    let len = crate::sys::copy_foreign_string(mode, &mut bytes)?;
    let mode = bytes.get(..len)?;
    let close = if mode.contains(&b'e') {
        libc::O_CLOEXEC
    } else {
        0
    };
    Some(flags_in(mode) | close)
}

/// A stream on top of a descriptor that was opened for it; null if there is no memory.
pub(crate) fn on_top_of(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the mode was read before, and the descriptor is nobody else's.
    unsafe {
        let file = libc::fdopen(fd, mode);
        if file.is_null() {
            libc::close(fd);
        }
        file
    }
}

/// A listing of a directory that was opened for it; null if there is no memory.
pub(crate) fn listing_of(fd: c_int) -> *mut DIR {
    // SAFETY: the descriptor is nobody else's.
    unsafe {
        let dir = libc::fdopendir(fd);
        if dir.is_null() {
            libc::close(fd);
        }
        dir
    }
}

/// Lists a directory that is open as `dir`, for a call that has failed to list it by name.
pub(crate) fn scan(
    dir: c_int,
    list: *mut c_void,
    filter: *const c_void,
    order: *const c_void,
) -> c_int {
    // SAFETY: what the program has passed to a call that takes the same.
    unsafe { scandirat(dir, c".".as_ptr(), list, filter, order) }
}

/// The flags of `open` that a mode stands for.
///
/// # Safety
/// There is a C string at `mode`.
pub(crate) unsafe fn open_flags(mode: *const c_char) -> c_int {
    let mut bytes = [0; 16];
    // SAFETY: the caller says that there is a C string.
    let len = unsafe { crate::sys::copy_string(mode, &mut bytes) };
    flags_in(bytes.get(..len).unwrap_or_default())
}

fn flags_in(mode: &[u8]) -> c_int {
    let access = if mode.contains(&b'+') {
        libc::O_RDWR
    } else if mode.first() == Some(&b'r') {
        libc::O_RDONLY
    } else {
        libc::O_WRONLY
    };
    let how = match mode.first() {
        Some(b'w') => libc::O_CREAT | libc::O_TRUNC,
        Some(b'a') => libc::O_CREAT | libc::O_APPEND,
        _ => 0,
    };
    access | how
}

/// A stream's own lock, which the thread that has it may take again.
pub(crate) struct Lock(*mut FILE);

impl Lock {
    pub(crate) fn take(file: *mut FILE) -> Lock {
        // SAFETY: the program passed the stream to a call that does the same.
        unsafe { flockfile(file) };
        Lock(file)
    }

    pub(crate) fn if_free(file: *mut FILE) -> Option<Lock> {
        // SAFETY: as above.
        (unsafe { ftrylockfile(file) } == 0).then_some(Lock(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: this thread took it.
        unsafe { funlockfile(self.0) }
    }
}
