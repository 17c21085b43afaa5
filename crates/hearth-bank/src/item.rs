//! The form of an entry in a daemon.
//!
//! ```text
//! key     HHHHHHHHHHHHHHHH:NAME       16 digits that only the job's secret gives, and the entry's name
//! value   8 bytes version, high part | 8 bytes low part | 16 bytes tag | the bytes
//! ```
//!
//! The tag is a keyed hash over key, version and bytes. So neither data of others, nor an entry of
//! another job, nor what a broken daemon returns under the wrong key is ever taken for ours (B3).

/// Bytes in front of an entry's own.
pub const HEAD_BYTES: usize = 32;

/// Bytes that memcached needs for an entry beside key and value; its own figure is below this.
const OVERHEAD_BYTES: usize = 128;

/// Longest key of memcached.
const KEY_BYTES_MAX: usize = 250;

const TAG_BYTES: usize = 16;

/// An entry, opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedEntry {
    /// The version that the writer gave it.
    pub version: [u64; 2],
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Makes and opens entries of one job.
#[derive(Clone)]
pub struct Seal {
    key: [u8; 32],
    prefix: String,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

impl Seal {
    /// For the job that knows `secret`.
    pub fn new(secret: &[u8; 32]) -> Seal {
        let key = blake3::derive_key("hearth 2026-11 entries of a bank", secret);
        let name = blake3::derive_key("hearth 2026-11 names in a bank", secret);
        let digits = name.iter().take(8).map(|byte| format!("{byte:02x}"));
        let prefix = digits.chain([":".to_owned()]).collect();
        Seal { key, prefix }
    }

    /// The key of an entry in a daemon.
    ///
    /// # Panics
    ///
    /// If the name has bytes that the protocol does not allow, or too many.
    pub fn key(&self, name: &str) -> String {
        assert!(
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()),
            "names of entries are printable ASCII without spaces"
        );
        let key = format!("{}{name}", self.prefix);
        assert!(key.len() <= KEY_BYTES_MAX, "names of entries are short");
        key
    }

    /// The value of an entry.
    pub fn close(&self, key: &str, version: [u64; 2], bytes: &[u8]) -> Vec<u8> {
        let mut value = Vec::with_capacity(HEAD_BYTES + bytes.len());
        for part in version {
            value.extend_from_slice(&part.to_be_bytes());
        }
        value.extend_from_slice(&self.tag(key, version, bytes));
        value.extend_from_slice(bytes);
        value
    }

    /// The entry in a value, if this job made it under this key.
    pub fn open(&self, key: &str, value: &[u8]) -> Option<OpenedEntry> {
        let (high, rest) = value.split_first_chunk::<8>()?;
        let (low, rest) = rest.split_first_chunk::<8>()?;
        let (tag, bytes) = rest.split_first_chunk::<TAG_BYTES>()?;
        let version = [u64::from_be_bytes(*high), u64::from_be_bytes(*low)];
        // A process that can measure the time of this comparison reads the socket anyway.
        let genuine = self.tag(key, version, bytes) == *tag;
        genuine.then(|| OpenedEntry {
            version,
            bytes: bytes.to_vec(),
        })
    }

    fn tag(&self, key: &str, version: [u64; 2], bytes: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&(key.len() as u64).to_be_bytes());
        hasher.update(key.as_bytes());
        for part in version {
            hasher.update(&part.to_be_bytes());
        }
        hasher.update(bytes);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&hasher.finalize().as_bytes()[..TAG_BYTES]);
        tag
    }
}

/// Item size that a daemon must allow for entries of so many bytes.
pub fn room_for(bytes: usize) -> usize {
    bytes + HEAD_BYTES + KEY_BYTES_MAX + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_opens_under_its_own_key_and_job_alone() {
        let seal = Seal::new(&[7; 32]);
        let key = seal.key("1:2:3:4");
        let value = seal.close(&key, [1, 2], b"bytes");
        let item = seal.open(&key, &value).expect("it was made here");
        assert_eq!(
            (item.version, item.bytes.as_slice()),
            ([1, 2], &b"bytes"[..])
        );
        assert_eq!(seal.open(&seal.key("1:2:3:5"), &value), None);
        let other = Seal::new(&[8; 32]);
        assert_ne!(other.key("1:2:3:4"), key);
        assert_eq!(other.open(&key, &value), None);
    }

    #[test]
    fn an_entry_with_any_byte_changed_or_missing_is_none() {
        let seal = Seal::new(&[7; 32]);
        let key = seal.key("k");
        let value = seal.close(&key, [1, 2], b"bytes");
        for at in 0..value.len() {
            let mut torn = value.clone();
            torn[at] ^= 1;
            assert_eq!(seal.open(&key, &torn), None, "byte {at}");
            assert_eq!(seal.open(&key, &value[..at]), None, "cut at {at}");
        }
    }
}
