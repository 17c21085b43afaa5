//! Many worlds for a test.

use crate::world::WorldOutcome;
use std::collections::BTreeMap;
use std::ops::Range;

/// Worlds of a crate.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The variable by which a person has other seeds run: `17` one of them, `0..5000` many.
    pub variable: &'static str,
    /// Seeds that are run otherwise. Something that is broken shows within these.
    pub seeds: Range<u64>,
}

impl Trial {
    fn wanted(&self) -> Range<u64> {
        let Ok(wanted) = std::env::var(self.variable) else {
            return self.seeds.clone();
        };
        let number = |text: &str| text.parse().expect("a seed is a number");
        match wanted.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => number(&wanted)..number(&wanted) + 1,
        }
    }

    /// Runs them. Panics at the first finding, and if they did not come so often to each of these.
    pub fn keeps(&self, run: impl Fn(u64) -> WorldOutcome, (least, all): (u64, &[&str])) {
        let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
        for seed in self.wanted() {
            let outcome = run(seed);
            if let Some(finding) = outcome.finding {
                panic!("{}={seed} runs it again: {finding}", self.variable);
            }
            for (what, count) in outcome.tally {
                *tally.entry(what).or_default() += count;
            }
        }
        eprintln!("{tally:?}");
        let came_to = |what: &str| tally.get(what).is_some_and(|&count| count >= least);
        for what in all.iter().filter(|_| self.wanted() == self.seeds) {
            assert!(came_to(what), "{what}: {tally:?}");
        }
    }

    /// Runs so many of them twice. Panics if one is not the same to the last step.
    pub fn repeats(&self, count: usize, run: impl Fn(u64) -> WorldOutcome) {
        for seed in self.seeds.clone().take(count) {
            let [first, second] = [(); 2].map(|()| run(seed));
            assert_eq!(first, second, "seed {seed}");
        }
    }

    /// The first finding. Panics if there is none.
    pub fn finds(&self, run: impl Fn(u64) -> WorldOutcome) -> String {
        let worlds = self.seeds.clone().map(run);
        let mut findings = worlds.filter_map(|outcome| outcome.finding);
        findings.next().expect("it is found")
    }
}
