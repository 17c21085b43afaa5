//! Calls that list directories.

use std::ffi::{c_char, c_int, c_void};

use hearth_trace::Op;
use libc::{DIR, dirent, size_t, ssize_t};

use crate::call::{closing, on, on_path, opening_directory};
use crate::errno::keeping_errno;
use crate::names::At;
use crate::table::hooks;
use crate::{gone, stdio};

hooks! {
    fn opendir(path: *const c_char) -> *mut DIR =
        |real| opening_directory(At::cwd(path), || gone::listing(At::cwd(path), real));
    fn fdopendir(fd: c_int) -> *mut DIR = |real| on(Op::Opendir, fd).call(real);
    fn readdir(dir: *mut DIR) -> *mut dirent =
        |real| on(Op::Readdir, descriptor(dir)).call_to_the_end(real);
    fn readdir64(dir: *mut DIR) -> *mut dirent =
        |real| on(Op::Readdir, descriptor(dir)).call_to_the_end(real);
    fn readdir_r(dir: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> c_int =
        |real| on(Op::Readdir, descriptor(dir)).call_returning_error(real);
    fn readdir64_r(dir: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> c_int =
        |real| on(Op::Readdir, descriptor(dir)).call_returning_error(real);
    fn closedir(dir: *mut DIR) -> c_int = |real| closing(descriptor(dir), real);
    fn getdents64(fd: c_int, buf: *mut c_void, size: size_t) -> ssize_t =
        |real| on(Op::Readdir, fd).asks(size).call(real);
    fn scandir(path: *const c_char, list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int =
        |real| on_path(Op::Readdir, At::cwd(path))
            .call(|| gone::listing_all(At::cwd(path), real, |dir| stdio::scan(dir, list, filter, order)));
    fn scandir64(path: *const c_char, list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int =
        |real| on_path(Op::Readdir, At::cwd(path))
            .call(|| gone::listing_all(At::cwd(path), real, |dir| stdio::scan(dir, list, filter, order)));
    fn scandirat(dir: c_int, path: *const c_char, list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int =
        |real| on_path(Op::Readdir, At { dir, path })
            .call(|| gone::listing_all(At { dir, path }, real, |dir| stdio::scan(dir, list, filter, order)));
    fn scandirat64(dir: c_int, path: *const c_char, list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int =
        |real| on_path(Op::Readdir, At { dir, path })
            .call(|| gone::listing_all(At { dir, path }, real, |dir| stdio::scan(dir, list, filter, order)));
}

/// The descriptor below a listing, -1 if there is none.
fn descriptor(dir: *mut DIR) -> c_int {
    if dir.is_null() {
        return -1;
    }
    // SAFETY: the program passed it to a call that takes a listing.
    keeping_errno(|| unsafe { libc::dirfd(dir) })
}
