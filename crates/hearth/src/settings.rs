//! How a set is to be, as files, variables and the command line say it.
//!
//! Each is a layer, and a later one wins:
//!
//! 1. the file of the system, `/etc/hearth/hearth.toml`
//! 2. the user's file, `hearth.toml` in `$XDG_CONFIG_HOME/hearth`
//! 3. the store's file, `.hearth.toml` or `hearth.toml` in its root: some keys alone ([`file`])
//! 4. variables, `HEARTH_` and the key in capitals
//! 5. options
//!
//! A key is the name of an option ([`keys`]). Files say how a new set is to be. Variables and options also say how a set
//! must be that is up already.

mod file;
pub(crate) mod keys;
mod typed;

use std::fmt;
use std::path::{Path, PathBuf};

use hearth_set::failure::Failure;
use hearth_set::options::{SetArgs, SetSpec};

#[cfg(test)]
pub(crate) use file::OF_STORES;
pub(crate) use file::places;
use keys::Keys;
pub(crate) use typed::Typed;

/// Keys that only some policies heed. A layer that names another policy leaves those of the layers before it out.
const OF_POLICIES: [&str; 12] = [
    "allocation",
    "replicas",
    "balance",
    "tier",
    "tier-age",
    "fsync",
    "bank",
    "bank-memory",
    "bank-placement",
    "bank-update",
    "bank-attributes",
    "gateways",
];

/// The source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A line of a file.
    File { path: PathBuf, line: usize },
    /// A variable of the environment.
    Variable(String),
    /// An option.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::CommandLine => f.write_str("command line"),
        }
    }
}

/// A key and its value, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// The settings in force: each key at most once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    all: Vec<Setting>,
}

