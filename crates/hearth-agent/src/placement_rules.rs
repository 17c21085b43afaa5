//! The promise that an opener wants of a file: what the file's own attribute says, else the first rule whose pattern
//! fits its path, else what the set was told.

use glob::{MatchOptions, Pattern};
use hearth_proto::Semantics;
use rustix::fs::{Stat, fgetxattr, fstat};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use crate::files::path_of;

/// The attribute of a file that says what is promised of it.
pub const ATTRIBUTE: &str = "user.hearth.semantics";

/// No value of the attribute is longer.
const VALUE_BYTES: usize = 32;

/// `*` and `?` stay within a name.
const BY_NAMES: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Permission bits that let somebody write.
const WRITE_BITS: u32 = 0o222;

/// How the bytes of a file are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the set's policy has it.
    Cache,
    /// From the store, one for one.
    Store,
}

/// A rule for files whose path fits a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Pattern of the path below the store's root: `*` is within a name, `**` across names.
    pub glob: String,
    /// How the bytes are reached.
    pub way: Way,
    /// The level that is promised; `None`: the one that the set was told.
    pub semantics: Option<Semantics>,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("`{glob}` is no pattern of paths")]
pub struct NoPattern {
    glob: String,
    source: glob::PatternError,
}

/// The placement rules of this agent for files that are opened here.
#[derive(Clone, Debug)]
pub(crate) struct PlacementRules {
    usual: Semantics,
    rules: Vec<(Pattern, Rule)>,
    root: PathBuf,
}

/// The placement of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePlacement {
    pub(crate) way: Way,
    pub(crate) semantics: Semantics,
}

impl Rule {
    /// The pattern, made ready.
    pub fn pattern(&self) -> Result<Pattern, NoPattern> {
        Pattern::new(&self.glob).map_err(|source| NoPattern {
            glob: self.glob.clone(),
            source,
        })
    }
}

impl PlacementRules {
    pub(crate) fn new(
        usual: Semantics,
        rules: &[Rule],
        root: PathBuf,
    ) -> Result<PlacementRules, NoPattern> {
        let ready = |rule: &Rule| Ok((rule.pattern()?, rule.clone()));
        let rules: Result<Vec<_>, NoPattern> = rules.iter().map(ready).collect();
        Ok(PlacementRules {
            usual,
            rules: rules?,
            root,
        })
    }

    /// The placement of an open file.
    pub(crate) fn of(&self, fd: BorrowedFd<'_>) -> FilePlacement {
        self.of_said(fd, attribute(fd))
    }

    /// The same of a file that was just made. It has no attributes yet, which a network file system would ask its servers.
    pub(crate) fn of_new(&self, fd: BorrowedFd<'_>) -> FilePlacement {
        self.of_said(fd, None)
    }

    fn of_said(&self, fd: BorrowedFd<'_>, said: Option<Semantics>) -> FilePlacement {
        let rule = self.rule_of(fd);
        let level = said
            .or_else(|| rule.and_then(|rule| rule.semantics))
            .unwrap_or(self.usual);
        let read_only = |stat: Stat| stat.st_mode & WRITE_BITS == 0;
        let laminated = level == Semantics::Commit && fstat(fd).is_ok_and(read_only);
        FilePlacement {
            way: rule.map_or(Way::Cache, |rule| rule.way),
            semantics: match laminated {
                true => Semantics::Laminated,
                false => level,
            },
        }
    }

    fn rule_of(&self, fd: BorrowedFd<'_>) -> Option<&Rule> {
        if self.rules.is_empty() {
            return None;
        }
        let path = path_of(fd).ok()?;
        self.rule_for(path.strip_prefix(&self.root).ok()?)
    }

    fn rule_for(&self, path: &Path) -> Option<&Rule> {
        // A name that is no text has signs in it which `*` and `?` stand for all the same.
        let path = path.to_string_lossy();
        let fits = |(glob, _): &&(Pattern, Rule)| glob.matches_with(&path, BY_NAMES);
        self.rules.iter().find(fits).map(|(_, rule)| rule)
    }
}

/// The level that the file's own attribute names, if it is a known one.
fn attribute(fd: BorrowedFd<'_>) -> Option<Semantics> {
    let mut value = [0u8; VALUE_BYTES];
    let len = fgetxattr(fd, ATTRIBUTE, &mut value[..]).ok()?;
    let name = std::str::from_utf8(value.get(..len)?).ok()?.trim();
    let known = Semantics::by_name(name);
    if known.is_none() {
        log::warn!("{ATTRIBUTE} of a file is `{name}`, which is no level of promises");
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(glob: &str, semantics: Semantics) -> Rule {
        Rule {
            glob: glob.to_owned(),
            way: Way::Cache,
            semantics: Some(semantics),
        }
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rules = [
            rule("out/*.ckpt", Semantics::Commit),
            rule("out/**", Semantics::Cto),
        ];
        let placement_rules =
            PlacementRules::new(Semantics::Posix, &rules, PathBuf::from("/store")).unwrap();
        let of = |path: &str| {
            let rule = placement_rules.rule_for(Path::new(path));
            rule.and_then(|rule| rule.semantics)
        };
        assert_eq!(of("out/a.ckpt"), Some(Semantics::Commit));
        assert_eq!(of("out/deep/a.ckpt"), Some(Semantics::Cto));
        assert_eq!(of("a.ckpt"), None);
        assert_eq!(of("out"), None);
        assert_eq!(of("an/out/a.ckpt"), None);
    }

    #[test]
    fn a_broken_pattern_is_named() {
        let error = rule("out/[a", Semantics::Cto).pattern().unwrap_err();
        assert!(error.to_string().contains("out/[a"), "{error}");
    }

    #[test]
    fn a_file_that_was_just_made_is_not_asked_for_its_attribute() {
        let dir = tempfile::tempdir().unwrap();
        let placement_rules =
            PlacementRules::new(Semantics::Posix, &[], dir.path().to_owned()).unwrap();
        let file = std::fs::File::create(dir.path().join("a")).unwrap();
        let fd = std::os::fd::AsFd::as_fd(&file);
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(fd, ATTRIBUTE, b"commit", flags).unwrap();
        assert_eq!(placement_rules.of(fd).semantics, Semantics::Commit);
        assert_eq!(placement_rules.of_new(fd).semantics, Semantics::Posix);
    }

    #[test]
    fn a_file_that_nobody_may_write_counts_as_laminated() {
        let dir = tempfile::tempdir().unwrap();
        let placement_rules =
            PlacementRules::new(Semantics::Commit, &[], dir.path().to_owned()).unwrap();
        let file = std::fs::File::create(dir.path().join("a")).unwrap();
        let of =
            |file: &std::fs::File| placement_rules.of(std::os::fd::AsFd::as_fd(file)).semantics;
        assert_eq!(of(&file), Semantics::Commit);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o444);
        file.set_permissions(mode).unwrap();
        assert_eq!(of(&file), Semantics::Laminated);
    }
}
