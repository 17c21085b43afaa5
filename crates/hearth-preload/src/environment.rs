//! The variables that a program must have in its environment to be traced, and how an exec hands
//! them on when the program before has dropped them.
//!
//! Exec often happens in a child of `vfork`, on memory that is its parent's. So nothing here takes a
//! lock or allocates from the heap. An environment that must be completed is put together in a
//! mapping of its own, which is given back if the exec fails.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

use crate::sys::Pages;

/// A program that has it set to `no` is not traced, and its environment is left alone.
const FOLLOW: &[u8] = b"HEARTH_TRACE_FOLLOW=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";
const OURS: [&[u8]; 6] = [
    b"HEARTH_TRACE",
    b"HEARTH_LENDER=",
    b"HEARTH_MOUNT=",
    b"HEARTH_BEHIND=",
    b"HEARTH_FILTERS=",
    b"HEARTH_OWNERS=",
];

/// The variables that this process found, whole as `NAME=value`.
static FOUND: OnceLock<Found> = OnceLock::new();

struct Found {
    /// Path by which this library was preloaded.
    library: CString,
    /// `LD_PRELOAD` as it was.
    preload: CString,
    /// Every variable whose name begins as one of ours.
    variables: Vec<CString>,
}

/// Notes what is to be handed on.
pub(crate) fn start() {
    let whole = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let mut line = name.into_vec();
        line.push(b'=');
        line.extend(value.into_vec());
        CString::new(line).ok()
    };
    let lines: Vec<CString> = std::env::vars_os().filter_map(whole).collect();
    let is = |line: &&CString, start: &[u8]| line.as_bytes().starts_with(start);
    let Some(preload) = lines.iter().find(|line| is(line, PRELOAD)).cloned() else {
        return;
    };
    let entries = preload.as_bytes()[PRELOAD.len()..].split(is_separator);
    let Some(library) = entries
        .filter(|entry| is_ours(entry))
        .find_map(|it| CString::new(it).ok())
    else {
        return;
    };
    let found = Found {
        library,
        preload,
        variables: lines
            .iter()
            .filter(|line| is_variable(line.as_bytes()))
            .cloned()
            .collect(),
    };
    let _ = FOUND.set(found);
}

fn is_separator(byte: &u8) -> bool {
    matches!(byte, b':' | b' ')
}

/// Whether a line of an environment is one of ours.
fn is_variable(line: &[u8]) -> bool {
    OURS.iter().any(|start| line.starts_with(start))
}

fn is_ours(entry: &[u8]) -> bool {
    const NAME: &[u8] = b"libhearth_preload.so";
    entry.rsplit(|byte| *byte == b'/').next() == Some(NAME)
}

/// An environment for an exec: the one that was given, or a completed copy.
pub(crate) enum Environment {
    AsGiven,
    Completed(Pages),
}

/// The environment for a program that was to get `given`.
///
/// # Safety
/// `given` is null, or an array of C strings that ends with null.
pub(crate) unsafe fn completed(given: *const *const c_char) -> Environment {
    // SAFETY: as the caller says.
    let lines = || unsafe { Lines::of(given) };
    let Some(found) = FOUND.get().filter(|found| !found.is_in(lines())) else {
        return Environment::AsGiven;
    };
    match found.complete(lines()) {
        Some(pages) => Environment::Completed(pages),
        None => Environment::AsGiven,
    }
}

impl Found {
    /// Whether nothing is to be added.
    fn is_in(&self, lines: Lines) -> bool {
        let mut has_library = false;
        let mut variables = 0;
        for line in lines {
            let line = line.to_bytes();
            if line.strip_prefix(FOLLOW) == Some(b"no") {
                return true;
            }
            if let Some(list) = line.strip_prefix(PRELOAD) {
                has_library |= list.split(is_separator).any(is_ours);
            }
            variables += usize::from(is_variable(line));
        }
        has_library && (variables > 0 || self.variables.is_empty())
    }

    /// The array, the one line that may be new, and the end of the array, in that order.
    fn complete(&self, lines: Lines) -> Option<Pages> {
        let list = |line: &CStr| line.to_bytes().strip_prefix(PRELOAD).map(<[u8]>::len);
        let (count, longest) = lines.clone().fold((0, 0), |(count, longest), line| {
            (count + 1, list(line).unwrap_or(0).max(longest))
        });
        let places = count + self.variables.len() + 2;
        let text = PRELOAD.len() + self.library.as_bytes().len() + longest + 2;
        let mut pages = Pages::new(places * size_of::<*const c_char>() + text)?;
        let (array, text) = pages.split(places);
        let mut array = array.iter_mut();
        let mut add = |line: *const c_char| {
            if let Some(place) = array.next() {
                *place = line;
            }
        };
        let has = |start: &[u8]| lines.clone().any(|line| line.to_bytes().starts_with(start));
        if !has(PRELOAD) {
            add(self.preload.as_ptr());
        }
        if !OURS.iter().any(|start| has(start)) {
            self.variables.iter().for_each(|line| add(line.as_ptr()));
        }
        for line in lines.clone() {
            match line.to_bytes().strip_prefix(PRELOAD) {
                Some(list) if !list.split(is_separator).any(is_ours) => {
                    join(text, &[PRELOAD, self.library.as_bytes(), b":", list]);
                    add(text.as_ptr().cast());
                }
                _ => add(line.as_ptr()),
            }
        }
        Some(pages)
    }
}

/// Writes `parts` to zeroed `text`, which has room for them and a zero byte.
fn join(text: &mut [u8], parts: &[&[u8]]) {
    let bytes = parts.iter().flat_map(|part| part.iter());
    for (place, byte) in text.iter_mut().zip(bytes) {
        *place = *byte;
    }
}

/// The lines of an environment.
#[derive(Clone)]
struct Lines(*const *const c_char);

impl Lines {
    /// # Safety
    /// `array` is null, or an array of C strings that ends with null.
    unsafe fn of(array: *const *const c_char) -> Lines {
        Lines(array)
    }
}

impl Iterator for Lines {
    type Item = &'static CStr;

    fn next(&mut self) -> Option<&'static CStr> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: whoever made this has said that it is such an array; the end is not passed.
        let line = unsafe { *self.0 };
        if line.is_null() {
            return None;
        }
        // SAFETY: not the end, so the next place is of the array, and this one is a C string.
        unsafe {
            self.0 = self.0.add(1);
            Some(CStr::from_ptr(line))
        }
    }
}