impl Settings {
    /// The settings in force for a set over a store.
    pub(crate) fn of<A>(store: &Path, typed: &Typed<A>) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        for place in places(store) {
            settings.add(place.read()?);
        }
        settings.asked_too(typed)
    }

    /// The settings without those of files.
    pub(crate) fn without_files<A>(typed: &Typed<A>) -> Result<Settings, Failure> {
        Settings::default().asked_too(typed)
    }

    fn asked_too<A>(mut self, typed: &Typed<A>) -> Result<Settings, Failure> {
        self.add(keys::variables(|name| std::env::var_os(name))?);
        self.add(typed.settings());
        Ok(self)
    }

    /// Puts a layer over those before it.
    fn add(&mut self, layer: Vec<Setting>) {
        let policy = |all: &[Setting]| {
            let said = all.iter().find(|setting| setting.key == "policy");
            said.map(|setting| setting.value.clone())
        };
        let before = policy(&self.all).unwrap_or_else(|| SetSpec::default().policy.to_string());
        if policy(&layer).is_some_and(|now| now != before) {
            self.all
                .retain(|setting| !OF_POLICIES.contains(&setting.key.as_str()));
        }
        let is_said = |key: &str| layer.iter().any(|setting| setting.key == key);
        self.all.retain(|setting| !is_said(&setting.key));
        self.all.extend(layer);
    }

    /// The setting of a key, if anybody said one.
    pub(crate) fn said(&self, key: &str) -> Option<&Setting> {
        self.all.iter().find(|setting| setting.key == key)
    }

    /// The same without what files and variables say of a key.
    pub(crate) fn but_typed(mut self, key: &str) -> Settings {
        self.all
            .retain(|setting| setting.key != key || setting.origin == Origin::CommandLine);
        self
    }

    /// All of them, as options.
    pub(crate) fn options(&self) -> Keys {
        Keys::of(self.all.iter())
    }

    /// Those that a set which is up must have: files do not ask.
    pub(crate) fn asked(&self) -> SetArgs {
        let is_asked = |setting: &&Setting| !matches!(setting.origin, Origin::File { .. });
        Keys::of(self.all.iter().filter(is_asked)).set
    }

    /// Options of the command line alone.
    pub(crate) fn typed(&self) -> SetArgs {
        let is_typed = |setting: &&Setting| setting.origin == Origin::CommandLine;
        Keys::of(self.all.iter().filter(is_typed)).set
    }

    /// The set of so many hosts that they describe. A refusal says which settings were not typed.
    pub(crate) fn resolve(&self, hosts: usize) -> Result<SetSpec, Failure> {
        let heeded = self.clone().heeded_on(hosts);
        let set = heeded.options().set;
        set.resolve().map_err(|failure| heeded.blame(failure))
    }

    /// The same without what files and variables say of sets of more hosts.
    pub(crate) fn heeded_on(self, hosts: usize) -> Settings {
        let set = self.options().set.described();
        let agents = hosts.max(set.agents as usize);
        let settings = if set.has_leases(agents) {
            self
        } else {
            self.but_typed("lease")
        };
        match hosts {
            1 => settings.but_typed("store-at"),
            _ => settings,
        }
    }

    /// Names the settings that were not typed, as causes that could be meant.
    pub(crate) fn blame(&self, failure: Failure) -> Failure {
        let elsewhere = self.all.iter();
        let elsewhere = elsewhere.filter(|setting| setting.origin != Origin::CommandLine);
        elsewhere.fold(failure, |failure, setting| {
            let Setting { key, value, origin } = setting;
            failure.cause(format!("{key} is {value} by {origin}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(origin: Origin, said: &[(&str, &str)]) -> Vec<Setting> {
        let settings = said.iter().map(|(key, value)| Setting {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
            origin: origin.clone(),
        });
        settings.collect()
    }

    fn file(said: &[(&str, &str)]) -> Vec<Setting> {
        let path = "/etc/hearth/hearth.toml".into();
        layer(Origin::File { path, line: 1 }, said)
    }

    #[test]
    fn later_layers_win() {
        let mut settings = Settings::default();
        settings.add(file(&[("pool", "64M"), ("close", "buffered")]));
        settings.add(layer(Origin::CommandLine, &[("pool", "32M")]));
        let spec = settings.resolve(1).unwrap();
        assert_eq!(spec.pool.0, 32 << 20);
        assert_eq!(settings.said("close").unwrap().value, "buffered");
        assert_eq!(settings.asked().close, None, "files ask nothing");
    }

    #[test]
    fn another_policy_leaves_out_what_went_with_the_one_before() {
        let mut settings = Settings::default();
        let said = [("policy", "local"), ("replicas", "sync"), ("pool", "64M")];
        settings.add(file(&said));
        let mut same = settings.clone();
        same.add(layer(Origin::CommandLine, &[("policy", "local")]));
        assert!(same.said("replicas").is_some());
        settings.add(layer(Origin::CommandLine, &[("policy", "home")]));
        assert!(settings.said("replicas").is_none() && settings.said("pool").is_some());
        settings.resolve(1).unwrap();
    }

    #[test]
    fn keys_of_sets_of_more_hosts_are_left_aside_unless_they_were_typed() {
        let mut settings = Settings::default();
        settings.add(file(&[("lease", "2s"), ("store-at", "0:7100")]));
        let lease = |hosts| settings.resolve(hosts).unwrap().lease.to_string();
        assert_eq!([lease(1), lease(2)], ["4s", "4s"]);
        assert!(settings.resolve(1).unwrap().store_at.is_none());
        assert!(settings.resolve(2).unwrap().store_at.is_some());
        settings.add(file(&[("membership", "embedded")]));
        assert_eq!(settings.resolve(1).unwrap().lease.to_string(), "2s");
        let typed = layer(Origin::CommandLine, &[("lease", "3s")]);
        settings.add(file(&[("membership", "static")]));
        settings.add(typed);
        settings.resolve(1).unwrap_err();
    }

    #[test]
    fn a_refusal_names_the_settings_that_were_not_typed() {
        let mut settings = Settings::default();
        settings.add(file(&[("chunk", "100K")]));
        let told = settings.resolve(1).unwrap_err().to_string();
        let cause = "caused by: chunk is 100K by /etc/hearth/hearth.toml:1";
        assert!(told.contains(cause), "{told}");
    }

    #[test]
    fn keys_of_policies_are_keys() {
        for key in OF_POLICIES {
            assert!(keys::all().contains(&key.to_owned()), "{key}");
        }
    }
}
