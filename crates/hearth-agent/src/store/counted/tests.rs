use super::*;
use crate::store::Posix;
use crate::store::testing::{fd, file, part, pipe_end, pool};

#[test]
fn a_call_is_one_request_with_the_bytes_it_moved() {
    let (store, pool, file) = (Counted::new(Posix), pool(2), file(b"0123456789"));
    store
        .read(fd(&file), 4, &[part(0, 0, 4), part(1, 0, 4)], &pool)
        .unwrap();
    store.read_vec(fd(&file), 0, 3).unwrap();
    store
        .write(fd(&file), 0, &[part(0, 0, 2), part(1, 0, 2)], &pool)
        .unwrap();
    store.write_bytes(fd(&file), 0, b"x").unwrap();
    store.sync(fd(&file), SyncKind::All).unwrap();
    store.truncate(fd(&file), 2).unwrap();
    assert_eq!(store.stamp(fd(&file)).unwrap().size, 2);
    let counts = StoreCounts {
        read_requests: 2,
        write_requests: 2,
        sync_requests: 1,
        read_bytes: 9,
        write_bytes: 5,
        errors: 0,
    };
    assert_eq!(store.counts(), counts);
    assert_eq!(store.describe(), "posix");
}

#[test]
fn failed_calls_are_requests_without_bytes() {
    let (store, pipe) = (Counted::new(Posix), pipe_end());
    store.write_bytes(fd(&pipe), 0, b"x").unwrap_err();
    store.sync(fd(&pipe), SyncKind::Data).unwrap_err();
    store.truncate(fd(&pipe), 0).unwrap_err();
    let expected = StoreCounts {
        write_requests: 1,
        sync_requests: 1,
        errors: 3,
        ..Default::default()
    };
    assert_eq!(store.counts(), expected);
}
