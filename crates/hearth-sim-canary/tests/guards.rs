//! Every guard of the kernel is seen to matter: without it a checker fires.

use hearth_sim_canary::canary::{Guard, try_without};

/// Worlds within which each of them was noticed, with room to spare.
const WORLDS: u64 = 150_000;

#[test]
fn a_kernel_without_a_guard_is_noticed() {
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<&str> = Guard::ALL
        .iter()
        .map(|&guard| try_without(guard, WORLDS))
        .inspect(|canary| {
            let told = canary.caught.as_ref();
            let told = told.map(|c| (c.check, c.worlds, c.plan.steps, c.outcome.events));
            println!("{} {told:?}", canary.guard.name());
        })
        .filter(|canary| canary.caught.is_none())
        .map(|canary| canary.guard.name())
        .collect();
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}
