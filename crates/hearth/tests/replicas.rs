//! What becomes of acknowledged bytes when the agent that has them dies (S35).

#[path = "support/scene.rs"]
mod scene;

use scene::{LIMIT, Scene, kill, sh, shell, skipped, text, until};
use std::process::Stdio;

/// A file of the first agent whose bytes the store lacks, and that agent's end.
fn dies_with_bytes(scene: &Scene, replicas: &str) -> String {
    let options = ["--policy", "local", "--replicas", replicas];
    scene.up(3, &options);
    let here = scene.dir("here");
    let script = format!(
        "cd {}; head -c 900001 /dev/urandom > $OLDPWD/copy; cat $OLDPWD/copy > held; : > $OLDPWD/done; read never",
        scene.mount(0).display()
    );
    let mut holder = shell(&here, &script);
    let mut holder = holder.stdin(Stdio::piped()).spawn().expect("a shell");
    until("the bytes are written", LIMIT, || {
        here.join("done").exists()
    });
    kill(&scene.agents()[..1]);
    drop(holder.stdin.take());
    scene::wait_within(&mut holder, LIMIT).expect("it ends");
    sh(&here, "md5sum < copy")
}

#[test]
fn what_another_agent_has_outlives_the_writer() {
    if skipped("what_another_agent_has_outlives_the_writer", &[]) {
        return;
    }
    let scene = Scene::new();
    let written = dies_with_bytes(&scene, "sync:1");
    for agent in 1..3 {
        assert_eq!(sh(&scene.mount(agent), "md5sum < held"), written);
    }
    assert_eq!(sh(&scene.store(), "md5sum < held"), written);
    let output = scene.run(&["down", "--force"]);
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_nobody_has_is_named() {
    if skipped("what_nobody_has_is_named", &[]) {
        return;
    }
    let scene = Scene::new();
    dies_with_bytes(&scene, "none");
    until("the loss is named", LIMIT, || {
        let words = scene.status_words();
        words.contains("held") && words.contains("lost")
    });
    scene.run(&["down", "--force"]);
}
