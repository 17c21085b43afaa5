//! The promises of every transport, as functions over a [`Rig`].
//!
//! [`promises`] lists them; who holds a transport to them brings a macro that takes the list.

use std::io::IoSlice;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use hearth_net::{Anew, HEAD_LEN_MAX, Link, PAYLOAD_LEN_MAX, PeerId, SendError};

use super::rig::{QUEUED_BYTES_MAX, Rig, Seen, answering_node, node, pair};

/// Calls a macro with what it is to begin with and the name of every promise.
macro_rules! promises {
    ($hold:ident! $($what:tt)*) => {
        $hold! { $($what)*
            order_is_kept_under_many_frames_from_many_threads
            payloads_from_nothing_to_the_bound_arrive_unchanged
            heads_and_payloads_beyond_their_bounds_are_refused
            a_payload_in_many_pieces_arrives_as_one
            both_directions_carry_frames_at_once
            every_pair_of_members_connects
            a_handler_may_send_from_inside_its_calls
            a_handler_may_shut_down_from_inside_its_calls
            up_and_down_alternate_and_frames_fall_between
            a_disconnected_peer_comes_back
            a_send_to_a_peer_that_is_down_fails_at_once
            a_send_to_oneself_or_a_stranger_is_an_error
            a_peer_that_does_not_read_is_dropped_at_the_bound
            a_peer_that_runs_anew_is_refused_by_who_met_it
            a_timer_fires_when_it_is_due
            a_wake_makes_the_loop_ask_again
            shutdown_reports_every_peer_as_down
        }
    };
}
pub(crate) use promises;

/// Bytes that differ from place to place and from seed to seed.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

// N1
pub(crate) fn order_is_kept_under_many_frames_from_many_threads<R: Rig>() {
    const THREADS: u64 = 4;
    const FRAMES: u64 = 300;
    let (a, b) = pair::<R>();
    let len = |number: u64| {
        if number % 50 == 49 {
            300_000
        } else {
            (number * 37 % 5000) as usize
        }
    };
    let sender = &a.transport;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in 0..FRAMES {
                    let head = [thread.to_le_bytes(), number.to_le_bytes()].concat();
                    let payload = pattern(len(number), thread ^ number);
                    sender
                        .send(PeerId(1), &head, &[IoSlice::new(&payload)])
                        .expect("it is up");
                }
            });
        }
        let mut next = [0; THREADS as usize];
        for _ in 0..THREADS * FRAMES {
            let (_, head, payload) = b.next_frame();
            let thread = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
            let number = u64::from_le_bytes(head[8..].try_into().expect("eight bytes"));
            assert_eq!(number, next[thread as usize], "frames of thread {thread}");
            next[thread as usize] += 1;
            assert!(
                payload == pattern(len(number), thread ^ number),
                "payload of {number}"
            );
        }
    });
}

// N1
pub(crate) fn payloads_from_nothing_to_the_bound_arrive_unchanged<R: Rig>() {
    let (a, b) = pair::<R>();
    let small = [
        0,
        1,
        2,
        31,
        32,
        33,
        4095,
        4096,
        16_351,
        16_352,
        16_353,
        65_536,
        1 << 20,
    ];
    for len in small
        .into_iter()
        .chain([PAYLOAD_LEN_MAX - 1, PAYLOAD_LEN_MAX])
    {
        for head_len in [0, 1, 64, HEAD_LEN_MAX] {
            let (head, payload) = (pattern(head_len, 3), pattern(len, len as u64));
            a.send(1, &head, &payload).expect("it is up");
            let (from, got_head, got) = b.next_frame();
            assert_eq!((from, got.len()), (0, len));
            assert!(
                got_head == head && got == payload,
                "{head_len} and {len} bytes"
            );
        }
    }
}

