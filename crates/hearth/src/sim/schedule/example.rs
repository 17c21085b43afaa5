//! The worked example of the paper, step by step: four files, nine reads, memory for 100.

use hearth_plan::online::{Kind, Met};
use hearth_plan::retain::{Follower, Queue, Rule, Source, best, bound, optimum};
use hearth_plan::{Bytes, FileId};

use super::{online, row};
use crate::output::table;

const READS: [u32; 9] = [1, 2, 3, 4, 3, 1, 2, 4, 3];
const SIZES: [u64; 4] = [20, 40, 9, 40];
const CAPACITY: Bytes = Bytes(100);

/// All of it.
pub(super) fn text() -> String {
    let reads = READS.iter().map(|file| FileId(file - 1)).collect();
    let queue = Queue::new(reads, SIZES.map(Bytes).to_vec());
    let mut rows = vec![row(&["read", "paper", "then holds", "LRU", "then holds"])];
    let mut follower = Follower::new(&queue, CAPACITY, Rule::Paper);
    let mut lru = Kind::Lru.cache(CAPACITY);
    while let Some(step) = follower.next() {
        let files = || (0..SIZES.len() as u32).map(FileId);
        let met = lru.read(step.file, queue.size(step.file));
        let is_held = |file: &FileId| follower.held().contains(file);
        rows.push(vec![
            format!("r{} {}", step.at + 1, name(step.file)),
            match step.source {
                Source::Memory => "hit".to_owned(),
                Source::Disk if is_held(&step.file) => "fetched".to_owned(),
                Source::Disk => "passes by".to_owned(),
            },
            names(files().filter(is_held)),
            match met {
                Met::Hit => "hit".to_owned(),
                Met::Miss => "fetched".to_owned(),
            },
            names(files().filter(|file| lru.holds(*file))),
        ]);
    }
    let sizes: Vec<String> = (0..)
        .map(FileId)
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

fn totals(queue: &Queue) -> Vec<Vec<String>> {
    let mut rows = vec![row(&["method", "from disk", "from memory"])];
    let least = optimum(queue, CAPACITY).expect("four files are few");
    let tallies = [
        (
            "as printed",
            Follower::new(queue, CAPACITY, Rule::Literal).tally(),
        ),
        ("paper", Follower::new(queue, CAPACITY, Rule::Paper).tally()),
        (
            "exact victims",
            Follower::new(queue, CAPACITY, Rule::Covering).tally(),
        ),
        ("improved", best(queue, CAPACITY).plan.tally(queue)),
        ("optimum", least.tally(queue)),
        ("GDSF", online(queue, CAPACITY, Kind::GdsfBytes)),
        ("LRU", online(queue, CAPACITY, Kind::Lru)),
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

fn name(file: FileId) -> String {
    format!("F{}", file.0 + 1)
}

fn names(files: impl Iterator<Item = FileId>) -> String {
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
            text.contains("r4 F4  fetched    F1 F2 F4    fetched  F2 F3 F4"),
            "{text}"
        );
    }
}
