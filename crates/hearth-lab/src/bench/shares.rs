//! A share of this machine's processors for each test host, by control groups.
//!
//! Hosts of a rig are one machine. With a share each, of which all together are less than there is, a
//! host is as fast whether it is alone or not, as a host of a real cluster would be.

use hearth_set::failure::{Failure, OrFail};
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of control groups: the second version, and the first.
const UNIFIED: &str = "/sys/fs/cgroup";
const CPU: &str = "/sys/fs/cgroup/cpu";

/// A share is of this time, in microseconds: short, so that a host that has used its share waits briefly.
const PERIOD_US: u64 = 20_000;

/// Groups that stand; dropping this removes them, once nobody is in them.
pub(crate) struct Shares {
    groups: Vec<PathBuf>,
}

impl Shares {
    /// A group for each host, with so many hundredths of a processor.
    pub(crate) fn make<'a>(
        hosts: impl Iterator<Item = &'a str>,
        percent: u64,
    ) -> Result<Shares, Failure> {
        let mut shares = Shares { groups: Vec::new() };
        for host in hosts {
            let group = shares.make_one(host, PERIOD_US * percent / 100);
            group.or_fail(|| "cannot share the processors among the test hosts".to_owned())?;
        }
        Ok(shares)
    }

    fn make_one(&mut self, host: &str, quota_us: u64) -> std::io::Result<()> {
        let name = format!("hearth-{}-{host}", std::process::id());
        let is_first = Path::new(CPU).join("cpu.cfs_quota_us").exists()
            || Path::new(CPU).join("tasks").exists();
        let group = Path::new(if is_first { CPU } else { UNIFIED }).join(name);
        if !is_first {
            fs::write(Path::new(UNIFIED).join("cgroup.subtree_control"), "+cpu")?;
        }
        fs::create_dir(&group)?;
        self.groups.push(group.clone());
        if is_first {
            fs::write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            return fs::write(group.join("cpu.cfs_quota_us"), quota_us.to_string());
        }
        fs::write(group.join("cpu.max"), format!("{quota_us} {PERIOD_US}"))
    }

    /// File to which a process of a host writes its number to join the host's group.
    pub(crate) fn door(&self, host: &str) -> Option<PathBuf> {
        let end = format!("-{host}");
        let is_its = |group: &&PathBuf| group.to_string_lossy().ends_with(&end);
        let group = self.groups.iter().find(is_its);
        group.map(|group| group.join("cgroup.procs"))
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        for group in &self.groups {
            let _ = fs::remove_dir(group);
        }
    }
}
