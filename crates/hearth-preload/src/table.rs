//! The macro behind the tables of hooks.
//!
//! A row is a function of the C library under its own name, and what to do around it:
//!
//! ```text
//! fn fsync(fd: c_int) -> c_int = |real| on(Op::Fsync, fd).call(real);
//! ```
//!
//! `real` makes the call that the program asked for, of the next library in line. Functions with any
//! number of arguments stand here with as many as can matter: that is the same on the machines that
//! this is for, as long as all are integers or pointers.
//!
//! The calls unwind as C does, since a thread may be cancelled inside of them.

/// Defines and exports one function for each row.
macro_rules! hooks {
    ($($(#[$about:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty = |$real:ident| $body:expr;)+) => {$(
        $(#[$about])*
        /// # Safety
        /// As the function of this name of the C library says.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            static NEXT: $crate::real::Real =
                $crate::real::Real::new(concat!(stringify!($name), "\0"));
            let next = NEXT.address();
            if next.is_null() {
                $crate::errno::set_errno(libc::ENOSYS);
                return <$ret as $crate::outcome::Outcome>::FAILED;
            }
            type Next = unsafe extern "C-unwind" fn($($ty),*) -> $ret;
            // SAFETY: the next function of this name has the type that the C library gives it.
            let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Next>(next) };
            // SAFETY: the caller says about the arguments what that function wants to hear.
            let $real = move || unsafe { next($($arg),*) };
            $body
        }
    )+};
}

pub(crate) use hooks;
