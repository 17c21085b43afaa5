//! Calls of the C library and the operating system that are made by hand.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::ptr;

/// The thread's error number.
pub(crate) fn errno() -> c_int {
    // SAFETY: the address is the thread's own for as long as it lives.
    unsafe { *libc::__errno_location() }
}

/// Sets the thread's error number.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number }
}

/// The error number of an error.
pub(crate) fn number_of(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// A descriptor of the program, for a call that it is making with it.
pub(crate) fn borrow(fd: c_int) -> BorrowedFd<'static> {
    // SAFETY: the number is not -1, for it is in a table; a program that closes it meanwhile gets what
    // it would have got from the real call.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// A string that the program handed to a call.
pub(crate) fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    if text.is_null() {
        return None;
    }
    // SAFETY: calls that are hooked take C strings, which the caller keeps until the call returns.
    Some(unsafe { CStr::from_ptr(text) })
}

/// The value that the program's pointer points to, or `None` for null.
pub(crate) fn at<'a, T>(place: *const T) -> Option<&'a T> {
    // SAFETY: calls that are hooked take pointers to such values, kept until the call returns.
    unsafe { place.as_ref() }
}

/// The same, to be changed.
pub(crate) fn at_mut<'a, T>(place: *mut T) -> Option<&'a mut T> {
    // SAFETY: as above; the real call would write there as well.
    unsafe { place.as_mut() }
}

/// As many values as the program says that there are.
pub(crate) fn many<'a, T>(first: *const T, count: c_int) -> &'a [T] {
    let count = usize::try_from(count).unwrap_or(0);
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as for one value; calls that are hooked take the count beside the first.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// Sets or asks for a lock of a descriptor.
pub(crate) fn lock(fd: c_int, command: c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the command is one of those that take a `flock`, which outlives the call. A raw system
    // call, since the function of the C library is hooked.
    let done = unsafe {
        libc::syscall(
            libc::SYS_fcntl,
            libc::c_long::from(fd),
            libc::c_long::from(command),
            ptr::from_mut(lock),
        )
    };
    match done {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs something so that threads which it starts get no signals: those are the program's.
pub(crate) fn without_signals<T>(run: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the first call makes the set that the second reads; the second fills the other.
    let masked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let ran = run();
    if masked {
        // SAFETY: the call above succeeded, so this is the mask as it was.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
    ran
}

/// Has functions called in a forked child, and when the process ends.
pub(crate) fn on_fork_and_exit(child: unsafe extern "C" fn(), exit: extern "C" fn()) {
    // SAFETY: both are functions of this library, which is never unloaded.
    unsafe {
        libc::pthread_atfork(None, None, Some(child));
        libc::atexit(exit);
    }
}

/// Addresses of this host's interfaces that are up, loopback left out, with their names.
pub(crate) fn addresses() -> Vec<(String, IpAddr)> {
    let mut first = ptr::null_mut();
    // SAFETY: the list is made by the call, and given back below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next: *const libc::ifaddrs = first;
    // SAFETY: entries of the list are valid until it is given back.
    while let Some(entry) = unsafe { next.as_ref() } {
        found.extend(address(entry));
        next = entry.ifa_next;
    }
    // SAFETY: made above, not used after.
    unsafe { libc::freeifaddrs(first) };
    found
}

fn address(entry: &libc::ifaddrs) -> Option<(String, IpAddr)> {
    let up = (libc::IFF_UP | libc::IFF_LOOPBACK).cast_unsigned();
    if entry.ifa_flags & up != libc::IFF_UP.cast_unsigned() {
        return None;
    }
    // SAFETY: null, or an address whose family says which kind of address it is.
    let family = c_int::from(unsafe { entry.ifa_addr.as_ref() }?.sa_family);
    if family != libc::AF_INET {
        return None;
    }
    // SAFETY: an address of this family is of this type.
    let v4 = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
    let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
    // SAFETY: every interface has a name.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    Some((name.to_string_lossy().into_owned(), IpAddr::V4(ip)))
}

/// Closes a descriptor by a raw system call, since the function of the C library is hooked.
pub(crate) fn close(fd: c_int) -> io::Result<()> {
    // SAFETY: the caller made the descriptor, and hands it to nobody.
    match unsafe { libc::syscall(libc::SYS_close, libc::c_long::from(fd)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
