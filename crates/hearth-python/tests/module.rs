//! The module in the hands of Python: its own tests, each file under the interpreter that it needs.

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A run of tests that takes longer hangs; in seconds.
const LIMIT: &str = "300";

#[test]
fn a_session_reads_and_writes_files_as_the_store_has_them() {
    let test = "a_session_reads_and_writes_files_as_the_store_has_them";
    passes(test, "test_session", || Ok(PathBuf::from("python3")));
}

#[test]
fn data_sets_are_fetched_in_the_samplers_order() {
    let test = "data_sets_are_fetched_in_the_samplers_order";
    passes(test, "test_data", || Ok(PathBuf::from("python3")));
}

#[test]
fn loaders_of_pytorch_have_each_file_once() {
    let test = "loaders_of_pytorch_have_each_file_once";
    passes(test, "test_torch", || Ok(PathBuf::from("python3")));
}

#[test]
fn pandas_pyarrow_and_zarr_read_by_url() {
    passes("pandas_pyarrow_and_zarr_read_by_url", "test_fs", with_tools);
}

#[test]
fn every_example_of_the_page_runs() {
    passes("every_example_of_the_page_runs", "test_page", with_tools);
}

/// An interpreter with the libraries that the project's tests use.
fn with_tools() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python");
    let mut setup = Command::new(root().join("../../setup/python.sh"));
    let done = setup.arg(target).output();
    let done = done.map_err(|error| format!("setup/python.sh: {error}"))?;
    if done.status.success() {
        let path = String::from_utf8_lossy(&done.stdout);
        return Ok(PathBuf::from(path.trim_end()));
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(said.lines().last().unwrap_or_default().to_owned())
}

/// Runs one file of `tests/python`, unless something that it needs is missing: then says what.
fn passes(test: &str, file: &str, python: impl FnOnce() -> Result<PathBuf, String>) {
    let ready = hearth().and_then(|hearth| Ok((hearth, python()?)));
    let (hearth, python) = match ready {
        Ok(ready) => ready,
        Err(why) => return skip(test, &why),
    };
    let package = package();
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(&python);
    command.args(["-W", "error::ResourceWarning", "-m", "unittest"]);
    // Unlike a name, a pattern lets a whole file say why it is skipped.
    command.args(["discover", "-v", "-s"]);
    command.arg(root().join("tests/python"));
    command.args(["-p", &format!("{file}.py")]);
    command.env("HEARTH_BIN", hearth);
    command.env("PYTHONPATH", package.path());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let done = command.output().expect("timeout is there");
    judge(test, &done);
}

/// Fails with what Python said, or skips if all of the tests did.
fn judge(test: &str, done: &Output) {
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let skipped = said.lines().find(|line| line.contains("... skipped "));
    if let Some((_, why)) = skipped.and_then(|line| line.split_once("... skipped "))
        && !said.lines().any(|line| line.ends_with("... ok"))
    {
        // Python quotes the reason in one way or the other.
        skip(test, &why[1..why.len() - 1]);
    }
}

/// The package, with the library of this build in it.
fn package() -> tempfile::TempDir {
    let package = tempfile::tempdir().expect("a directory");
    let into = package.path().join("hearth");
    fs::create_dir(&into).expect("a directory");
    let sources = fs::read_dir(root().join("python/hearth")).expect("the sources");
    for source in sources {
        let source = source.expect("one of them").path();
        let name = source.file_name().expect("it has a name");
        symlink(&source, into.join(name)).expect("a link");
    }
    let test = std::env::current_exe().expect("the path of this test");
    let library = test.with_file_name("libhearth_python.so");
    symlink(library, into.join("_native.abi3.so")).expect("a link");
    package
}

/// The command, or why tests cannot use it.
fn hearth() -> Result<PathBuf, String> {
    let device = fs::File::options().read(true).write(true).open("/dev/fuse");
    device.map_err(|error| format!("/dev/fuse: {error}"))?;
    let named = std::env::var_os("HEARTH_BIN").map(PathBuf::from);
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let beside = test.parent().and_then(Path::parent);
    let built = beside.map(|beside| beside.join("hearth"));
    let found = named.or(built).filter(|path| path.exists());
    let python = Command::new("python3").arg("--version").output();
    python.map_err(|error| format!("python3: {error}"))?;
    found.ok_or_else(|| "no command hearth: build it, or name it in HEARTH_BIN".to_owned())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn skip(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
}
