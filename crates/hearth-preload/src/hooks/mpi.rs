//! Calls of MPI-IO, under both names that programs and Fortran's libraries call them by.

#![allow(non_snake_case, reason = "MPI has named them")]

use std::ffi::{c_char, c_int, c_void};

use hearth_trace::Op;

use crate::mpi::{closing, on_file, on_path, opening};
use crate::table::hooks;

hooks! {
    fn MPI_File_open(comm: usize, path: *const c_char, mode: c_int, info: usize, made: *mut usize) -> c_int =
        |real| opening(path, mode, made, real);
    fn PMPI_File_open(comm: usize, path: *const c_char, mode: c_int, info: usize, made: *mut usize) -> c_int =
        |real| opening(path, mode, made, real);
    fn MPI_File_close(file: *mut usize) -> c_int = |real| closing(file, real);
    fn PMPI_File_close(file: *mut usize) -> c_int = |real| closing(file, real);
    fn MPI_File_delete(path: *const c_char, info: usize) -> c_int =
        |real| on_path(Op::MpiDelete, path, real);
    fn PMPI_File_delete(path: *const c_char, info: usize) -> c_int =
        |real| on_path(Op::MpiDelete, path, real);
    fn MPI_File_sync(file: usize) -> c_int = |real| on_file(Op::MpiSync, file).call(real);
    fn PMPI_File_sync(file: usize) -> c_int = |real| on_file(Op::MpiSync, file).call(real);
    fn MPI_File_set_view(file: usize, start: i64, unit: usize, filetype: usize, form: *const c_char, info: usize) -> c_int =
        |real| on_file(Op::MpiView, file).at(start).call(real);
    fn PMPI_File_set_view(file: usize, start: i64, unit: usize, filetype: usize, form: *const c_char, info: usize) -> c_int =
        |real| on_file(Op::MpiView, file).at(start).call(real);
    fn MPI_File_set_size(file: usize, size: i64) -> c_int =
        |real| on_file(Op::MpiSize, file).asks(size).call(real);
    fn PMPI_File_set_size(file: usize, size: i64) -> c_int =
        |real| on_file(Op::MpiSize, file).asks(size).call(real);
    fn MPI_File_preallocate(file: usize, size: i64) -> c_int =
        |real| on_file(Op::MpiSize, file).asks(size).call(real);
    fn PMPI_File_preallocate(file: usize, size: i64) -> c_int =
        |real| on_file(Op::MpiSize, file).asks(size).call(real);
    fn MPI_File_get_size(file: usize, size: *mut i64) -> c_int =
        |real| on_file(Op::MpiSize, file).call(real);
    fn PMPI_File_get_size(file: usize, size: *mut i64) -> c_int =
        |real| on_file(Op::MpiSize, file).call(real);
    fn MPI_File_seek(file: usize, offset: i64, whence: c_int) -> c_int =
        |real| on_file(Op::MpiSeek, file).call(real);
    fn PMPI_File_seek(file: usize, offset: i64, whence: c_int) -> c_int =
        |real| on_file(Op::MpiSeek, file).call(real);
    fn MPI_File_seek_shared(file: usize, offset: i64, whence: c_int) -> c_int =
        |real| on_file(Op::MpiSeek, file).call(real);
    fn PMPI_File_seek_shared(file: usize, offset: i64, whence: c_int) -> c_int =
        |real| on_file(Op::MpiSeek, file).call(real);
}

/// At the handle's own pointer. The last argument is a status, or a request of what only begins.
macro_rules! at_pointer {
    ($op:expr, $last:ident: $($name:ident $large:ident,)+) => {
        hooks! {$(
            fn $name(file: usize, buffer: *mut c_void, items: c_int, datatype: usize, last: *mut c_void) -> c_int =
                |real| on_file($op, file).at_pointer().moves(i64::from(items), datatype).told($last(last)).call(real);
            fn $large(file: usize, buffer: *mut c_void, items: i64, datatype: usize, last: *mut c_void) -> c_int =
                |real| on_file($op, file).at_pointer().moves(items, datatype).told($last(last)).call(real);
        )+}
    };
}

