use super::super::testing::Scratch;
use super::*;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

fn root_of(dir: &Path) -> OwnedFd {
    rustix::fs::open(dir, OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap()
}

#[test]
fn a_client_believes_in_a_name_for_a_second() {
    let dir = Scratch::new();
    let root = root_of(dir.path());
    let seconds = Seconds::default();
    let client = Lagging::new(seconds.clone());
    let open = |name: &str| client.open(root.as_fd(), Path::new(name), OFlags::RDONLY);
    fs::write(dir.path().join("f"), b"one").unwrap();
    fs::write(dir.path().join("g"), b"two").unwrap();
    let numbers = ["f", "g"].map(|name| fs::metadata(dir.path().join(name)).unwrap().ino());
    assert_eq!(number_of(open("f").unwrap().as_fd()).unwrap(), numbers[0]);
    assert!(open("h").is_err());
    fs::hard_link(dir.path().join("f"), dir.path().join("h")).unwrap();
    fs::rename(dir.path().join("g"), dir.path().join("f")).unwrap();
    assert_eq!(number_of(open("f").unwrap().as_fd()).unwrap(), numbers[0]);
    assert!(open("h").is_err());
    seconds.pass();
    assert_eq!(number_of(open("f").unwrap().as_fd()).unwrap(), numbers[1]);
    assert!(open("h").is_ok());
}

#[test]
fn a_client_believes_in_pages_and_attributes_for_a_second() {
    let dir = Scratch::new();
    let path = dir.path().join("f");
    fs::write(&path, vec![1; 5000]).unwrap();
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let seconds = Seconds::default();
    let (client, other) = (Lagging::new(seconds.clone()), Lagging::new(seconds.clone()));
    let read = |client: &Lagging| client.read_vec(file.as_fd(), 4000, 2000).unwrap();
    let before = (read(&client), client.stamp(file.as_fd()).unwrap());
    assert_eq!(before.0, vec![1; 1000]);
    file.write_all_at(&[2; 6000], 0).unwrap();
    assert_eq!((read(&client), client.stamp(file.as_fd()).unwrap()), before);
    assert_eq!(read(&other), vec![2; 2000]);
    seconds.pass();
    assert_eq!(read(&client), vec![2; 2000]);
    assert_ne!(client.stamp(file.as_fd()).unwrap(), before.1);
}

#[test]
fn a_client_knows_what_it_wrote_and_what_it_looked_at_anew() {
    let dir = Scratch::new();
    let root = root_of(dir.path());
    fs::write(dir.path().join("f"), vec![1; 5000]).unwrap();
    let client = Lagging::new(Seconds::default());
    let open = || {
        client
            .open(root.as_fd(), Path::new("f"), OFlags::RDWR)
            .unwrap()
    };
    let file = open();
    assert_eq!(client.read_vec(file.as_fd(), 0, 1).unwrap(), [1]);
    client.write_bytes(file.as_fd(), 0, &[2]).unwrap();
    assert_eq!(client.read_vec(file.as_fd(), 0, 1).unwrap(), [2]);
    fs::write(dir.path().join("f"), [3]).unwrap();
    let again = open();
    assert_eq!(client.read_vec(again.as_fd(), 0, 1).unwrap(), [2]);
    client.renew(again.as_fd()).unwrap();
    assert_eq!(client.read_vec(again.as_fd(), 0, 9).unwrap(), [3]);
}
