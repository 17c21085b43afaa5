//! The product and the laboratory: nothing that is shipped, nor its tests, has a crate of the laboratory.
//!
//! The same three groups are drawn in ARCHITECTURE.md, between two marks; `cargo run -p xtask -- crates` draws them anew.

use crate::Verdict;
use crate::repo::{Crate, DepKind, Repo};

/// Crates that prove what the product does. Some of them have broken kernels.
pub(crate) const LABORATORY: &[&str] = &[
    "hearth-fuse-sim",
    "hearth-lab",
    "hearth-proto-canary",
    "hearth-run-sim",
    "hearth-shuttle",
    "hearth-sim",
    "hearth-sim-canary",
];

/// Crates that are neither.
const TOOLS: &[&str] = &["xtask"];

/// Crates of the files that people start, and of those that are loaded into their programs.
const SHIPPED: &[&str] = &["hearth", "hearth-mpiio", "hearth-preload", "hearth-python"];

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- crates:begin -->";
const END: &str = "<!-- crates:end -->";

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let product = product(repo);
    for krate in &product {
        for dep in krate.deps.iter().filter(|dep| is_laboratory(&dep.name)) {
            let what = format!(
                "`{}` is shipped and uses `{}` of the laboratory",
                krate.name, dep.name
            );
            verdict.find(&krate.manifest(), 1, what);
        }
    }
    if let Some(page) = repo.file(PAGE) {
        match drawn(&page.text) {
            Some((text, _)) if text == diagram(repo) => {}
            Some((_, line)) => verdict.find(
                PAGE,
                line,
                "the crates are drawn otherwise: `cargo run -p xtask -- crates` draws them anew",
            ),
            None => verdict.find(PAGE, 1, format!("no `{BEGIN}` and `{END}`")),
        }
    }
    verdict.note = format!(
        "{} crates of the product, {} of the laboratory",
        product.len(),
        repo.crates
            .iter()
            .filter(|krate| is_laboratory(&krate.name))
            .count()
    );
    verdict
}

fn is_laboratory(name: &str) -> bool {
    LABORATORY.contains(&name)
}

fn product(repo: &Repo) -> Vec<&Crate> {
    let is_product =
        |krate: &&Crate| !is_laboratory(&krate.name) && !TOOLS.contains(&krate.name.as_str());
    repo.crates.iter().filter(is_product).collect()
}

/// The text between the marks, and the line of the first mark.
fn drawn(text: &str) -> Option<(&str, usize)> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let length = text[begin..].find(END)?;
    Some((&text[begin..begin + length], text[..begin].lines().count()))
}

/// A page with the diagram as it is to be; `None` without marks.
pub fn redrawn(repo: &Repo) -> Option<String> {
    let page = repo.file(PAGE)?;
    let (old, _) = drawn(&page.text)?;
    let at = old.as_ptr() as usize - page.text.as_ptr() as usize;
    Some(format!(
        "{}{}{}",
        &page.text[..at],
        diagram(repo),
        &page.text[at + old.len()..]
    ))
}

/// A group's name, and who is in it.
type Group = (&'static str, fn(&str) -> bool);

/// The workspace as a mermaid graph: who uses whom, in groups.
fn diagram(repo: &Repo) -> String {
    let mut lines = vec![
        String::new(),
        "```mermaid".to_owned(),
        "graph TD".to_owned(),
    ];
    let groups: [Group; 4] = [
        ("shipped", |name| SHIPPED.contains(&name)),
        ("set", |name| name == "hearth-set"),
        ("product", |name| {
            !is_laboratory(name) && !SHIPPED.contains(&name) && name != "hearth-set"
        }),
        ("laboratory", is_laboratory),
    ];
    let mut crates: Vec<&Crate> = (repo.crates.iter())
        .filter(|krate| !TOOLS.contains(&krate.name.as_str()))
        .collect();
    crates.sort_by_key(|krate| &krate.name);
    for (group, is_in) in groups {
        lines.push(format!("  subgraph {group}"));
        let members = crates.iter().filter(|krate| is_in(&krate.name));
        lines.extend(members.map(|krate| format!("    {}", node(&krate.name))));
        lines.push("  end".to_owned());
    }
    for krate in &crates {
        let used = krate.deps.iter().filter(|dep| {
            dep.kind == DepKind::Shipped && crates.iter().any(|other| other.name == dep.name)
        });
        let used: Vec<&str> = used.map(|dep| dep.name.as_str()).collect();
        if !used.is_empty() {
            lines.push(format!("  {} --> {}", krate.name, used.join(" & ")));
        }
    }
    lines.extend(["```".to_owned(), String::new()]);
    lines.join("\n")
}

fn node(name: &str) -> String {
    let short = name.strip_prefix("hearth-").unwrap_or(name);
    format!("{name}[{short}]")
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

    fn findings(repo: &Repo) -> Vec<String> {
        let found = check(repo).findings;
        found.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn fires_on_what_is_shipped_with_the_laboratory() {
        for kind in [DepKind::Shipped, DepKind::Dev] {
            for lab in LABORATORY {
                let repo = Repo::default().with_crate("hearth-agent", "", &[dep(lab, kind)]);
                let what = format!("`hearth-agent` is shipped and uses `{lab}` of the laboratory");
                assert_eq!(findings(&repo), [what]);
            }
        }
    }

    #[test]
    fn the_laboratory_may_use_the_product_and_itself() {
        let uses = ["hearth-set", "hearth-sim"].map(|name| dep(name, DepKind::Shipped));
        let repo = Repo::default().with_crate("hearth-lab", "", &uses);
        assert_eq!(findings(&repo), Vec::<String>::new());
    }

    #[test]
    fn fires_on_a_drawing_of_other_crates_until_it_is_redrawn() {
        let page = format!("# A\n{BEGIN}\ngraph TD\n{END}\nmore\n");
        let uses = [dep("hearth-set", DepKind::Shipped)];
        let with = |text: &str| {
            Repo::sample(&[(PAGE, text)])
                .with_crate("hearth", "", &uses)
                .with_crate("hearth-set", "", &[])
        };
        let repo = with(&page);
        assert_eq!(findings(&repo).len(), 1);
        let text = redrawn(&repo).unwrap();
        assert!(text.contains("  hearth --> hearth-set\n") && text.ends_with("\nmore\n"));
        assert_eq!(findings(&with(&text)), Vec::<String>::new());
        assert_eq!(findings(&with("# A\n")).len(), 1, "there are no marks");
    }
}
