//! The repository as the checks see it: files as text, crates as facts.

use std::io;
use std::path::{Path, PathBuf};

use crate::commits::{self, Unpushed};
use crate::{metadata, source};

/// One file.
#[derive(Debug)]
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// The text; empty when the file is not UTF-8.
    pub text: String,
    /// For Rust: the text with comments and literals blanked, byte for byte. Otherwise empty.
    pub code: String,
}

impl File {
    /// A file with this text.
    pub fn new(path: &str, text: &str) -> File {
        let code = if path.ends_with(".rs") {
            source::blank(text)
        } else {
            String::new()
        };
        File {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
        }
    }

    /// Whether all of it is test code: an integration test, or a module named `tests`.
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.rsplit('/');
        parts.next() == Some("tests.rs") || parts.any(|dir| dir == "tests" || dir == "benches")
    }
}

/// How one crate depends on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DepKind {
    /// `[dependencies]` or `[build-dependencies]`.
    Shipped,
    /// `[dev-dependencies]`.
    Dev,
}

/// One dependency of a crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dep {
    /// The package it names.
    pub name: String,
    /// In which table.
    pub kind: DepKind,
}

/// The kind of program that a crate root begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootKind {
    /// A library of any sort, `.so` included.
    Library,
    /// A command.
    Binary,
}

/// The first file of a library or a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Which of the two.
    pub kind: RootKind,
    /// Path from the root of the repository.
    pub path: String,
}

/// One workspace member.
#[derive(Debug, Clone, Default)]
pub struct Crate {
    /// Package name.
    pub name: String,
    /// `description` in its Cargo.toml.
    pub description: String,
    /// Its directory, from the root of the repository.
    pub dir: String,
    /// Its library and commands.
    pub roots: Vec<Root>,
    /// Its dependencies, inside the workspace and outside.
    pub deps: Vec<Dep>,
}

impl Crate {
    /// Path of its Cargo.toml.
    pub fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.dir)
    }
}

/// All that a check may look at.
#[derive(Debug, Default)]
pub struct Repo {
    /// Every file, in path order, but git's own and those of build directories.
    pub files: Vec<File>,
    /// Every workspace member.
    pub crates: Vec<Crate>,
    /// The commits that have not gone out.
    pub unpushed: Unpushed,
}

impl Repo {
    /// Reads the repository at `root`.
    pub fn load(root: &Path) -> io::Result<Repo> {
        let root = root.canonicalize()?;
        let mut paths = Vec::new();
        walk(&root, &mut paths)?;
        paths.sort();
        let files = paths
            .iter()
            .map(|path| read(&root, path))
            .collect::<io::Result<_>>()?;
        Ok(Repo {
            files,
            crates: metadata::load(&root)?,
            unpushed: commits::load(&root),
        })
    }

    /// The repository that this crate was built in.
    pub fn here() -> io::Result<Repo> {
        Repo::load(&Repo::root())
    }

    /// Its directory.
    pub fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }
}

fn walk(dir: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        let is_build = name == "target" || name.starts_with("target-");
        // In a linked work tree `.git` is a file that names a directory of this machine.
        if name == ".git" {
            continue;
        }
        if kind.is_dir() && !is_build {
            walk(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}

fn read(root: &Path, path: &Path) -> io::Result<File> {
    let inside = path.strip_prefix(root).map_err(io::Error::other)?;
    let text = String::from_utf8(std::fs::read(path)?).unwrap_or_default();
    Ok(File::new(&inside.to_string_lossy(), &text))
}

#[cfg(test)]
impl Repo {
    /// A repository of these files and no crates.
    pub(crate) fn sample(files: &[(&str, &str)]) -> Repo {
        let files = files
            .iter()
            .map(|(path, text)| File::new(path, text))
            .collect();
        Repo {
            files,
            ..Repo::default()
        }
    }

    /// Adds the library crate `name` in `crates/name`.
    pub(crate) fn with_crate(mut self, name: &str, description: &str, deps: &[Dep]) -> Repo {
        let dir = format!("crates/{name}");
        let root = Root {
            kind: RootKind::Library,
            path: format!("{dir}/src/lib.rs"),
        };
        self.crates.push(Crate {
            name: name.to_owned(),
            description: description.to_owned(),
            dir,
            roots: vec![root],
            deps: deps.to_vec(),
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_told_by_their_path() {
        assert!(File::new("crates/a/tests/cli.rs", "").is_test());
        assert!(File::new("crates/a/src/home/tests.rs", "").is_test());
        assert!(!File::new("crates/a/src/tests_of_time.rs", "").is_test());
    }

    #[test]
    fn this_repository_can_be_read() {
        let repo = Repo::here().unwrap();
        assert!(repo.file("xtask/src/repo.rs").is_some());
        assert!(repo.crates.iter().any(|krate| krate.name == "xtask"));
        let is_foreign = |path: &str| path == ".git" || path.starts_with("target/");
        assert!(!repo.files.iter().any(|file| is_foreign(&file.path)));
    }
}
