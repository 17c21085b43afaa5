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
            crate::suite::promises! { hold! $rig: }
            // A handler in another process, as that of a rank, cannot say so in time.
            hold! { $rig: a_peer_that_runs_anew_is_taken_by_who_forgets_its_earlier_run }
        })*
    };
}

/// Promises that hold though datagrams are lost, doubled and overtaken.
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
