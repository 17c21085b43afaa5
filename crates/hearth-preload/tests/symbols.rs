//! The tables are held against what programs import: every function of the C library that has to do
//! with files is hooked, or stands below with the reason why not.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails the test, and a skipped test says so"
)]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::has;

/// Programs whose imports are looked at, where they are there.
const PROGRAMS: &[&str] = &[
    "ar", "as", "awk", "bash", "bzip2", "cat", "chmod", "chown", "cmp", "cp", "cpio", "curl",
    "cut", "dash", "dd", "df", "diff", "du", "file", "find", "fio", "g++", "gawk", "gcc",
    "gfortran", "git", "grep", "gzip", "head", "install", "ld", "less", "ln", "ls", "make",
    "md5sum", "mkdir", "mktemp", "mpirun", "mv", "node", "od", "patch", "perl", "python3",
    "readlink", "realpath", "rm", "rsync", "rustc", "sed", "setfattr", "shred", "sort", "split",
    "sqlite3", "ssh", "stat", "sync", "tail", "tar", "tee", "touch", "truncate", "uniq", "vim",
    "wc", "xargs", "xz", "zstd",
];

/// Libraries through which programs in other languages come.
const LIBRARIES: &[&str] = &[
    "libstdc++.so.6",
    "libgfortran.so.5",
    "libmpi.so.40",
    "libopen-pal.so.40",
    "libmca_common_ompio.so.41",
    "libmpich.so.12",
    "libsqlite3.so.0",
    "libz.so.1",
];

/// A name with one of these in it has to do with files.
const WORDS: &[&str] = &[
    "access",
    "accept",
    "advi",
    "aio",
    "alphasort",
    "canonicalize",
    "chdir",
    "chmod",
    "chown",
    "chroot",
    "close",
    "copy_file",
    "creat",
    "datasync",
    "dents",
    "dirat",
    "dup",
    "epoll_create",
    "eventfd",
    "exec",
    "fallocate",
    "fcntl",
    "flush",
    "fork",
    "fputc",
    "fstat",
    "ftw",
    "fts_",
    "getc",
    "getdelim",
    "getline",
    "fgets",
    "glob",
    "inotify_init",
    "ioctl",
    "link",
    "lockf",
    "memfd",
    "mkdir",
    "mkdtemp",
    "mkfifo",
    "mknod",
    "mkostemp",
    "mkstemp",
    "mktemp",
    "mmap",
    "mremap",
    "msync",
    "munmap",
    "open",
    "pipe",
    "printf",
    "putc",
    "puts",
    "read",
    "realpath",
    "remove",
    "rename",
    "rewind",
    "rmdir",
    "scan",
    "seek",
    "sendfile",
    "signalfd",
    "socket",
    "spawn",
    "splice",
    "stat",
    "sync",
    "syscall",
    "tell",
    "timerfd_create",
    "tmpfile",
    "trunc",
    "ungetc",
    "utime",
    "write",
    "xattr",
    "flock",
    "setpos",
    "range",
];

