//! Files of settings: where they are, which are heeded, and what they say.
//!
//! A file is heeded if its user or root owns it and nobody else may write it. Anybody may have made the store and its
//! file. So that one may only set what costs time or memory: no path, rule, port or promise is its to choose.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use toml::de::{DeTable, DeValue};

use super::keys::Wrong;
use super::{Origin, Setting, keys};
use hearth_set::failure::{Failure, OrFail};

const SYSTEM: &str = "/etc/hearth/hearth.toml";
const NAME: &str = "hearth.toml";
const HIDDEN: &str = ".hearth.toml";

/// The keys of a store's file.
pub(crate) const OF_STORES: [&str; 5] = ["pool", "page-size", "chunk", "allocation", "balance"];

/// Keys whose values are paths. A file's reader may be anywhere, so they begin at the root.
const PATHS: [&str; 2] = ["rules", "tier"];

/// A longer file is none of settings.
const BYTES_MAX: u64 = 64 << 10;

/// Write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;

/// A place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    kind: Kind,
}

/// Owners of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The system's or the user's, which may set all.
    Own,
    /// A store's, which may not.
    Store,
}

/// The places of files for a store, later ones winning.
pub(crate) fn places(store: &Path) -> Vec<Place> {
    let system = Some(PathBuf::from(SYSTEM));
    let own = [system, user_directory().map(|dir| dir.join(NAME))];
    let own = own.into_iter().flatten().map(|path| Place {
        path,
        kind: Kind::Own,
    });
    let hidden = store.join(HIDDEN);
    let path = match hidden.symlink_metadata() {
        Ok(_) => hidden,
        Err(_) => store.join(NAME),
    };
    let kind = Kind::Store;
    own.chain([Place { path, kind }]).collect()
}

fn user_directory() -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from);
    // A relative path is to be ignored, says the specification.
    let config = from("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let config = config.or_else(|| {
        Some(
            from("HOME")
                .filter(|path| path.is_absolute())?
                .join(".config"),
        )
    });
    config.map(|dir| dir.join("hearth"))
}

impl Place {
    /// Whether there is a file, heeded or not.
    pub(crate) fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// The settings of the file. One that is left alone has none, and is told of.
    pub(crate) fn read(&self) -> Result<Vec<Setting>, Failure> {
        let what = || format!("cannot use the settings in `{}`", self.path.display());
        let mut file = match self.open() {
            Ok(file) => file,
            // Nor is it there for somebody who cannot see it.
            Err(_) if !self.is_there() => return Ok(Vec::new()),
            Err(error) => {
                let is_link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
                self.leave(&if is_link {
                    "it is a link".to_owned()
                } else {
                    error.to_string()
                });
                return Ok(Vec::new());
            }
        };
        if let Some(why) = doubt(&file).or_fail(what)? {
            self.leave(why);
            return Ok(Vec::new());
        }
        let mut text = String::new();
        let read = (&mut file).take(BYTES_MAX + 1).read_to_string(&mut text);
        read.or_fail(what)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(Failure::new(what()).cause("it is longer than 64 KiB"));
        }
        self.parse(&text)
    }

    /// Never waits for the writer of a pipe. A link beside a store could lead anywhere.
    fn open(&self) -> io::Result<File> {
        let flags = match self.kind {
            Kind::Own => OFlags::NONBLOCK,
            Kind::Store => OFlags::NONBLOCK | OFlags::NOFOLLOW,
        };
        let flags = flags.bits().cast_signed();
        OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&self.path)
    }

    fn leave(&self, why: &str) {
        let path = self.path.display();
        hearth_client::say!("warning: the settings in `{path}` are not heeded: {why}");
    }

    fn parse(&self, text: &str) -> Result<Vec<Setting>, Failure> {
        let line_of = |offset: usize| {
            let before = text.get(..offset).unwrap_or(text);
            before.matches('\n').count() + 1
        };
        let what = |line| {
            let path = self.path.display();
            format!("cannot use the settings in `{path}`, line {line}")
        };
        let table = DeTable::parse(text).map_err(|error| {
            let line = line_of(error.span().map_or(0, |span| span.start));
            Failure::new(what(line)).cause(error.message())
        })?;
        let settings = table.get_ref().iter().map(|(key, value)| {
            let line = line_of(key.span().start);
            let value = self.value(key.get_ref(), value.get_ref());
            Ok(Setting {
                key: key.get_ref().to_string(),
                value: value.map_err(|wrong| wrong.of(what(line)))?,
                origin: Origin::File {
                    path: self.path.clone(),
                    line,
                },
            })
        });
        settings.collect()
    }

    /// The value of a key as an option takes it, if this file may set it so.
    fn value(&self, key: &str, value: &DeValue<'_>) -> Result<String, Wrong> {
        keys::check_key(key)?;
        if self.kind == Kind::Store && !OF_STORES.contains(&key) {
            let known = OF_STORES.join(", ");
            let cause = format!("a file beside a store sets {known}, and not `{key}`");
            let hint = "your own file may: hearth config names it";
            return Err(Wrong::new(cause).hint(hint));
        }
        let value = written(value).ok_or_else(|| {
            Wrong::new(format!(
                "`{key}` is no text, whole number, truth or list of these"
            ))
        })?;
        keys::check_value(key, &value)?;
        if PATHS.contains(&key) && !value.starts_with('/') {
            let cause = format!("`{key}` is a path, which begins with / in a file");
            return Err(Wrong::new(cause));
        }
        Ok(value)
    }
}

