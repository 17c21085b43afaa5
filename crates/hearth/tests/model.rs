//! Three mounts of three agents under random operations, against a model of what files are.
//!
//! One thread does one operation after another, each through any of the mounts, so every result is determined. A read
//! that differs from the model is a stale read or a lost write (S1, S2, S4). `HEARTH_MODEL_SEED=N` replays one seed,
//! `HEARTH_MODEL_OPS=N` sets the length, and `HEARTH_MODEL_TRACE=1` prints every operation as it ends.

#[path = "support/mapped.rs"]
mod mapped;
#[path = "support/random.rs"]
mod random;
#[path = "support/set.rs"]
mod set;

use hearth_agent::Policy;
use random::Random;
use set::Set;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

const NODES: usize = 3;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Offsets stay below this, so that files meet in few pages.
const SPAN: u64 = 40_000;

/// An open handle: where it is, which file it is of, and what it may do.
struct Open {
    node: usize,
    content: usize,
    file: File,
    write: bool,
    append: bool,
}

struct World {
    set: Set,
    random: Random,
    /// Contents by identity; names point to them.
    contents: Vec<Vec<u8>>,
    names: BTreeMap<&'static str, usize>,
    handles: Vec<Open>,
    written: u64,
}

impl World {
    fn step(&mut self) -> String {
        match self.random.below(100) {
            0..14 => self.open(),
            14..24 => self.close(),
            24..50 => self.read(),
            50..70 => self.write(),
            70..76 => self.truncate(),
            76..80 => self.rename(),
            80..84 => self.sync(),
            84..90 => self.stat(),
            90..91 => self.map(),
            94..96 => self.unlink(),
            _ => self.read_whole(),
        }
    }

