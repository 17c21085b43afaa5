//! Real programs under the library: what they print and leave is the same, and what was recorded is
//! what they are known to do.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails the test, and a skipped test says so"
)]

mod support;

use std::fs;

use hearth_trace::{Flags, Op};
use support::{Place, Traced, has};

/// Ten thousand lines of text, 128,894 bytes.
fn lines(place: &Place, name: &str) -> String {
    let text: String = (0..10_000)
        .map(|line| format!("{} line {line}\n", (line * 7919) % 10_000))
        .collect();
    fs::write(place.path(name), &text).unwrap();
    place.text(name)
}

fn size(path: &str) -> i64 {
    i64::try_from(fs::metadata(path).unwrap().len()).unwrap()
}

#[track_caller]
fn read_once(traced: &Traced, path: &str) {
    assert_eq!(traced.bytes_read(path), size(path), "{}", traced.listing());
}

#[track_caller]
fn wrote_once(traced: &Traced, path: &str) {
    assert_eq!(
        traced.bytes_written(path),
        size(path),
        "{}",
        traced.listing()
    );
}

/// Runs a line of shell with and without the library.
fn shell(place: &Place, line: &str) -> Traced {
    place.compare(&["sh", "-c", line]).ok()
}

#[test]
fn dd_makes_as_many_calls_as_it_was_told() {
    let place = Place::new();
    let out = place.text("out");
    let of = format!("of={out}");
    let line = [
        "dd",
        "if=/dev/zero",
        &of,
        "bs=4k",
        "count=100",
        "status=none",
    ];
    let traced = place.compare(&line).ok();
    let writes = traced.on(Op::Write, &out);
    assert_eq!(writes.len(), 100, "{}", traced.listing());
    for (index, write) in writes.iter().enumerate() {
        assert_eq!(write.record.offset, index as u64 * 4096);
        assert_eq!((write.record.asked, write.record.result), (4096, 4096));
        assert_eq!(write.has(Flags::SEQUENTIAL), index > 0);
    }
    wrote_once(&traced, &out);
    assert!(
        traced
            .calls
            .iter()
            .all(|call| !call.path.starts_with("/dev"))
    );
}

#[test]
fn dd_says_that_it_writes_around_the_page_cache_and_waits_for_the_disk() {
    let place = Place::new();
    let out = place.text("out");
    let of = format!("of={out}");
    let mut line = vec!["dd", "if=/dev/zero", &of, "bs=4k", "count=3", "status=none"];
    line.push("oflag=dsync");
    let traced = place.trace(&line).ok();
    assert!(
        traced
            .on(Op::Write, &out)
            .iter()
            .all(|call| call.has(Flags::SYNC))
    );
    line.pop();
    line.extend(["oflag=direct", "conv=fsync"]);
    let traced = place.trace(&line);
    if !traced.status().success() {
        println!(
            "skipped: dd_says_that_it_writes_around_the_page_cache_and_waits_for_the_disk: no O_DIRECT here"
        );
        return;
    }
    let writes = traced.on(Op::Write, &out);
    assert!(writes.len() == 3 && writes.iter().all(|call| call.has(Flags::DIRECT)));
    assert_eq!(traced.on(Op::Fsync, &out).len(), 1);
}

#[test]
fn readers_are_recorded_with_every_byte() {
    let place = Place::new();
    let text = lines(&place, "text");
    for line in [
        vec!["cat", "text"],
        vec!["wc", "text"],
        vec!["md5sum", "text"],
        vec!["sort", "-n", "text"],
        vec!["grep", "-c", "7", "text"],
        vec!["sed", "-n", "s/line/row/p", "text"],
        vec!["awk", "{ sum += $1 } END { print sum }", "text"],
        vec!["perl", "-ne", "$n += length; END { print $n }", "text"],
        vec!["cut", "-d", " ", "-f", "1", "text"],
        vec!["uniq", "-c", "text"],
        vec!["gzip", "-nc", "text"],
        vec!["od", "text"],
        vec!["tail", "-c", "+1", "text"],
    ] {
        if has("readers_are_recorded_with_every_byte", line[0]) {
            let traced = place.compare(&line).ok();
            assert!(traced.programs.iter().any(|program| !program.is_empty()));
            read_once(&traced, &text);
        }
    }
}

#[test]
fn writers_are_recorded_with_every_byte() {
    let place = Place::new();
    let text = lines(&place, "text");
    for (line, out) in [
        ("cat text > out", "out"),
        ("cp text copy", "copy"),
        ("cp --reflink=never --sparse=always text copy2", "copy2"),
        ("sort -o sorted text", "sorted"),
        ("gzip -nk text && mv text.gz packed", "text.gz"),
        ("tee double < text > /dev/null", "double"),
        ("tar -cf text.tar text", "text.tar"),
        ("sed -n w\\ rows text", "rows"),
        ("awk '{ print $1 > \"column\" }' text", "column"),
        ("perl -e 'open F, \">perl\"; print F \"x\" x 70000'", "perl"),
        ("split -n 1 text part", "partaa"),
    ] {
        let traced = shell(&place, line);
        if out != "text.gz" {
            read_or_made(&traced, &place, line, &text);
            wrote_once(&traced, &place.text(out));
        } else {
            let written = traced.bytes_written(&place.text(out));
            assert_eq!(written, size(&place.text("packed")), "{}", traced.listing());
            assert!(!traced.on(Op::Rename, &place.text(out)).is_empty());
        }
    }
}

