//! Promises of members of one host to each other, beside the suite.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use hearth_net::{Near, TcpTransport};

use super::rig::{NearRig, Rig, Seen, net_config, over, pair_on};

/// Sockets of this host that were reached under the name of a member.
fn named(near: &Near) -> usize {
    let name = format!("@hearth/{}", near.local_addr().expect("it is bound"));
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("Linux says so");
    let names = sockets.lines().filter(|line| line.ends_with(&name));
    names.count()
}

#[test]
fn members_of_one_host_meet_under_their_names() {
    let rig = NearRig::new(2);
    assert_eq!(named(&rig.0[0]), 1, "its listener");
    let (a, b) = pair_on(&rig);
    assert_eq!(named(&rig.0[0]), 2, "and the connection of the other");
    drop((a, b));
}

#[test]
fn who_took_the_name_of_a_member_is_not_that_member() {
    let listen = || TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let (plain, far) = (listen(), listen());
    let addr = |listener: &TcpListener| listener.local_addr().expect("it is bound");
    let members = vec![addr(&plain), addr(&far)];
    let name = SocketAddr::from_abstract_name(format!("hearth/{}", members[0]));
    let taken = UnixListener::bind_addr(&name.expect("a name")).expect("nobody has it");
    let near = Near::new(far).expect("nobody has its name");
    let config = |me| {
        let mut config = net_config(me, 1, members.clone());
        config.limits.handshake_span_max = Duration::from_millis(500);
        config
    };
    let a = over(|handler| TcpTransport::start(config(0), plain, handler).expect("it is right"));
    let b =
        over(|handler| TcpTransport::start_near(config(1), near, handler).expect("it is right"));
    let (silent, _) = taken.accept().expect("it is tried first");
    assert_eq!(b.next(), Seen::Up(0, 1), "by its address then");
    assert_eq!(a.next(), Seen::Up(1, 1));
    drop(silent);
}
