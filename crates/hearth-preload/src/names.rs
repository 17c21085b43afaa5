//! Names of files: as the program gave them, made absolute, and turned into numbers.
//!
//! A pointer that a program passed is read only when the real call has succeeded, and so read it too;
//! after a failure the operating system copies the name, which cannot fault here.

use std::ffi::{c_char, c_int};

use hearth_trace::ring::tracer;

use crate::errno::keeping_errno;
use crate::{cwd, fds, filter, sys};

/// Longer names are cut.
pub(crate) const NAME_MAX: usize = 1024;

/// A name while it is put together.
pub(crate) struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
    is_cut: bool,
}

/// The number given to a name, and whether the name was cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its number; 0 if there was no room for it.
    pub(crate) file: u32,
    /// It was too long to be kept whole.
    pub(crate) is_cut: bool,
}

impl Name {
    pub(crate) const fn empty() -> Name {
        Name {
            bytes: [0; NAME_MAX],
            len: 0,
            is_cut: false,
        }
    }

    /// The name, unless some of it is missing.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        (!self.is_cut).then(|| self.as_bytes())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Goes on with `more`, as far as there is room.
    pub(crate) fn push(&mut self, more: &[u8]) {
        let room = NAME_MAX - self.len;
        let fits = more.get(..room).unwrap_or(more);
        self.is_cut |= fits.len() < more.len();
        if let Some(place) = self.bytes.get_mut(self.len..self.len + fits.len()) {
            place.copy_from_slice(fits);
            self.len += fits.len();
        }
    }

    /// Goes on with a relative or absolute path, without its empty components and its dots.
    fn push_path(&mut self, path: &[u8]) {
        let components = path.split(|byte| *byte == b'/');
        for component in components.filter(|it| !it.is_empty() && *it != b".") {
            self.push(b"/");
            self.push(component);
        }
        if self.len == 0 {
            self.push(b"/");
        }
    }

    /// Lets the operating system fill the name.
    pub(crate) fn fill(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<()> {
        self.len = write(&mut self.bytes)?.min(NAME_MAX);
        self.is_cut = self.len == NAME_MAX;
        Some(())
    }
}

/// A path as a call has it: a directory's descriptor and a name in it.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) dir: c_int,
    pub(crate) path: *const c_char,
}

impl At {
    /// A path that stands alone.
    #[inline(always)]
    pub(crate) fn cwd(path: *const c_char) -> At {
        At {
            dir: libc::AT_FDCWD,
            path,
        }
    }

    /// The path as it was given to a call that has failed; `None` if it cannot be read.
    pub(crate) fn given(self) -> Option<Name> {
        self.read(Failed::Yes)
    }

    /// The name, read after the call has `failed` or not; `None` if it cannot be known.
    fn read(self, failed: Failed) -> Option<Name> {
        let mut given = Name::empty();
        if self.path.is_null() {
            // Some calls take it for the descriptor's own file.
            return Some(given);
        }
        given.fill(|bytes| match failed {
            // SAFETY: the real call has just read a C string there.
            Failed::No => Some(unsafe { sys::copy_string(self.path, bytes) }),
            Failed::Yes => sys::copy_foreign_string(self.path, bytes),
        })?;
        Some(given)
    }
}

/// Whether the real call failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    No,
    Yes,
}

/// Number of the file at `at`; `None` if it is not recorded.
pub(crate) fn of_path(at: At, failed: Failed) -> Option<Named> {
    let Some(given) = at.read(failed) else {
        return Some(Named::NONE);
    };
    let path = given.as_bytes();
    if path.is_empty() {
        // Only `AT_EMPTY_PATH` succeeds with such a name: the call is about the descriptor.
        return match failed {
            Failed::No => fds::look(at.dir).map(|seen| Named::of(seen.number())),
            Failed::Yes => Some(Named::NONE),
        };
    }
    let mut name = Name::empty();
    if path[0] != b'/' && at.start(&mut name).is_none() {
        return Some(Named::NONE);
    }
    name.push_path(path);
    name.is_cut |= given.is_cut;
    number(&name)
}

impl At {
    /// The directory that a relative path begins at.
    fn start(self, name: &mut Name) -> Option<()> {
        if self.dir == libc::AT_FDCWD {
            return cwd::read(name);
        }
        name.fill(|bytes| sys::descriptor_path(self.dir, bytes))
    }
}

/// Number of the file that is open as `fd`; `None` if it is not recorded.
pub(crate) fn of_descriptor(fd: c_int) -> Option<u32> {
    let mut name = Name::empty();
    name.fill(|bytes| sys::descriptor_path(fd, bytes))?;
    number(&name).map(|named| named.file)
}

/// Whether a path climbs, so that only the operating system knows where to.
pub(crate) fn climbs(at: At) -> bool {
    let given = at.read(Failed::No);
    given.is_some_and(|name| {
        name.as_bytes()
            .split(|byte| *byte == b'/')
            .any(|it| it == b"..")
    })
}

fn number(name: &Name) -> Option<Named> {
    if !filter::records(name.as_bytes()) {
        return None;
    }
    Some(Named {
        file: keeping_errno(|| tracer::file(name.as_bytes())),
        is_cut: name.is_cut,
    })
}

impl Named {
    /// No name, and the call is recorded all the same.
    pub(crate) const NONE: Named = Named {
        file: 0,
        is_cut: false,
    };

    pub(crate) fn of(file: u32) -> Named {
        Named {
            file,
            is_cut: false,
        }
    }
}
