//! Calls that make, end and look up names.

use std::ffi::{c_char, c_int, c_uint};

use hearth_trace::Op;
use libc::{mode_t, off_t, size_t, ssize_t};

use crate::call::on_path;
use crate::names::At;
use crate::table::hooks;
use crate::{cwd, gone, kept};

hooks! {
    fn access(path: *const c_char, mode: c_int) -> c_int =
        |real| on_path(Op::Access, At::cwd(path)).call(move || accessing(At::cwd(path), (mode, 0), real));
    fn eaccess(path: *const c_char, mode: c_int) -> c_int =
        |real| on_path(Op::Access, At::cwd(path))
            .call(move || accessing(At::cwd(path), (mode, libc::AT_EACCESS), real));
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int =
        |real| on_path(Op::Access, At::cwd(path))
            .call(move || accessing(At::cwd(path), (mode, libc::AT_EACCESS), real));
    fn faccessat(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int =
        |real| on_path(Op::Access, At { dir, path })
            .call(move || accessing(At { dir, path }, (mode, flags), real));

    fn rename(from: *const c_char, to: *const c_char) -> c_int =
        |real| on_path(Op::Rename, At::cwd(from)).call(real);
    fn renameat(dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int =
        |real| on_path(Op::Rename, At { dir, path: from }).call(real);
    fn renameat2(dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_uint) -> c_int =
        |real| on_path(Op::Rename, At { dir, path: from }).call(real);
    fn link(from: *const c_char, to: *const c_char) -> c_int =
        |real| on_path(Op::Link, At::cwd(from)).call(real);
    fn linkat(dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_int) -> c_int =
        |real| on_path(Op::Link, At { dir, path: from }).call(real);
    fn symlink(target: *const c_char, path: *const c_char) -> c_int =
        |real| on_path(Op::Symlink, At::cwd(path)).call(real);
    fn symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int =
        |real| on_path(Op::Symlink, At { dir, path }).call(real);
    fn unlink(path: *const c_char) -> c_int =
        |real| on_path(Op::Unlink, At::cwd(path)).call(real);
    fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int = |real| {
        let op = if flags & libc::AT_REMOVEDIR != 0 { Op::Rmdir } else { Op::Unlink };
        on_path(op, At { dir, path }).call(real)
    };
    fn remove(path: *const c_char) -> c_int =
        |real| on_path(Op::Unlink, At::cwd(path)).call(real);
    fn mkdir(path: *const c_char, mode: mode_t) -> c_int =
        |real| on_path(Op::Mkdir, At::cwd(path)).call(real);
    fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int =
        |real| on_path(Op::Mkdir, At { dir, path }).call(real);
    fn mkdtemp(path: *mut c_char) -> *mut c_char =
        |real| on_path(Op::Mkdir, At::cwd(path)).call(real);
    fn rmdir(path: *const c_char) -> c_int =
        |real| on_path(Op::Rmdir, At::cwd(path)).call(real);

    fn readlink(path: *const c_char, buf: *mut c_char, size: size_t) -> ssize_t =
        |real| on_path(Op::Readlink, At::cwd(path)).asks(size).call(real);
    fn __readlink_chk(path: *const c_char, buf: *mut c_char, size: size_t, room: size_t) -> ssize_t =
        |real| on_path(Op::Readlink, At::cwd(path)).asks(size).call(real);
    fn readlinkat(dir: c_int, path: *const c_char, buf: *mut c_char, size: size_t) -> ssize_t =
        |real| on_path(Op::Readlink, At { dir, path }).asks(size).call(real);
    fn __readlinkat_chk(dir: c_int, path: *const c_char, buf: *mut c_char, size: size_t, room: size_t) -> ssize_t =
        |real| on_path(Op::Readlink, At { dir, path }).asks(size).call(real);

    fn truncate(path: *const c_char, size: off_t) -> c_int =
        |real| on_path(Op::Truncate, At::cwd(path)).at(size).call(real);
    fn truncate64(path: *const c_char, size: off_t) -> c_int =
        |real| on_path(Op::Truncate, At::cwd(path)).at(size).call(real);

    fn chdir(path: *const c_char) -> c_int = |real| moving(real);
    fn fchdir(fd: c_int) -> c_int = |real| moving(real);
    fn chroot(path: *const c_char) -> c_int = |real| {
        let done = moving(real);
        kept::forget_all();
        done
    };
}

/// Whether something may be done to what is at a path.
fn accessing(at: At, how: (c_int, c_int), real: impl Fn() -> c_int) -> c_int {
    gone::accessing(at, how, || {
        // SAFETY: that is what the program says by the call. A whole path leads to the same from any
        // directory.
        unsafe { kept::access(how, at.path, &real) }
    })
}

/// Relative paths begin elsewhere after this.
fn moving(real: impl FnOnce() -> c_int) -> c_int {
    let done = real();
    if done == 0 {
        cwd::forget();
    }
    done
}
