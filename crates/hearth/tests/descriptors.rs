//! A mount serves as many open files as its agent may have descriptors, but for those that the agent needs itself.

#[path = "support/scene.rs"]
mod scene;

use scene::{Scene, finish, sh, skipped, text, well};

/// The agent's limit, hard and soft.
const LIMIT: usize = 600;

/// Left of it to the agent, its homes and nodes that nobody has open.
const OWN: usize = 200;

const PROGRAM: &str = r#"
import os, sys
opened = []
for number in range(int(sys.argv[2])):
    fd = os.open(f"{sys.argv[1]}/{number}", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b"%d" % number)
    opened.append(fd)
for number, fd in enumerate(opened):
    assert os.pread(fd, 10, 0) == b"%d" % number
    assert os.fstat(fd).st_size == len(b"%d" % number)
    os.rename(f"{sys.argv[1]}/{number}", f"{sys.argv[1]}/{number}.new")
    os.fchmod(fd, 0o640)
for number, fd in enumerate(opened):
    assert os.stat(f"{sys.argv[1]}/{number}.new").st_ino == os.fstat(fd).st_ino
    os.unlink(f"{sys.argv[1]}/{number}.new")
    os.write(fd, b"!")
    os.close(fd)
"#;

#[test]
fn an_open_file_takes_one_descriptor_of_the_agent() {
    if skipped(
        "an_open_file_takes_one_descriptor_of_the_agent",
        &["python3", "prlimit"],
    ) {
        return;
    }
    let scene = Scene::new();
    std::fs::write(scene.path("p.py"), PROGRAM).expect("our own directory");
    let hearth = scene.hearth(&["up", "--store"]);
    let mut up = std::process::Command::new("prlimit");
    up.arg(format!("--nofile={}:{LIMIT}", LIMIT / 2))
        .arg(hearth.get_program());
    up.args(hearth.get_args())
        .arg(scene.store())
        .arg("--at")
        .arg(scene.dir("mount0"));
    up.env("HEARTH_DIR", scene.path("control"));
    well(&finish(&mut up));
    let (program, at) = (scene.path("p.py"), scene.mount(0));
    let count = LIMIT - OWN;
    let script = format!("python3 {} {} {count}", program.display(), at.display());
    assert_eq!(sh(&scene.store(), &script), "");
    let words = text(&scene.run(&["status"]).stderr);
    assert_eq!(words, "");
    scene.down();
}
