//! The suite of promises of every transport, held against MPI: each member is a rank of a real job.
//!
//! The suite itself runs here and knows nothing of that. What it asks of a member's transport is asked of a rank,
//! and what a rank's handler is told is told to the suite's ([`fleet`]).

#[path = "../../hearth-net/tests/conformance/rig.rs"]
#[allow(dead_code, reason = "other transports are tested elsewhere")]
mod rig;
#[path = "../../hearth-net/tests/conformance/suite.rs"]
mod suite;

mod fleet;

use std::sync::{Arc, Mutex};

use fleet::driver::Fleet;
use hearth_net::{Handler, Transport};
use rig::Rig;

/// The most members that a promise asks for.
const MEMBERS: u32 = 5;

/// One job at a time: a machine has few processors, and the suite's rigs are made without words.
static FLEET: Mutex<Option<Arc<Fleet>>> = Mutex::new(None);
static TURN: Mutex<()> = Mutex::new(());

/// Ranks as members.
struct MpiRig {
    fleet: Arc<Fleet>,
    members: Vec<String>,
}

impl Rig for MpiRig {
    fn new(members: u32) -> MpiRig {
        let fleet = FLEET.lock().expect("nobody panics with it").clone();
        let fleet = fleet.expect("a job runs");
        let members = (0..members).map(|rank| fleet.rank(rank).bind()).collect();
        MpiRig { fleet, members }
    }

    fn start(&self, me: u32, incarnation: u64, handler: Arc<dyn Handler>) -> Arc<dyn Transport> {
        let rank = self.fleet.rank(me);
        rank.start((me, incarnation), &self.members, handler)
    }
}

/// Runs every promise over one job.
macro_rules! hold {
    ($($promise:ident)*) => {
        [$((stringify!($promise), suite::$promise::<MpiRig> as fn())),*]
    };
}

fn holds(test: &str, launcher: &[&str], library: &str) {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(fleet) = Fleet::launch(test, launcher, library, MEMBERS) else {
        return;
    };
    *FLEET.lock().expect("nobody panics with it") = Some(Arc::clone(&fleet));
    let promises = hold! {
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
    };
    for (name, promise) in promises {
        eprintln!("{library}: {name}");
        promise();
    }
    *FLEET.lock().expect("nobody panics with it") = None;
    let ended = Arc::into_inner(fleet).expect("every rig is gone").end();
    assert!(ended.success(), "the job ends well: {ended}");
}

#[test]
fn the_suite_holds_over_open_mpi() {
    let launcher = [
        "mpirun.openmpi",
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
        "--mca",
        "btl",
        "self,vader",
        "--mca",
        "pml",
        "ob1",
        "--mca",
        "mpi_yield_when_idle",
        "1",
    ];
    holds("the_suite_holds_over_open_mpi", &launcher, "libmpi.so.40");
}

#[test]
fn the_suite_holds_over_mpich() {
    let launcher = ["mpiexec.mpich", "-bind-to", "none"];
    holds("the_suite_holds_over_mpich", &launcher, "libmpich.so.12");
}

/// Not by itself: what the launcher starts as each rank.
#[test]
fn a_rank() {
    if let Some(control) = std::env::var_os("HEARTH_TEST_CONTROL") {
        fleet::rank::run(&control);
    }
}
