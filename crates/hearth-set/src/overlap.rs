//! Two sets over one directory, or over directories of which one lies in the other, know nothing of each other.
//!
//! Found among the agents of this user that run on this host, whatever control directory they have. Directories are
//! compared by their place in their file system, so bind mounts and symbolic links do not hide one, and by their
//! parents. Agents of other users and hosts cannot be seen.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::{AgentConfig, NodeConfig};
use crate::failure::Failure;
use crate::launch::{LaunchPlan, Members};
use crate::leftovers;
use crate::mountinfo;

/// How long agents whose command was killed may take to end.
const END_SPAN_MAX: Duration = Duration::from_secs(9);

/// The position of a directory, in every way in which another may lie above or below it.
struct Place {
    /// Its own device and number, then its parents'.
    line: Vec<(u64, u64)>,
    /// The device of its file system, and its path there.
    within: Option<((u32, u32), PathBuf)>,
}

/// How another directory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lies {
    Same,
    Above,
    Below,
}

impl Place {
    /// A directory as a process sees it; `None` if it cannot be found.
    fn of(process: &Path, dir: &Path) -> Option<Place> {
        let seen = |path: &Path| -> Option<(u64, u64)> {
            let below = path.strip_prefix("/").ok()?;
            let meta = fs::metadata(process.join("root").join(below)).ok()?;
            Some((meta.dev(), meta.ino()))
        };
        seen(dir)?;
        let mounts = mountinfo::read_of(process).ok()?.into_iter();
        let holding = mounts
            .filter(|mount| dir.starts_with(&mount.at))
            .max_by_key(|mount| mount.at.components().count());
        let within = holding.and_then(|mount| {
            let rest = dir.strip_prefix(&mount.at).ok()?;
            Some((mount.device, mount.root.join(rest)))
        });
        Some(Place {
            line: dir.ancestors().filter_map(seen).collect(),
            within,
        })
    }

    fn lies(&self, other: &Place) -> Option<Lies> {
        let (here, there) = (self.line.first()?, other.line.first()?);
        if here == there {
            return Some(Lies::Same);
        }
        let is_below = |low: &Place, high: &Place| {
            let by_parents = high.line.first().is_some_and(|top| low.line.contains(top));
            let by_path = match (&low.within, &high.within) {
                (Some((low_on, low)), Some((high_on, high))) => {
                    low_on == high_on && low.starts_with(high)
                }
                _ => false,
            };
            by_parents || by_path
        };
        if is_below(self, other) {
            Some(Lies::Above)
        } else {
            is_below(other, self).then_some(Lies::Below)
        }
    }
}

/// Fails if agents of another job are at this directory, above or below it.
pub(crate) fn check(plan: &LaunchPlan, job: &str) -> Result<(), Failure> {
    let store = &plan.store;
    let Some(here) = Place::of(Path::new("/proc/self"), store) else {
        // Other hosts have it.
        return Ok(());
    };
    for agent in leftovers::agents(None) {
        let Ok(config) = AgentConfig::read(&agent.config) else {
            continue;
        };
        let other = &config.node;
        let process = PathBuf::from(format!("/proc/{}", agent.process.pid));
        let there = Place::of(&process, &other.store).filter(|_| other.job != job);
        let Some(lies) = there.and_then(|there| here.lies(&there)) else {
            continue;
        };
        let how = match lies {
            Lies::Same => "are at it",
            Lies::Above => "are at a directory that holds it",
            Lies::Below => "are at a directory below it",
        };
        // An agent whose command was killed ends by itself, even one that was not written down yet.
        if config.owner.is_gone() && agent.process.wait_gone(END_SPAN_MAX).unwrap_or(false) {
            continue;
        }
        if let Some(refusal) = other_settings(plan, other) {
            return Err(refusal);
        }
        let (store, theirs) = (store.display(), other.store.display());
        return Err(Failure::new(format!("cannot use `{store}` as a store"))
            .cause(format!("agents of job {} {how}, `{theirs}`: neither would see what the other has in memory", other.job))
            .hint(format!(
                "if this is the same set, start it with the settings of the others; else use `{theirs}` as the store for \
                 both, or end that set first: hearth down --job {}",
                other.job
            )));
    }
    Ok(())
}

/// The refusal of a start that has the list of a set which is up, and not its settings.
fn other_settings(plan: &LaunchPlan, up: &NodeConfig) -> Option<Failure> {
    let is_same_list =
        matches!(&plan.members, Members::Hosts { members, .. } if *members == up.members);
    if !is_same_list || plan.store != up.store {
        return None;
    }
    let what = format!(
        "cannot start an agent of job {}, whose agents have other settings",
        up.job
    );
    let causes = up.spec.differences(&plan.spec).into_iter();
    let failure = causes.fold(Failure::new(what), Failure::cause);
    let hint = format!(
        "start it with the settings of the others, or end these first: hearth down --job {}",
        up.job
    );
    Some(failure.hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &Path) -> Place {
        Place::of(Path::new("/proc/self"), &path.canonicalize().unwrap()).unwrap()
    }

    #[test]
    fn a_directory_is_told_from_its_parents_children_and_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, ab] = ["a", "b", "a/b"].map(|name| dir.path().join(name));
        fs::create_dir(&a).unwrap();
        fs::create_dir(&b).unwrap();
        fs::create_dir(&ab).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&ab, &link).unwrap();
        assert_eq!(place(&a).lies(&place(&a)), Some(Lies::Same));
        assert_eq!(place(&a).lies(&place(&ab)), Some(Lies::Below));
        assert_eq!(place(&link).lies(&place(&a)), Some(Lies::Above));
        assert_eq!(place(&link).lies(&place(&ab)), Some(Lies::Same));
        assert_eq!(place(&a).lies(&place(&b)), None);
        assert_eq!(place(&b).lies(&place(&ab)), None);
    }
}
