//! Programs that people use, and what each is made to do with the files of a directory.

/// One row of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Programs that it needs, and `import M` for what its Python must have.
    pub(super) needs: &'static [&'static str],
    /// Made without a cache, before anything runs.
    pub(super) make: &'static str,
    /// Script that runs over it twice: it leaves what it found, and prints the same each time.
    pub(super) run: &'static str,
    /// How the program comes by its bytes.
    pub(super) how: &'static str,
    pub(super) effort: Effort,
}

/// How long a row takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    Light,
    /// Builds or starts something large.
    Heavy,
}

use Effort::{Heavy, Light};

/// Text of 1.3 MB, in lines.
const TEXT: &str = "seq 1 200000 > in";
/// The same in another order, so that to sort it is work.
const MIXED: &str = "seq 1 50000 | rev > in";

const fn row(
    name: &'static str,
    needs: &'static [&'static str],
    make: &'static str,
    run: &'static str,
    how: &'static str,
) -> Row {
    Row {
        name,
        needs,
        make,
        run,
        how,
        effort: Light,
    }
}

const fn heavy(row: Row) -> Row {
    Row {
        effort: Heavy,
        ..row
    }
}

/// All of them.
pub(super) const ROWS: &[Row] = &[
    row(
        "cat",
        &["cat"],
        TEXT,
        "cat in > out; cat in | cksum",
        "read; to a file by copy_file_range",
    ),
    row(
        "cp",
        &["cp"],
        TEXT,
        "cp in out; cp --sparse=always in out2; cksum < out",
        "copy_file_range, or read",
    ),
    row(
        "mv",
        &["mv"],
        TEXT,
        "mv in there; mv there in; cksum < in",
        "rename alone",
    ),
    row(
        "sort",
        &["sort"],
        MIXED,
        "sort -n in > out; sort in | cksum",
        "stdio",
    ),
    row(
        "dd",
        &["dd"],
        TEXT,
        "dd if=in bs=4k status=none | cksum; dd if=in of=out bs=64k conv=fsync status=none",
        "read",
    ),
    row("wc", &["wc"], TEXT, "wc in; wc -l < in", "read"),
    row(
        "tail -f",
        &["tail"],
        TEXT,
        "tail -f -s 0.05 -c 1000 in | head -n 100; tail -n 3 in",
        "read at the end",
    ),
    row("md5sum", &["md5sum"], TEXT, "md5sum in", "stdio"),
    row(
        "grep",
        &["grep"],
        TEXT,
        "grep -c 77 in; grep -rn 1999 . | sort",
        "read",
    ),
    row(
        "sed",
        &["sed"],
        TEXT,
        "sed 's/7/seven/' in | cksum; cp in copy; sed -i 's/1/one/' copy; cksum < copy",
        "stdio",
    ),
    row(
        "awk",
        &["awk"],
        TEXT,
        "awk '{ s += $1 } END { print s }' in",
        "read, or stdio",
    ),
    row(
        "tar",
        &["tar"],
        "mkdir d; seq 1 9000 > d/a; seq 5 90000 > d/b",
        "tar --sort=name --mtime=@0 -cf t.tar d; tar -xOf t.tar d/b | cksum; tar -tf t.tar",
        "read",
    ),
    row(
        "gzip",
        &["gzip"],
        TEXT,
        "gzip -nkf in; gzip -dc in.gz | cksum",
        "read",
    ),
    row(
        "perl",
        &["perl"],
        TEXT,
        "perl -ne '$n += $_; END { print \"$n\\n\" }' in; perl -e 'open F, \"in\"; seek F, 100000, 0; read F, $b, 20; print $b'",
        "read",
    ),
    row(
        "bash redirections",
        &["bash"],
        TEXT,
        "s=0; while read -r n; do s=$((s + n)); [ $n = 500 ] && break; done < in; echo $s; { head -n 2; wc -l; } < in; exec 7<in; head -c 100 <&7 >/dev/null; read -r l <&7; echo $l; echo a > out; echo b >> out; cat out",
        "read, an offset shared with children",
    ),
    row(
        "bash here-documents",
        &["bash"],
        TEXT,
        "cat - in <<E | cksum\nhere\nE\nwc -c <<< \"$(head -c 5000 in)\"",
        "a pipe; read",
    ),
    row(
        "nice timeout env",
        &["nice", "timeout"],
        TEXT,
        "nice -n 1 timeout 60 env -i PATH=\"$PATH\" sh -c 'nice cat in | cksum'",
        "handed on by exec",
    ),
    row(
        "env without the library",
        &["env"],
        TEXT,
        "env -u LD_PRELOAD cksum < in",
        "handed on by exec all the same",
    ),
    row(
        "sqlite3",
        &["sqlite3"],
        "true",
        "rm -f db; seq 1 3000 | sed 's/.*/insert into t values(&, &*&);/' | (echo 'create table t(a integer primary key, b); begin;'; cat; echo 'commit;') | sqlite3 db; sqlite3 db 'select sum(b) from t where a % 7 = 3; pragma integrity_check'; rm db",
        "pread, locks",
    ),
    heavy(row(
        "git",
        &["git"],
        "mkdir w; seq 1 5000 > w/a; seq 1 100 > w/b",
        "cd w; rm -rf .git; git init -q; git add .; git -c user.name=n -c user.email=e commit -qm one; seq 9 > b; git diff | sed 's/^index.*//'; git checkout -q b; git fsck 2>/dev/null; git gc -q; git log --format=%s; cksum a b; rm -rf .git",
        "mmap, pread",
    )),
    heavy(row(
        "gcc and ld",
        &["gcc", "ld"],
        "printf '#include <stdio.h>\\nint f(void);\\nint main(void) { printf(\"%%d\\\\n\", f()); }\\n' > m.c; echo 'int f(void) { return 42; }' > f.c",
        "gcc -c m.c; gcc -c f.c; ld -r -o r.o m.o f.o; gcc -o p r.o; ./p; ar rcD l.a m.o f.o; cksum l.a",
        "read, mmap, stdio",
    )),
    row(
        "C",
        &["gcc"],
        "seq 1 200000 > in; printf '#include <stdio.h>\\nint main(void) { long n, s = 0; FILE *f = fopen(\"in\", \"r\"); while (fscanf(f, \"%%ld\", &n) == 1) s += n; printf(\"%%ld\\\\n\", s); }\\n' > p.c; gcc -O1 -o p p.c",
        "./p",
        "stdio",
    ),
    heavy(row(
        "C++ ifstream",
        &["g++"],
        "seq 1 200000 > in; printf '#include <fstream>\\n#include <iostream>\\nint main() { std::ifstream f(\"in\"); long n, s = 0; while (f >> n) s += n; std::ofstream(\"out\") << s; std::cout << s << \"\\\\n\"; }\\n' > p.cc; g++ -o p p.cc",
        "./p",
        "read",
    )),
    heavy(row(
        "Fortran",
        &["gfortran"],
        "seq 1 20000 > in; printf 'program p\\ninteger(8) :: n, s\\ns = 0\\nopen(7, file=\"in\")\\ndo\\n read(7, *, end=9) n\\n s = s + n\\nend do\\n9 print *, s\\nend program\\n' > p.f90; gfortran -o p p.f90",
        "./p",
        "read",
    )),
    heavy(row(
        "Rust",
        &["rustc"],
        "seq 1 200000 > in; echo 'fn main() { let t = std::fs::read_to_string(\"in\").unwrap(); println!(\"{}\", t.lines().map(|l| l.parse::<u64>().unwrap()).sum::<u64>()); }' > p.rs; rustc -C debuginfo=0 -o p p.rs",
        "./p",
        "read",
    )),
    row(
        "static C",
        &["gcc"],
        "seq 1 200000 > in; printf '#include <stdio.h>\\nint main(void) { long n, s = 0; FILE *f = fopen(\"in\", \"r\"); while (fscanf(f, \"%%ld\", &n) == 1) s += n; printf(\"%%ld\\\\n\", s); }\\n' > p.c; gcc -O1 -static -o p p.c",
        "./p",
        "static: no library is loaded",
    ),
    heavy(row(
        "Go",
        &["go"],
        "seq 1 200000 > in; printf 'package main\\nimport (\"fmt\"; \"hash/crc32\"; \"os\")\\nfunc main() { b, _ := os.ReadFile(\"in\"); fmt.Println(len(b), crc32.ChecksumIEEE(b)) }\\n' > p.go; GOFLAGS=-mod=mod GO111MODULE=off CGO_ENABLED=0 go build -o p p.go",
        "./p",
        "Go makes system calls itself",
    )),
    row(
        "python3 open",
        &["python3"],
        TEXT,
        "$PYTHON -c \"print(sum(map(int, open('in')))); print(len(open('in', 'rb', 0).read()))\"",
        "read",
    ),
    row(
        "python3 os.pread",
        &["python3"],
        TEXT,
        "$PYTHON -c \"import os; f = os.open('in', 0); print(os.pread(f, 50, 4096)); print(sum(sum(os.pread(f, 4096, at)) for at in range(0, 1 << 20, 4096)))\"",
        "pread",
    ),
    row(
        "python3 mmap",
        &["python3"],
        TEXT,
        "$PYTHON -c \"import mmap; f = open('in', 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); print(m[99990:100000], sum(m[::64]))\"",
        "mmap: pages of the operating system",
    ),
    row(
        "python3 multiprocessing",
        &["python3"],
        TEXT,
        "$PYTHON -c \"import multiprocessing as m\ndef f(i):\n  with open('in', 'rb') as g: g.seek(i * 65536); return sum(g.read(65536))\nif __name__ == '__main__': print(m.get_context('fork').Pool(3).map(f, range(20)))\"",
        "read, in children",
    ),
    heavy(row(
        "numpy load",
        &["python3", "import numpy"],
        "$PYTHON -c \"import numpy as n; n.save('a.npy', n.arange(200000).reshape(-1, 10))\"",
        "$PYTHON -c \"import numpy as n; a = n.load('a.npy'); print(a.sum(), a[7]); n.save('b.npy', a[::2])\"; cksum < b.npy",
        "read",
    )),
    heavy(row(
        "numpy memmap",
        &["python3", "import numpy"],
        "$PYTHON -c \"import numpy as n; n.save('a.npy', n.arange(200000).reshape(-1, 10))\"",
        "$PYTHON -c \"import numpy as n; a = n.load('a.npy', mmap_mode='r'); print(a[::3].sum(), a[7])\"",
        "mmap: pages of the operating system",
    )),
    heavy(row(
        "h5py",
        &["python3", "import h5py"],
        "$PYTHON -c \"import h5py, numpy as n; f = h5py.File('a.h5', 'w'); f['x'] = n.arange(200000).reshape(-1, 10)\"",
        "$PYTHON -c \"import h5py; f = h5py.File('a.h5', 'r'); print(f['x'][5:9].sum(), f['x'][()].sum())\"",
        "pread",
    )),
];
