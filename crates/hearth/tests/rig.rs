//! The test hosts themselves: see `rig/test.sh`, which prints what it holds true.

use std::path::Path;
use std::process::Command;

/// Exit code of `rig/test.sh` where it cannot run.
const SKIPPED: i32 = 77;

#[test]
fn test_hosts_stand_and_leave_nothing() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rig/test.sh");
    let output = Command::new(script).output().expect("the script runs");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(SKIPPED) {
        let why = words.replace('\n', "; ");
        eprintln!("skipped: test_hosts_stand_and_leave_nothing: {why}");
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{words}");
}
