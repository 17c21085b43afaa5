use super::*;
use crate::descriptors::NODES_LEAST;

fn nodes_over(dir: &std::path::Path, open_max: usize) -> Nodes {
    let root = rustix::fs::open(dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let nodes = Nodes::new(root).unwrap();
    nodes.lock().budget.nodes = open_max;
    nodes
}

fn look_up(nodes: &Nodes, name: &str) -> u64 {
    let fd = open_path(nodes.fd(ROOT).unwrap(), OsStr::new(name)).unwrap();
    let stat = Stat::of(&fd).unwrap();
    nodes.found(ROOT, OsStr::new(name), fd, &stat).id
}

#[test]
fn an_open_file_needs_one_descriptor_where_there_are_few() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 100);
    nodes.lock().budget.all = 60;
    let open = |n: usize| {
        let path = dir.path().join(n.to_string());
        std::fs::write(&path, b"x").unwrap();
        let id = look_up(&nodes, &n.to_string());
        let fd: Arc<OwnedFd> = Arc::new(std::fs::File::open(path).unwrap().into());
        let seat = nodes.lend(id, &fd);
        (id, nodes.node(id).unwrap(), fd, seat)
    };
    let handles: Vec<_> = (0..100).map(open).collect();
    assert!(nodes.lock().open <= NODES_LEAST, "{}", nodes.lock().open);
    for (id, node, fd, _) in &handles {
        let served = nodes.fd(*id).unwrap();
        assert!(Arc::ptr_eq(&served, fd) || Stat::of(&*served).unwrap().key() == node.key);
    }
    let ids: Vec<u64> = handles.iter().map(|(id, ..)| *id).collect();
    drop(handles);
    for id in ids {
        assert_eq!(Stat::of(&*nodes.fd(id).unwrap()).unwrap().key().ino, id);
    }
    assert!(nodes.lock().open <= 60);
}

#[test]
fn idle_descriptors_are_closed_at_the_limit_and_opened_again_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 16);
    let ids: Vec<u64> = (0..100)
        .map(|n| {
            std::fs::write(dir.path().join(n.to_string()), b"x").unwrap();
            look_up(&nodes, &n.to_string())
        })
        .collect();
    assert!(nodes.lock().open <= 16);
    for id in ids {
        let fd = nodes.fd(id).unwrap();
        assert_eq!(Stat::of(fd.as_fd()).unwrap().key().ino, id);
    }
    assert!(nodes.lock().open <= 16);
}

#[test]
fn an_answer_that_a_revocation_may_have_overtaken_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 16);
    std::fs::write(dir.path().join("a"), b"x").unwrap();
    let id = look_up(&nodes, "a");
    let asked = nodes.moment();
    nodes.tell(id, 1, asked);
    assert!(nodes.was_told(id, 1));
    nodes.revoked(id);
    assert!(!nodes.was_told(id, 1));
    nodes.tell(id, 1, asked);
    assert!(!nodes.was_told(id, 1));
    nodes.revoked(ROOT);
    nodes.tell(id, 1, nodes.moment());
    assert!(nodes.was_told(id, 1));
}

#[test]
fn a_size_that_may_be_too_old_never_shrinks_what_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 16);
    std::fs::write(dir.path().join("a"), b"x").unwrap();
    let id = look_up(&nodes, "a");
    assert_eq!(nodes.tell_no_less(id, 7, nodes.moment()), 7);
    assert_eq!(nodes.tell_no_less(id, 0, nodes.moment()), 7);
    nodes.tell(id, 3, nodes.moment());
    assert_eq!(nodes.tell_no_less(id, 5, nodes.moment()), 5);
}

#[test]
fn a_closed_node_whose_name_was_taken_by_another_file_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 1);
    std::fs::write(dir.path().join("a"), b"x").unwrap();
    let a = look_up(&nodes, "a");
    std::fs::write(dir.path().join("b"), b"y").unwrap();
    look_up(&nodes, "b");
    std::fs::rename(dir.path().join("b"), dir.path().join("a")).unwrap();
    let error = nodes.fd(a).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESTALE));
}

