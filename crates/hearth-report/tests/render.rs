//! The report as people and programs see it.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use hearth_report::analyse;
use support::{Trace, showcase};

/// Seconds that a browser may take for a page.
const BROWSER_SECONDS: &str = "120";

#[test]
fn text_is_as_it_was() {
    let text = analyse(showcase().end()).text();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/report.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &text).expect("the snapshot can be written");
    }
    let kept = fs::read_to_string(&path).expect("the snapshot is there");
    assert!(
        kept == text,
        "differs from {}; UPDATE=1 rewrites it:\n{text}",
        path.display()
    );
}

#[test]
fn json_text_and_page_show_the_same_numbers() {
    let report = analyse(showcase().end());
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("it is JSON");
    assert_eq!(json["loss"]["dropped"], 1234);
    assert_eq!(
        json["findings"].as_array().map(Vec::len),
        Some(report.findings.len())
    );
    let (text, page) = (report.text(), report.html());
    for finding in &report.findings {
        assert!(text.contains(&finding.title), "{}", finding.title);
        let plain = finding.title.replace('`', "");
        let page = page.replace("<code>", "").replace("</code>", "");
        assert!(page.contains(&plain), "{plain}");
    }
    for words in [
        "1,234",
        "nobody measured the clock of node02",
        "left 0.3 s before the end",
    ] {
        assert!(text.contains(words) && page.contains(words), "{words}");
    }
}

#[test]
fn names_from_a_trace_are_not_taken_for_mark_up() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/tmp/<script>alert(1)</script>\u{1b}[31m&\"'", "ext4");
    trace.read(0, file, 0, 4096, 1000);
    let report = analyse(trace.end());
    assert!(!report.html().contains("<script>alert"));
    assert!(report.html().contains("&lt;script&gt;alert"));
    assert!(
        !report.text().contains('\u{1b}'),
        "a terminal is not told what to do"
    );
}

#[test]
fn nothing_at_all_has_a_report() {
    let report = analyse(Trace::default());
    assert_eq!(report.job.events, 0);
    assert!(
        report
            .text()
            .contains("attempted 0 = stored 0 + lost 0 + torn 0")
    );
    assert!(report.html().ends_with("</html>\n"));
}

/// A browser's messages about a page, and the page's content after its scripts ran.
fn browse(page: &str, name: &str) -> Option<(String, String)> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).expect("a directory for tests can be made");
    let file = dir.join("page.html");
    fs::write(&file, page).expect("the page can be written");
    let out = Command::new("timeout")
        .args([
            "-k",
            "5",
            BROWSER_SECONDS,
            "chromium",
            "--headless=new",
            "--no-sandbox",
        ])
        .args([
            "--disable-gpu",
            "--enable-logging=stderr",
            "--v=0",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .ok()?;
    let dom = String::from_utf8_lossy(&out.stdout).into_owned();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        out.status.success(),
        "the browser ends with {}: {said}",
        out.status
    );
    let console = said.lines().filter(|line| line.contains(":CONSOLE"));
    Some((console.collect::<Vec<_>>().join("\n"), dom))
}

#[test]
fn the_page_works_in_a_browser() {
    let name = "the_page_works_in_a_browser";
    if Command::new("chromium").arg("--version").output().is_err() {
        eprintln!("skipped: {name}: chromium is not installed");
        return;
    }
    let page = analyse(showcase().end()).html();
    assert!(
        !page.contains("http://") && !page.contains("https://"),
        "it asks for nothing"
    );
    let click = "<script>document.querySelectorAll('table th')[5].click()</script></body>";
    let page = page.replace("</body>", click);
    let (console, dom) = browse(&page, "whole").expect("timeout is part of every system");
    assert_eq!(console, "");
    assert!(dom.contains("aria-sort=\"descending\""), "a click sorts");
    let (drawn, _) = dom.split_once("<script>").expect("the page has a script");
    assert!(
        !drawn.contains("NaN") && !drawn.contains("inf"),
        "every number is one"
    );
    // The canary: a broken page is seen to be broken.
    let broken = "<!doctype html><script>missing()</script>";
    let (console, _) = browse(broken, "broken").expect("timeout is part of every system");
    assert!(console.contains("missing is not defined"), "{console}");
}
