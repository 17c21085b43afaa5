//! Many files, though few enough for a test; `hearth-lab many --files 1000000` is the same by hand.

#![forbid(unsafe_code)]

use std::process::Command;

#[test]
fn many_files_are_listed_looked_at_and_opened_by_three_agents() {
    let hearth = std::env::var_os("HEARTH_BIN");
    let Some(hearth) = hearth.filter(|_| std::path::Path::new("/dev/fuse").exists()) else {
        println!("skipped: many files: HEARTH_BIN names no command, or there is no /dev/fuse");
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_hearth-lab"))
        .args([
            "many", "--files", "3000", "--each", "2000", "--json", "--hearth",
        ])
        .arg(hearth)
        .output()
        .expect("the laboratory starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}{said}");
    let rows = told
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"));
    let rows: Vec<serde_json::Value> = rows.collect();
    let calls = rows.iter().map(|row| row["calls"].as_u64());
    // Each of three: two directories and their ends beside the names; then a call or three for each file.
    let due = [3 * (3000 + 4), 9000, 9000, 27_000].map(Some);
    assert!(calls.eq(due), "{told}");
    for row in &rows {
        let memory = row["memory_mib"].as_array().map(Vec::len);
        assert_eq!(
            (row["wrong"].as_u64(), memory),
            (Some(0), Some(3)),
            "{told}"
        );
    }
}
