//! Calls about what files are: `stat` and its kin, permissions, times, extended attributes.

use std::ffi::{c_char, c_int, c_uint, c_void};

use hearth_trace::Op;
use libc::{gid_t, mode_t, size_t, ssize_t, uid_t};

use crate::call::{on, on_path};
use crate::kept::{self, Form};
use crate::names::At;
use crate::sys;
use crate::table::hooks;
use crate::{gone, owners};

hooks! {
    fn stat(path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At::cwd(path)).call(move || at_path(path, 0, buf, real));
    fn stat64(path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At::cwd(path)).call(move || at_path(path, 0, buf, real));
    fn lstat(path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At::cwd(path)).call(move || at_path(path, LINK_ITSELF, buf, real));
    fn lstat64(path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At::cwd(path)).call(move || at_path(path, LINK_ITSELF, buf, real));
    fn fstatat(dir: c_int, path: *const c_char, buf: *mut c_void, flags: c_int) -> c_int =
        |real| on_path(Op::Stat, At { dir, path })
            .call(move || at_place(Form::Stat, At { dir, path }, flags, buf, real));
    fn fstatat64(dir: c_int, path: *const c_char, buf: *mut c_void, flags: c_int) -> c_int =
        |real| on_path(Op::Stat, At { dir, path })
            .call(move || at_place(Form::Stat, At { dir, path }, flags, buf, real));
    fn statx(dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At { dir, path })
            .call(move || at_place(Form::Statx { flags, mask }, At { dir, path }, flags, buf, real));
    fn fstat(fd: c_int, buf: *mut c_void) -> c_int =
        |real| on(Op::Fstat, fd).call(move || open_file(fd, buf, real));
    fn fstat64(fd: c_int, buf: *mut c_void) -> c_int =
        |real| on(Op::Fstat, fd).call(move || open_file(fd, buf, real));
    fn __xstat(version: c_int, path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At::cwd(path)).call(move || at_path(path, 0, buf, real));
    fn __xstat64(version: c_int, path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At::cwd(path)).call(move || at_path(path, 0, buf, real));
    fn __lxstat(version: c_int, path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At::cwd(path)).call(move || at_path(path, LINK_ITSELF, buf, real));
    fn __lxstat64(version: c_int, path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Stat, At::cwd(path)).call(move || at_path(path, LINK_ITSELF, buf, real));
    fn __fxstat(version: c_int, fd: c_int, buf: *mut c_void) -> c_int =
        |real| on(Op::Fstat, fd).call(move || open_file(fd, buf, real));
    fn __fxstat64(version: c_int, fd: c_int, buf: *mut c_void) -> c_int =
        |real| on(Op::Fstat, fd).call(move || open_file(fd, buf, real));
    fn __fxstatat(version: c_int, dir: c_int, path: *const c_char, buf: *mut c_void, flags: c_int) -> c_int =
        |real| on_path(Op::Stat, At { dir, path })
            .call(move || at_place(Form::Stat, At { dir, path }, flags, buf, real));
    fn __fxstatat64(version: c_int, dir: c_int, path: *const c_char, buf: *mut c_void, flags: c_int) -> c_int =
        |real| on_path(Op::Stat, At { dir, path })
            .call(move || at_place(Form::Stat, At { dir, path }, flags, buf, real));

    fn statfs(path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Statfs, At::cwd(path)).call(real);
    fn statfs64(path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Statfs, At::cwd(path)).call(real);
    fn statvfs(path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Statfs, At::cwd(path)).call(real);
    fn statvfs64(path: *const c_char, buf: *mut c_void) -> c_int =
        |real| on_path(Op::Statfs, At::cwd(path)).call(real);
    fn fstatfs(fd: c_int, buf: *mut c_void) -> c_int = |real| on(Op::Statfs, fd).call(real);
    fn fstatfs64(fd: c_int, buf: *mut c_void) -> c_int = |real| on(Op::Statfs, fd).call(real);
    fn fstatvfs(fd: c_int, buf: *mut c_void) -> c_int = |real| on(Op::Statfs, fd).call(real);
    fn fstatvfs64(fd: c_int, buf: *mut c_void) -> c_int = |real| on(Op::Statfs, fd).call(real);

    fn chmod(path: *const c_char, mode: mode_t) -> c_int =
        |real| on_path(Op::Setattr, At::cwd(path)).call(real);
    fn lchmod(path: *const c_char, mode: mode_t) -> c_int =
        |real| on_path(Op::Setattr, At::cwd(path)).call(real);
    fn fchmodat(dir: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int =
        |real| on_path(Op::Setattr, At { dir, path }).call(real);
    fn fchmod(fd: c_int, mode: mode_t) -> c_int = |real| on(Op::Setattr, fd).call(real);
    fn chown(path: *const c_char, user: uid_t, group: gid_t) -> c_int =
        |real| on_path(Op::Setattr, At::cwd(path))
            .call(move || owners::giving(At::cwd(path), 0, (user, group), real));
    fn lchown(path: *const c_char, user: uid_t, group: gid_t) -> c_int =
        |real| on_path(Op::Setattr, At::cwd(path))
            .call(move || owners::giving(At::cwd(path), LINK_ITSELF, (user, group), real));
    fn fchownat(dir: c_int, path: *const c_char, user: uid_t, group: gid_t, flags: c_int) -> c_int =
        |real| on_path(Op::Setattr, At { dir, path })
            .call(move || owners::giving(At { dir, path }, flags, (user, group), real));
    fn fchown(fd: c_int, user: uid_t, group: gid_t) -> c_int =
        |real| on(Op::Setattr, fd).call(move || owners::giving(owners::open(fd), libc::AT_EMPTY_PATH, (user, group), real));
    fn utime(path: *const c_char, times: *const c_void) -> c_int =
        |real| on_path(Op::Setattr, At::cwd(path)).call(real);
    fn utimes(path: *const c_char, times: *const c_void) -> c_int =
        |real| on_path(Op::Setattr, At::cwd(path)).call(real);
    fn lutimes(path: *const c_char, times: *const c_void) -> c_int =
        |real| on_path(Op::Setattr, At::cwd(path)).call(real);
    fn futimesat(dir: c_int, path: *const c_char, times: *const c_void) -> c_int =
        |real| on_path(Op::Setattr, At { dir, path }).call(real);
    fn utimensat(dir: c_int, path: *const c_char, times: *const c_void, flags: c_int) -> c_int =
        |real| on_path(Op::Setattr, At { dir, path }).call(real);
    fn futimes(fd: c_int, times: *const c_void) -> c_int = |real| on(Op::Setattr, fd).call(real);
    fn futimens(fd: c_int, times: *const c_void) -> c_int = |real| on(Op::Setattr, fd).call(real);

    fn getxattr(path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t =
        |real| on_path(Op::Getxattr, At::cwd(path)).asks(size).call(real);
    fn lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t =
        |real| on_path(Op::Getxattr, At::cwd(path)).asks(size).call(real);
    fn fgetxattr(fd: c_int, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t =
        |real| on(Op::Getxattr, fd).asks(size).call(real);
    fn listxattr(path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t =
        |real| on_path(Op::Getxattr, At::cwd(path)).asks(size).call(real);
    fn llistxattr(path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t =
        |real| on_path(Op::Getxattr, At::cwd(path)).asks(size).call(real);
    fn flistxattr(fd: c_int, list: *mut c_char, size: size_t) -> ssize_t =
        |real| on(Op::Getxattr, fd).asks(size).call(real);
    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int =
        |real| on_path(Op::Setxattr, At::cwd(path)).asks(size).call(real);
    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int =
        |real| on_path(Op::Setxattr, At::cwd(path)).asks(size).call(real);
    fn fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int =
        |real| on(Op::Setxattr, fd).asks(size).call(real);
    fn removexattr(path: *const c_char, name: *const c_char) -> c_int =
        |real| on_path(Op::Setxattr, At::cwd(path)).call(real);
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int =
        |real| on_path(Op::Setxattr, At::cwd(path)).call(real);
    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int =
        |real| on(Op::Setxattr, fd).call(real);
}

/// The flag of `lstat` beyond `stat`.
const LINK_ITSELF: c_int = libc::AT_SYMLINK_NOFOLLOW;

fn at_path(
    path: *const c_char,
    flags: c_int,
    buf: *mut c_void,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let asked = gone::asking(
        At::cwd(path),
        flags,
        // SAFETY: that is what the program says by the call.
        || unsafe { kept::by_path(Form::Stat, path, buf, real) },
        // SAFETY: as above.
        |store| unsafe { sys::fill_stat(store, buf) },
    );
    // SAFETY: as above.
    unsafe { owners::shown(asked, Form::Stat, At::cwd(path), flags, buf) }
}

fn at_place(
    form: Form,
    at: At,
    flags: c_int,
    buf: *mut c_void,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let asked = gone::asking(
        at,
        flags,
        // SAFETY: that is what the program says by the call.
        || unsafe { kept::by_place(form, at, flags, buf, real) },
        |store| match form {
            // SAFETY: as above.
            Form::Statx { mask, .. } => unsafe { sys::fill_statx(store, mask, buf) },
            // SAFETY: as above.
            Form::Stat | Form::Access { .. } => unsafe { sys::fill_stat(store, buf) },
        },
    );
    // SAFETY: as above.
    unsafe { owners::shown(asked, form, at, flags, buf) }
}

fn open_file(fd: c_int, buf: *mut c_void, real: impl Fn() -> c_int + Copy) -> c_int {
    let ask = || gone::reading(fd, real, real);
    // SAFETY: that is what the program says by the call.
    let asked = unsafe { kept::by_descriptor(Form::Stat, fd, buf, ask) };
    // SAFETY: as above.
    unsafe {
        owners::shown(
            asked,
            Form::Stat,
            owners::open(fd),
            libc::AT_EMPTY_PATH,
            buf,
        )
    }
}