    fn node(&mut self) -> usize {
        self.random.below(NODES as u64) as usize
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len() as u64) as usize]
    }

    fn handle(&mut self) -> Option<usize> {
        let count = self.handles.len() as u64;
        (count > 0).then(|| self.random.below(count) as usize)
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.written += 1;
        let len = [1, 17, 240, 4096, 5000, 9000][self.random.below(6) as usize];
        let tag = self.written;
        (0..len)
            .map(|i: u64| (tag.wrapping_mul(97) + i / 3) as u8)
            .collect()
    }

    fn open(&mut self) -> String {
        let (node, name) = (self.node(), self.name());
        let (write, append, cut) = (
            self.random.below(2) == 0,
            self.random.below(4) == 0,
            self.random.below(8) == 0,
        );
        let path = self.set.mount(node).join(name);
        let known = self.names.get(name).copied();
        let told = format!("open {name} at {node} write={write} append={append} cut={cut}");
        if !write {
            let opened = File::open(&path);
            assert_eq!(opened.is_ok(), known.is_some(), "{told}: {opened:?}");
            if let (Ok(file), Some(content)) = (opened, known) {
                self.handles.push(Open {
                    node,
                    content,
                    file,
                    write,
                    append: false,
                });
            }
            return told;
        }
        let mut options = File::options();
        options.read(true).write(true).create(true);
        if append {
            options.append(true);
        } else {
            options.truncate(cut);
        }
        let file = options
            .open(&path)
            .unwrap_or_else(|error| panic!("{told}: {error}"));
        let content = known.unwrap_or_else(|| {
            self.contents.push(Vec::new());
            self.names.insert(name, self.contents.len() - 1);
            self.contents.len() - 1
        });
        if cut && !append {
            self.contents[content].clear();
        }
        self.handles.push(Open {
            node,
            content,
            file,
            write,
            append,
        });
        told
    }

    fn close(&mut self) -> String {
        let Some(at) = self.handle() else {
            return "nothing to close".to_owned();
        };
        let open = self.handles.swap_remove(at);
        format!(
            "close a handle of content {} at {}",
            open.content, open.node
        )
    }

    fn read(&mut self) -> String {
        let Some(at) = self.handle() else {
            return "nothing to read".to_owned();
        };
        let (offset, len) = (
            self.random.below(SPAN),
            1 + self.random.below(12_000) as usize,
        );
        let open = &self.handles[at];
        let told = format!(
            "read {len} at {offset} of content {} at {}",
            open.content, open.node
        );
        let mut bytes = vec![0; len];
        let mut got = 0;
        while got < len {
            match open.file.read_at(&mut bytes[got..], offset + got as u64) {
                Ok(0) => break,
                Ok(count) => got += count,
                Err(error) => panic!("{told}: {error}"),
            }
        }
        let content = &self.contents[open.content];
        let from = content.len().min(offset as usize);
        let to = content.len().min(offset as usize + len);
        assert_eq!(
            got,
            to - from,
            "{told}: length; the file has {}",
            content.len()
        );
        same(&told, &bytes[..got], &content[from..to]);
        told
    }

    fn write(&mut self) -> String {
        let data = self.bytes();
        let offset = self.random.below(SPAN);
        let Some(at) = self.handle().filter(|&at| self.handles[at].write) else {
            return "nothing to write".to_owned();
        };
        let open = &mut self.handles[at];
        let content = &mut self.contents[open.content];
        let told = format!(
            "write {} at {offset} append={} of content {} at {}",
            data.len(),
            open.append,
            open.content,
            open.node
        );
        if open.append {
            open.file
                .write_all(&data)
                .unwrap_or_else(|error| panic!("{told}: {error}"));
            content.extend_from_slice(&data);
            return told;
        }
        open.file
            .write_all_at(&data, offset)
            .unwrap_or_else(|error| panic!("{told}: {error}"));
        let end = offset as usize + data.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(&data);
        told
    }

    fn truncate(&mut self) -> String {
        let size = self.random.below(SPAN);
        let Some(at) = self.handle().filter(|&at| self.handles[at].write) else {
            return "nothing to truncate".to_owned();
        };
        let open = &self.handles[at];
        let told = format!(
            "truncate content {} at {} to {size}",
            open.content, open.node
        );
        open.file
            .set_len(size)
            .unwrap_or_else(|error| panic!("{told}: {error}"));
        self.contents[open.content].resize(size as usize, 0);
        told
    }

    fn rename(&mut self) -> String {
        let (node, from, to) = (self.node(), self.name(), self.name());
        let told = format!("rename {from} to {to} at {node}");
        let Some(&content) = self.names.get(from) else {
            return told;
        };
        let replaced = self
            .names
            .get(to)
            .copied()
            .filter(|&other| other != content);
        let dir = self.set.mount(node);
        let renamed = std::fs::rename(dir.join(from), dir.join(to));
        renamed.unwrap_or_else(|error| panic!("{told}: {error}"));
        if from != to {
            self.names.remove(from);
            self.names.insert(to, content);
        }
        self.forget(replaced);
        told
    }

    fn unlink(&mut self) -> String {
        let (node, name) = (self.node(), self.name());
        let told = format!("unlink {name} at {node}");
        let Some(content) = self.names.remove(name) else {
            return told;
        };
        let removed = std::fs::remove_file(self.set.mount(node).join(name));
        removed.unwrap_or_else(|error| panic!("{told}: {error}"));
        self.forget(Some(content));
        told
    }

    /// A file without a name is the store's business alone: S9 makes no promise between nodes. So only the bytes that
    /// one handle wrote itself are looked at, once, and its handles are closed.
    fn forget(&mut self, content: Option<usize>) {
        let Some(content) = content else { return };
        for open in self.handles.iter().filter(|open| open.content == content) {
            let mut bytes = Vec::new();
            let mut reader = &open.file;
            if !open.append {
                use std::io::{Seek, SeekFrom};
                reader.seek(SeekFrom::Start(0)).expect("seeks");
                reader
                    .read_to_end(&mut bytes)
                    .expect("reads a file without a name");
                same("a file without a name", &bytes, &self.contents[content]);
            }
        }
        self.handles.retain(|open| open.content != content);
    }

    fn sync(&mut self) -> String {
        let Some(at) = self.handle().filter(|&at| self.handles[at].write) else {
            return "nothing to sync".to_owned();
        };
        let open = &self.handles[at];
        let told = format!("fsync content {} at {}", open.content, open.node);
        open.file
            .sync_all()
            .unwrap_or_else(|error| panic!("{told}: {error}"));
        let name = self
            .names
            .iter()
            .find(|(_, content)| **content == open.content);
        if let Some((name, content)) = name {
            let stored = std::fs::read(self.set.store().join(name)).expect("the store has it");
            same(
                &format!("{told}: the store"),
                &stored,
                &self.contents[*content],
            );
        }
        told
    }

    fn stat(&mut self) -> String {
        let (node, name) = (self.node(), self.name());
        let told = format!("stat {name} at {node}");
        let size = std::fs::metadata(self.set.mount(node).join(name))
            .map(|meta| meta.len())
            .ok();
        let expected = self
            .names
            .get(name)
            .map(|&content| self.contents[content].len() as u64);
        assert_eq!(size, expected, "{told}");
        told
    }

    fn map(&mut self) -> String {
        let (node, name) = (self.node(), self.name());
        let told = format!("map {name} at {node}");
        let Some(&content) = self.names.get(name) else {
            return told;
        };
        let path = self.set.mount(node).join(name);
        let bytes = mapped::read_in_child(&path, &self.set.store().with_file_name("mapped"));
        let bytes = bytes.unwrap_or_else(|error| panic!("{told}: {error}"));
        same(&told, &bytes, &self.contents[content]);
        told
    }

    fn read_whole(&mut self) -> String {
        let (node, name) = (self.node(), self.name());
        let told = format!("read all of {name} at {node}");
        let Some(&content) = self.names.get(name) else {
            return told;
        };
        let bytes = std::fs::read(self.set.mount(node).join(name));
        let bytes = bytes.unwrap_or_else(|error| panic!("{told}: {error}"));
        same(&told, &bytes, &self.contents[content]);
        told
    }

    /// With everything closed, and synced where close does not wait, the store is what the model is.
    fn end(mut self, policy: Policy) {
        self.handles.clear();
        for name in self.names.keys().filter(|_| policy == Policy::Local) {
            let file = File::open(self.set.mount(0).join(name)).expect("opens");
            file.sync_all().expect("syncs");
        }
        for (name, &content) in &self.names {
            let stored = std::fs::read(self.set.store().join(name)).expect("the store has it");
            same(
                &format!("{name} in the store"),
                &stored,
                &self.contents[content],
            );
        }
    }
}

