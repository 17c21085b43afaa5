//! Everything that touches the shared secret: proofs of the handshake and macs of frames.
//!
//! All of it is BLAKE3 in keyed mode. The secret keys only the handshake; each direction of each
//! connection gets its own frame key, so a frame is worth nothing in another connection, in the
//! other direction, or a second time.

use std::fmt;

use crate::frame::{FIELDS_LEN, FrameError, HEADER_LEN, Header, Kind, MAC_LEN, PROTOCOL_VERSION};
use crate::transport::PeerId;

/// Length of nonces, proofs and keys.
pub(crate) const KEY_LEN: usize = 32;
/// A value that is used once.
pub(crate) type Nonce = [u8; KEY_LEN];

/// The secret that all members of a job share.
#[derive(Clone)]
pub struct Secret([u8; KEY_LEN]);

impl Secret {
    /// Takes 32 bytes that are hard to guess.
    pub fn new(bytes: [u8; KEY_LEN]) -> Secret {
        Secret(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// One side, as it describes itself in a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Side {
    pub(crate) id: PeerId,
    pub(crate) incarnation: u64,
    /// Which run of the other side it has met before; 0 if none.
    pub(crate) met: u64,
    /// Which run of its own is over for certain, as this one takes its place; 0 if none.
    pub(crate) succeeds: u64,
    pub(crate) nonce: Nonce,
}

/// The use of a value derived from the secret; no two uses share a value.
#[derive(Clone, Copy)]
enum Use {
    AcceptProof,
    DialProof,
    FramesFromDialer,
    FramesFromAcceptor,
}

/// All that both sides said, in a form that is hashed.
pub(crate) struct Transcript(Vec<u8>);

impl Transcript {
    pub(crate) fn new(job: &str, dialer: &Side, acceptor: &Side) -> Transcript {
        let mut bytes = vec![PROTOCOL_VERSION];
        for side in [dialer, acceptor] {
            bytes.extend_from_slice(&side.id.0.to_le_bytes());
            bytes.extend_from_slice(&side.incarnation.to_le_bytes());
            bytes.extend_from_slice(&side.met.to_le_bytes());
            bytes.extend_from_slice(&side.succeeds.to_le_bytes());
            bytes.extend_from_slice(&side.nonce);
        }
        // Last, because it is the only part whose length varies.
        bytes.extend_from_slice(job.as_bytes());
        Transcript(bytes)
    }

    /// Shows that the acceptor knows the secret.
    pub(crate) fn accept_proof(&self, secret: &Secret) -> blake3::Hash {
        self.derive(secret, Use::AcceptProof)
    }

    /// Shows that the dialer knows the secret.
    pub(crate) fn dial_proof(&self, secret: &Secret) -> blake3::Hash {
        self.derive(secret, Use::DialProof)
    }

    pub(crate) fn key_from_dialer(&self, secret: &Secret) -> FrameKey {
        FrameKey::new(self.derive(secret, Use::FramesFromDialer))
    }

    pub(crate) fn key_from_acceptor(&self, secret: &Secret) -> FrameKey {
        FrameKey::new(self.derive(secret, Use::FramesFromAcceptor))
    }

    fn derive(&self, secret: &Secret, purpose: Use) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&secret.0);
        hasher.update(&[purpose as u8]);
        hasher.update(&self.0);
        hasher.finalize()
    }
}

/// The key of one direction of one connection, and the number of its next frame.
pub(crate) struct FrameKey {
    key: [u8; KEY_LEN],
    next: u64,
}

impl FrameKey {
    fn new(key: blake3::Hash) -> FrameKey {
        FrameKey {
            key: *key.as_bytes(),
            next: 0,
        }
    }

    /// The header of the next frame of this direction.
    pub(crate) fn header(&mut self, head: &[u8], payload_len: usize) -> [u8; HEADER_LEN] {
        let frame = Header {
            kind: Kind::Data,
            head_len: head.len(),
            payload_len,
        };
        let fields = frame.fields();
        let mut header = [0; HEADER_LEN];
        header[..FIELDS_LEN].copy_from_slice(&fields);
        header[FIELDS_LEN..].copy_from_slice(&self.seal(&fields, head));
        header
    }

    /// The mac of the next frame of this direction.
    pub(crate) fn seal(&mut self, fields: &[u8; FIELDS_LEN], head: &[u8]) -> [u8; MAC_LEN] {
        let number = self.next.to_le_bytes();
        self.next += 1;
        let mut short = [0; SHORT_LEN];
        let len = number.len() + FIELDS_LEN + head.len();
        let hash = if len <= SHORT_LEN {
            // One contiguous piece costs half of what the incremental hasher costs.
            short[..8].copy_from_slice(&number);
            short[8..24].copy_from_slice(fields);
            short[24..len].copy_from_slice(head);
            blake3::keyed_hash(&self.key, &short[..len])
        } else {
            let mut hasher = blake3::Hasher::new_keyed(&self.key);
            hasher.update(&number).update(fields).update(head);
            hasher.finalize()
        };
        let mut mac = [0; MAC_LEN];
        mac.copy_from_slice(&hash.as_bytes()[..MAC_LEN]);
        mac
    }

    /// Checks the mac of the next frame of this direction.
    pub(crate) fn open(
        &mut self,
        fields: &[u8; FIELDS_LEN],
        head: &[u8],
        mac: &[u8; MAC_LEN],
    ) -> Result<(), FrameError> {
        let expected = u128::from_le_bytes(self.seal(fields, head));
        // One integer comparison: its time does not tell how many bytes were right.
        if expected == u128::from_le_bytes(*mac) {
            Ok(())
        } else {
            Err(FrameError::Mac)
        }
    }
}

/// Heads up to this length, with what precedes them, are hashed in one piece.
const SHORT_LEN: usize = 256;

/// A fresh nonce from the operating system.
pub(crate) fn nonce() -> Result<Nonce, getrandom::Error> {
    let mut nonce = [0; KEY_LEN];
    getrandom::fill(&mut nonce)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> FrameKey {
        FrameKey::new(blake3::hash(b"key"))
    }

    #[test]
    fn a_frame_is_accepted_once_and_in_its_place() {
        let (mut tx, mut rx) = (key(), key());
        let fields = [7; FIELDS_LEN];
        let first = tx.seal(&fields, b"head");
        assert_eq!(rx.open(&fields, b"head", &first), Ok(()));
        assert_eq!(rx.open(&fields, b"head", &first), Err(FrameError::Mac));
    }

    #[test]
    fn a_changed_head_or_header_is_noticed_at_any_length() {
        for len in [0, 1, 231, 232, 233, 5000] {
            let head = vec![1; len];
            let mac = key().seal(&[7; FIELDS_LEN], &head);
            assert_eq!(key().open(&[7; FIELDS_LEN], &head, &mac), Ok(()));
            assert_eq!(
                key().open(&[8; FIELDS_LEN], &head, &mac),
                Err(FrameError::Mac)
            );
            let longer = vec![1; len + 1];
            assert_eq!(
                key().open(&[7; FIELDS_LEN], &longer, &mac),
                Err(FrameError::Mac)
            );
        }
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new([65; 32])), "Secret(..)");
    }
}
