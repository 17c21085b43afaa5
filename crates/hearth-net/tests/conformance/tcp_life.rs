//! What TCP promises beyond the suite: starting, restarting, and resting.

use std::net::TcpListener;

use hearth_net::{Link, StartError, TcpTransport, Transport};

use super::rig::{Rig, Seen, TcpRig, are_not_woken, node, tcp_node};

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let addr = taken.local_addr().expect("it is bound");
    let error = TcpTransport::listen(addr).expect_err("the port is taken");
    assert!(matches!(&error, StartError::Listen { .. }));
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

/// The old run is still there, as after a network failure that only one side has noticed.
#[test]
fn a_new_incarnation_replaces_a_connection_that_is_half_open() {
    let rig = TcpRig::new(2);
    let (a, old) = (node(&rig, 0, 1), node(&rig, 1, 5));
    assert_eq!(a.next(), Seen::Up(1, 5));
    assert_eq!(old.next(), Seen::Up(0, 1));
    let new = node(&rig, 1, 6);
    let (peer, why) = a.next_down();
    assert_eq!(peer, 1);
    assert!(why.contains("anew as incarnation 6"), "{why}");
    assert_eq!(a.next(), Seen::Up(1, 6));
    assert_eq!(new.next(), Seen::Up(0, 1));
    assert_eq!(old.next_down().0, 0);

    // The old run tries again, and must not push the new one out.
    let refused = |why: &str| why.contains("incarnation 5, but incarnation 6 is connected");
    let mut shown = false;
    while !shown {
        shown = old.transport.peers().iter().any(|state| match &state.link {
            Link::Down { why } => refused(why),
            Link::Up { .. } => panic!("an old incarnation was let in"),
        });
        std::thread::yield_now();
    }
    new.send(0, b"still here", &[]).expect("it is up");
    assert_eq!(a.next_frame().1, b"still here");
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