fn same(told: &str, got: &[u8], expected: &[u8]) {
    let differs = got.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{told}: first wrong byte");
    assert_eq!(got.len(), expected.len(), "{told}: length");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(policy: Policy, seed: u64, operations: u64) {
    let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let names = BTreeMap::new();
    let set = Set::start(NODES as u32, |config| config.policy = policy);
    let mut world = World {
        set,
        random,
        contents: Vec::new(),
        names,
        handles: Vec::new(),
        written: 0,
    };
    let trace = std::env::var_os("HEARTH_MODEL_TRACE").is_some();
    let mut told: Vec<String> = Vec::new();
    for _ in 0..operations {
        let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.step()));
        match step {
            Ok(line) => {
                if trace {
                    eprintln!("{line}");
                }
                told.push(line);
            }
            Err(_) => {
                let last = &told[told.len().saturating_sub(30)..];
                eprintln!("the last operations:\n{}", last.join("\n"));
                panic!("replay: HEARTH_MODEL_SEED={seed} HEARTH_MODEL_OPS={operations}");
            }
        }
    }
    world.end(policy);
}

/// The process that maps files; see `support/mapped.rs`.
#[test]
fn mapping_child() {
    mapped::child();
}

#[test]
fn three_mounts_agree_with_the_model() {
    if set::skipped("three_mounts_agree_with_the_model") {
        return;
    }
    let operations = number("HEARTH_MODEL_OPS").unwrap_or(8_000);
    let seeds: Vec<u64> = match number("HEARTH_MODEL_SEED") {
        Some(seed) => vec![seed],
        None => (1..=5).collect(),
    };
    for seed in seeds {
        eprintln!("seed {seed}, {operations} operations");
        run(Policy::Home, seed, operations);
    }
}

/// Few seeds: what differs between policies is the kernel's, and the simulator knows that better.
fn agree_under(test: &str, policy: Policy) {
    if set::skipped(test) {
        return;
    }
    let operations = number("HEARTH_MODEL_OPS").unwrap_or(2_000);
    let seeds = number("HEARTH_MODEL_SEED").map_or(1..3, |seed| seed..seed + 1);
    for seed in seeds {
        eprintln!("{policy:?}, seed {seed}, {operations} operations");
        run(policy, seed, operations);
    }
}

/// S18
#[test]
fn three_mounts_agree_under_hints() {
    agree_under("three_mounts_agree_under_hints", Policy::Hint);
}

/// S19
#[test]
fn three_mounts_agree_under_single_copies() {
    agree_under("three_mounts_agree_under_single_copies", Policy::Single);
}

/// S20
#[test]
fn three_mounts_agree_under_local_files() {
    agree_under("three_mounts_agree_under_local_files", Policy::Local);
}
