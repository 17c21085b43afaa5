//! What becomes of acknowledged bytes when the agent that has them dies (S35).

#[path = "support/scene.rs"]
mod scene;

use scene::{LIMIT, Scene, kill, sh, shell, skipped, text, until};
use std::io::Write;
use std::process::Stdio;

/// A file of the first agent is written until the store lacks bytes of it, then that agent ends; returns the sum of what
/// was written.
fn dies_with_bytes(scene: &Scene, replicas: &str) -> String {
    let options = ["--policy", "local", "--replicas", replicas];
    scene.up(3, &options);
    let here = scene.dir("here");
    let script = format!(
        "cd {}; exec 3<> held
         while read number; do
             head -c 900001 /dev/urandom > $OLDPWD/copy
             cat $OLDPWD/copy 1<> held; : > $OLDPWD/done$number
         done",
        scene.mount(0).display()
    );
    let mut holder = shell(&here, &script);
    let mut holder = holder.stdin(Stdio::piped()).spawn().expect("a shell");
    let mut orders = holder.stdin.take().expect("a pipe");
    let mut number = 0;
    until("the store lacks bytes", LIMIT, || {
        number += 1;
        writeln!(orders, "{number}").expect("the shell listens");
        let done = here.join(format!("done{number}"));
        until("the bytes are written", LIMIT, || done.exists());
        sh(&scene.store(), "md5sum < held") != sh(&here, "md5sum < copy")
    });
    kill(&scene.agents()[..1]);
    drop(orders);
    scene::wait_within(&mut holder, LIMIT).expect("it ends");
    sh(&here, "md5sum < copy")
}

fn tear_down(scene: &Scene) {
    let output = scene.run(&["down", "--force"]);
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{}",
        text(&output.stderr)
    );
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
    tear_down(&scene);
}

#[test]
fn what_others_may_lack_is_named() {
    if skipped("what_others_may_lack_is_named", &[]) {
        return;
    }
    let scene = Scene::new();
    dies_with_bytes(&scene, "async:1");
    until("the loss is named", LIMIT, || {
        let words = scene.status_words();
        words.contains("held") && words.contains("lost")
    });
    tear_down(&scene);
}

#[test]
fn policies_without_replicas_say_so() {
    let scene = Scene::new();
    let (store, mount) = (scene.store(), scene.dir("mount0"));
    let words = ["up", "--policy", "home", "--replicas", "sync:1", "--store"];
    let mut command = scene.hearth(&words);
    let output = scene::finish(command.arg(store).arg("--at").arg(mount));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    let words = text(&output.stderr);
    assert!(words.contains("has no replicas"), "{words}");
}
