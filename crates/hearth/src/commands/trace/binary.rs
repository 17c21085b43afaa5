//! Reads in a program's file whether a library can be loaded into the program.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How a program finds its libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linkage {
    /// By the dynamic linker, which can load ours.
    Dynamic,
    /// It brings all it needs.
    Static,
    /// By the dynamic linker, which loads nothing of a user's choice.
    OtherRights,
}

/// Looks at the file that would be run as `program`; `None` if it is not an ELF file.
pub(super) fn look(program: &OsStr) -> Option<Linkage> {
    let path = find(program)?;
    let file = File::open(path).ok()?;
    let is_dynamic = has_interpreter(&file)?;
    let meta = file.metadata().ok()?;
    let rights = meta.permissions().mode() & 0o6000 != 0;
    let other = meta.uid() != rustix::process::getuid().as_raw();
    Some(match is_dynamic {
        false => Linkage::Static,
        true if rights && other => Linkage::OtherRights,
        true => Linkage::Dynamic,
    })
}

/// The file of a program, as a shell would find it.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    let files = std::env::split_paths(&path).map(|dir| dir.join(program));
    let is_program = |file: &PathBuf| {
        Path::metadata(file).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
    };
    files.into_iter().find(is_program)
}

/// Whether an ELF file of 64 bits names a dynamic linker: a program header of type 3.
fn has_interpreter(file: &File) -> Option<bool> {
    const INTERPRETER: u32 = 3;
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).ok()?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let table = u64::from_le_bytes(head[32..40].try_into().ok()?);
    let (size, count) = (u64::from(word(54)), u64::from(word(56)));
    let is_one = |index: u64| {
        let mut kind = [0; 4];
        let at = table.checked_add(index * size)?;
        file.read_exact_at(&mut kind, at).ok()?;
        Some(u32::from_le_bytes(kind) == INTERPRETER)
    };
    (0..count)
        .map(is_one)
        .find_map(|found| match found {
            Some(false) => None,
            other => Some(other),
        })
        .unwrap_or(Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_system_is_dynamic_and_a_script_is_no_program() {
        assert_eq!(look(OsStr::new("cat")), Some(Linkage::Dynamic));
        assert_eq!(look(OsStr::new("/proc/self/status")), None);
        assert_eq!(look(OsStr::new("no-such-program-anywhere")), None);
    }
}
