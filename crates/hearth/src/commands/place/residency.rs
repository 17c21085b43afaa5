//! The bytes of each file that each node holds, as docs/formats/jobs.md has it.
//!
//! ```json
//! {"roots": ["/scratch"],
//!  "nodes": [{"name": "node01", "seats": 2, "memory": "64GiB"}],
//!  "files": [{"path": "mesh.h5", "size": "3GiB", "held": {"node01": "3GiB"}}]}
//! ```
//!
//! [`Residency::join`] puts together the objects that nodes tell one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::PathBuf;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use hearth_set::failure::{Failure, OrFail};
use hearth_set::size::Size;

/// The largest file.
const SIZE_MAX: u64 = 1 << 53;

/// The holdings of all nodes.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Residency {
    /// Directories below which jobs find the files: the store, and where it is mounted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) roots: BTreeSet<String>,
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) files: Vec<File>,
}

/// A node.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) name: String,
    /// Jobs that it takes now.
    #[serde(default = "one")]
    pub(super) seats: u32,
    /// Bytes that it can hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Amount>,
    /// Agents that have told this, by the names of their jobs and their numbers there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) agents: BTreeSet<String>,
}

/// A file.
#[derive(Debug, Deserialize, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

    /// How a file is called here that a job names: without a root before it.
    pub(super) fn name_of<'a>(&self, word: &'a str) -> &'a str {
        let below = |root: &String| word.strip_prefix(root.as_str())?.strip_prefix('/');
        self.roots.iter().find_map(below).unwrap_or(word)
    }

    /// Puts together the residencies that nodes tell one by one. The bytes that agents of one node hold of a file are
    /// added up, to no more than the file; those that an agent has told twice count once.
    pub(super) fn join(parts: impl IntoIterator<Item = Residency>) -> Residency {
        let mut parts: Vec<Residency> = parts.into_iter().collect();
        Residency::forget_repeated(&mut parts);
        let mut all = Residency::default();
        let mut files: BTreeMap<String, File> = BTreeMap::new();
        for part in parts {
            all.roots.extend(part.roots);
            part.nodes.into_iter().for_each(|node| all.admit(node));
            for file in part.files {
                match files.get_mut(&file.path) {
                    Some(known) => known.add(file),
                    None => drop(files.insert(file.path.clone(), file)),
                }
            }
        }
        all.files = files.into_values().collect();
        all
    }

    /// Of parts that tell of one node by the word of the same agent, keeps that of the most agents, or else the first.
    fn forget_repeated(parts: &mut [Residency]) {
        let told = |(at, part): (usize, &Residency)| -> Vec<(usize, String, BTreeSet<String>)> {
            let nodes = part.nodes.iter();
            nodes
                .map(|node| (at, node.name.clone(), node.agents.clone()))
                .collect()
        };
        let mut told: Vec<_> = parts.iter().enumerate().flat_map(told).collect();
        told.sort_by_key(|(at, _, agents)| (Reverse(agents.len()), *at));
        let mut heard: BTreeSet<(String, String)> = BTreeSet::new();
        for (at, node, agents) in told {
            let names: Vec<_> = agents
                .into_iter()
                .map(|agent| (node.clone(), agent))
                .collect();
            match names.iter().any(|name| heard.contains(name)) {
                true => parts[at].forget(&node),
                false => heard.extend(names),
            }
        }
    }

    /// Leaves out what was told of a node.
    fn forget(&mut self, node: &str) {
        self.nodes.retain(|known| known.name != node);
        for file in &mut self.files {
            file.held.remove(node);
        }
    }

    fn admit(&mut self, node: Node) {
        match self.nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) => {
                let sum = known.memory.zip(node.memory);
                known.memory = sum.map(|(one, other)| Amount(one.0.saturating_add(other.0)));
                known.seats = known.seats.max(node.seats);
                known.agents.extend(node.agents);
            }
            None => self.nodes.push(node),
        }
    }
}

impl File {
    fn add(&mut self, other: File) {
        self.size = self.size.max(other.size);
        for (node, bytes) in other.held {
            let held = self.held.entry(node).or_insert(Amount(0));
            *held = Amount(held.0.saturating_add(bytes.0)).min(self.size);
        }
    }
}

/// Reads and checks what nodes have told, in one file or several.
pub(super) fn read(paths: &[PathBuf]) -> Result<Residency, Failure> {
    let mut parts = Vec::new();
    for path in paths {
        let what = || format!("cannot read the residency `{}`", path.display());
        let text = fs::read_to_string(path).or_fail(what)?;
        parts.extend(parse(&text).map_err(|why| Failure::new(what()).cause(why))?);
    }
    Ok(Residency::join(parts))
}

/// Reads the residencies of a text: one, or several one after another.
pub(super) fn parse(text: &str) -> Result<Vec<Residency>, String> {
    let parts = serde_json::Deserializer::from_str(text).into_iter::<Residency>();
    let parts: Result<Vec<Residency>, _> = parts.collect();
    let parts = parts.map_err(|error| error.to_string())?;
    parts.iter().try_for_each(check)?;
    match parts.is_empty() {
        true => Err("it is empty".to_owned()),
        false => Ok(parts),
    }
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

    #[test]
    fn what_nodes_tell_one_by_one_is_put_together() {
        let text = r#"{"roots": ["/s"], "nodes": [{"name": "m", "memory": 9}],
                       "files": [{"path": "a", "size": 8, "held": {"m": 5}}]}
                      {"nodes": [{"name": "n"}, {"name": "o"}],
                       "files": [{"path": "a", "size": 8, "held": {"n": 3}}]}
                      {"nodes": [{"name": "m", "memory": 6}],
                       "files": [{"path": "a", "size": 8, "held": {"m": 5}}, {"path": "b", "size": 1}]}"#;
        let all = Residency::join(parse(text).unwrap());
        let nodes: Vec<_> = all.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(nodes, ["m", "n", "o"]);
        assert_eq!(all.nodes[0].memory, Some(Amount(15)));
        let held = [("m", 8), ("n", 3)].map(|(node, held)| (node.to_owned(), Amount(held)));
        assert_eq!(all.files[0].held, held.into());
        assert_eq!((all.name_of("/s/a"), all.name_of("/sa")), ("a", "/sa"));
        assert_eq!(parse(" ").unwrap_err(), "it is empty");
    }

    #[test]
    fn what_an_agent_has_told_twice_counts_once() {
        let told = |agents: &str, memory: u64, held: u64| {
            format!(
                r#"{{"nodes": [{{"name": "m", "memory": {memory}, "agents": [{agents}]}}],
                    "files": [{{"path": "a", "size": 99, "held": {{"m": {held}}}}}]}}"#
            )
        };
        let (one, both) = (told(r#""j/0""#, 10, 4), told(r#""j/0", "j/1""#, 20, 9));
        let (other, nobody) = (told(r#""k/0""#, 30, 5), told("", 10, 4));
        for (texts, sums) in [
            (vec![&one, &one, &one], (10, 4)),
            (vec![&one, &both, &one], (20, 9)),
            (vec![&both, &other, &both, &other], (50, 14)),
            // Nobody knows who has told these.
            (vec![&nobody, &one, &nobody], (30, 12)),
        ] {
            let text: String = texts.into_iter().map(String::as_str).collect();
            let all = Residency::join(parse(&text).unwrap());
            assert_eq!((all.nodes.len(), all.files.len()), (1, 1));
            let found = (all.nodes[0].memory, all.files[0].held["m"]);
            assert_eq!(found, (Some(Amount(sums.0)), Amount(sums.1)), "{text}");
        }
    }
}
