//! The worked example of the paper, step by step: four files, nine reads, memory for 100.

use hearth_plan::online::{EvictionPolicy, Met};
use hearth_plan::retain::{Follower, Queue, ServedFrom, Step, VictimRule, best, bound, optimum};
use hearth_plan::{Bytes, FileIndex};

use super::{online, row};
use hearth_set::output::table;

const READS: [u32; 9] = [1, 2, 3, 4, 3, 1, 2, 4, 3];
const SIZES: [u64; 4] = [20, 40, 9, 40];
const CAPACITY: Bytes = Bytes(100);

/// All of it.
pub(super) fn text() -> String {
    let reads = READS.iter().map(|file| FileIndex(file - 1)).collect();
    let queue = Queue::new(reads, SIZES.map(Bytes).to_vec());
    let mut rows = vec![row(&[
        "read",
        "paper",
        "then holds",
        "why",
        "LRU",
        "then holds",
    ])];
    let mut follower = Follower::new(&queue, CAPACITY, VictimRule::Paper);
    let mut lru = EvictionPolicy::Lru.cache(CAPACITY);
    let mut before: Vec<FileIndex> = Vec::new();
    while let Some(step) = follower.next() {
        let why = why(&queue, &step, &before, follower.held());
        before = follower.held().to_vec();
        let files = || (0..SIZES.len() as u32).map(FileIndex);
        let met = lru.read(step.file, queue.size(step.file));
        let is_held = |file: &FileIndex| follower.held().contains(file);
        rows.push(vec![
            format!("r{} {}", step.at + 1, name(step.file)),
            match step.source {
                ServedFrom::Memory => "hit".to_owned(),
                ServedFrom::Disk if is_held(&step.file) => "fetched".to_owned(),
                ServedFrom::Disk => "passes by".to_owned(),
            },
            names(files().filter(is_held)),
            why,
            match met {
                Met::Hit => "hit".to_owned(),
                Met::Miss => "fetched".to_owned(),
            },
            names(files().filter(|file| lru.holds(*file))),
        ]);
    }
    let sizes: Vec<String> = (0..)
        .map(FileIndex)
        .zip(SIZES)
        .map(|(file, size)| format!("{}:{size}", name(file)))
        .collect();
    format!(
        "Files {}; memory {}\n{}\n{}",
        sizes.join(" "),
        CAPACITY.0,
        table(&rows),
        table(&totals(&queue))
    )
}

/// The paper's reasoning about one read: what the file would gain, and what its victims would cost.
fn why(queue: &Queue, step: &Step, before: &[FileIndex], after: &[FileIndex]) -> String {
    let reads_from = |file: FileIndex, from: usize| {
        let reads = from..queue.len();
        reads.filter(|at| queue.file(*at) == file).count()
    };
    if step.source == ServedFrom::Memory {
        return String::new();
    }
    let (size, later) = (queue.size(step.file), reads_from(step.file, step.at + 1));
    if later == 0 {
        return "is not read again".to_owned();
    }
    let used: Bytes = before.iter().map(|file| queue.size(*file)).sum();
    if used + size <= CAPACITY {
        return "there is room".to_owned();
    }
    let gain = size.times(later);
    let cost = |file: FileIndex| queue.size(file).times(reads_from(file, step.at));
    let mut costs: Vec<(Bytes, FileIndex)> =
        before.iter().map(|file| (cost(*file), *file)).collect();
    costs.sort();
    let listed = costs.iter();
    let listed: Vec<String> = listed
        .map(|(cost, file)| format!("{} {}", name(*file), cost.0))
        .collect();
    let gone = before.iter().filter(|file| !after.contains(file));
    let end = match names(gone.copied()).as_str() {
        "" => format!("{} is not below {}", listed[0], gain.0),
        gone => format!("{gone} goes"),
    };
    format!("gain {}, costs {}: {end}", gain.0, listed.join(" "))
}

fn totals(queue: &Queue) -> Vec<Vec<String>> {
    let mut rows = vec![row(&["method", "from disk", "from memory"])];
    let least = optimum(queue, CAPACITY).expect("four files are few");
    let tallies = [
        (
            "as printed",
            Follower::new(queue, CAPACITY, VictimRule::Literal).tally(),
        ),
        (
            "paper",
            Follower::new(queue, CAPACITY, VictimRule::Paper).tally(),
        ),
        (
            "exact victims",
            Follower::new(queue, CAPACITY, VictimRule::Covering).tally(),
        ),
        ("improved", best(queue, CAPACITY).plan.tally(queue)),
        ("optimum", least.tally(queue)),
        ("GDSF", online(queue, CAPACITY, EvictionPolicy::GdsfBytes)),
        ("LRU", online(queue, CAPACITY, EvictionPolicy::Lru)),
    ];
    for (method, tally) in tallies {
        rows.push(vec![
            method.to_owned(),
            tally.disk.0.to_string(),
            tally.memory.0.to_string(),
        ]);
    }
    let most = bound(queue, CAPACITY);
    rows.push(vec![
        "bound".to_owned(),
        (queue.total() - most).0.to_string(),
        most.0.to_string(),
    ]);
    rows
}

fn name(file: FileIndex) -> String {
    format!("F{}", file.0 + 1)
}

fn names(files: impl Iterator<Item = FileIndex>) -> String {
    files.map(name).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_ends_as_in_the_paper() {
        let text = text();
        for line in [
            "paper          127        100",
            "LRU            218        9",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(
            text.contains(
                "r4 F4  fetched    F1 F2 F4    gain 40, costs F3 18 F1 20 F2 40: F3 goes"
            ),
            "{text}"
        );
        let refused = "gain 9, costs F1 20 F2 40 F4 40: F1 20 is not below 9";
        assert!(text.contains(refused), "{text}");
    }
}
