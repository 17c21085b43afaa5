use super::body::TAGS;
use super::*;
use crate::ids::{FileId, Gen, NodeId, ReqId, Ver, View};
use crate::msg::{Body, Origin, Use};
use alloc::vec;

fn envelope(body: Body) -> Envelope {
    Envelope {
        view: View(1),
        file: FileId(42),
        generation: Gen { life: 7, cut: 3 },
        req: ReqId {
            node: NodeId(2),
            inc: 9,
            seq: 1 << 40,
        },
        body,
    }
}

#[test]
fn a_grant_survives_the_wire() {
    let body = Body::Grant {
        first: 5,
        skip: 11,
        lens: vec![4096, 0, 17],
        ver: Ver {
            view: View(1),
            seq: 99,
        },
        good: Use::Once,
        origin: Origin::Store,
    };
    let sent = envelope(body);
    let mut bytes = Vec::new();
    encode(&sent, &mut bytes);
    assert_eq!(decode(&bytes), Ok(sent));
}

#[test]
fn whatever_decodes_encodes_to_the_same_bytes() {
    // Every tag, followed by random fields: a decoder that accepts them must be the encoder's mirror.
    let mut seed = 0x2545_F491_4F6C_DD1Du64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as u8
    };
    let mut accepted = vec![0u32; 256];
    for round in 0..40_000usize {
        let mut bytes = Vec::new();
        encode(&envelope(Body::Ping), &mut bytes);
        *bytes.last_mut().expect("a tag") = TAGS[round % TAGS.len()];
        for _ in 0..(round / TAGS.len()) % 48 {
            bytes.push(next() & if next() & 1 == 0 { 0xFF } else { 0x01 });
        }
        if let Ok(envelope) = decode(&bytes) {
            let mut again = Vec::new();
            encode(&envelope, &mut again);
            assert_eq!(again, bytes);
            accepted[usize::from(TAGS[round % TAGS.len()])] += 1;
        }
    }
    assert!(
        TAGS.iter()
            .filter(|&&tag| accepted[usize::from(tag)] > 0)
            .count()
            >= 40
    );
}

#[test]
fn short_long_and_senseless_bytes_are_violations() {
    let mut bytes = Vec::new();
    encode(&envelope(Body::Append(5)), &mut bytes);
    for cut in 0..bytes.len() {
        assert_eq!(decode(&bytes[..cut]), Err(WireError::Short));
    }
    bytes.push(0);
    assert_eq!(decode(&bytes), Err(WireError::Long));
    let tag = bytes.len() - 10;
    bytes[tag] = 200;
    assert_eq!(decode(&bytes), Err(WireError::Value));
}

#[test]
fn a_count_beyond_the_bound_allocates_nothing() {
    let mut bytes = Vec::new();
    let body = Body::Grant {
        first: 0,
        skip: 0,
        lens: vec![],
        ver: Ver::default(),
        good: Use::Copy,
        origin: Origin::Memory,
    };
    encode(&envelope(body), &mut bytes);
    let count = bytes.len() - (12 + 2) - 4;
    bytes[count..count + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode(&bytes), Err(WireError::Value));
}
