//! Crates as facts, from `cargo metadata`.

use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::repo::{Crate, Dep, DepKind, Root, RootKind};

/// Asks cargo about the workspace at `root`; needs no network, because it asks for no dependencies.
pub(crate) fn load(root: &Path) -> io::Result<Vec<Crate>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!(
            "cannot run cargo metadata: {words}"
        )));
    }
    let metadata = serde_json::from_slice(&output.stdout)?;
    parse(&metadata).ok_or_else(|| io::Error::other("cannot read the answer of cargo metadata"))
}

fn parse(metadata: &Value) -> Option<Vec<Crate>> {
    let root = metadata["workspace_root"].as_str()?;
    metadata["packages"]
        .as_array()?
        .iter()
        .map(|package| parse_package(package, root))
        .collect()
}

fn parse_package(package: &Value, root: &str) -> Option<Crate> {
    let manifest = inside(package["manifest_path"].as_str()?, root)?;
    let targets = package["targets"].as_array()?;
    let deps = package["dependencies"].as_array()?;
    Some(Crate {
        name: package["name"].as_str()?.to_owned(),
        description: package["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        dir: manifest.strip_suffix("/Cargo.toml")?.to_owned(),
        roots: targets
            .iter()
            .filter_map(|target| parse_root(target, root))
            .collect(),
        deps: deps.iter().map(parse_dep).collect::<Option<_>>()?,
    })
}

/// `None` for what is not shipped: tests, benches, examples, build scripts.
fn parse_root(target: &Value, root: &str) -> Option<Root> {
    let kind = match target["kind"][0].as_str()? {
        "lib" | "rlib" | "cdylib" | "dylib" | "staticlib" => RootKind::Library,
        "bin" => RootKind::Binary,
        _ => return None,
    };
    Some(Root {
        kind,
        path: inside(target["src_path"].as_str()?, root)?,
    })
}

fn parse_dep(dep: &Value) -> Option<Dep> {
    let kind = if dep["kind"] == "dev" {
        DepKind::Dev
    } else {
        DepKind::Shipped
    };
    Some(Dep {
        name: dep["name"].as_str()?.to_owned(),
        kind,
    })
}

/// A path as seen from the root, without `..`: sources may be compiled by two crates.
fn inside(path: &str, root: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.strip_prefix(root)?.strip_prefix('/')?.split('/') {
        match part {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_becomes_a_crate() {
        let metadata = serde_json::json!({
            "workspace_root": "/r",
            "packages": [{
                "name": "a",
                "description": "The a",
                "manifest_path": "/r/crates/a/Cargo.toml",
                "targets": [
                    { "kind": ["cdylib"], "src_path": "/r/crates/a/src/lib.rs" },
                    { "kind": ["test"], "src_path": "/r/crates/a/tests/t.rs" },
                ],
                "dependencies": [{ "name": "b", "kind": null }, { "name": "c", "kind": "dev" }],
            }],
        });
        let crates = parse(&metadata).unwrap();
        assert_eq!(crates[0].manifest(), "crates/a/Cargo.toml");
        let root = Root {
            kind: RootKind::Library,
            path: "crates/a/src/lib.rs".to_owned(),
        };
        assert_eq!(crates[0].roots, [root]);
        let kinds: Vec<_> = crates[0].deps.iter().map(|dep| dep.kind).collect();
        assert_eq!(kinds, [DepKind::Shipped, DepKind::Dev]);
    }
}
