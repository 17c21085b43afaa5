//! The macro behind the tables of hooks.
//!
//! A row is a function under its own name, and what to do instead of it:
//!
//! ```text
//! fn fsync(fd: c_int) -> c_int = |real| match fds::find(fd) { ... real(fd) ... };
//! ```
//!
//! `real` makes the call of the next library in line. Functions with any number of arguments stand
//! here with as many as can matter: that is the same on the machines that this is for, as long as
//! all are integers or pointers.
//!
//! The calls unwind as C does, since a thread may be cancelled inside of them. A call that does not fail leaves `errno`
//! alone: waits for the agent inside of it may set it.

/// Defines and exports one function for each row.
macro_rules! hooks {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty = |$real:ident| $body:expr;)+) => {$(
        /// # Safety
        /// As the function of this name of the C library says.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            static NEXT: $crate::real::Real =
                $crate::real::Real::new(concat!(stringify!($name), "\0"));
            type Next = unsafe extern "C-unwind" fn($($ty),*) -> $ret;
            let next = NEXT.address();
            if next.is_null() {
                $crate::sys::set_errno(libc::ENOSYS);
                return -1;
            }
            // SAFETY: the next function of this name has the type that its library gives it.
            let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Next>(next) };
            // SAFETY: the arguments are the caller's own, or such as this function allows as well.
            let $real = move |$($arg: $ty),*| -> $ret { unsafe { next($($arg),*) } };
            let before = $crate::sys::errno();
            let told: $ret = $body;
            if told != -1 {
                $crate::sys::set_errno(before);
            }
            told
        }
    )+};
}

pub(crate) use hooks;
