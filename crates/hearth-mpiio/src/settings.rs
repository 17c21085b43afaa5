//! The settings of a job's cache, as the environment has them.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `HEARTH_STORE` | the directory whose files are cached; without it nothing is | |
//! | `HEARTH_POLICY` | who may keep what | `single` |
//! | `HEARTH_SEMANTICS` | what is promised: `posix` or `mpi` | `posix` |
//! | `HEARTH_PAGE_SIZE` | unit of coherence | 256KiB |
//! | `HEARTH_POOL` | memory of each rank | 64MiB |
//! | `HEARTH_CLOSE` | what close waits for: `flushed` or `buffered` | `flushed` |
//! | `HEARTH_BACKING` | kind of store | `posix` |
//! | `HEARTH_TRANSPORT` | how ranks reach each other: `shm`, `unix`, `tcp` or `mpi` | `shm` |
//! | `HEARTH_INTERFACE` | network interface by which other hosts reach this one | the first that is up |
//! | `HEARTH_REPORT` | directory for each rank's counts at the end | |

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::mounts;
use hearth_agent::net::Carrier;
use hearth_agent::store::StoreSpec;
use hearth_agent::{CloseRule, Policy, Semantics, pool_bytes_least};

const POOL_DEFAULT: u64 = 64 << 20;
const PAGE_DEFAULT: u32 = 256 << 10;
const CHUNK_BYTES: u64 = 8 << 20;

/// Settings of one job. All ranks must agree on all but the pool and what follows it.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The store's true path.
    pub(crate) root: PathBuf,
    /// The store's device.
    pub(crate) device: u64,
    root_ino: u64,
    pub(crate) policy: Policy,
    /// The policy as people write it.
    pub(crate) policy_name: &'static str,
    /// The level of semantics that is promised of every file.
    pub(crate) semantics: Semantics,
    pub(crate) page_bytes: u32,
    pub(crate) chunk_bytes: u64,
    pub(crate) close: CloseRule,
    pub(crate) backing: StoreSpec,
    pub(crate) pool_bytes: u64,
    pub(crate) transport: Transport,
    pub(crate) interface: Option<String>,
    pub(crate) report: Option<PathBuf>,
}

/// How ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// By sockets, or by memory where they share a host.
    Sockets(Carrier),
    /// By MPI.
    Mpi,
}

/// Transports by name; the first is the default.
const TRANSPORTS: [(&str, Transport); 4] = [
    ("shm", Transport::Sockets(Carrier::Shm)),
    ("unix", Transport::Sockets(Carrier::Unix)),
    ("tcp", Transport::Sockets(Carrier::Tcp)),
    ("mpi", Transport::Mpi),
];

fn transport(name: Option<String>) -> Result<Transport, String> {
    let name = name.as_deref().unwrap_or(TRANSPORTS[0].0);
    let found = TRANSPORTS.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, transport)| transport).ok_or_else(|| {
        let known = TRANSPORTS.map(|(name, _)| name).join(", ");
        format!("HEARTH_TRANSPORT={name} is no transport: expected one of {known}")
    })
}

/// Policies by name.
const POLICIES: [(&str, Policy); 5] = [
    ("single", Policy::Single),
    ("home", Policy::Home),
    ("hint", Policy::Hint),
    ("local", Policy::Local),
    ("none", Policy::None),
];

/// A policy by its name.
pub(crate) fn policy(name: &str) -> Option<(&'static str, Policy)> {
    POLICIES.into_iter().find(|(known, _)| *known == name)
}

