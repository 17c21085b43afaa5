//! Promises of datagram transports beyond the suite: foreign datagrams disturb nobody (N6), and a
//! peer that is not there is noticed though no network says so.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use hearth_net::{Anew, Link, PeerId, Transport};

use super::lossy::LossyRig;
use super::rig::{Node, Rig, Seen, UdpRig, eventually, node, over, pair_on};

fn reason<T: Transport + ?Sized>(transport: &T, peer: u32) -> String {
    let states = transport.peers();
    let state = states.iter().find(|state| state.id == PeerId(peer));
    match &state.expect("it is a member").link {
        Link::Down { why } => why.clone(),
        Link::Up { .. } => String::new(),
    }
}

fn address(rig: &UdpRig, member: usize) -> SocketAddr {
    rig.config(0, 1).members[member]
}

fn assert_undisturbed<T: Transport + ?Sized>(a: &Node<T>, b: &Node) {
    b.send(0, b"all is well", &[]).expect("it is up");
    assert_eq!(a.next_frame().1, b"all is well");
}

// N6
#[test]
fn foreign_datagrams_disturb_nobody() {
    let rig = UdpRig::new(2);
    let (a, b) = pair_on(&rig);
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..4000_usize {
        let mut bytes = vec![0; round % 120];
        for byte in &mut bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        // Half of them look like packets of this version, from a dialer.
        if let [kind, version, low, high, ..] = &mut bytes[..]
            && round % 2 == 0
        {
            (*kind, *version, *low, *high) = (1 + *kind % 5, 1, 1, 0);
        }
        stranger
            .send_to(&bytes, address(&rig, round % 2))
            .expect("loopback takes it");
        if round % 500 == 0 {
            assert_undisturbed(&a, &b);
        }
    }
    assert_undisturbed(&a, &b);
}

/// More strangers than are let in at once, none of whom says a word that is true.
#[test]
fn many_strangers_do_not_keep_a_member_out() {
    let rig = UdpRig::new(2);
    let mut config = rig.config(0, 1);
    config.limits.handshake_span_max = Duration::from_millis(200);
    let a = over(|handler| rig.start_datagram(config, handler));
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    for number in 0..200_u64 {
        let mut hello = vec![1, 1, 1, 0, 0, 0, 0, 0];
        hello.extend_from_slice(&number.to_le_bytes());
        hello.extend_from_slice(&[0; 24]);
        hello.extend_from_slice(&100_u32.to_le_bytes());
        hello.extend_from_slice(&100_u32.to_le_bytes());
        hello.push(b'h');
        stranger
            .send_to(&hello, address(&rig, 0))
            .expect("loopback takes it");
    }
    let b = node(&rig, 1, 1);
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    assert_undisturbed(&a, &b);
}

#[test]
fn a_port_where_nobody_listens_is_named_at_once() {
    let gone = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    let addr = gone.local_addr().expect("it is bound");
    drop(gone);
    let rig = UdpRig::new(2);
    let mut config = rig.config(1, 1);
    config.members[0] = addr;
    config.limits.handshake_span_max = Duration::from_secs(3600);
    let b = over(|handler| rig.start_datagram(config, handler));
    eventually("the network says that nobody is there", || {
        reason(&*b.transport, 0).contains("does not reach the peer")
    });
}

#[test]
fn a_peer_that_falls_silent_is_given_up() {
    let rig = LossyRig::<false>::new(2);
    let start = |me: u32| {
        let mut config = rig.datagrams().config(me, 1);
        if me == 1 {
            config.members = rig.members_of_1();
        }
        config.limits.silence_span_max = Duration::from_millis(1500);
        over(|handler| rig.datagrams().start_datagram(config, handler))
    };
    let (a, b) = (start(0), start(1));
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    rig.faults().cut(true);
    for near in [&a, &b] {
        let (_, why) = near.next_down();
        assert!(why.contains("silent"), "{why}");
    }
}

/// The restarted member has no memory of the connection, and its end was not heard.
#[test]
fn a_member_that_lost_its_memory_is_refused() {
    let rig = LossyRig::<true>::new(2);
    let (old, b) = pair_on(&rig);
    rig.faults().cut(true);
    old.transport.shutdown();
    rig.settle();
    rig.faults().cut(false);
    let new = node(&rig, 0, 2);
    let (_, why) = b.next_down();
    assert!(why.contains("runs anew"), "{why}");
    assert_eq!(b.next(), Seen::Anew(0, Anew::Peer));
    assert_eq!(new.next(), Seen::Anew(1, Anew::Me));
}