/// A value as an option takes it.
fn written(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Array(values) => {
            let values: Option<Vec<String>> = values
                .iter()
                .map(|value| match value.get_ref() {
                    DeValue::Array(_) => None,
                    one => written(one),
                })
                .collect();
            values.map(|values| values.join(","))
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

/// Why an open file cannot be trusted.
fn doubt(file: &File) -> io::Result<Option<&'static str>> {
    let meta = file.metadata()?;
    let is_ours = [0, geteuid().as_raw()].contains(&meta.uid());
    Ok(if !meta.is_file() {
        Some("it is no file")
    } else if !is_ours {
        Some("it is another user's")
    } else if meta.mode() & OTHERS_WRITE != 0 {
        Some("others may write it (chmod go-w)")
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn place(path: PathBuf, kind: Kind) -> Place {
        Place { path, kind }
    }

    fn refused(text: &str, kind: Kind) -> String {
        let place = place("/c/hearth.toml".into(), kind);
        place.parse(text).unwrap_err().to_string()
    }

    #[test]
    fn texts_numbers_truths_and_lists_are_values() {
        let place = place("/c/hearth.toml".into(), Kind::Own);
        let text =
            "# a remark\npool = \"64M\"\nagents = 2\n\nallow-other = true\ngateways = [0, 1]\n";
        let settings = place.parse(text).unwrap();
        let value = |key: &str| {
            let setting = settings.iter().find(|setting| setting.key == key).unwrap();
            (setting.value.clone(), setting.origin.to_string())
        };
        assert_eq!(value("pool"), ("64M".into(), "/c/hearth.toml:2".into()));
        assert_eq!(value("agents"), ("2".into(), "/c/hearth.toml:3".into()));
        assert_eq!(value("allow-other").0, "true");
        assert_eq!(value("gateways"), ("0,1".into(), "/c/hearth.toml:6".into()));
    }

    #[test]
    fn a_mistake_is_told_with_file_line_and_key() {
        for (text, told) in [
            ("\npol = 1\n", "`/c/hearth.toml`, line 2"),
            ("polcy = \"home\"", "the nearest key is `policy`"),
            ("close = \"flush\"", "the nearest value is `flushed`"),
            ("pool = 1.5", "`pool` is no text"),
            ("[run]\npool = 1", "no key `run`"),
            ("pool = ", "line 1"),
            ("pool = 1\npool = 2", "line 2"),
            ("rules = \"rules\"", "begins with /"),
            ("tier = \"ssd\"", "begins with /"),
        ] {
            let text = refused(text, Kind::Own);
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn a_store_chooses_no_path_rule_port_or_promise() {
        let text = "pool = \"64M\"\npage-size = \"64K\"\nchunk = \"1M\"\nallocation = \"slot\"\nbalance = \"off\"";
        let store = place("/s/hearth.toml".into(), Kind::Store);
        assert_eq!(store.parse(text).unwrap().len(), OF_STORES.len());
        for key in keys::all() {
            if !OF_STORES.contains(&key.as_str()) {
                let told = refused(&format!("{key} = \"/x\""), Kind::Store);
                assert!(told.contains(&format!("and not `{key}`")), "{told}");
            }
        }
    }

    #[test]
    fn a_file_that_others_may_have_written_is_not_heeded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hearth.toml");
        fs::write(&path, "pool = \"64M\"").unwrap();
        let count = |kind| place(path.clone(), kind).read().unwrap().len();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(count(Kind::Store), 1);
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(count(Kind::Store), 0);
        assert_eq!(count(Kind::Own), 0);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        if geteuid().is_root() {
            chown(&path, Some(65534), None).unwrap();
            assert_eq!(count(Kind::Store), 0);
        }
        let link = dir.path().join("link");
        symlink("/etc/passwd", &link).unwrap();
        assert_eq!(place(link, Kind::Store).read().unwrap(), []);
    }

    #[test]
    fn neither_a_pipe_nor_a_long_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(place(pipe, Kind::Store).read().unwrap(), []);
        let long = dir.path().join("long");
        fs::write(&long, "#".repeat(70_000)).unwrap();
        fs::set_permissions(&long, Permissions::from_mode(0o600)).unwrap();
        let text = place(long, Kind::Store).read().unwrap_err().to_string();
        assert!(text.contains("longer than 64 KiB"), "{text}");
        let none = dir.path().join("none");
        assert_eq!(place(none, Kind::Own).read().unwrap(), []);
    }
}
