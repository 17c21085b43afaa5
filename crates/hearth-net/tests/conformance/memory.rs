//! Promises of members that share memory, beside the suite.

use std::fs;

use hearth_net::{Limits, TcpTransport, Transport};

use super::rig::{
    NearRig, Node, Rig, Seen, ShmRig, are_not_woken, eventually, node, over, pair_on,
};

/// The means that carries the frames of a member to another.
fn way<T: Transport + ?Sized>(node: &Node<T>, peer: u32) -> String {
    let states = node.transport.peers();
    let state = states.into_iter().find(|state| state.id.0 == peer);
    state.expect("it is a member").way
}

/// Mappings of pipes that this process has.
fn mapped() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux says so");
    maps.lines()
        .filter(|line| line.contains("/memfd:hearth-pipe"))
        .count()
}

#[test]
fn members_that_share_memory_say_so() {
    let rig = ShmRig::new(2);
    let (a, b) = pair_on(&rig);
    assert_eq!(way(&a, 1), "shared memory");
    assert_eq!(way(&b, 0), "shared memory");
    b.send(0, b"h", &[3; 100_000]).expect("it is up");
    assert_eq!(a.next_frame().2, [3; 100_000]);
}

#[test]
fn a_member_that_does_not_share_is_reached_by_a_socket() {
    for sharing in [0, 1] {
        let rig = NearRig::new(2);
        let listener = rig.0[sharing as usize].try_clone();
        let sharer = listener.expect("descriptors are left").sharing();
        let config = rig.config(sharing, 1);
        let shares = over(|handler| {
            TcpTransport::start_near(config, sharer, handler).expect("the configuration is right")
        });
        let other = node(&rig, 1 - sharing, 1);
        assert_eq!(shares.next(), Seen::Up(1 - sharing, 1));
        assert_eq!(other.next(), Seen::Up(sharing, 1));
        let said = way(&shares, 1 - sharing);
        assert!(
            said.contains("socket") && said.contains("not shared"),
            "{said}"
        );
        assert_eq!(way(&other, sharing), "socket of the host");
        other.send(sharing, b"h", b"bytes").expect("it is up");
        assert_eq!(shares.next_frame().2, b"bytes");
    }
}

/// N5
#[test]
fn idle_members_that_share_memory_are_not_woken() {
    let rig = ShmRig::new(3);
    let start = |me| over(|handler| rig.start_near(rig.config(me, 1), handler));
    let nodes = [start(0), start(1), start(2)];
    for near in &nodes {
        near.next();
        near.next();
    }
    // More than a ring holds, so that the writer has slept, too.
    nodes[0]
        .send(1, b"last", &vec![1; 4 << 20])
        .expect("it is up");
    nodes[1].next_frame();
    are_not_woken(&nodes);
}

#[test]
fn small_rings_carry_large_frames() {
    let rig = ShmRig::new(2);
    let start = |me| {
        let mut config = rig.config(me, 1);
        let queued_bytes_max = config.limits.queued_bytes_max;
        config.limits = Limits {
            shared_bytes_max: 0,
            queued_bytes_max,
            ..Limits::default()
        };
        over(|handler| rig.start_near(config, handler))
    };
    let (a, b) = (start(0), start(1));
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    for number in 0..4 {
        a.send(1, &[number], &vec![number; 5 << 20])
            .expect("it is up");
        b.send(0, &[number], &vec![number; 5 << 20])
            .expect("it is up");
    }
    for number in 0..4 {
        for near in [&a, &b] {
            let (_, head, payload) = near.next_frame();
            assert_eq!((head, payload), (vec![number], vec![number; 5 << 20]));
        }
    }
}

#[test]
fn memory_goes_with_its_connection() {
    let alone = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "conformance::memory::leaves_nothing",
            "--nocapture",
        ])
        .env("HEARTH_TEST_ALONE", "1")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(
        alone.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

/// In a process of its own, which has no other test's memory.
#[test]
fn leaves_nothing() {
    if std::env::var_os("HEARTH_TEST_ALONE").is_none() {
        return;
    }
    let rig = ShmRig::new(2);
    let open = || {
        fs::read_dir("/proc/self/fd")
            .expect("Linux says so")
            .count()
    };
    let before = open();
    let (a, b) = pair_on(&rig);
    assert_eq!(mapped(), 2, "one for each of the two members");
    for _ in 0..20 {
        a.transport.disconnect(hearth_net::PeerId(1), "test");
        a.next_down();
        b.next_down();
        assert_eq!(a.next(), Seen::Up(1, 1));
        assert_eq!(b.next(), Seen::Up(0, 1));
    }
    assert_eq!(mapped(), 2);
    a.transport.shutdown();
    b.transport.shutdown();
    drop((a, b));
    eventually("nothing is left", || mapped() == 0 && open() == before);
}