/// Reads the environment; `None` if no store is named.
pub(crate) fn from_environment() -> Result<Option<Settings>, String> {
    read(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Settings>, String> {
    let Some(store) = variable("HEARTH_STORE").map(PathBuf::from) else {
        return Ok(None);
    };
    let unusable = |error| format!("cannot use the store `{}`: {error}", store.display());
    let root = store.canonicalize().map_err(unusable)?;
    let meta = root.metadata().map_err(unusable)?;
    if mounts::is_agents(meta.dev()) {
        return Err(format!(
            "`{}` is a mount of this node's agent, which serves it to all programs",
            root.display()
        ));
    }
    let word = |name: &str| -> Result<Option<String>, String> {
        let text = variable(name).map(OsString::into_string).transpose();
        text.map_err(|_| format!("{name} is no text"))
    };
    let name = word("HEARTH_POLICY")?.unwrap_or_else(|| "single".to_owned());
    let (policy_name, policy) = policy(&name).ok_or_else(|| {
        let known = POLICIES.map(|(name, _)| name).join(", ");
        format!("HEARTH_POLICY={name} is no policy: expected one of {known}")
    })?;
    let bytes = |name: &str, default| match word(name)? {
        None => Ok(default),
        Some(text) => size(&text).ok_or_else(|| format!("{name}={text} is no size, as 4MiB is")),
    };
    let page = bytes("HEARTH_PAGE_SIZE", u64::from(PAGE_DEFAULT))?;
    let page_bytes = page_size(page).ok_or_else(|| {
        format!("HEARTH_PAGE_SIZE of {page} bytes is no power of two from 4KiB to 4MiB")
    })?;
    let close = match word("HEARTH_CLOSE")?.as_deref() {
        None | Some("flushed") => CloseRule::Flushed,
        Some("buffered") => CloseRule::Buffered,
        Some(other) => {
            return Err(format!(
                "HEARTH_CLOSE={other}: expected flushed or buffered"
            ));
        }
    };
    let semantics = match word("HEARTH_SEMANTICS")?.as_deref() {
        None | Some("posix") => Semantics::Posix,
        Some("mpi") => Semantics::Mpi,
        Some(other) => {
            return Err(format!("HEARTH_SEMANTICS={other}: expected posix or mpi"));
        }
    };
    let backing = word("HEARTH_BACKING")?.unwrap_or_else(|| "posix".to_owned());
    Ok(Some(Settings {
        root,
        device: meta.dev(),
        root_ino: meta.ino(),
        policy,
        policy_name,
        semantics,
        page_bytes,
        chunk_bytes: CHUNK_BYTES,
        close,
        backing: StoreSpec::parse(&backing).map_err(|error| format!("HEARTH_BACKING: {error}"))?,
        pool_bytes: bytes("HEARTH_POOL", POOL_DEFAULT)?,
        transport: transport(word("HEARTH_TRANSPORT")?)?,
        interface: word("HEARTH_INTERFACE")?,
        report: variable("HEARTH_REPORT").map(PathBuf::from),
    }))
}

impl Settings {
    /// These settings with what hints ask for.
    pub(crate) fn with(&self, hints: Hints) -> Settings {
        let mut settings = self.clone();
        let chosen = usize::from(hints.policy).checked_sub(1);
        if let Some((name, policy)) = chosen.and_then(|place| POLICIES.get(place)) {
            (settings.policy_name, settings.policy) = (name, *policy);
        }
        if hints.page_bytes > 0 {
            settings.page_bytes = hints.page_bytes;
        }
        if hints.pool_bytes >= pool_bytes_least(settings.page_bytes) {
            settings.pool_bytes = hints.pool_bytes;
        }
        settings
    }

    /// The settings that all ranks must have alike, as one number.
    pub(crate) fn digest(&self) -> u64 {
        let alike = format!(
            "{}\0{}\0{}\0{}\0{}\0{:?}\0{}\0{:?}",
            self.root.display(),
            self.root_ino,
            self.policy_name,
            self.semantics.name(),
            self.page_bytes,
            self.close,
            self.backing,
            self.transport
        );
        // FNV-1a: the same on every host and in every build.
        alike.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// The settings that hints ask for, of a job that has not begun to cache; 0 if they ask for nothing that can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// The policy's place in the list, counted from 1.
    policy: u8,
    page_bytes: u32,
    pool_bytes: u64,
}

/// Bytes by which ranks tell each other hints.
pub(crate) const HINTS_BYTES: usize = 1 + 4 + 8;

impl Hints {
    /// Hints in words, by the names that these variables' settings have; a value that cannot be
    /// is none.
    pub(crate) fn of(word: impl Fn(&str) -> Option<String>) -> Hints {
        let place = |name: String| POLICIES.iter().position(|(known, _)| *known == name);
        let policy = word(POLICY_HINT).and_then(place);
        let page = word(PAGE_HINT).and_then(|text| page_size(size(&text)?));
        let pool = word(POOL_HINT).and_then(|text| size(&text));
        Hints {
            policy: policy.map_or(0, |place| place as u8 + 1),
            page_bytes: page.unwrap_or_default(),
            pool_bytes: pool.unwrap_or_default(),
        }
    }

    pub(crate) fn encode(self) -> [u8; HINTS_BYTES] {
        let mut bytes = [0; HINTS_BYTES];
        bytes[0] = self.policy;
        bytes[1..5].copy_from_slice(&self.page_bytes.to_le_bytes());
        bytes[5..].copy_from_slice(&self.pool_bytes.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: [u8; HINTS_BYTES]) -> Hints {
        let [policy, a, b, c, d, pool @ ..] = bytes;
        Hints {
            policy,
            page_bytes: u32::from_le_bytes([a, b, c, d]),
            pool_bytes: u64::from_le_bytes(pool),
        }
    }
}

/// Hints that shape a job.
pub(crate) const POLICY_HINT: &str = "hearth_policy";
pub(crate) const PAGE_HINT: &str = "hearth_page_size";
pub(crate) const POOL_HINT: &str = "hearth_pool";

/// A page size that can be.
pub(crate) fn page_size(bytes: u64) -> Option<u32> {
    let page = u32::try_from(bytes).ok()?;
    (page.is_power_of_two() && (4 << 10..=4 << 20).contains(&page)).then_some(page)
}

/// A number of bytes: `65536`, `64KiB`, `64k`, `1.5` is none.
pub(crate) fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        read(|name| {
            let found = values.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn sizes_are_written_as_people_write_them() {
        assert_eq!(size("65536"), Some(65536));
        assert_eq!(size("64KiB"), Some(65536));
        assert_eq!(size("2m"), Some(2 << 20));
        for bad in [
            "",
            "k",
            "-1",
            "1.5m",
            "99999999999999999999",
            "17179869184g",
        ] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn hints_that_can_be_travel_and_are_heeded() {
        let dir = tempfile::tempdir().unwrap();
        let store = ("HEARTH_STORE", dir.path().to_str().unwrap());
        let plain = with(&[store]).unwrap().unwrap();
        let words = [
            (POLICY_HINT, "home"),
            (PAGE_HINT, "64k"),
            (POOL_HINT, "8MiB"),
        ];
        let hints = Hints::of(|name| {
            let found = words.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        let shaped = plain.with(Hints::decode(hints.encode()));
        assert_eq!((shaped.policy_name, shaped.policy), ("home", Policy::Home));
        assert_eq!((shaped.page_bytes, shaped.pool_bytes), (64 << 10, 8 << 20));
        let wrong = Hints::of(|_| Some("3000".to_owned()));
        assert_eq!(plain.with(wrong).page_bytes, plain.page_bytes);
        assert_eq!(plain.with(wrong).policy_name, "single");
        assert_eq!(plain.with(Hints::default()).digest(), plain.digest());
    }

    #[test]
    fn without_a_store_nothing_else_is_looked_at() {
        assert!(with(&[("HEARTH_POLICY", "wrong")]).unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_could() {
        let dir = tempfile::tempdir().unwrap();
        let store = ("HEARTH_STORE", dir.path().to_str().unwrap());
        let plain = with(&[store]).unwrap().unwrap();
        assert_eq!(
            (plain.policy_name, plain.pool_bytes),
            ("single", POOL_DEFAULT)
        );
        let refused = |name, value| with(&[store, (name, value)]).unwrap_err();
        assert!(refused("HEARTH_POLICY", "best").contains("single, home"));
        assert!(refused("HEARTH_PAGE_SIZE", "3000").contains("power of two"));
        assert!(refused("HEARTH_POOL", "much").contains("4MiB"));
        assert!(refused("HEARTH_CLOSE", "never").contains("buffered"));
        assert!(refused("HEARTH_SEMANTICS", "cto").contains("posix or mpi"));
        assert!(refused("HEARTH_BACKING", "tape").contains("unknown store"));
        assert!(refused("HEARTH_TRANSPORT", "pigeon").contains("shm, unix, tcp, mpi"));
        let missing = with(&[("HEARTH_STORE", "/nowhere/at/all")]).unwrap_err();
        assert!(missing.contains("/nowhere/at/all"));
        let other = with(&[store, ("HEARTH_PAGE_SIZE", "4k")]).unwrap().unwrap();
        assert_ne!(plain.digest(), other.digest());
    }
}
