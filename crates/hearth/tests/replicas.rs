//! The fate of acknowledged bytes when the agent that has them dies (S35).

#[path = "support/scene.rs"]
mod scene;

use scene::{LIMIT, Scene, kill, sh, shell, skipped, text, until};
use std::io::Write;
use std::path::Path;
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

/// A store that is slow enough to lack what was closed just now.
const SLOW: &str = "model:servers=1,service_us=500,bandwidth_mb=4";

/// Agents with shards, over such a store.
fn up_with_shards(scene: &Scene, agents: usize, shards: &str) -> String {
    let options = ["--policy", "local", "--replicas", shards, "--backing", SLOW];
    scene.up(agents, &options)
}

/// A file of the first agent is written and closed; returns the sum of what was written.
fn is_sealed(scene: &Scene) -> String {
    let here = scene.dir("here");
    let mount = scene.mount(0);
    sh(&here, "head -c 8000001 /dev/urandom > copy");
    sh(&here, &format!("cat copy > {}/held", mount.display()));
    sh(&here, "md5sum < copy")
}

#[test]
fn what_is_sealed_outlives_as_many_agents_as_there_are_parity_shards() {
    if skipped(
        "what_is_sealed_outlives_as_many_agents_as_there_are_parity_shards",
        &[],
    ) {
        return;
    }
    let scene = Scene::new();
    up_with_shards(&scene, 6, "erasure");
    let mut written = is_sealed(&scene);
    // A machine that is busy may have brought all to the store meanwhile.
    until("the store lacks what is sealed", LIMIT, || {
        let lacks = sh(&scene.store(), "md5sum < held") != written;
        if !lacks {
            written = is_sealed(&scene);
        }
        lacks
    });
    kill(&scene.agents()[..2]);
    for agent in 2..6 {
        assert_eq!(sh(&scene.mount(agent), "md5sum < held"), written);
    }
    assert_eq!(sh(&scene.store(), "md5sum < held"), written);
    let words = scene.status_words();
    assert!(!words.contains("held"), "{words}");
    tear_down(&scene);
}

#[test]
fn what_is_sealed_can_be_written_and_sealed_again() {
    if skipped("what_is_sealed_can_be_written_and_sealed_again", &[]) {
        return;
    }
    let scene = Scene::new();
    up_with_shards(&scene, 3, "erasure:2,1");
    is_sealed(&scene);
    let here = scene.dir("here");
    // Over some pages, and beyond the end.
    let held = scene.mount(0).join("held");
    sh(&here, "head -c 900001 /dev/urandom > part");
    for file in [Path::new("copy"), &held] {
        let over = format!("dd if=part of={} conv=notrunc bs=900001", file.display());
        sh(&here, &format!("{over} seek=3 && {over} seek=11"));
    }
    let written = sh(&here, "md5sum < copy");
    kill(&scene.agents()[..1]);
    for agent in 1..3 {
        assert_eq!(sh(&scene.mount(agent), "md5sum < held"), written);
    }
    assert_eq!(sh(&scene.store(), "md5sum < held"), written);
    tear_down(&scene);
}

#[test]
fn what_too_few_agents_have_shards_of_is_named() {
    if skipped("what_too_few_agents_have_shards_of_is_named", &[]) {
        return;
    }
    // A machine that is busy may bring all to the store before the agents end.
    for _ in 0..5 {
        let scene = Scene::new();
        up_with_shards(&scene, 6, "erasure:4,2");
        let written = is_sealed(&scene);
        kill(&scene.agents()[..3]);
        let lacks = sh(&scene.store(), "md5sum < held") != written;
        if lacks {
            until("the loss is named", LIMIT, || {
                scene.status_words().contains("`held`")
            });
        }
        tear_down(&scene);
        if lacks {
            return;
        }
    }
    panic!("the store always has what is sealed");
}

#[test]
fn where_too_few_agents_are_a_close_waits_for_the_store() {
    if skipped("where_too_few_agents_are_a_close_waits_for_the_store", &[]) {
        return;
    }
    let scene = Scene::new();
    let words = up_with_shards(&scene, 2, "erasure:2,1");
    assert!(words.contains("needs 3 agents"), "{words}");
    let written = is_sealed(&scene);
    assert_eq!(sh(&scene.store(), "md5sum < held"), written);
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
