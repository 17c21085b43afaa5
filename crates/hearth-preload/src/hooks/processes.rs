//! Calls after which another process shares what this one has, or another program takes its place.

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};

use libc::pid_t;

use crate::environment::{Environment, completed};
use crate::table::hooks;
use crate::{behind, cache, fds, kept, life, owners};

/// An array of C strings that ends with null.
type Strings = *const *const c_char;

hooks! {
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int = |real| {
        if option == libc::PR_SET_SECCOMP {
            jailed();
        }
        real()
    };
    fn unshare(flags: c_int) -> c_int = |real| {
        if flags & libc::CLONE_FILES != 0 {
            give_up();
        }
        becoming(real)
    };
    fn syscall(
        number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long,
    ) -> c_long = |real| {
        past_the_library(number, a as c_int, b as c_int);
        real()
    };
    fn setuid(user: libc::uid_t) -> c_int = |real| becoming(real);
    fn seteuid(user: libc::uid_t) -> c_int = |real| becoming(real);
    fn setreuid(real_user: libc::uid_t, user: libc::uid_t) -> c_int = |real| becoming(real);
    fn setresuid(real_user: libc::uid_t, user: libc::uid_t, saved: libc::uid_t) -> c_int = |real| becoming(real);
    fn setfsuid(user: libc::uid_t) -> c_int = |real| becoming(real);
    fn setgid(group: libc::gid_t) -> c_int = |real| becoming(real);
    fn setegid(group: libc::gid_t) -> c_int = |real| becoming(real);
    fn setregid(real_group: libc::gid_t, group: libc::gid_t) -> c_int = |real| becoming(real);
    fn setresgid(real_group: libc::gid_t, group: libc::gid_t, saved: libc::gid_t) -> c_int = |real| becoming(real);
    fn setfsgid(group: libc::gid_t) -> c_int = |real| becoming(real);
    fn getgroups(room: c_int, groups: *mut libc::gid_t) -> c_int =
        // SAFETY: that is what the program says by the call.
        |real| match unsafe { owners::groups(room, groups) } {
            Some(done) => done,
            None => real(),
        };
    fn setgroups(count: libc::size_t, groups: *const libc::gid_t) -> c_int = |real| becoming(real);
    fn initgroups(user: *const c_char, group: libc::gid_t) -> c_int = |real| becoming(real);
    fn capset(header: *mut c_void, data: *const c_void) -> c_int = |real| becoming(real);
    fn setns(fd: c_int, kind: c_int) -> c_int = |real| becoming(real);
    fn mount(source: *const c_char, target: *const c_char, kind: *const c_char, flags: c_ulong, data: *const c_void) -> c_int = |real| becoming(real);
    fn umount(target: *const c_char) -> c_int = |real| becoming(real);
    fn umount2(target: *const c_char, flags: c_int) -> c_int = |real| becoming(real);
    fn _Fork() -> pid_t = |real| {
        fds::forked();
        let child = real();
        if child == 0 {
            life::is_own_memory();
        }
        child
    };
    fn system(command: *const c_char) -> c_int = |real| {
        fds::forked();
        real()
    };
    fn daemon(stays: c_int, keeps: c_int) -> c_int = |real| redirected(real);
    fn login_tty(fd: c_int) -> c_int = |real| redirected(real);
    fn forkpty(primary: *mut c_int, name: *mut c_char, settings: *const c_void, size: *const c_void) -> pid_t =
        |real| redirected(real);
    fn posix_spawn(
        child: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: Strings, environment: Strings,
    ) -> c_int = |real| handing_on(environment, real, |wanted| {
        // SAFETY: as the caller says, with another array of the same kind.
        unsafe { posix_spawn(child, path, actions, attributes, arguments, wanted) }
    });
    fn posix_spawnp(
        child: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: Strings, environment: Strings,
    ) -> c_int = |real| handing_on(environment, real, |wanted| {
        // SAFETY: as the caller says, with another array of the same kind.
        unsafe { posix_spawnp(child, file, actions, attributes, arguments, wanted) }
    });
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int =
        |real| handing_on(environment, real, |wanted| {
            // SAFETY: as the caller says, with another array of the same kind.
            unsafe { execve(path, arguments, wanted) }
        });
    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int =
        |real| handing_on(environment, real, |wanted| {
            // SAFETY: as the caller says, with another array of the same kind.
            unsafe { execvpe(file, arguments, wanted) }
        });
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int =
        |real| handing_on(environment, real, |wanted| {
            // SAFETY: as the caller says, with another array of the same kind.
            unsafe { fexecve(fd, arguments, wanted) }
        });
    fn execveat(dir: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int =
        |real| handing_on(environment, real, |wanted| {
            // SAFETY: as the caller says, with another array of the same kind.
            unsafe { execveat(dir, path, arguments, wanted, flags) }
        });
    fn execv(path: *const c_char, arguments: Strings) -> c_int =
        |real| handing_on(own_environment(), real, |wanted| {
            // SAFETY: as the caller says, with this process's environment completed.
            unsafe { execve(path, arguments, wanted) }
        });
    fn execvp(file: *const c_char, arguments: Strings) -> c_int =
        |real| handing_on(own_environment(), real, |wanted| {
            // SAFETY: as the caller says, with this process's environment completed.
            unsafe { execvpe(file, arguments, wanted) }
        });
}

/// Makes a call that puts other files at the standard descriptors, by calls inside of the C library.
fn redirected(real: impl FnOnce() -> c_int) -> c_int {
    fds::forked();
    let done = real();
    fds::forget_range(0, 2);
    done
}

/// The process may soon make few system calls.
fn jailed() {
    cache::jailed();
    behind::stop();
}

/// A number may mean one descriptor to one thread and another to the next.
fn give_up() {
    cache::give_up();
    behind::stop();
}

/// Follows system calls that a program makes by their numbers, so that facts about descriptors stay
/// true.
fn past_the_library(number: c_long, a: c_int, b: c_int) {
    match number {
        // Programs call these often, and they change neither the process nor the way to a file.
        libc::SYS_futex | libc::SYS_gettid | libc::SYS_getrandom | libc::SYS_membarrier => return,
        _ => kept::forget_all(),
    }
    match number {
        libc::SYS_close => fds::forget(a),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_dup2 => fds::forget(b),
        libc::SYS_dup3 => fds::forget(b),
        libc::SYS_close_range => fds::forget_range(a.cast_unsigned(), b.cast_unsigned()),
        libc::SYS_unshare => give_up(),
        libc::SYS_seccomp => jailed(),
        _ => {}
    }
}

/// Makes a call after which the process may be somebody else, or its paths lead elsewhere.
fn becoming(real: impl FnOnce() -> c_int) -> c_int {
    kept::forget_all();
    let done = real();
    // Another thread may have kept something meanwhile.
    kept::forget_all();
    done
}

/// Starts another program with what it needs to be traced: by the real call if the environment that
/// the program gives has it, else with a completed one. That passes the hook again and finds all there.
fn handing_on(
    given: Strings,
    real: impl FnOnce() -> c_int,
    again: impl FnOnce(Strings) -> c_int,
) -> c_int {
    fds::forked();
    // SAFETY: the caller of the hook gives an environment, or it is this process's own.
    match unsafe { completed(given) } {
        Environment::AsGiven => real(),
        Environment::Completed(pages) => again(pages.start().cast()),
    }
}

fn own_environment() -> Strings {
    unsafe extern "C" {
        static environ: Strings;
    }
    // SAFETY: programs that change it do so before they start threads, or lock it themselves.
    unsafe { environ }
}
