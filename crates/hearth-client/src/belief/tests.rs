use super::*;
use std::fs::{self, File};
use std::io::{Read, Write};

fn number(dir: &File, name: &str) -> u64 {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statat(dir, name, flags).unwrap().st_ino
}

#[test]
fn asking_for_a_name_makes_none_and_changes_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("there"), b"x").unwrap();
    let root = File::open(dir.path()).unwrap();
    let before = number(&root, "there");
    for name in ["there", "absent"] {
        ask_for_name(&root, OsStr::new(name));
    }
    assert_eq!(number(&root, "there"), before);
    let names: Vec<_> = dir.path().read_dir().unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_file_that_is_there_is_not_gone() {
    let dir = tempfile::tempdir().unwrap();
    let root = File::open(dir.path()).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
    fs::write(dir.path().join("file"), b"x").unwrap();
    for name in ["link", "file"] {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let found = rustix::fs::openat(&root, name, flags, Mode::empty()).unwrap();
        assert!(!is_gone(&found), "{name}");
    }
    list_up_to(&root, OsStr::new("file")).unwrap();
}

#[test]
fn a_file_is_looked_at_anew_wherever_its_name_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, b"x").unwrap();
    let file = File::open(&path).unwrap();
    renew_attributes(&file).unwrap();
    Mounted.look_anew(file.as_fd()).unwrap();
    fs::remove_file(&path).unwrap();
    Mounted.look_anew(file.as_fd()).unwrap();
    assert!(dir.path().read_dir().unwrap().next().is_none());
}

#[test]
fn the_end_of_a_file_is_found_and_its_descriptor_stays_where_it_was() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"some bytes").unwrap();
    file.set_len(20_000).unwrap();
    rustix::fs::seek(&file, SeekFrom::Start(5)).unwrap();
    for offset in [0, 9, 10, 19_999] {
        assert!(Mounted.reaches(file.as_fd(), offset), "{offset}");
    }
    assert!(!Mounted.reaches(file.as_fd(), 20_000) && !Mounted.reaches(file.as_fd(), 1 << 40));
    let mut bytes = [0; 5];
    file.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"bytes");
}

#[test]
fn a_directory_of_one_host_has_no_client_that_lags() {
    assert!(!lags(File::open("/").unwrap()));
}
