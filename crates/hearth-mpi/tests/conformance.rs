//! The suite of promises of every transport, held against MPI: each member is a rank of a real job.
//!
//! The suite itself runs here and knows nothing of that. Its calls of a member's transport are passed to a rank. Calls
//! of a rank's handler are passed to the suite's handler ([`fleet`]).

#[path = "../../hearth-net/tests/conformance/rig.rs"]
#[allow(dead_code, reason = "other transports are tested elsewhere")]
mod rig;
#[path = "../../hearth-net/tests/conformance/suite.rs"]
#[allow(
    dead_code,
    reason = "one promise needs a handler in the process of its transport"
)]
mod suite;

mod fleet;

use std::sync::{Arc, Mutex};

use fleet::driver::Fleet;
use fleet::launchers;
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
    let promises = suite::promises! { hold! };
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
    let test = "the_suite_holds_over_open_mpi";
    holds(test, launchers::OPEN_MPI, "libmpi.so.40");
}

#[test]
fn the_suite_holds_over_mpich() {
    holds(
        "the_suite_holds_over_mpich",
        launchers::MPICH,
        "libmpich.so.12",
    );
}

/// Not by itself: what the launcher starts as each rank.
#[test]
fn a_rank() {
    if let Some(control) = std::env::var_os("HEARTH_TEST_CONTROL") {
        fleet::rank::run(&control);
    }
}