/// Calls at an offset that they name.
macro_rules! at {
    ($op:expr, $last:ident: $($name:ident $large:ident,)+) => {
        hooks! {$(
            fn $name(file: usize, offset: i64, buffer: *mut c_void, items: c_int, datatype: usize, last: *mut c_void) -> c_int =
                |real| on_file($op, file).at(offset).moves(i64::from(items), datatype).told($last(last)).call(real);
            fn $large(file: usize, offset: i64, buffer: *mut c_void, items: i64, datatype: usize, last: *mut c_void) -> c_int =
                |real| on_file($op, file).at(offset).moves(items, datatype).told($last(last)).call(real);
        )+}
    };
}

/// At a pointer that all processes share, which no single one knows.
macro_rules! at_shared {
    ($op:expr, $last:ident: $($name:ident $large:ident,)+) => {
        hooks! {$(
            fn $name(file: usize, buffer: *mut c_void, items: c_int, datatype: usize, last: *mut c_void) -> c_int =
                |real| on_file($op, file).moves(i64::from(items), datatype).told($last(last)).call(real);
            fn $large(file: usize, buffer: *mut c_void, items: i64, datatype: usize, last: *mut c_void) -> c_int =
                |real| on_file($op, file).moves(items, datatype).told($last(last)).call(real);
        )+}
    };
}

/// The first half of a call, and what ends it.
macro_rules! split {
    ($op:expr; $($begin:ident $large:ident $end:ident,)+) => {
        hooks! {$(
            fn $begin(file: usize, buffer: *mut c_void, items: c_int, datatype: usize) -> c_int =
                |real| on_file($op, file).at_pointer().moves(i64::from(items), datatype).call(real);
            fn $large(file: usize, buffer: *mut c_void, items: i64, datatype: usize) -> c_int =
                |real| on_file($op, file).at_pointer().moves(items, datatype).call(real);
            fn $end(file: usize, buffer: *mut c_void, status: *mut c_void) -> c_int =
                |real| on_file($op, file).call(real);
        )+}
    };
    ($op:expr, at; $($begin:ident $large:ident $end:ident,)+) => {
        hooks! {$(
            fn $begin(file: usize, offset: i64, buffer: *mut c_void, items: c_int, datatype: usize) -> c_int =
                |real| on_file($op, file).at(offset).moves(i64::from(items), datatype).call(real);
            fn $large(file: usize, offset: i64, buffer: *mut c_void, items: i64, datatype: usize) -> c_int =
                |real| on_file($op, file).at(offset).moves(items, datatype).call(real);
            fn $end(file: usize, buffer: *mut c_void, status: *mut c_void) -> c_int =
                |real| on_file($op, file).call(real);
        )+}
    };
}

/// The last argument is a status.
fn status(last: *mut c_void) -> *const c_void {
    last
}

/// The last argument is a request: nothing is told yet.
fn request(_: *mut c_void) -> *const c_void {
    std::ptr::null()
}

at_pointer! { Op::MpiRead, status:
    MPI_File_read MPI_File_read_c,
    PMPI_File_read PMPI_File_read_c,
}
at_pointer! { Op::MpiRead, request:
    MPI_File_iread MPI_File_iread_c,
    PMPI_File_iread PMPI_File_iread_c,
}
at_pointer! { Op::MpiReadAll, status:
    MPI_File_read_all MPI_File_read_all_c,
    PMPI_File_read_all PMPI_File_read_all_c,
}
at_pointer! { Op::MpiReadAll, request:
    MPI_File_iread_all MPI_File_iread_all_c,
    PMPI_File_iread_all PMPI_File_iread_all_c,
}
at_pointer! { Op::MpiWrite, status:
    MPI_File_write MPI_File_write_c,
    PMPI_File_write PMPI_File_write_c,
}
at_pointer! { Op::MpiWrite, request:
    MPI_File_iwrite MPI_File_iwrite_c,
    PMPI_File_iwrite PMPI_File_iwrite_c,
}
at_pointer! { Op::MpiWriteAll, status:
    MPI_File_write_all MPI_File_write_all_c,
    PMPI_File_write_all PMPI_File_write_all_c,
}
at_pointer! { Op::MpiWriteAll, request:
    MPI_File_iwrite_all MPI_File_iwrite_all_c,
    PMPI_File_iwrite_all PMPI_File_iwrite_all_c,
}

