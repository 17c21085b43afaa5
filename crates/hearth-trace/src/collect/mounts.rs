//! On which type of file system a path is.

use std::collections::HashMap;

use crate::area::read_small;

/// The table of mounts; read anew when a process begins.
#[derive(Default)]
pub(super) struct Mounts {
    /// Type, by mount point without its last slash.
    kinds: HashMap<Vec<u8>, String>,
}

impl Mounts {
    /// Reads the table anew. One that cannot be read leaves types unknown.
    pub(super) fn refresh(&mut self) {
        if let Ok(text) = read_small("/proc/self/mounts") {
            self.kinds = parse(&text);
        }
    }

    /// The type, or nothing where it is not known.
    pub(super) fn kind_of(&self, path: &[u8]) -> &str {
        let mut prefix = path;
        loop {
            if let Some(kind) = self.kinds.get(prefix) {
                return kind;
            }
            match prefix.iter().rposition(|byte| *byte == b'/') {
                Some(at) => prefix = &prefix[..at],
                None => return "",
            }
        }
    }
}

fn parse(text: &[u8]) -> HashMap<Vec<u8>, String> {
    let lines = text.split(|byte| *byte == b'\n');
    let rows = lines.filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        let mut point = unescape(point);
        if point.ends_with(b"/") {
            point.pop();
        }
        Some((point, String::from_utf8_lossy(kind).into_owned()))
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
        let text = b"none / ext4 rw 0 0\nx /a\\040b lustre rw 0 0\ny /a\\040b/c fuse rw 0 0\n";
        let mounts = Mounts { kinds: parse(text) };
        assert_eq!(mounts.kind_of(b"/a b/d/e"), "lustre");
        assert_eq!(mounts.kind_of(b"/a b/c/e"), "fuse");
        assert_eq!(mounts.kind_of(b"/a bc"), "ext4");
        assert_eq!(mounts.kind_of(b"/"), "ext4");
        assert_eq!(mounts.kind_of(b"odd"), "");
    }
}
