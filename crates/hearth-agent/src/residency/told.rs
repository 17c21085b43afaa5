//! The residency of a node, as agents tell it to each other.

use super::{FILES_MAX, NAMES_BYTES_MAX, Residency, Resident};

/// Bytes in one part: it is the head of a frame, which proves who sent it.
const PART_BYTES_MAX: usize = 48 << 10;

/// All parts together: beside the names of files, numbers for each, and names of the node and its mount.
pub(super) const TOLD_BYTES_MAX: usize = NAMES_BYTES_MAX + FILES_MAX * 20 + (16 << 10);

/// The parts in their order, each with how many bytes come after it; none if it is more than anybody takes.
pub(super) fn parts(told: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let told = told.get(..).filter(|told| told.len() <= TOLD_BYTES_MAX);
    let mut left = told.map_or(0, <[u8]>::len);
    let parts = told.unwrap_or_default().chunks(PART_BYTES_MAX);
    parts.map(move |part| {
        left -= part.len();
        (left as u32, part)
    })
}

pub(super) fn encode(residency: &Residency) -> Vec<u8> {
    let mut told = Vec::new();
    for number in [residency.memory, residency.unnamed] {
        told.extend_from_slice(&number.to_le_bytes());
    }
    write_text(&mut told, &residency.node);
    write_text(&mut told, residency.mount.as_deref().unwrap_or_default());
    for file in &residency.files {
        for number in [file.size, file.held] {
            told.extend_from_slice(&number.to_le_bytes());
        }
        write_text(&mut told, &file.path);
    }
    told
}

/// The residency that was told, if that is whole and means something.
pub(super) fn decode(mut told: &[u8]) -> Option<Residency> {
    let mut residency = Residency {
        memory: read_number(&mut told)?,
        unnamed: read_number(&mut told)?,
        node: read_text(&mut told)?,
        mount: Some(read_text(&mut told)?).filter(|mount| !mount.is_empty()),
        files: Vec::new(),
    };
    while !told.is_empty() {
        residency.files.push(Resident {
            size: read_number(&mut told)?,
            held: read_number(&mut told)?,
            path: read_text(&mut told)?,
        });
    }
    (residency.files.len() <= FILES_MAX).then_some(residency)
}

pub(crate) fn write_text(told: &mut Vec<u8>, text: &str) {
    told.extend_from_slice(&(text.len() as u32).to_le_bytes());
    told.extend_from_slice(text.as_bytes());
}

pub(crate) fn read_number(told: &mut &[u8]) -> Option<u64> {
    let (number, rest) = told.split_first_chunk()?;
    *told = rest;
    Some(u64::from_le_bytes(*number))
}

pub(crate) fn read_text(told: &mut &[u8]) -> Option<String> {
    let (len, rest) = told.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *told = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much as there can be.
    fn most() -> Residency {
        let each = NAMES_BYTES_MAX / FILES_MAX;
        let file = |number: usize| Resident {
            path: format!("{number:0each$}"),
            size: u64::MAX,
            held: number as u64,
        };
        Residency {
            node: "n".repeat(1024),
            mount: Some(format!("/{}", "m".repeat(4095))),
            memory: u64::MAX,
            files: (0..FILES_MAX).map(file).collect(),
            unnamed: 7,
        }
    }

    #[test]
    fn the_most_that_there_can_be_survives_in_parts_that_a_frame_takes() {
        let told = encode(&most());
        let mut came = Vec::new();
        for (left, part) in parts(&told) {
            assert!(part.len() + 64 < hearth_net::HEAD_LEN_MAX);
            came.extend_from_slice(part);
            assert_eq!(came.len() + left as usize, told.len());
        }
        assert_eq!(decode(&came), Some(most()));
        let none = Residency::default();
        assert_eq!(decode(&encode(&none)), Some(none));
        assert_eq!(parts(&vec![0; TOLD_BYTES_MAX + 1]).count(), 0);
    }

    #[test]
    fn what_is_torn_means_nothing() {
        let told = encode(&Residency {
            files: vec![Resident::default()],
            ..Residency::default()
        });
        let whole = told.len() - 20;
        for len in (0..told.len()).filter(|&len| len != whole) {
            assert_eq!(decode(&told[..len]), None, "{len} bytes of {}", told.len());
        }
        let mut many = encode(&Residency::default());
        many.extend_from_slice(&[0; 20].repeat(FILES_MAX + 1));
        assert_eq!(decode(&many), None);
        let mut words = encode(&most());
        let last = words.len() - 1;
        words[last] = 0xff;
        assert_eq!(decode(&words), None);
    }
}
