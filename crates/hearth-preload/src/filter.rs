//! Which files are recorded: `HEARTH_TRACE_ONLY` and `HEARTH_TRACE_SKIP`, lists of patterns with
//! colons between them.
//!
//! A pattern names a file, or a directory with all that is in it; `*` is any run of characters and
//! `?` any one. Without a list of one's own, what the system itself shows as files is skipped.

use std::sync::OnceLock;

/// Skipped when `HEARTH_TRACE_SKIP` is not set.
const SKIP: &str = "/proc:/sys:/dev";
/// Recorded though it is in [`SKIP`]: memory that programs use as files.
const KEEP: &str = "/dev/shm";

/// The lists of this process.
static LISTS: OnceLock<Lists> = OnceLock::new();

#[derive(Default)]
struct Lists {
    only: Option<Vec<u8>>,
    skip: Option<Vec<u8>>,
}

/// Takes the lists from the environment, before anything is recorded.
pub(crate) fn start() {
    let list = |name: &str| std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec);
    LISTS.get_or_init(|| Lists {
        only: list("HEARTH_TRACE_ONLY").filter(|list| !list.is_empty()),
        skip: list("HEARTH_TRACE_SKIP"),
    });
}

/// Whether calls on the file of this absolute name are recorded.
pub(crate) fn records(path: &[u8]) -> bool {
    LISTS.get().is_none_or(|lists| lists.record(path))
}

impl Lists {
    fn record(&self, path: &[u8]) -> bool {
        if self.only.as_ref().is_some_and(|only| !any(only, path)) {
            return false;
        }
        match &self.skip {
            Some(skip) => !any(skip, path),
            None => !any(SKIP.as_bytes(), path) || any(KEEP.as_bytes(), path),
        }
    }
}

fn any(list: &[u8], path: &[u8]) -> bool {
    let mut patterns = list.split(|byte| *byte == b':');
    patterns.any(|pattern| !pattern.is_empty() && matches(pattern, path))
}

/// Whether `pattern` matches `path` or a directory above it.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let pattern = pattern.strip_suffix(b"/").unwrap_or(pattern);
    let (mut p, mut at) = (0, 0);
    // The point at which to try again: after the last star, with one byte more under it.
    let mut retry = None;
    loop {
        let next = path.get(at);
        match pattern.get(p) {
            None if next.is_none_or(|byte| *byte == b'/') => return true,
            Some(b'*') => {
                retry = Some((p, at));
                p += 1;
                continue;
            }
            Some(want) if next.is_some_and(|byte| want == byte || *want == b'?') => {
                p += 1;
                at += 1;
                continue;
            }
            _ => {}
        }
        let Some((star, under)) = retry.filter(|(_, under)| *under < path.len()) else {
            return false;
        };
        retry = Some((star, under + 1));
        p = star + 1;
        at = under + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(only: Option<&str>, skip: Option<&str>) -> Lists {
        let list = |list: Option<&str>| list.map(|it| it.as_bytes().to_vec());
        Lists {
            only: list(only),
            skip: list(skip),
        }
    }

    #[test]
    fn a_pattern_names_a_file_or_a_whole_directory() {
        let rows: [(&str, &str, bool); 12] = [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/b/c/d", true),
            ("/a/b/", "/a/b/c", true),
            ("/a/b", "/a/bc", false),
            ("/a", "/", false),
            ("/a/*.h5", "/a/x/y.h5", true),
            ("/a/*.h5", "/a/x/y.h", false),
            ("*.h5", "/a.h5.d/b", false),
            ("*/tmp", "/var/tmp/x", true),
            ("/a/?", "/a/b", true),
            ("/a/?", "/a/", false),
            ("/a*b*c", "/axbyybzc", true),
        ];
        for (pattern, path, want) in rows {
            assert_eq!(
                matches(pattern.as_bytes(), path.as_bytes()),
                want,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn what_the_system_shows_as_files_is_skipped_and_shared_memory_is_not() {
        let none = lists(None, None);
        assert!(!none.record(b"/proc/self/maps"));
        assert!(!none.record(b"/dev/null"));
        assert!(none.record(b"/dev/shm/x"));
        assert!(none.record(b"/data/x"));
    }

    #[test]
    fn own_lists_replace_that() {
        let own = lists(Some("/data:/dev"), Some("*.log"));
        assert!(own.record(b"/dev/null"));
        assert!(own.record(b"/data/x"));
        assert!(!own.record(b"/data/x.log"));
        assert!(!own.record(b"/home/x"));
    }
}
