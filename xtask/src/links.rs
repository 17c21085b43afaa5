//! Links from one page of the repository to a file of it lead somewhere.

use crate::Verdict;
use crate::repo::Repo;

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let mut count = 0;
    for file in repo.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (target, line) in links(&file.text) {
            count += 1;
            let found = resolve(&file.path, &target).is_some_and(|path| exists(repo, &path));
            if !found {
                verdict.find(
                    &file.path,
                    line,
                    format!("link to `{target}` leads nowhere"),
                );
            }
        }
    }
    verdict.note = format!("{count} links to files");
    verdict
}

/// Links to files, without fragment and title, with their lines; code is not searched.
fn links(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, number) in text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let prose = without_code(line);
            found.extend(targets(&prose).into_iter().map(|target| (target, number)));
        }
    }
    found
}

/// The line without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn targets(prose: &str) -> Vec<String> {
    let inline = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let reference = prose
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target);
    inline
        .chain(reference)
        .filter_map(file_part)
        .map(str::to_owned)
        .collect()
}

/// The path of a link; `None` when it leads out of the repository or to the same page.
fn file_part(target: &str) -> Option<&str> {
    let word = target.split_whitespace().next()?.trim_matches(['<', '>']);
    let path = word.split('#').next()?;
    let leads_out = word.contains("://") || word.starts_with("mailto:");
    (!path.is_empty() && !leads_out).then_some(path)
}

/// `target` as seen from `page`, from the root; `None` when it climbs above the root.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn exists(repo: &Repo, path: &str) -> bool {
    let dir = format!("{path}/");
    path.is_empty()
        || repo
            .files
            .iter()
            .any(|f| f.path == path || f.path.starts_with(&dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        let files = [("docs/a.md", text), ("docs/b.md", ""), ("src/lib.rs", "")];
        check(&Repo::sample(&files)).findings.len()
    }

    #[test]
    fn fires_on_a_file_that_is_not_there() {
        assert_eq!(findings("[b](c.md)"), 1);
        assert_eq!(findings("![b](../docs/c.png \"title\") and [b](b.md)"), 1);
        assert_eq!(findings("[b]: c.md"), 1);
        assert_eq!(findings("[up](../../other/b.md)"), 1);
    }

    #[test]
    fn files_directories_fragments_and_hosts_pass() {
        assert_eq!(
            findings("[b](b.md#top) [up](../src/) [root](/src/lib.rs) [here](#top)"),
            0
        );
        assert_eq!(
            findings("[web](https://example.org/c.md) [mail](mailto:a@example.org)"),
            0
        );
    }

    #[test]
    fn code_is_not_searched() {
        assert_eq!(findings("`a[0](x)`\n```\n[b](c.md)\n```\n"), 0);
    }
}
