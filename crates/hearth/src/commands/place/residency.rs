//! Who holds how much of which file, as docs/formats/jobs.md has it.
//!
//! ```json
//! {"nodes": [{"name": "node01", "seats": 2, "memory": "64GiB"}],
//!  "files": [{"path": "mesh.h5", "size": "3GiB", "held": {"node01": "3GiB"}}]}
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::failure::{Failure, OrFail};
use crate::size::Size;

/// The largest file.
const SIZE_MAX: u64 = 1 << 53;

/// What the nodes hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Residency {
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) files: Vec<File>,
}

/// A node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) name: String,
    /// Jobs that it takes now.
    #[serde(default = "one")]
    pub(super) seats: u32,
    /// Bytes that it can hold.
    pub(super) memory: Option<Amount>,
}

/// A file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) size: Amount,
    /// Bytes of it, by node.
    #[serde(default)]
    pub(super) held: BTreeMap<String, Amount>,
}

fn one() -> u32 {
    1
}

/// Bytes: a number, or text such as `64GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Amount(pub(super) u64);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
        from.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes that is not negative, or a size such as \"64GiB\"")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Amount, E> {
        Ok(Amount(bytes))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        let size: Size = text.parse().map_err(E::custom)?;
        Ok(Amount(size.0))
    }
}

impl Residency {
    /// The paths of all files.
    pub(super) fn paths(&self) -> BTreeSet<&str> {
        self.files.iter().map(|file| file.path.as_str()).collect()
    }
}

/// Reads and checks a residency file.
pub(super) fn read(path: &Path) -> Result<Residency, Failure> {
    let what = || format!("cannot read the residency `{}`", path.display());
    let text = fs::read_to_string(path).or_fail(what)?;
    parse(&text).map_err(|why| Failure::new(what()).cause(why))
}

/// The residency that a text tells.
pub(super) fn parse(text: &str) -> Result<Residency, String> {
    let residency: Residency = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check(&residency)?;
    Ok(residency)
}

fn check(residency: &Residency) -> Result<(), String> {
    let mut room: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    for node in &residency.nodes {
        let memory = node.memory.map(|memory| memory.0);
        if room.insert(&node.name, memory).is_some() {
            return Err(format!("there are two nodes `{}`", node.name));
        }
    }
    if room.is_empty() {
        return Err("it names no node".to_owned());
    }
    let mut paths = BTreeSet::new();
    for file in &residency.files {
        if !paths.insert(&file.path) {
            return Err(format!("there are two files `{}`", file.path));
        }
        check_file(file, &mut room)?;
    }
    Ok(())
}

/// Takes what nodes hold of a file from their `room`.
fn check_file(file: &File, room: &mut BTreeMap<&str, Option<u64>>) -> Result<(), String> {
    let path = &file.path;
    if file.size.0 > SIZE_MAX {
        return Err(format!("`{path}` is larger than {}", Size(SIZE_MAX)));
    }
    for (node, held) in &file.held {
        if *held > file.size {
            let (held, size) = (Size(held.0), Size(file.size.0));
            return Err(format!(
                "`{node}` holds {held} of `{path}`, which has {size}"
            ));
        }
        match room.get_mut(node.as_str()) {
            None => return Err(format!("`{path}` is held by `{node}`, which is no node")),
            Some(None) => {}
            Some(Some(left)) => {
                *left = left.checked_sub(held.0).ok_or_else(|| {
                    format!("`{node}` holds more than its memory: `{path}` does not fit in")
                })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let with = |files: &str| {
            format!(r#"{{"nodes": [{{"name": "n", "memory": "1K"}}], "files": [{files}]}}"#)
        };
        for (text, why) in [
            (r#"{"nodes": []}"#.to_owned(), "it names no node"),
            (
                r#"{"nodes": [{"name": "n"}, {"name": "n"}]}"#.to_owned(),
                "there are two nodes `n`",
            ),
            (
                with(r#"{"path": "a", "size": -1}"#),
                "invalid type: integer `-1`, expected a number of bytes",
            ),
            (
                with(r#"{"path": "a", "size": "4MB"}"#),
                "unknown unit in `4MB`",
            ),
            (
                with(r#"{"path": "a", "size": 18446744073709551615}"#),
                "`a` is larger than 8192 TiB",
            ),
            (
                with(r#"{"path": "a", "size": 5, "held": {"m": 5}}"#),
                "`a` is held by `m`, which is no node",
            ),
            (
                with(r#"{"path": "a", "size": 5, "held": {"n": 6}}"#),
                "`n` holds 6 B of `a`, which has 5 B",
            ),
            (
                with(r#"{"path": "a", "size": "2K", "held": {"n": "2K"}}"#),
                "`n` holds more than its memory",
            ),
            (
                with(r#"{"path": "a", "size": 1}, {"path": "a", "size": 1}"#),
                "there are two files `a`",
            ),
        ] {
            let said = parse(&text).unwrap_err();
            assert!(said.starts_with(why), "{text}: {said}");
        }
    }
}
