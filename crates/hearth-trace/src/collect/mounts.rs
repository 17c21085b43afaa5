//! On which type of file system a path is.

use std::collections::HashMap;

use crate::area::read_small;

/// Type of the mounts of which a file's own attributes tell the unit of requests.
const TELLING: &str = "fuse.hearth";

/// The table of mounts; read anew when a process begins.
#[derive(Default)]
pub(super) struct Mounts {
    /// By mount point without its last slash.
    mounts: HashMap<Vec<u8>, Mount>,
}

/// One mount.
pub(super) struct Mount {
    /// Type of the file system.
    pub(super) kind: String,
    /// Bytes that it handles as one, once asked; 0 where it does not tell.
    unit: Option<u64>,
}

impl Mounts {
    /// Reads the table anew. One that cannot be read leaves types unknown.
    pub(super) fn refresh(&mut self) {
        if let Ok(text) = read_small("/proc/self/mounts") {
            self.mounts = parse(&text);
        }
    }

    /// The mount that a path is on, if it is known.
    pub(super) fn of(&mut self, path: &[u8]) -> Option<&mut Mount> {
        let slashes = (0..path.len()).rev().filter(|&at| path[at] == b'/');
        let mut points = [path.len()].into_iter().chain(slashes);
        let point = points.find(|&end| self.mounts.contains_key(&path[..end]))?;
        self.mounts.get_mut(&path[..point])
    }
}

impl Mount {
    /// Bytes that the file system handles as one, as a file on it tells. Asked once.
    pub(super) fn unit(&mut self, path: &[u8]) -> Option<u64> {
        if self.kind != TELLING {
            return None;
        }
        let unit = *self.unit.get_or_insert_with(|| block_of(path));
        (unit > 0).then_some(unit)
    }
}

fn block_of(path: &[u8]) -> u64 {
    let told = rustix::fs::stat(path).map(|stat| stat.st_blksize);
    told.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0))
}

fn parse(text: &[u8]) -> HashMap<Vec<u8>, Mount> {
    let lines = text.split(|byte| *byte == b'\n');
    let rows = lines.filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ');
        let (source, point, kind) = (words.next()?, words.next()?, words.next()?);
        let mut point = unescape(point);
        if point.ends_with(b"/") {
            point.pop();
        }
        // Root mounts without a helper that would add the subtype.
        let kind = match (source, kind) {
            (b"hearth", b"fuse") => TELLING.to_owned(),
            _ => String::from_utf8_lossy(kind).into_owned(),
        };
        Some((point, Mount { kind, unit: None }))
    });
    // Later mounts lie over earlier ones.
    rows.collect()
}

/// Undoes `\040` and its kin.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let code =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins_and_odd_names_are_understood() {
        let text = b"none / ext4 rw 0 0\nx /a\\040b lustre rw 0 0\ny /a\\040b/c fuse rw 0 0\n\
                     hearth /h fuse rw 0 0\n";
        let mut mounts = Mounts {
            mounts: parse(text),
        };
        let mut kind_of = |path: &[u8]| mounts.of(path).map_or("", |mount| &mount.kind).to_owned();
        assert_eq!(kind_of(b"/a b/d/e"), "lustre");
        assert_eq!(kind_of(b"/a b/c/e"), "fuse");
        assert_eq!(kind_of(b"/h/f"), "fuse.hearth");
        assert_eq!(kind_of(b"/a bc"), "ext4");
        assert_eq!(kind_of(b"/"), "ext4");
        assert_eq!(kind_of(b"odd"), "");
    }
}