pub(crate) fn heads_and_payloads_beyond_their_bounds_are_refused<R: Rig>() {
    let (a, b) = pair::<R>();
    let head = vec![0; HEAD_LEN_MAX + 1];
    let error = SendError::TooLong {
        head: HEAD_LEN_MAX + 1,
        payload: 0,
    };
    assert_eq!(a.send(1, &head, &[]), Err(error));
    let payload = vec![0; PAYLOAD_LEN_MAX + 1];
    let error = SendError::TooLong {
        head: 0,
        payload: PAYLOAD_LEN_MAX + 1,
    };
    assert_eq!(a.send(1, &[], &payload), Err(error));
    a.send(1, b"still up", &[]).expect("it is up");
    assert_eq!(b.next_frame().1, b"still up");
}

pub(crate) fn a_payload_in_many_pieces_arrives_as_one<R: Rig>() {
    let (a, b) = pair::<R>();
    let whole = pattern(100_000, 1);
    // Above and below what one system call takes, and with empty pieces.
    for piece_len in [1000, 40, 16_000] {
        let mut pieces: Vec<_> = whole.chunks(piece_len).map(IoSlice::new).collect();
        pieces.insert(1, IoSlice::new(&[]));
        a.transport
            .send(PeerId(1), b"h", &pieces)
            .expect("it is up");
        assert!(b.next_frame().2 == whole);
    }
}

// N1
pub(crate) fn both_directions_carry_frames_at_once<R: Rig>() {
    const FRAMES: u8 = 100;
    let (a, b) = pair::<R>();
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let (transport_a, transport_b) = (&a.transport, &b.transport);
        let start = &start;
        for (transport, far) in [(transport_a, 1), (transport_b, 0)] {
            scope.spawn(move || {
                start.wait();
                for number in 0..FRAMES {
                    let payload = pattern(100_000, u64::from(number));
                    let sent = transport.send(PeerId(far), &[number], &[IoSlice::new(&payload)]);
                    sent.expect("it is up");
                }
            });
        }
    });
    for near in [&a, &b] {
        for number in 0..FRAMES {
            let (_, head, payload) = near.next_frame();
            assert_eq!(head, [number]);
            assert!(payload == pattern(100_000, u64::from(number)));
        }
    }
}

pub(crate) fn every_pair_of_members_connects<R: Rig>() {
    const MEMBERS: u32 = 5;
    let rig = R::new(MEMBERS);
    let nodes: Vec<_> = (0..MEMBERS)
        .map(|me| node(&rig, me, u64::from(me) + 10))
        .collect();
    for (me, near) in (0..MEMBERS).zip(&nodes) {
        let mut seen: Vec<_> = (1..MEMBERS).map(|_| near.next()).collect();
        seen.sort_by_key(|seen| format!("{seen:?}"));
        let others = (0..MEMBERS).filter(|peer| *peer != me);
        let expected: Vec<_> = others
            .map(|peer| Seen::Up(peer, u64::from(peer) + 10))
            .collect();
        assert_eq!(seen, expected);
    }
    for (me, near) in (0..MEMBERS).zip(&nodes) {
        for peer in (0..MEMBERS).filter(|peer| *peer != me) {
            near.send(peer, &[me as u8], b"hello").expect("it is up");
        }
    }
    for near in &nodes {
        for _ in 1..MEMBERS {
            let (from, head, _) = near.next_frame();
            assert_eq!(head, [from as u8]);
        }
    }
}

pub(crate) fn a_handler_may_send_from_inside_its_calls<R: Rig>() {
    let rig = R::new(2);
    let a = node(&rig, 0, 1);
    let b = answering_node(&rig, 1, |transport, from, head, payload| {
        transport
            .send(from, head, &[IoSlice::new(payload)])
            .expect("it is up");
    });
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    for number in 0..100 {
        a.send(1, &[number], &[number; 1000]).expect("it is up");
        assert_eq!(a.next_frame(), (1, vec![number], vec![number; 1000]));
    }
    b.transport.shutdown();
}

