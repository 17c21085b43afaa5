//! Calls that map files into memory.

use std::ffi::{c_int, c_ulong, c_void};

use hearth_trace::Op;
use libc::{off_t, size_t};

use crate::table::hooks;
use crate::{cache, gone, maps, write_ring};

hooks! {
    fn mmap(start: *mut c_void, size: size_t, access: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void =
        |real| maps::mapping(fd, flags, size, offset, || gone::mapping(fd, flags, || told((fd, access, flags), real)));
    fn mmap64(start: *mut c_void, size: size_t, access: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void =
        |real| maps::mapping(fd, flags, size, offset, || gone::mapping(fd, flags, || told((fd, access, flags), real)));
    fn munmap(start: *mut c_void, size: size_t) -> c_int =
        |real| maps::unmapping(start, size, real);
    fn mremap(start: *mut c_void, size: size_t, new_size: size_t, flags: c_int, new_start: c_ulong) -> *mut c_void =
        |real| maps::remapping(start, real);
    fn msync(start: *mut c_void, size: size_t, flags: c_int) -> c_int =
        |real| maps::on_mapping(Op::Msync, start, size, real);
    fn madvise(start: *mut c_void, size: size_t, advice: c_int) -> c_int =
        |real| maps::on_mapping(Op::Advise, start, size, real);
    fn posix_madvise(start: *mut c_void, size: size_t, advice: c_int) -> c_int =
        |real| maps::on_mapping(Op::Advise, start, size, real);
}

/// A mapping reaches as far as the operating system believes that the file does. If the program may store into it and
/// others see that, nobody on this node reads the file in memory any more.
fn told(
    (fd, access, flags): (c_int, c_int, c_int),
    real: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    write_ring::before_mapping(fd);
    let is_shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE && flags & libc::MAP_ANONYMOUS == 0;
    if is_shared && access & libc::PROT_WRITE != 0 {
        cache::before_stores(fd);
    }
    real()
}
