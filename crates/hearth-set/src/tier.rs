//! The tiers of a set: a directory on a disk of each node, between its memory and the store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use hearth_agent::store::TierConfig;
use hearth_agent::{Replicas, Synced};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, OrFail};
use crate::job;
use crate::size::{HumanDuration, Size};
use crate::typed::{Typed, parser};

/// How long bytes may be in a tier alone.
const AGE: HumanDuration = HumanDuration(Duration::from_secs(30));

/// The options of the command line about tiers.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Tier (policy local)")]
pub struct TierArgs {
    /// A directory on a local disk that takes written bytes before the store does
    ///
    /// With a size after a colon, else half of what is free there. It is found again after a restart.
    #[arg(long, value_name = "DIR[:SIZE]", hide_short_help = true)]
    tier: Option<TierPlace>,
    /// How long bytes may be in the tier before they go to the store [default: 30s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    tier_age: Option<HumanDuration>,
    /// Promise of fsync: the bytes are in the store, or in the tier [default: store]
    #[arg(
        long,
        value_name = "WHERE",
        value_parser = parser::<Synced>(),
        hide_short_help = true,
        hide_possible_values = true
    )]
    fsync: Option<Synced>,
}

/// The directory of a tier, and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierPlace {
    /// A directory of this node.
    pub dir: PathBuf,
    /// The bytes that it may hold. Without a size it is half of what is free there.
    pub size: Option<Size>,
}

/// The tiers of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierSpec {
    /// Its directory and size.
    pub place: TierPlace,
    /// How long bytes may be in a tier alone.
    pub age: HumanDuration,
    /// The promise of fsync.
    #[serde(with = "crate::typed")]
    pub fsync: Synced,
}

impl FromStr for TierPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<TierPlace, String> {
        let (dir, size) = match text.rsplit_once(':') {
            Some((dir, size)) => (dir, Some(size.parse()?)),
            None => (text, None),
        };
        if dir.is_empty() {
            return Err("a tier is a directory, with a size after a colon if need be".to_owned());
        }
        let dir = std::path::absolute(dir).map_err(|error| error.to_string())?;
        Ok(TierPlace { dir, size })
    }
}

impl fmt::Display for TierPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dir.display())?;
        match self.size {
            Some(size) => write!(f, ":{size}"),
            None => Ok(()),
        }
    }
}

impl TierArgs {
    /// The tiers that the options describe, over those of `base`; `None` if nobody spoke of a tier.
    pub fn over(&self, base: Option<TierSpec>) -> Option<TierSpec> {
        let base = match (base, &self.tier) {
            (Some(base), _) => base,
            (None, Some(place)) => TierSpec {
                place: place.clone(),
                age: AGE,
                fsync: Synced::Store,
            },
            (None, None) => return None,
        };
        Some(TierSpec {
            place: self.tier.clone().unwrap_or(base.place),
            age: self.tier_age.unwrap_or(base.age),
            fsync: self.fsync.unwrap_or(base.fsync),
        })
    }

    /// Whether anything was said of tiers.
    pub fn is_said(&self) -> bool {
        self.tier.is_some() || self.tier_age.is_some() || self.fsync.is_some()
    }

    /// The first option that says something of a tier where there is none.
    pub fn astray(&self) -> Option<&'static str> {
        let age = self.tier_age.map(|_| "--tier-age");
        age.or(self.fsync.map(|_| "--fsync"))
            .filter(|_| self.tier.is_none())
    }
}

impl TierSpec {
    /// The tiers as names and values, for people.
    pub fn facts(&self) -> [(&'static str, String); 3] {
        [
            ("tier", self.place.to_string()),
            ("tier-age", self.age.to_string()),
            ("fsync", self.fsync.word().to_owned()),
        ]
    }

    /// The configuration for the agent of a store. Each has a directory of its own, by the store's path.
    pub fn of_agent(
        &self,
        store: &Path,
        node: u32,
        replicas: Replicas,
    ) -> Result<TierConfig, Failure> {
        let TierPlace { dir, size } = &self.place;
        let what = || format!("cannot use `{}` as a tier", dir.display());
        let number = job::hash(store.as_os_str().as_encoded_bytes());
        let own = dir.join(format!("hearth-{number:016x}-{node}"));
        if own.starts_with(store) {
            return Err(Failure::new(what()).cause("it lies in the store"));
        }
        let space = rustix::fs::statvfs(dir).or_fail(what)?;
        let limit = size.map_or(space.f_bavail * space.f_frsize / 2, |size| size.0);
        Ok(TierConfig {
            dir: own,
            limit,
            age: self.age.0,
            synced: self.fsync,
            kept_elsewhere: replicas != Replicas::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_stands_behind_the_last_colon() {
        let place: TierPlace = "/ssd:2GiB".parse().unwrap();
        assert_eq!(place.dir, Path::new("/ssd"));
        assert_eq!(place.size, Some(Size(2 << 30)));
        assert_eq!("/ssd".parse::<TierPlace>().unwrap().size, None);
        assert!("/ssd:many".parse::<TierPlace>().is_err());
        assert!(":1GiB".parse::<TierPlace>().is_err());
    }
}