pub(crate) fn a_handler_may_shut_down_from_inside_its_calls<R: Rig>() {
    let rig = R::new(2);
    let a = node(&rig, 0, 1);
    let b = answering_node(&rig, 1, |transport, _, _, _| transport.shutdown());
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    a.send(1, b"last", &[]).expect("it is up");
    assert_eq!(a.next_down().0, 1);
    assert_eq!(b.next_frame().1, b"last");
    assert_eq!(b.next_down().0, 0);
    b.transport.shutdown();
}

// N2
pub(crate) fn up_and_down_alternate_and_frames_fall_between<R: Rig>() {
    let (a, b) = pair::<R>();
    for round in 0..10 {
        a.send(1, &[round], b"before").expect("it is up");
        b.send(0, &[round], b"before").expect("it is up");
        if round % 2 == 0 { &a } else { &b }
            .transport
            .disconnect(PeerId(1 - u32::from(round % 2)), "test");
        for near in [&a, &b] {
            let mut seen = near.next();
            if let Seen::Frame(_, head, _) = &seen {
                assert_eq!(head, &[round]);
                seen = near.next();
            }
            assert!(matches!(seen, Seen::Down(..)), "saw {seen:?}");
            let seen = near.next();
            assert!(matches!(seen, Seen::Up(_, 1)), "saw {seen:?}");
        }
    }
}

pub(crate) fn a_disconnected_peer_comes_back<R: Rig>() {
    let (a, b) = pair::<R>();
    a.transport.disconnect(PeerId(1), "a reason to show");
    let (peer, why) = a.next_down();
    assert_eq!(peer, 1);
    assert!(why.contains("a reason to show"), "{why}");
    assert!(matches!(b.next(), Seen::Down(0, _)));
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    a.send(1, b"again", &[]).expect("it is up");
    assert_eq!(b.next_frame().1, b"again");
}

// N3
pub(crate) fn a_send_to_a_peer_that_is_down_fails_at_once<R: Rig>() {
    let rig = R::new(3);
    let (a, b) = (node(&rig, 0, 1), node(&rig, 1, 1));
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(a.send(2, b"h", b"p"), Err(SendError::Down(PeerId(2))));
    b.transport.shutdown();
    assert_eq!(a.next_down().0, 1);
    assert_eq!(a.send(1, b"h", b"p"), Err(SendError::Down(PeerId(1))));
    for state in a.transport.peers() {
        assert!(matches!(state.link, Link::Down { why } if !why.is_empty()));
    }
}

pub(crate) fn a_send_to_oneself_or_a_stranger_is_an_error<R: Rig>() {
    let (a, _b) = pair::<R>();
    assert_eq!(a.send(0, b"h", b"p"), Err(SendError::Myself(PeerId(0))));
    assert_eq!(a.send(2, b"h", b"p"), Err(SendError::Unknown(PeerId(2))));
    assert_eq!(
        a.send(u32::MAX, b"h", b"p"),
        Err(SendError::Unknown(PeerId(u32::MAX)))
    );
}

// N4
pub(crate) fn a_peer_that_does_not_read_is_dropped_at_the_bound<R: Rig>() {
    let rig = R::new(3);
    let a = node(&rig, 0, 1);
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let b = answering_node(&rig, 1, move |_, _, _, _| {
        let _ = gate.lock().expect("only this thread locks it").recv();
    });
    let c = node(&rig, 2, 1);
    for near in [&a, &b, &c] {
        near.next();
        near.next();
    }
    let payload = vec![0; 1 << 20];
    // The bound, and what the kernel's buffers may hold beside it.
    let most = (QUEUED_BYTES_MAX >> 20) + 64;
    let taken = (0..most)
        .take_while(|_| a.send(1, &[], &payload).is_ok())
        .count();
    assert!(taken < most, "nothing ever refused a frame");
    let (peer, why) = a.next_down();
    assert_eq!(peer, 1);
    assert!(why.contains("reads too slowly"), "{why}");
    c.send(0, b"others go on", &[]).expect("it is up");
    let mut seen = a.next();
    while matches!(seen, Seen::Up(1, _)) {
        seen = a.next();
    }
    assert_eq!(seen, Seen::Frame(2, b"others go on".to_vec(), Vec::new()));
    drop(release);
    b.transport.shutdown();
}