/// Hooked otherwise or not at all, and why. A star stands for any characters.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("pthread_*", "threads"),
    ("__pthread_*", "threads"),
    ("_Z*", "the runtime of C++, which calls the C library"),
    (
        "posix_spawn_file_actions_*",
        "notes what posix_spawn does in the child",
    ),
    (
        "posix_spawnattr_*",
        "notes what posix_spawn does in the child",
    ),
    (
        "*printf*",
        "any number of arguments: the stream's position tells; sprintf and its kin do no I/O",
    ),
    (
        "*scanf*",
        "any number of arguments: the stream's position tells; sscanf does no I/O",
    ),
    ("*getc*", "single characters: the stream's position tells"),
    ("*getwc*", "single characters: the stream's position tells"),
    ("*putc*", "single characters: the stream's position tells"),
    ("*putwc*", "single characters: the stream's position tells"),
    ("puts", "standard output: the stream's position tells"),
    ("fputws*", "wide characters: the stream's position tells"),
    ("fgetws*", "wide characters: the stream's position tells"),
    ("ftell*", "moves nothing"),
    ("telldir", "moves nothing"),
    ("rewinddir", "moves within a listing that is in memory"),
    ("seekdir", "moves within a listing that is in memory"),
    ("alphasort*", "compares two names"),
    ("versionsort*", "compares two names"),
    ("globfree*", "frees memory"),
    ("glob*", "goes past its own symbols inside the C library"),
    ("*ftw*", "goes past its own symbols inside the C library"),
    ("fts_*", "goes past its own symbols inside the C library"),
    (
        "*realpath*",
        "goes past its own symbols inside the C library",
    ),
    (
        "canonicalize_file_name",
        "goes past its own symbols inside the C library",
    ),
    (
        "aio_*",
        "done by threads of the C library past its own symbols",
    ),
    (
        "lio_listio*",
        "done by threads of the C library past its own symbols",
    ),
    ("fork", "pthread_atfork"),
    ("__register_atfork", "calls back at a fork"),
    (
        "vfork",
        "returns twice; the child is known by its process number",
    ),
    ("forkpty", "a terminal, and pthread_atfork"),
    ("openpty", "terminals"),
    ("execl*", "hands this process's environment on"),
    ("sync", "names no file"),
    ("vmsplice", "pipes"),
    ("mkfifo*", "makes a pipe"),
    ("mknod*", "makes a pipe or a device"),
    ("__xmknod*", "makes a pipe or a device"),
    ("mktemp", "makes a name and no file"),
    ("socket*", "hooked where it makes a descriptor"),
    ("eventfd_*", "an event's descriptor"),
    ("openlog", "talks to the system's log"),
    ("closelog", "talks to the system's log"),
    ("dlopen", "libraries are opened by the dynamic linker"),
    ("dlclose", "libraries are opened by the dynamic linker"),
    ("*strdup", "memory"),
    ("*strndup", "memory"),
    ("wcsdup", "memory"),
    ("*duplocale", "languages"),
    ("*lockfile", "locks a stream within the process"),
    ("trunc", "rounds a number"),
    ("truncf", "rounds a number"),
    ("truncl", "rounds a number"),
    ("__cxa_*", "the runtime of C++"),
    ("iconv_*", "converts text in memory"),
    ("regexec", "patterns"),
    ("initstate_r", "random numbers"),
    ("__res_state", "names of hosts"),
    ("__libc_single_threaded", "threads"),
    ("tcflush", "terminals"),
    ("timer_create", "clocks"),
    ("open_memstream", "memory"),
    ("fmemopen", "memory"),
    (
        "fopencookie",
        "a stream that the program itself carries out",
    ),
    ("__freading", "asks a stream"),
    ("__fwriting", "asks a stream"),
    (
        "recvmsg",
        "a descriptor that comes by a socket is learned at its first use",
    ),
];

fn nm(file: &Path, which: &str) -> Vec<String> {
    let output = Command::new("nm")
        .args(["-D", which])
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = |line: &str| line.split_whitespace().next_back().map(str::to_owned);
    text.lines().filter_map(last).collect()
}

fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => {
            let Some(left) = name.strip_prefix(start) else {
                return false;
            };
            (0..=left.len()).any(|at| left.is_char_boundary(at) && is_like(rest, &left[at..]))
        }
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files = std::env::split_paths(&path).map(|dir| dir.join(program));
    files.into_iter().find(|file| file.exists())
}

fn find_library(name: &str) -> Option<PathBuf> {
    let option = format!("-print-file-name={name}");
    let output = Command::new("cc").arg(option).output().ok()?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    path.is_absolute().then_some(path)
}

#[test]
fn every_function_about_files_that_programs_import_is_hooked_or_has_a_reason() {
    let test = "every_function_about_files_that_programs_import_is_hooked_or_has_a_reason";
    if !has(test, "nm") {
        return;
    }
    let hooked: BTreeSet<String> = nm(&support::library(), "--defined-only")
        .into_iter()
        .collect();
    assert!(hooked.len() > 200, "{} hooks", hooked.len());
    let programs = PROGRAMS.iter().filter_map(|name| find(name));
    let libraries = LIBRARIES.iter().filter_map(|name| find_library(name));
    let mut looked_at = 0;
    let mut missing = BTreeSet::new();
    for file in programs.chain(libraries) {
        let imports = nm(&file, "--undefined-only");
        looked_at += usize::from(!imports.is_empty());
        for import in imports {
            let Some((name, _)) = import.split_once("@GLIBC") else {
                continue;
            };
            let is_about_files = WORDS.iter().any(|word| name.contains(word));
            let has_reason = EXCEPTIONS.iter().any(|(pattern, _)| is_like(pattern, name));
            if is_about_files && !has_reason && !hooked.contains(name) {
                missing.insert(format!("{name} (of {})", file.display()));
            }
        }
    }
    assert!(looked_at >= 10, "{looked_at} files have imports");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_function_that_is_not_in_the_tables_is_found() {
    assert!(is_like("*printf*", "__vfprintf_chk") && !is_like("exec?", "execv"));
    assert!(
        !EXCEPTIONS
            .iter()
            .any(|(pattern, _)| is_like(pattern, "preadv3"))
    );
    assert!(WORDS.iter().any(|word| "preadv3".contains(word)));
}
