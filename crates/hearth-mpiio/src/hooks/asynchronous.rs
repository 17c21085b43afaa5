//! Asynchronous I/O.

use std::ffi::c_int;

use libc::{aiocb, ssize_t, timespec};

use crate::aio::{Way, begin, cancel, error, suspend, take};
use crate::fds;
use crate::file::Answer;
use crate::table::hooks;

hooks! {
    fn aio_read(block: *mut aiocb) -> c_int =
        |real| begin(block, Way::Read).unwrap_or_else(|| real(block));
    fn aio_read64(block: *mut aiocb) -> c_int =
        |real| begin(block, Way::Read).unwrap_or_else(|| real(block));
    fn aio_write(block: *mut aiocb) -> c_int =
        |real| begin(block, Way::Write).unwrap_or_else(|| real(block));
    fn aio_write64(block: *mut aiocb) -> c_int =
        |real| begin(block, Way::Write).unwrap_or_else(|| real(block));
    fn aio_error(block: *const aiocb) -> c_int = |real| error(block).unwrap_or_else(|| real(block));
    fn aio_error64(block: *const aiocb) -> c_int = |real| error(block).unwrap_or_else(|| real(block));
    fn aio_return(block: *mut aiocb) -> ssize_t = |real| take(block).unwrap_or_else(|| real(block));
    fn aio_return64(block: *mut aiocb) -> ssize_t = |real| take(block).unwrap_or_else(|| real(block));
    fn aio_suspend(list: *const *const aiocb, count: c_int, span: *const timespec) -> c_int =
        |real| suspend(list, count, span).unwrap_or_else(|| real(list, count, span));
    fn aio_suspend64(list: *const *const aiocb, count: c_int, span: *const timespec) -> c_int =
        |real| suspend(list, count, span).unwrap_or_else(|| real(list, count, span));
    fn aio_cancel(fd: c_int, block: *mut aiocb) -> c_int =
        |real| cancel(fd).unwrap_or_else(|| real(fd, block));
    fn aio_cancel64(fd: c_int, block: *mut aiocb) -> c_int =
        |real| cancel(fd).unwrap_or_else(|| real(fd, block));
    fn aio_fsync(how: c_int, block: *mut aiocb) -> c_int = |real| {
        match crate::sys::at(block).and_then(|block| fds::find(block.aio_fildes).map(|file| (block.aio_fildes, file))) {
            None => real(how, block),
            // Nothing is left to wait for: the request is complete when it is submitted.
            Some((fd, file)) => file.sync(fd).and_then(|()| crate::aio::completed(block, fd)).answer(),
        }
    };
}
