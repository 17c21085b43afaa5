//! `hearth doctor --store`: what a store does, and what that means.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use crate::probe::known::Broken;
use crate::probe::verdict::{Holds, broken, promises};
use crate::probe::{Findings, Other, measure};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::{print, table};

/// Options for a store.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "A store")]
pub(super) struct StoreArgs {
    /// Measure what this store does, and say which promises hold over it
    #[arg(long, value_name = "DIR", conflicts_with = "fix")]
    pub(super) store: Option<PathBuf>,
    /// Another mount of the same store, on this machine; may be given again
    #[arg(long, value_name = "DIR", requires = "store")]
    also: Vec<PathBuf>,
    /// Hosts that have the store at the same path, reached by HEARTH_RSH (default: ssh)
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "store")]
    hosts: Vec<String>,
    /// One object a line
    #[arg(long, requires = "store")]
    json: bool,
    /// Be a client that is told file operations
    #[arg(long, value_name = "DIR", hide = true, conflicts_with = "store")]
    pub(super) hand: Option<PathBuf>,
}

/// Measures and tells. Exit 1: the store breaks some sets.
pub(super) fn run(args: &StoreArgs, store: &Path) -> Result<ExitCode, Failure> {
    let what = || format!("cannot find `{}`", store.display());
    let store = store.canonicalize().or_fail(what)?;
    let mounts = args.also.iter().cloned().map(Other::Mount);
    let hosts = args.hosts.iter().cloned().map(Other::Host);
    let others: Vec<Other> = mounts.chain(hosts).collect();
    let findings = measure(&store, &others)?;
    if args.json {
        print(&objects(&store, &findings))?;
    } else {
        print(&pages(&findings))?;
    }
    Ok(ExitCode::from(u8::from(broken(&findings).is_some())))
}

fn pages(findings: &Findings) -> String {
    let mut rows = vec![vec!["property".to_owned(), "value".to_owned()]];
    for finding in findings.all() {
        rows.push(vec![finding.words.to_owned(), finding.value.to_string()]);
    }
    let mut text = table(&rows);
    text.push('\n');
    let mut rows = vec![["promise", "", "holds"].map(str::to_owned).to_vec()];
    for promise in promises(findings) {
        let holds = holds_in_words(&promise.holds);
        rows.push(vec![promise.id.to_owned(), promise.words.to_owned(), holds]);
    }
    text.push_str(&table(&rows));
    text.push('\n');
    text.push_str(&format!("policies: {}\n", policies(broken(findings))));
    text
}

fn objects(store: &Path, findings: &Findings) -> String {
    let store = store.display().to_string();
    let mut lines = Vec::new();
    for finding in findings.all() {
        lines.push(json!({
            "store": store,
            "property": finding.property,
            "words": finding.words,
            "value": finding.value.to_string(),
        }));
    }
    for promise in promises(findings) {
        let holds = holds_in_words(&promise.holds);
        lines.push(json!({"store": store, "promise": promise.id, "value": holds}));
    }
    let policies = policies(broken(findings));
    lines.push(json!({"store": store, "property": "policies", "value": policies}));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn holds_in_words(holds: &Holds) -> String {
    match holds {
        Holds::Yes => "yes".to_owned(),
        Holds::But(what) => format!("but: {what}"),
        Holds::Unknown(why) => format!("? {why}"),
    }
}

fn policies(broken: Option<Broken>) -> &'static str {
    match broken {
        None => "all work",
        Some(Broken::Always) => {
            "all are refused: a file does not keep its inode number, by which agents know it"
        }
        Some(Broken::SeveralHosts) => {
            "all are refused on several hosts: a file has another inode number on each, so agents \
             would not know that it is one"
        }
    }
}
