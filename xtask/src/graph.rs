//! The crate graph: only the edges of one table, and no circle even among dev-dependencies.

use std::collections::BTreeMap;

use crate::Verdict;
use crate::repo::{DepKind, Repo};

/// Which workspace crates a crate may ship with. A new edge is a change of this table.
const ALLOWED: &[(&str, &[&str])] = &[
    ("hearth-proto", &[]),
    ("hearth-proto-canary", &[]),
    ("hearth-plan", &[]),
    ("hearth-shm", &[]),
    ("hearth-net", &["hearth-shm"]),
    ("hearth-mpi", &["hearth-net"]),
    ("hearth-bank", &[]),
    ("hearth-erasure", &[]),
    ("hearth-views", &[]),
    ("hearth-trace", &["hearth-net", "hearth-shm"]),
    ("hearth-client", &["hearth-shm"]),
    (
        "hearth-agent",
        &[
            "hearth-bank",
            "hearth-client",
            "hearth-erasure",
            "hearth-net",
            "hearth-plan",
            "hearth-proto",
            "hearth-shm",
            "hearth-trace",
            "hearth-views",
        ],
    ),
    (
        "hearth-sim",
        &[
            "hearth-client",
            "hearth-erasure",
            "hearth-plan",
            "hearth-proto",
            "hearth-trace",
        ],
    ),
    (
        "hearth-sim-canary",
        &["hearth-client", "hearth-erasure", "hearth-proto-canary"],
    ),
    ("hearth-fuse", &["hearth-client", "hearth-shm"]),
    ("hearth-shuttle", &[]),
    (
        "hearth-fuse-sim",
        &[
            "hearth-client",
            "hearth-proto-canary",
            "hearth-shm",
            "hearth-shuttle",
        ],
    ),
    ("hearth-run-sim", &["hearth-proto-canary", "hearth-shuttle"]),
    (
        "hearth-gateway",
        &["hearth-client", "hearth-fuse", "hearth-net"],
    ),
    ("hearth-preload", &["hearth-client", "hearth-trace"]),
    ("hearth-python", &["hearth-client"]),
    ("hearth-report", &["hearth-trace"]),
    (
        "hearth-mpiio",
        &["hearth-agent", "hearth-client", "hearth-mpi"],
    ),
    (
        "hearth-set",
        &[
            "hearth-agent",
            "hearth-bank",
            "hearth-client",
            "hearth-trace",
        ],
    ),
    (
        "hearth-top",
        &["hearth-agent", "hearth-client", "hearth-set"],
    ),
    (
        "hearth",
        &[
            "hearth-agent",
            "hearth-client",
            "hearth-fuse",
            "hearth-gateway",
            "hearth-plan",
            "hearth-report",
            "hearth-set",
            "hearth-top",
            "hearth-trace",
        ],
    ),
    (
        "hearth-lab",
        &[
            "hearth-agent",
            "hearth-bank",
            "hearth-client",
            "hearth-erasure",
            "hearth-fuse",
            "hearth-mpi",
            "hearth-plan",
            "hearth-report",
            "hearth-set",
            "hearth-sim",
            "hearth-sim-canary",
            "hearth-trace",
        ],
    ),
    ("xtask", &[]),
];

/// Workspace edges, by crate.
type Edges<'a> = BTreeMap<&'a str, Vec<(&'a str, DepKind)>>;

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let edges = edges(repo);
    for krate in &repo.crates {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == krate.name) else {
            verdict.find(
                &krate.manifest(),
                1,
                format!("no row for `{}` in graph.rs", krate.name),
            );
            continue;
        };
        for (to, kind) in &edges[krate.name.as_str()] {
            if *kind == DepKind::Shipped && !allowed.contains(to) {
                verdict.find(
                    &krate.manifest(),
                    1,
                    format!("`{}` may not use `{to}`", krate.name),
                );
            }
        }
        if reaches_itself(&edges, &krate.name) {
            let what = format!(
                "`{}` depends on itself, dev-dependencies counted",
                krate.name
            );
            verdict.find(&krate.manifest(), 1, what);
        }
    }
    let count: usize = edges.values().map(Vec::len).sum();
    verdict.note = format!("{} crates, {count} edges", repo.crates.len());
    verdict
}

fn edges(repo: &Repo) -> Edges<'_> {
    let is_member = |name: &str| repo.crates.iter().any(|krate| krate.name == name);
    let members = repo.crates.iter().map(|krate| {
        let deps = krate.deps.iter().filter(|dep| is_member(&dep.name));
        (
            krate.name.as_str(),
            deps.map(|dep| (dep.name.as_str(), dep.kind)).collect(),
        )
    });
    members.collect()
}

fn reaches_itself(edges: &Edges<'_>, start: &str) -> bool {
    let mut seen = Vec::new();
    let mut ahead = vec![start];
    while let Some(from) = ahead.pop() {
        for (to, _) in &edges[from] {
            if *to == start {
                return true;
            }
            if !seen.contains(to) {
                seen.push(*to);
                ahead.push(*to);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dep;

    fn dep(name: &str, kind: DepKind) -> Dep {
        Dep {
            name: name.to_owned(),
            kind,
        }
    }

    fn findings(repo: Repo) -> Vec<String> {
        check(&repo)
            .findings
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn fires_on_an_edge_outside_the_table() {
        let repo = Repo::default()
            .with_crate("hearth-proto", "", &[dep("hearth-net", DepKind::Shipped)])
            .with_crate("hearth-net", "", &[dep("mio", DepKind::Shipped)]);
        assert_eq!(findings(repo), ["`hearth-proto` may not use `hearth-net`"]);
    }

    #[test]
    fn fires_on_a_circle_through_a_dev_dependency() {
        let repo = Repo::default()
            .with_crate("hearth-fuse", "", &[dep("hearth-client", DepKind::Shipped)])
            .with_crate("hearth-client", "", &[dep("hearth-fuse", DepKind::Dev)]);
        assert_eq!(findings(repo).len(), 2);
    }

    #[test]
    fn fires_on_a_crate_that_has_no_row() {
        let repo = Repo::default().with_crate("hearth-util", "", &[]);
        assert_eq!(findings(repo), ["no row for `hearth-util` in graph.rs"]);
    }

    #[test]
    fn the_table_itself_has_no_circle() {
        let repo = ALLOWED
            .iter()
            .fold(Repo::default(), |repo, (name, allowed)| {
                let deps: Vec<_> = allowed.iter().map(|to| dep(to, DepKind::Shipped)).collect();
                repo.with_crate(name, "", &deps)
            });
        assert_eq!(findings(repo), Vec::<String>::new());
    }
}
