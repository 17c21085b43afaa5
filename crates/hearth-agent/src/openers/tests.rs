use super::*;
use crate::files::StoreFile;
use crate::workers::Task;
use hearth_proto::StoreOpId;

const FILE: FileId = FileId(7);
const UP: [NodeId; 2] = [NodeId(1), NodeId(2)];

fn sync() -> Stuck {
    let job = FileJob {
        op: StoreOpId(1),
        file: FILE,
        at: Arc::<StoreFile>::default(),
        task: Task::Sync {
            sync: Some(hearth_proto::Synced::Store),
        },
    };
    Stuck::new(job, StoreSpan::none())
}

fn says(reads: bool, writes: bool) -> Opener {
    Opener {
        file: FILE,
        reads,
        writes,
        path: None,
    }
}

/// A search in which the first node says that it has the file open.
fn found_at_the_first() -> (Openers, Stuck) {
    let mut openers = Openers::default();
    let search = openers.seek(sync(), UP.into_iter());
    assert_eq!(search.asked, UP);
    let (mut can, alone) = openers.answered(UP[0], &says(true, false));
    assert!(alone.is_empty());
    (openers, can.pop().expect("it has it open"))
}

#[test]
fn a_node_that_has_let_go_of_the_file_since_is_not_the_last_that_is_asked() {
    let (mut openers, stuck) = found_at_the_first();
    openers.made.insert(1, (UP[0], stuck));
    let stuck = openers.not_made(UP[0], 1).expect("it was asked to");
    // It may have it open again, for a moment as before.
    let search = openers.seek(stuck, UP.into_iter());
    assert!(search.found.is_none() && search.alone.is_empty());
    assert!(openers.answered(UP[0], &says(true, false)).0.is_empty());
    let (can, alone) = openers.answered(UP[1], &says(true, true));
    assert_eq!((can.len(), alone.len()), (1, 0));
}

#[test]
fn an_operation_that_all_have_let_go_of_is_tried_alone() {
    let (mut openers, mut stuck) = found_at_the_first();
    stuck.tried = UP.to_vec();
    openers.seek(stuck, UP.into_iter());
    for node in UP {
        let (can, alone) = openers.answered(node, &says(true, true));
        assert_eq!((can.len(), alone.len()), (0, usize::from(node == UP[1])));
    }
}

#[test]
fn an_operation_that_comes_during_a_search_is_made_by_who_has_answered() {
    let mut openers = Openers::default();
    // Nobody who has answered can write.
    let mut write = sync();
    write.job.task = Task::Write {
        offset: 0,
        from: crate::workers::From::Frames(Vec::new()),
    };
    openers.seek(write, UP.into_iter());
    openers.answered(UP[0], &says(true, false));
    let search = openers.seek(sync(), UP.into_iter());
    assert!(search.asked.is_empty() && search.alone.is_empty());
    assert_eq!(search.found.map(|(node, _)| node), Some(UP[0]));
}

#[test]
fn an_operation_of_a_node_that_is_gone_is_made_by_another() {
    let (mut openers, stuck) = found_at_the_first();
    openers.made.insert(1, (UP[0], stuck));
    let (mut lost, alone) = openers.gone(UP[0]);
    assert_eq!((lost.len(), alone.len()), (1, 0));
    let search = openers.seek(lost.remove(0), UP[1..].iter().copied());
    assert_eq!(search.asked, UP[1..]);
    let (can, _) = openers.answered(UP[1], &says(true, true));
    assert_eq!(can.len(), 1);
}
