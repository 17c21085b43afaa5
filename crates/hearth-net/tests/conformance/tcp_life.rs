//! Promises of TCP beyond the suite: starting, restarting, and resting.

use std::net::TcpListener;

use hearth_net::{Anew, Link, NoTransport, TcpTransport, Transport};

use super::rig::{Rig, Seen, TcpRig, are_not_woken, node, tcp_node};

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let addr = taken.local_addr().expect("it is bound");
    let error = TcpTransport::listen(addr).expect_err("the port is taken");
    assert!(matches!(&error, NoTransport::Listen { .. }));
    let text = error.to_string();
    assert!(text.contains(&addr.to_string()), "{text}");
    assert!(text.contains("stop that agent"), "{text}");
}

#[test]
fn a_member_outside_the_list_cannot_start() {
    let rig = TcpRig::new(2);
    let mut config = rig.config(1, 1);
    config.members.truncate(1);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let (handler, _seen) = super::rig::recorder(None);
    let error = TcpTransport::start(config, listener, handler)
        .err()
        .expect("it must not start");
    assert!(
        error
            .to_string()
            .contains("peer 1 is not in the list of 1 members"),
        "{error}"
    );
}

/// Another way to the same member, as after a network failure that only one side has noticed.
#[test]
fn a_connection_that_is_half_open_is_replaced_by_the_same_run_alone() {
    let rig = TcpRig::new(2);
    let (a, old) = (node(&rig, 0, 1), node(&rig, 1, 5));
    assert_eq!(a.next(), Seen::Up(1, 5));
    assert_eq!(old.next(), Seen::Up(0, 1));
    let same = node(&rig, 1, 5);
    let (peer, why) = a.next_down();
    assert_eq!(peer, 1);
    assert!(why.contains("connected anew"), "{why}");
    assert_eq!(a.next(), Seen::Up(1, 5));
    assert_eq!(same.next(), Seen::Up(0, 1));
    assert_eq!(old.next_down().0, 0);
    old.transport.shutdown();

    // Another run does not push it out.
    let other = node(&rig, 1, 6);
    assert_eq!(other.next(), Seen::Anew(0, Anew::Me));
    other.transport.shutdown();
    same.send(0, b"still here", &[]).expect("it is up");
    let mut seen = a.next();
    while !matches!(seen, Seen::Frame(..)) {
        assert!(!matches!(seen, Seen::Up(1, 6)), "another run was let in");
        seen = a.next();
    }
}

// N5
#[test]
fn an_idle_transport_is_not_woken() {
    let rig = TcpRig::new(3);
    let nodes: Vec<_> = (0..3).map(|me| tcp_node(&rig, rig.config(me, 1))).collect();
    for near in &nodes {
        near.next();
        near.next();
    }
    nodes[0].send(1, b"last", &[1; 100_000]).expect("it is up");
    nodes[1].next_frame();
    are_not_woken(&nodes);
}

#[test]
fn the_status_counts_the_bytes_of_both_directions() {
    let rig = TcpRig::new(2);
    let (a, b) = (
        tcp_node(&rig, rig.config(0, 1)),
        tcp_node(&rig, rig.config(1, 1)),
    );
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    a.send(1, b"head", &[0; 1000]).expect("it is up");
    b.next_frame();
    let (near, far) = (a.transport.peers().remove(0), b.transport.peers().remove(0));
    assert_eq!(near.link, Link::Up { incarnation: 1 });
    assert_eq!(near.addr, Some(rig.config(0, 1).members[1]));
    assert_eq!((near.bytes_out, near.bytes_in), (32 + 4 + 1000, 0));
    assert_eq!((far.bytes_in, far.bytes_out), (near.bytes_out, 0));
    assert_eq!(near.queued_bytes, 0);
}