#[track_caller]
fn read_or_made(traced: &Traced, place: &Place, line: &str, text: &str) {
    if line.contains(" text") {
        read_once(traced, text);
    }
    assert!(place.path("text").exists());
}

#[test]
fn an_archive_is_unpacked_as_it_was_packed() {
    let place = Place::new();
    lines(&place, "text");
    shell(
        &place,
        "mkdir -p d/e && cp text d/e/one && cp text d/two && tar -cf d.tar d",
    );
    let traced = shell(&place, "rm -rf d && tar -xf d.tar && cmp text d/e/one");
    wrote_once(&traced, &place.text("d/two"));
    assert!(!traced.on(Op::Mkdir, &place.text("d/e")).is_empty());
    assert!(
        !traced.on(Op::Unlink, &place.text("d/two")).is_empty(),
        "{}",
        traced.listing()
    );
    assert!(!traced.on(Op::Rmdir, &place.text("d/e")).is_empty());
}

#[test]
fn a_shell_keeps_the_offset_that_its_children_share() {
    let place = Place::new();
    let traced = shell(
        &place,
        "for i in 1 2 3; do echo row $i; cat /etc/hostname; done > out",
    );
    wrote_once(&traced, &place.text("out"));
    let mut ends: Vec<u64> = Vec::new();
    for call in traced.on(Op::Write, &place.text("out")) {
        ends.push(call.record.offset + u64::from(call.record.result.cast_unsigned()));
    }
    assert!(ends.contains(&(size(&place.text("out")).cast_unsigned())));
    let traced = shell(
        &place,
        "exec 5< out; read a <&5; read b <&5; cat <&5 > rest; exec 5<&-",
    );
    wrote_once(&traced, &place.text("rest"));
    assert!(traced.programs.contains(&"cat".to_owned()));
}

#[test]
fn bash_is_recorded_in_all_its_children() {
    let place = Place::new();
    if !has("bash_is_recorded_in_all_its_children", "bash") {
        return;
    }
    let script = "printf '%s\\n' a b c > in; while read x; do echo \"<$x>\"; done < in | sort -r > out; \
                  (echo sub; exec env -i /bin/cat in) >> out; cat out";
    let traced = place.compare(&["bash", "-c", script]).ok();
    wrote_once(&traced, &place.text("in"));
    let appended = traced.bytes_written(&place.text("out"));
    assert_eq!(appended, size(&place.text("out")), "{}", traced.listing());
    // The environment was empty, and tracing went on.
    assert!(traced.bytes_read(&place.text("in")) >= 2 * size(&place.text("in")));
}

#[test]
fn python_reads_writes_maps_and_starts_others() {
    let place = Place::new();
    if !has("python_reads_writes_maps_and_starts_others", "python3") {
        return;
    }
    let text = lines(&place, "text");
    let script = "\
import mmap, os, subprocess
data = open('text', 'rb').read()
with open('copy', 'wb') as f: f.write(data)
fd = os.open('copy', os.O_RDWR)
assert os.pread(fd, 100, 50) == data[50:150]
os.pwrite(fd, b'x' * 10, 20)
os.preadv(fd, [bytearray(10), bytearray(20)], 0)
m = mmap.mmap(fd, 4096); print(m[20:25]); m.flush(); m.close()
os.close(fd)
print(subprocess.run(['cat', 'copy'], stdout=subprocess.PIPE, env={}).stdout[:10])
try: open('absent')
except FileNotFoundError as e: print(e)
try: os.read(77, 10)
except OSError as e: print(e)
print(sorted(os.listdir('.')))
";
    let traced = place.compare(&["python3", "-c", script]).ok();
    let copy = place.text("copy");
    read_once(&traced, &text);
    assert_eq!(traced.on(Op::Pread, &copy)[0].record.offset, 50);
    assert_eq!(traced.on(Op::Pwrite, &copy)[0].record.asked, 10);
    assert_eq!(traced.on(Op::Readv, &copy)[0].record.asked, 30);
    assert_eq!(traced.on(Op::Mmap, &copy).len(), 1, "{}", traced.listing());
    assert_eq!(traced.on(Op::Msync, &copy).len(), 1);
    assert_eq!(traced.on(Op::Munmap, &copy).len(), 1);
    let absent = traced.on(Op::Open, &place.text("absent"));
    assert_eq!(absent[0].record.result, -libc::ENOENT);
    assert!(absent[0].has(Flags::ERROR));
    assert!(
        traced.programs.contains(&"cat".to_owned()),
        "{:?}",
        traced.programs
    );
}