at! { Op::MpiRead, status:
    MPI_File_read_at MPI_File_read_at_c,
    PMPI_File_read_at PMPI_File_read_at_c,
}
at! { Op::MpiRead, request:
    MPI_File_iread_at MPI_File_iread_at_c,
    PMPI_File_iread_at PMPI_File_iread_at_c,
}
at! { Op::MpiReadAll, status:
    MPI_File_read_at_all MPI_File_read_at_all_c,
    PMPI_File_read_at_all PMPI_File_read_at_all_c,
}
at! { Op::MpiReadAll, request:
    MPI_File_iread_at_all MPI_File_iread_at_all_c,
    PMPI_File_iread_at_all PMPI_File_iread_at_all_c,
}
at! { Op::MpiWrite, status:
    MPI_File_write_at MPI_File_write_at_c,
    PMPI_File_write_at PMPI_File_write_at_c,
}
at! { Op::MpiWrite, request:
    MPI_File_iwrite_at MPI_File_iwrite_at_c,
    PMPI_File_iwrite_at PMPI_File_iwrite_at_c,
}
at! { Op::MpiWriteAll, status:
    MPI_File_write_at_all MPI_File_write_at_all_c,
    PMPI_File_write_at_all PMPI_File_write_at_all_c,
}
at! { Op::MpiWriteAll, request:
    MPI_File_iwrite_at_all MPI_File_iwrite_at_all_c,
    PMPI_File_iwrite_at_all PMPI_File_iwrite_at_all_c,
}

at_shared! { Op::MpiRead, status:
    MPI_File_read_shared MPI_File_read_shared_c,
    PMPI_File_read_shared PMPI_File_read_shared_c,
}
at_shared! { Op::MpiRead, request:
    MPI_File_iread_shared MPI_File_iread_shared_c,
    PMPI_File_iread_shared PMPI_File_iread_shared_c,
}
at_shared! { Op::MpiReadAll, status:
    MPI_File_read_ordered MPI_File_read_ordered_c,
    PMPI_File_read_ordered PMPI_File_read_ordered_c,
}
at_shared! { Op::MpiWrite, status:
    MPI_File_write_shared MPI_File_write_shared_c,
    PMPI_File_write_shared PMPI_File_write_shared_c,
}
at_shared! { Op::MpiWrite, request:
    MPI_File_iwrite_shared MPI_File_iwrite_shared_c,
    PMPI_File_iwrite_shared PMPI_File_iwrite_shared_c,
}
at_shared! { Op::MpiWriteAll, status:
    MPI_File_write_ordered MPI_File_write_ordered_c,
    PMPI_File_write_ordered PMPI_File_write_ordered_c,
}

split! { Op::MpiReadAll;
    MPI_File_read_all_begin MPI_File_read_all_begin_c MPI_File_read_all_end,
    PMPI_File_read_all_begin PMPI_File_read_all_begin_c PMPI_File_read_all_end,
}
split! { Op::MpiWriteAll;
    MPI_File_write_all_begin MPI_File_write_all_begin_c MPI_File_write_all_end,
    PMPI_File_write_all_begin PMPI_File_write_all_begin_c PMPI_File_write_all_end,
}
split! { Op::MpiReadAll, at;
    MPI_File_read_at_all_begin MPI_File_read_at_all_begin_c MPI_File_read_at_all_end,
    PMPI_File_read_at_all_begin PMPI_File_read_at_all_begin_c PMPI_File_read_at_all_end,
}
split! { Op::MpiWriteAll, at;
    MPI_File_write_at_all_begin MPI_File_write_at_all_begin_c MPI_File_write_at_all_end,
    PMPI_File_write_at_all_begin PMPI_File_write_at_all_begin_c PMPI_File_write_at_all_end,
}