#[test]
fn a_file_that_was_found_in_the_store_is_reached_though_it_was_remembered_before() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 100);
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("a"), b"x").unwrap();
    let stat = Stat::of(open_path(nodes.fd(ROOT).unwrap(), OsStr::new("a")).unwrap()).unwrap();
    let id = nodes.remembered(ROOT, OsStr::new("a"), &stat).id;
    assert_eq!(look_up(&nodes, "a"), id);
    std::fs::write(at("b"), b"y").unwrap();
    std::fs::rename(at("b"), at("a")).unwrap();
    nodes.confirm(id).unwrap();
    assert_eq!(
        Stat::of(&*nodes.fd(id).unwrap()).unwrap().key().ino,
        stat.key().ino
    );
}

#[test]
fn a_reused_inode_number_gets_a_new_generation_and_keeps_the_count() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 100);
    std::fs::write(dir.path().join("a"), b"x").unwrap();
    let id = look_up(&nodes, "a");
    let before = nodes.node(id).unwrap();
    nodes.gone(before.key);
    assert_eq!(look_up(&nodes, "a"), id);
    assert_eq!(nodes.node(id).unwrap().generation, before.generation + 1);
    nodes.forget(id, 1);
    assert!(nodes.node(id).is_ok());
    nodes.forget(id, 1);
    assert!(nodes.node(id).is_err());
}

#[test]
fn a_look_that_the_end_of_a_name_overtook_finds_the_file_that_had_it() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 100);
    std::fs::write(dir.path().join("a"), b"x").unwrap();
    let id = look_up(&nodes, "a");
    let before = nodes.node(id).unwrap();
    let fd = open_path(nodes.fd(ROOT).unwrap(), OsStr::new("a")).unwrap();
    let stat = Stat::of(&fd).unwrap();
    std::fs::remove_file(dir.path().join("a")).unwrap();
    nodes.gone(before.key);
    let found = nodes.found(ROOT, OsStr::new("a"), fd, &stat);
    assert_eq!(found.generation, before.generation);
    nodes.forget(id, 1);
    assert!(nodes.node(id).is_ok(), "it was counted");
}

#[test]
fn a_file_that_got_another_name_elsewhere_is_reached_by_that() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 100);
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("a"), b"x").unwrap();
    let id = look_up(&nodes, "a");
    std::fs::hard_link(at("a"), at("b")).unwrap();
    std::fs::remove_file(at("a")).unwrap();
    assert_eq!(look_up(&nodes, "b"), id);
    assert!(is_nameless(&nodes.fd(id).unwrap()));
    assert!(!is_nameless(&nodes.named_fd(id).unwrap()));
}

#[test]
fn a_file_is_reached_by_a_name_that_it_still_has() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 100);
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("a"), b"x").unwrap();
    let id = look_up(&nodes, "a");
    std::fs::hard_link(at("a"), at("b")).unwrap();
    std::fs::hard_link(at("a"), at("c")).unwrap();
    for name in ["b", "c"] {
        assert_eq!(look_up(&nodes, name), id);
    }
    for gone in ["a", "c"] {
        std::fs::remove_file(at(gone)).unwrap();
        let fd = nodes.named_fd(id).unwrap();
        assert!(!is_nameless(&fd), "{gone}");
        assert_eq!(Stat::of(&*fd).unwrap().key().ino, id);
    }
    std::fs::remove_file(at("b")).unwrap();
    assert!(is_nameless(&nodes.named_fd(id).unwrap()));
}

#[test]
fn the_names_of_a_file_that_has_none_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = nodes_over(dir.path(), 100);
    let at = |name: &str| dir.path().join(name);
    for name in ["named", "linked", "gone"] {
        std::fs::write(at(name), b"x").unwrap();
    }
    std::fs::hard_link(at("linked"), at("other")).unwrap();
    std::fs::hard_link(at("gone"), at("too")).unwrap();
    let ids = ["named", "linked", "gone", "too"].map(|name| look_up(&nodes, name));
    for name in ["linked", "gone", "too"] {
        std::fs::remove_file(at(name)).unwrap();
    }
    let known = ids.map(|id| nodes.names_of_gone(id).len());
    assert_eq!(known, [0, 0, 2, 2]);
    assert!(
        nodes.fd(ids[2]).is_ok(),
        "its number stays its own until it is forgotten"
    );
}