#[test]
fn git_and_sqlite_leave_what_they_leave_without() {
    let place = Place::new();
    let name = "git_and_sqlite_leave_what_they_leave_without";
    lines(&place, "text");
    if has(name, "git") {
        let setup = "export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD; rm -rf repo; git init -q repo && cd repo && cp ../text . && \
                     git add text && git -c user.name=n -c user.email=e commit -qm m && git fsck && git status -s && \
                     git show HEAD:text | md5sum";
        let traced = place.compare(&["sh", "-c", setup]).ok();
        let calls = traced.calls.iter();
        let mut calls = calls.filter(|call| call.path.ends_with("repo/text"));
        assert!(calls.any(|call| call.op == Op::Mmap || call.op.is_read()));
    }
    if has(name, "sqlite3") {
        let work = "rm -f db; sqlite3 db 'create table t(a); with recursive n(i) as (select 1 union all select \
                    i+1 from n where i < 5000) insert into t select i from n; select sum(a) from t; pragma integrity_check'";
        let traced = shell(&place, work);
        let db = place.text("db");
        assert!(!traced.on(Op::Pwrite, &db).is_empty() || !traced.on(Op::Write, &db).is_empty());
        assert!(!traced.on(Op::Lock, &db).is_empty());
        assert!(!traced.on(Op::Fdatasync, &db).is_empty() || !traced.on(Op::Fsync, &db).is_empty());
    }
}

#[test]
fn fio_moves_what_its_job_says() {
    let place = Place::new();
    if !has("fio_moves_what_its_job_says", "fio") {
        return;
    }
    let line = |engine: &str, rw: &str| {
        place
            .trace(&[
                "fio",
                "--name=job",
                "--filename=data",
                "--size=1m",
                "--bs=4k",
                "--thread",
                "--numjobs=2",
                &format!("--ioengine={engine}"),
                &format!("--rw={rw}"),
            ])
            .ok()
    };
    let data = place.text("data");
    assert_eq!(line("psync", "write").bytes_written(&data), 2 << 20);
    assert_eq!(line("psync", "randread").on(Op::Pread, &data).len(), 512);
    assert_eq!(line("pvsync", "read").on(Op::Readv, &data).len(), 512);
    let traced = line("sync", "read");
    assert_eq!(traced.bytes_read(&data), 2 << 20);
}

#[test]
fn what_is_not_to_be_recorded_is_not() {
    let place = Place::new();
    let text = lines(&place, "text");
    let other = lines(&place, "other.log");
    let mut command = place.traced_command(&["cat", "text", "other.log", "/proc/self/status"]);
    command.env("HEARTH_TRACE_SKIP", "*.log:/proc");
    let traced = place.finish(command).ok();
    read_once(&traced, &text);
    assert!(
        traced
            .calls
            .iter()
            .all(|call| call.path != other && !call.path.starts_with("/proc"))
    );
    let mut command = place.traced_command(&["cat", "text", "other.log"]);
    command.env("HEARTH_TRACE_ONLY", "*.log");
    let traced = place.finish(command).ok();
    read_once(&traced, &other);
    assert_eq!(traced.bytes_read(&text), 0);
}

#[test]
fn nothing_is_recorded_unless_it_is_wanted() {
    let place = Place::new();
    lines(&place, "text");
    for (name, value) in [
        ("HEARTH_TRACE", ""),
        ("HEARTH_TRACE", "no"),
        ("HEARTH_TRACE_FOLLOW", "no"),
    ] {
        let mut command = place.traced_command(&["cat", "text"]);
        command.env(name, value);
        let traced = place.finish(command).ok();
        assert!(traced.programs.is_empty());
    }
    let mut command = place.traced_command(&["cat", "text"]);
    command.env("HEARTH_TRACE", "off");
    let traced = place.finish(command).ok();
    assert_eq!((traced.programs.len(), traced.calls.len()), (1, 0));
}

#[test]
fn other_preloaded_libraries_stay_in_line() {
    let place = Place::new();
    let text = lines(&place, "text");
    let Some(other) = support::shared_library(&place, "other") else {
        println!("skipped: other_preloaded_libraries_stay_in_line: no cc");
        return;
    };
    let ours = support::library();
    for list in [
        format!("{}:{other}", ours.display()),
        format!("{other} {}", ours.display()),
    ] {
        let mut command = place.traced_command(&["cat", "text"]);
        command
            .env("LD_PRELOAD", list)
            .env("OTHER_LOG", place.path("log"));
        let traced = place.finish(command).ok();
        read_once(&traced, &text);
        let log = fs::read(place.path("log")).unwrap();
        assert!(!log.is_empty(), "the other library saw the reads too");
        fs::remove_file(place.path("log")).unwrap();
    }
}
