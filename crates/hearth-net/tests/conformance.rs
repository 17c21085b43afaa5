//! One suite of promises (N1 to N5), held against every transport; then what TCP promises alone.

mod conformance {
    mod datagram_faults;
    pub(crate) mod lossy;
    mod memory;
    mod near;
    pub(crate) mod rig;
    pub(crate) mod suite;
    mod tcp_faults;
    mod tcp_life;
}

use conformance::rig::{MemRig, NearRig, ShmRig, TcpRig, UdpRig, UdtRig};
use conformance::suite;

/// Instantiates every function of the suite for one rig.
macro_rules! hold {
    ($rig:ty: $($promise:ident)*) => {
        $(#[test] fn $promise() { crate::suite::$promise::<$rig>(); })*
    };
}

macro_rules! transports {
    ($($name:ident = $rig:ident),*) => {
        $(mod $name {
            use crate::$rig;
            hold! { $rig:
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
                a_restarted_peer_is_down_before_it_is_up
                a_timer_fires_when_it_is_due
                a_wake_makes_the_loop_ask_again
                shutdown_reports_every_peer_as_down
            }
        })*
    };
}

/// What holds though datagrams are lost, doubled and overtaken.
macro_rules! lossy {
    ($($name:ident = $udt:literal),*) => {
        $(mod $name {
            hold! { crate::conformance::lossy::LossyRig<$udt>:
                order_is_kept_under_many_frames_from_many_threads
                a_payload_in_many_pieces_arrives_as_one
                both_directions_carry_frames_at_once
                a_handler_may_send_from_inside_its_calls
                up_and_down_alternate_and_frames_fall_between
                a_disconnected_peer_comes_back
            }
        })*
    };
}

lossy! { udp_with_loss = false, udt_with_loss = true }
transports! {
    mem = MemRig, tcp = TcpRig, near = NearRig, shm = ShmRig, udp = UdpRig, udt = UdtRig
}
