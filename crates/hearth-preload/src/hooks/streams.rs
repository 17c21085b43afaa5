//! Stdio. Calls for single characters and those with any number of arguments are not here: what they
//! move is found in the stream's position, see [`crate::streams`].

use std::ffi::{c_char, c_int, c_long, c_void};

use hearth_trace::Op;
use libc::{FILE, off_t, size_t, ssize_t};

use crate::gone;
use crate::streams::{
    Locking, closing, doing, flushing, forget, moving, opening, reopening, watch,
};
use crate::sys::string_length;
use crate::table::hooks;

hooks! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE =
        |real| opening(path, mode, || gone::opening_stream(path, mode, real));
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE =
        |real| opening(path, mode, || gone::opening_stream(path, mode, real));
    fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE =
        |real| reopening(path, mode, file, real);
    fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE =
        |real| reopening(path, mode, file, real);
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = |real| {
        let file = real();
        watch(file);
        gone::streaming(file);
        file
    };
    fn tmpfile() -> *mut FILE = |real| {
        let file = real();
        forget(file);
        watch(file);
        file
    };
    fn tmpfile64() -> *mut FILE = |real| {
        let file = real();
        forget(file);
        watch(file);
        file
    };
    fn fclose(file: *mut FILE) -> c_int =
        |real| gone::closing_stream(file, || closing(file, real));
    fn fcloseall() -> c_int = |real| flushing(std::ptr::null_mut(), real);
    fn fflush(file: *mut FILE) -> c_int = |real| flushing(file, real);
    fn fflush_unlocked(file: *mut FILE) -> c_int = |real| flushing(file, real);

    fn fread(buf: *mut c_void, size: size_t, items: size_t, file: *mut FILE) -> size_t =
        |real| moving(Op::Read, file, Locking::Yes, size.saturating_mul(items), || gone::from_stream(file, real), |done| done * size);
    fn fread_unlocked(buf: *mut c_void, size: size_t, items: size_t, file: *mut FILE) -> size_t =
        |real| moving(Op::Read, file, Locking::No, size.saturating_mul(items), || gone::from_stream(file, real), |done| done * size);
    fn __fread_chk(buf: *mut c_void, room: size_t, size: size_t, items: size_t, file: *mut FILE) -> size_t =
        |real| moving(Op::Read, file, Locking::Yes, size.saturating_mul(items), || gone::from_stream(file, real), |done| done * size);
    fn __fread_unlocked_chk(buf: *mut c_void, room: size_t, size: size_t, items: size_t, file: *mut FILE) -> size_t =
        |real| moving(Op::Read, file, Locking::No, size.saturating_mul(items), || gone::from_stream(file, real), |done| done * size);
    fn fwrite(buf: *const c_void, size: size_t, items: size_t, file: *mut FILE) -> size_t =
        |real| moving(Op::Write, file, Locking::Yes, size.saturating_mul(items), real, |done| done * size);
    fn fwrite_unlocked(buf: *const c_void, size: size_t, items: size_t, file: *mut FILE) -> size_t =
        |real| moving(Op::Write, file, Locking::No, size.saturating_mul(items), real, |done| done * size);

    fn fgets(buf: *mut c_char, size: c_int, file: *mut FILE) -> *mut c_char =
        |real| moving(Op::Read, file, Locking::Yes, wanted(size), || gone::from_stream(file, real), |line| string_length(line));
    fn fgets_unlocked(buf: *mut c_char, size: c_int, file: *mut FILE) -> *mut c_char =
        |real| moving(Op::Read, file, Locking::No, wanted(size), || gone::from_stream(file, real), |line| string_length(line));
    fn __fgets_chk(buf: *mut c_char, room: size_t, size: c_int, file: *mut FILE) -> *mut c_char =
        |real| moving(Op::Read, file, Locking::Yes, wanted(size), || gone::from_stream(file, real), |line| string_length(line));
    fn __fgets_unlocked_chk(buf: *mut c_char, room: size_t, size: c_int, file: *mut FILE) -> *mut c_char =
        |real| moving(Op::Read, file, Locking::No, wanted(size), || gone::from_stream(file, real), |line| string_length(line));
    fn getline(line: *mut *mut c_char, size: *mut size_t, file: *mut FILE) -> ssize_t =
        |real| moving(Op::Read, file, Locking::Yes, 0, || gone::from_stream(file, real), line_length);
    fn getdelim(line: *mut *mut c_char, size: *mut size_t, end: c_int, file: *mut FILE) -> ssize_t =
        |real| moving(Op::Read, file, Locking::Yes, 0, || gone::from_stream(file, real), line_length);
    fn __getdelim(line: *mut *mut c_char, size: *mut size_t, end: c_int, file: *mut FILE) -> ssize_t =
        |real| moving(Op::Read, file, Locking::Yes, 0, || gone::from_stream(file, real), line_length);
    fn fputs(text: *const c_char, file: *mut FILE) -> c_int =
        |real| moving(Op::Write, file, Locking::Yes, 0, real, |done| written(text, done));
    fn fputs_unlocked(text: *const c_char, file: *mut FILE) -> c_int =
        |real| moving(Op::Write, file, Locking::No, 0, real, |done| written(text, done));

    fn fseek(file: *mut FILE, offset: c_long, whence: c_int) -> c_int =
        |real| doing(Op::Lseek, file, real);
    fn fseeko(file: *mut FILE, offset: off_t, whence: c_int) -> c_int =
        |real| doing(Op::Lseek, file, real);
    fn fseeko64(file: *mut FILE, offset: off_t, whence: c_int) -> c_int =
        |real| doing(Op::Lseek, file, real);
    fn fsetpos(file: *mut FILE, place: *const c_void) -> c_int =
        |real| doing(Op::Lseek, file, real);
    fn fsetpos64(file: *mut FILE, place: *const c_void) -> c_int =
        |real| doing(Op::Lseek, file, real);
    fn fgetc(file: *mut FILE) -> c_int = |real| gone::from_stream(file, real);
    fn getc(file: *mut FILE) -> c_int = |real| gone::from_stream(file, real);
    fn _IO_getc(file: *mut FILE) -> c_int = |real| gone::from_stream(file, real);
    fn fgetc_unlocked(file: *mut FILE) -> c_int = |real| gone::from_stream(file, real);
    fn getc_unlocked(file: *mut FILE) -> c_int = |real| gone::from_stream(file, real);
    fn __uflow(file: *mut FILE) -> c_int = |real| gone::from_stream(file, real);
    fn __underflow(file: *mut FILE) -> c_int = |real| gone::from_stream(file, real);
    fn rewind(file: *mut FILE) -> () = |real| doing(Op::Lseek, file, real);
}

fn wanted(size: c_int) -> usize {
    usize::try_from(size).unwrap_or(0).saturating_sub(1)
}

fn line_length(done: ssize_t) -> usize {
    usize::try_from(done).unwrap_or(0)
}

fn written(text: *const c_char, done: c_int) -> usize {
    if done < 0 { 0 } else { string_length(text) }
}
