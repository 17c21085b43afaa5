//! Programs that people use, through the mounts of a set, against the same on the store
//! (S1, S7, S8, S12, S17).

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::path::Path;
use std::process::Command;

use fixture::{Fixture, finish, sh, shell, skipped, text, until, wait_within, well};

#[test]
fn a_git_clone_is_whole_and_seen_through_another_mount() {
    if skipped(
        "a_git_clone_is_whole_and_seen_through_another_mount",
        &["git"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    let origin = fixture.dir("origin");
    sh(&origin, GIT_ORIGIN);
    fixture.up(3, &[]);
    let clone = format!(
        "{GIT_QUIET}; git clone -q --no-hardlinks {} work",
        origin.display()
    );
    sh(&fixture.mount(0), &clone);
    for agent in [1, 2, 0] {
        let seen = fixture.mount(agent).join("work");
        let script = format!("{GIT_QUIET}; git fsck --strict 2>&1; git status --porcelain");
        let told = sh(&seen, &script);
        let dirty = told.lines().find(|line| line.starts_with([' ', '?', 'M']));
        assert_eq!(dirty, None, "{told}");
    }
    let work = fixture.mount(1).join("work");
    sh(
        &work,
        &format!("{GIT_QUIET}; echo more >> file7; git commit -qam more; git gc -q"),
    );
    let there = fixture.mount(2).join("work");
    sh(
        &there,
        &format!("{GIT_QUIET}; git fsck --strict; git diff --quiet HEAD; grep more file7"),
    );
    fixture.down();
    let stored = fixture.store().join("work");
    sh(
        &stored,
        &format!("{GIT_QUIET}; git fsck --strict; git diff --quiet HEAD; grep more file7"),
    );
}

/// No settings of the user who tests, and no complaint about who owns the directory.
const GIT_QUIET: &str = "export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_COUNT=1 \
    GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' \
    GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";

const GIT_ORIGIN: &str = r#"
export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q .
for i in $(seq 1 40); do mkdir -p d$((i % 5)); seq $i $((i * 50)) > file$i; cp file$i d$((i % 5))/; done
ln -s file1 link
head -c 3000000 /dev/urandom > blob
git add -A; git commit -qm one
for i in $(seq 1 5); do echo $i >> file$i; git commit -qam "change $i"; done
"#;

#[test]
fn readers_elsewhere_see_whole_transactions_while_a_database_is_written() {
    let test = "readers_elsewhere_see_whole_transactions_while_a_database_is_written";
    if skipped(test, &["sqlite3"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(3, &[]);
    sqlite(
        &fixture.mount(0),
        "CREATE TABLE t (batch INTEGER, i INTEGER);",
    );
    let mut writer = sqlite_command(&fixture.mount(0), &batches());
    let mut writer = writer.spawn().expect("sqlite3 is there");
    let (mut seen, mut ended) = (0, None);
    until("the writer ends", fixture::LIMIT, || {
        let odd =
            "SELECT count(*) FROM (SELECT batch FROM t GROUP BY batch HAVING count(*) <> 20);";
        assert_eq!(
            sqlite(&fixture.mount(1), odd).trim(),
            "0",
            "a transaction is seen in part"
        );
        let count: u64 = sqlite(&fixture.mount(1), "SELECT count(*) FROM t;")
            .trim()
            .parse()
            .expect("a number");
        assert!(
            count >= seen,
            "{count} rows after {seen}: the reader went back in time"
        );
        seen = count;
        ended = writer.try_wait().expect("our own child");
        ended.is_some()
    });
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    let check = "PRAGMA integrity_check; SELECT count(*), sum(i) FROM t;";
    assert_eq!(sqlite(&fixture.mount(2), check), "ok\n1200|11400\n");
    fixture.down();
    assert_eq!(sqlite(&fixture.store(), check), "ok\n1200|11400\n");
}

/// Sixty transactions of twenty rows.
fn batches() -> String {
    let batch = |number: u32| {
        let rows: Vec<String> = (0..20).map(|i| format!("({number}, {i})")).collect();
        format!(
            "BEGIN IMMEDIATE; INSERT INTO t VALUES {}; COMMIT;",
            rows.join(",")
        )
    };
    (0..60).map(batch).collect()
}

fn sqlite_command(dir: &Path, script: &str) -> Command {
    let mut command = Command::new("sqlite3");
    command.args([
        "-batch",
        "-bail",
        "-cmd",
        ".timeout 20000",
        "data.db",
        script,
    ]);
    command.current_dir(dir);
    command
}

fn sqlite(dir: &Path, script: &str) -> String {
    let output = finish(&mut sqlite_command(dir, script));
    well(&output);
    text(&output.stdout)
}

#[test]
fn a_program_compiled_in_one_mount_runs_in_another() {
    if skipped(
        "a_program_compiled_in_one_mount_runs_in_another",
        &["gcc", "make"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(3, &[]);
    let here = fixture.mount(0).join("project");
    write_project(&here);
    sh(&here, "make -s -j2");
    for agent in [1, 2] {
        let there = fixture.mount(agent).join("project");
        assert_eq!(sh(&there, "./sum"), "435\n");
        assert_eq!(
            sh(&there, "make -q && echo nothing to do"),
            "nothing to do\n"
        );
    }
    // A change through another mount is what the next compilation sees.
    let elsewhere = fixture.mount(1).join("project");
    sh(&elsewhere, "sed -i 's/return 7;/return 1007;/' part7.c");
    sh(&fixture.mount(2).join("project"), "make -s -j2");
    assert_eq!(sh(&here, "./sum"), "1435\n");
    fixture.down();
    assert_eq!(sh(&fixture.store().join("project"), "./sum"), "1435\n");
}

fn write_project(dir: &Path) {
    const PARTS: u32 = 30;
    fs::create_dir(dir).expect("a directory");
    let write = |name: &str, text: String| fs::write(dir.join(name), text).expect("a file");
    let mut calls = String::new();
    let mut header = String::new();
    let mut objects = String::from("main.o");
    for part in 0..PARTS {
        let body = format!("#include \"parts.h\"\nint part{part}(void) {{ return {part}; }}\n");
        write(&format!("part{part}.c"), body);
        header += &format!("int part{part}(void);\n");
        calls += &format!(" + part{part}()");
        objects += &format!(" part{part}.o");
    }
    write("parts.h", header);
    let main = "#include <stdio.h>\n#include \"parts.h\"\nint main(void)";
    write(
        "main.c",
        format!("{main} {{ printf(\"%d\\n\", 0{calls}); return 0; }}\n"),
    );
    let rules = "sum: $(OBJECTS)\n\tgcc -o $@ $^\n%.o: %.c parts.h\n\tgcc -O1 -c -o $@ $<\n";
    write("Makefile", format!("OBJECTS = {objects}\n{rules}"));
}

#[test]
fn fio_finds_every_block_as_written() {
    if skipped("fio_finds_every_block_as_written", &["fio"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &["--pool", "16MiB"]);
    for (block, size) in [("4k", "6m"), ("1m", "48m")] {
        let mut jobs: Vec<_> = (0..2)
            .map(|agent| {
                let dir = fixture.mount(agent);
                let script =
                    format!("exec fio --minimal {FIO} --name=f{agent} --bs={block} --size={size}");
                let mut command = shell(&dir, &script);
                command.stdout(std::process::Stdio::null());
                command.spawn().expect("fio is there")
            })
            .collect();
        for job in &mut jobs {
            let status = wait_within(job, fixture::LIMIT).expect("fio ends");
            assert!(status.success(), "blocks of {block}: {status}");
        }
        // The other's file, which only its writer has read until now.
        for agent in 0..2 {
            let there = fixture.mount(1 - agent);
            let name = format!("--name=f{agent} --bs={block} --size={size}");
            sh(&there, &format!("fio --minimal {FIO} {name} --verify_only"));
        }
    }
    fixture.down();
    for agent in 0..2 {
        let name = format!("--name=f{agent} --bs=1m --size=48m");
        sh(
            &fixture.store(),
            &format!("fio --minimal {FIO} {name} --verify_only"),
        );
    }
}

const FIO: &str = "--rw=randwrite --verify=crc32c --verify_fatal=1 --ioengine=psync --randseed=7 \
    --filename_format='$jobname' --fallocate=none --verify_state_save=0";

#[test]
fn a_tree_goes_out_and_back_unchanged() {
    if skipped(
        "a_tree_goes_out_and_back_unchanged",
        &["tar", "setfattr", "getfattr"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.dir("original/tree");
    sh(&tree, TREE);
    let has_xattrs = finish(&mut shell(&tree, "setfattr -n user.colour -v blue plain")).status;
    fixture.up(3, &[]);
    let original = fixture.path("original");
    let pack = "tar --xattrs --sparse -cf";
    let unpack = "tar --xattrs --sparse -xpf";
    sh(
        &original,
        &format!(
            "{pack} - tree | {unpack} - -C {}",
            fixture.mount(0).display()
        ),
    );
    let back = fixture.dir("back");
    let out = fixture.mount(1);
    sh(&out, &format!("{pack} archive.tar tree"));
    let archive = fixture.mount(2).join("archive.tar");
    sh(&back, &format!("{unpack} {}", archive.display()));
    let places = [fixture.mount(2), back];
    for place in &places {
        same_tree(&original, place, has_xattrs.success());
    }
    fixture.down();
    same_tree(&original, &fixture.store(), has_xattrs.success());
}

const TREE: &str = r#"
mkdir -p a/b/c empty; chmod 751 a; chmod 700 empty
echo plain > plain; ln plain hard; ln -s plain soft; ln -s /nowhere dangling
echo old > a/old; chmod 4755 a/old; chmod 600 plain; : > a/zero; mkfifo a/pipe
seq 1 100000 > a/b/numbers; truncate -s 20M a/sparse
printf x | dd of=a/sparse bs=1 seek=10000000 conv=notrunc status=none
touch -d '2001-02-03 04:05:06.123456789' a/old plain; touch -h -d '1999-01-01' soft
touch -d '2010-10-10' a/b/c a/b a empty
"#;

fn same_tree(original: &Path, place: &Path, has_xattrs: bool) {
    let facts = r"cd tree; find . -printf '%p %y %m %U %G %n %s %T@ %l\n' | sed -E 's/^(\S+ d \S+ \S+ \S+ )\S+ \S+/\1/' | sort";
    assert_eq!(sh(original, facts), sh(place, facts), "{}", place.display());
    let from = original.join("tree").display().to_string();
    sh(
        place,
        &format!("diff -r --no-dereference -x pipe {from} tree"),
    );
    // A hole of the source takes no room in the copy.
    let blocks: u64 = sh(place, "stat -c %b tree/a/sparse")
        .trim()
        .parse()
        .expect("a number");
    assert!(
        blocks * 512 < 4 << 20,
        "{blocks} blocks in {}",
        place.display()
    );
    if has_xattrs {
        let value = sh(place, "getfattr --only-values -n user.colour tree/plain");
        assert_eq!(value, "blue", "{}", place.display());
    }
}
