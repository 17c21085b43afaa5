//! The fate of acknowledged bytes when the agent that has them dies (S35).

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, LIMIT, kill, sh, shell, skipped, text, until};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// A file of the first agent is written until the store lacks bytes of it, then that agent ends; returns the sum of what
/// was written.
fn dies_with_bytes(fixture: &Fixture, replicas: &str) -> String {
    let options = ["--policy", "local", "--replicas", replicas];
    fixture.up(3, &options);
    let here = fixture.dir("here");
    let script = format!(
        "cd {}; exec 3<> held
         while read number; do
             head -c 900001 /dev/urandom > $OLDPWD/copy
             cat $OLDPWD/copy 1<> held; : > $OLDPWD/done$number
         done",
        fixture.mount(0).display()
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
        sh(&fixture.store(), "md5sum < held") != sh(&here, "md5sum < copy")
    });
    kill(&fixture.agents()[..1]);
    drop(orders);
    fixture::wait_within(&mut holder, LIMIT).expect("it ends");
    sh(&here, "md5sum < copy")
}

fn tear_down(fixture: &Fixture) {
    let output = fixture.run(&["down", "--force"]);
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
    let fixture = Fixture::new();
    let written = dies_with_bytes(&fixture, "sync:1");
    for agent in 1..3 {
        assert_eq!(sh(&fixture.mount(agent), "md5sum < held"), written);
    }
    assert_eq!(sh(&fixture.store(), "md5sum < held"), written);
    tear_down(&fixture);
}

/// Files get their last names before the store has their bytes, and nobody has them open any more when the writer dies.
#[test]
fn what_another_agent_has_of_renamed_files_outlives_the_writer() {
    let test = "what_another_agent_has_of_renamed_files_outlives_the_writer";
    if skipped(test, &[]) {
        return;
    }
    for membership in ["static", "embedded"] {
        let fixture = Fixture::new();
        let options = "--policy local --replicas sync:1 --close buffered --membership";
        let mut options: Vec<&str> = options.split(' ').collect();
        options.push(membership);
        fixture.up(3, &options);
        let script = "mkdir d; for i in $(seq 9); do echo $i > t$i; mv t$i f$i; echo $i > s$i; mv s$i d/f$i; done";
        sh(&fixture.mount(0), script);
        kill(&fixture.agents()[..1]);
        for agent in 1..3 {
            let told = sh(&fixture.mount(agent), "cat f? d/f?");
            assert_eq!(
                told,
                "1\n2\n3\n4\n5\n6\n7\n8\n9\n".repeat(2),
                "{membership}"
            );
        }
        tear_down(&fixture);
    }
}

#[test]
fn what_others_may_lack_is_named() {
    if skipped("what_others_may_lack_is_named", &[]) {
        return;
    }
    let fixture = Fixture::new();
    dies_with_bytes(&fixture, "async:1");
    until("the loss is named", LIMIT, || {
        let words = fixture.status_words();
        words.contains("held") && words.contains("lost")
    });
    tear_down(&fixture);
}

/// A store that is slow enough to lack what was closed just now.
const SLOW: &str = "model:servers=1,service_us=500,bandwidth_mb=4";

/// Agents with shards, over such a store.
fn up_with_shards(fixture: &Fixture, agents: usize, shards: &str) -> String {
    let options = ["--policy", "local", "--replicas", shards, "--backing", SLOW];
    fixture.up(agents, &options)
}

/// A file of the first agent is written and closed; returns the sum of what was written.
fn is_sealed(fixture: &Fixture) -> String {
    let here = fixture.dir("here");
    let mount = fixture.mount(0);
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
    let fixture = Fixture::new();
    up_with_shards(&fixture, 6, "erasure");
    let mut written = is_sealed(&fixture);
    // A machine that is busy may have brought all to the store meanwhile.
    until("the store lacks what is sealed", LIMIT, || {
        let lacks = sh(&fixture.store(), "md5sum < held") != written;
        if !lacks {
            written = is_sealed(&fixture);
        }
        lacks
    });
    kill(&fixture.agents()[..2]);
    for agent in 2..6 {
        assert_eq!(sh(&fixture.mount(agent), "md5sum < held"), written);
    }
    assert_eq!(sh(&fixture.store(), "md5sum < held"), written);
    let words = fixture.status_words();
    assert!(!words.contains("held"), "{words}");
    tear_down(&fixture);
}

#[test]
fn what_is_sealed_can_be_written_and_sealed_again() {
    if skipped("what_is_sealed_can_be_written_and_sealed_again", &[]) {
        return;
    }
    let fixture = Fixture::new();
    up_with_shards(&fixture, 3, "erasure:2,1");
    is_sealed(&fixture);
    let here = fixture.dir("here");
    // Over some pages, and beyond the end.
    let held = fixture.mount(0).join("held");
    sh(&here, "head -c 900001 /dev/urandom > part");
    for file in [Path::new("copy"), &held] {
        let over = format!("dd if=part of={} conv=notrunc bs=900001", file.display());
        sh(&here, &format!("{over} seek=3 && {over} seek=11"));
    }
    let written = sh(&here, "md5sum < copy");
    kill(&fixture.agents()[..1]);
    for agent in 1..3 {
        assert_eq!(sh(&fixture.mount(agent), "md5sum < held"), written);
    }
    assert_eq!(sh(&fixture.store(), "md5sum < held"), written);
    tear_down(&fixture);
}

#[test]
fn what_too_few_agents_have_shards_of_is_named() {
    if skipped("what_too_few_agents_have_shards_of_is_named", &[]) {
        return;
    }
    // A machine that is busy may bring all to the store before the agents end. Agents that decide by majority would wait.
    for _ in 0..5 {
        let fixture = Fixture::new();
        let options = "--policy local --replicas erasure:4,2 --membership static --backing";
        let options: Vec<&str> = options.split(' ').chain([SLOW]).collect();
        fixture.up(6, &options);
        let written = is_sealed(&fixture);
        kill(&fixture.agents()[..3]);
        let lacks = sh(&fixture.store(), "md5sum < held") != written;
        if lacks {
            until("the loss is named", LIMIT, || {
                fixture.status_words().contains("`held`")
            });
        }
        tear_down(&fixture);
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
    let fixture = Fixture::new();
    let words = up_with_shards(&fixture, 2, "erasure:2,1");
    assert!(words.contains("needs 3 agents"), "{words}");
    let written = is_sealed(&fixture);
    assert_eq!(sh(&fixture.store(), "md5sum < held"), written);
    tear_down(&fixture);
}

#[test]
fn policies_without_replicas_say_so() {
    let fixture = Fixture::new();
    let (store, mount) = (fixture.store(), fixture.dir("mount0"));
    let words = ["up", "--policy", "home", "--replicas", "sync:1", "--store"];
    let mut command = fixture.hearth(&words);
    let output = fixture::finish(command.arg(store).arg("--at").arg(mount));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    let words = text(&output.stderr);
    assert!(words.contains("has no replicas"), "{words}");
}
