//! The order of a world's threads, out of its seed.

use crate::world;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// The thread of the clock: the first that a world starts.
const CLOCK: usize = 1;

/// A stream of numbers (SplitMix64), so that a seed means the same world on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The stream of a seed; `purpose` keeps streams of one seed apart.
    pub fn new(seed: u64, purpose: u64) -> Dice {
        let mut dice = Dice(seed ^ purpose.wrapping_mul(0xA076_1D64_78BD_642F));
        dice.draw();
        dice
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below a bound that is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// True in so many cases of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Draws who runs. Some threads of a world are slower than others, so that one can be far behind.
pub(crate) struct Order {
    seed: u64,
    dice: Dice,
    /// The world was begun.
    begun: bool,
}

impl Order {
    pub(crate) fn of(seed: u64) -> Order {
        Order {
            seed,
            dice: Dice::new(seed, 1),
            begun: false,
        }
    }

    /// How often a thread comes beside others; with 0 it comes when no other can run.
    fn weight(&self, task: TaskId) -> u64 {
        let drawn = Dice::new(self.seed, 1000 + usize::from(task) as u64).below(8);
        match drawn {
            0 => 0,
            1 => 1,
            2..5 => 16,
            _ => 64,
        }
    }

    fn drawn(&mut self, able: &[TaskId]) -> Option<TaskId> {
        let weights: Vec<u64> = able.iter().map(|&task| self.weight(task)).collect();
        let sum = weights.iter().sum::<u64>();
        if sum == 0 {
            return Some(able[self.dice.below(able.len() as u64) as usize]);
        }
        let mut at = self.dice.below(sum);
        let mut each = able.iter().zip(weights);
        let chosen = each.find(|&(_, weight)| {
            let is_it = at < weight;
            at = at.saturating_sub(weight);
            is_it
        });
        chosen.map(|(&task, _)| task)
    }
}

impl Scheduler for Order {
    fn new_execution(&mut self) -> Option<Schedule> {
        let is_first = !std::mem::replace(&mut self.begun, true);
        is_first.then(|| Schedule::new(self.seed))
    }

    fn next_task(&mut self, tasks: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        if world::is_over() {
            return None;
        }
        let able = tasks.iter().filter(|task| task.runnable());
        let able: Vec<TaskId> = able.map(|task| task.id()).collect();
        let others = able.iter().copied();
        let others: Vec<TaskId> = others.filter(|&task| task != CLOCK.into()).collect();
        let next = match others.is_empty() {
            true => able.first().copied(),
            false => self.drawn(&others),
        };
        world::note(next.map_or(0, |task| usize::from(task) as u64));
        next
    }

    fn next_u64(&mut self) -> u64 {
        self.dice.draw()
    }
}