// N7
pub(crate) fn a_peer_that_runs_anew_is_refused_by_who_met_it<R: Rig>() {
    for restarted in [0, 1] {
        let rig = R::new(2);
        let (old, other) = (node(&rig, restarted, 2), node(&rig, 1 - restarted, 1));
        assert_eq!(other.next(), Seen::Up(restarted, 2));
        old.transport.shutdown();
        // Whether its number is greater or less.
        for incarnation in [1, 3] {
            let new = node(&rig, restarted, incarnation);
            assert_eq!(new.next(), Seen::Anew(1 - restarted, Anew::Me));
            while !matches!(other.next(), Seen::Anew(_, Anew::Peer)) {}
            let sent = new.send(1 - restarted, b"let me in", &[]);
            assert_eq!(sent, Err(SendError::Down(PeerId(1 - restarted))));
            new.transport.shutdown();
        }
    }
}

// N7
pub(crate) fn a_peer_that_runs_anew_is_taken_by_who_forgets_its_earlier_run<R: Rig>() {
    for restarted in [0, 1] {
        let rig = R::new(2);
        let (old, other) = (node(&rig, restarted, 2), node(&rig, 1 - restarted, 1));
        assert_eq!(other.next(), Seen::Up(restarted, 2));
        old.transport.shutdown();
        other.handler.forget_earlier_runs();
        let new = node(&rig, restarted, 3);
        while !matches!(other.next(), Seen::Anew(_, Anew::Peer)) {}
        while other.next() != Seen::Up(restarted, 3) {}
        while new.next() != Seen::Up(1 - restarted, 1) {}
    }
}

pub(crate) fn a_timer_fires_when_it_is_due<R: Rig>() {
    let rig = R::new(1);
    let a = node(&rig, 0, 1);
    let at = Instant::now() + Duration::from_millis(30);
    a.handler.set_deadline(Some(at));
    a.transport.wake();
    assert_eq!(a.next(), Seen::Timer);
    assert!(Instant::now() >= at, "not before it is due");
}

pub(crate) fn a_wake_makes_the_loop_ask_again<R: Rig>() {
    let rig = R::new(1);
    let a = node(&rig, 0, 1);
    a.handler
        .set_deadline(Some(Instant::now() + Duration::from_secs(3600)));
    a.transport.wake();
    for _ in 0..100 {
        a.handler.set_deadline(Some(Instant::now()));
        a.transport.wake();
        assert_eq!(a.next(), Seen::Timer);
    }
}

// N2
pub(crate) fn shutdown_reports_every_peer_as_down<R: Rig>() {
    let rig = R::new(3);
    let nodes = [node(&rig, 0, 1), node(&rig, 1, 1), node(&rig, 2, 1)];
    for near in &nodes {
        near.next();
        near.next();
    }
    nodes[1].transport.shutdown();
    let mut down = [nodes[1].next_down().0, nodes[1].next_down().0];
    down.sort_unstable();
    assert_eq!(down, [0, 2]);
    assert_eq!(
        nodes[1].send(0, b"h", b"p"),
        Err(SendError::Down(PeerId(0)))
    );
    assert_eq!(nodes[0].next_down().0, 1);
    assert_eq!(nodes[2].next_down().0, 1);
    // Again, from another thread, harms nobody.
    let again = Arc::clone(&nodes[1].transport);
    std::thread::spawn(move || again.shutdown())
        .join()
        .expect("it does not panic");
}
