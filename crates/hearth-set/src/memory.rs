//! The memory that agents which start here may have: the host's, or less where a control group bounds it, as queues of jobs
//! do.

use std::fs;
use std::path::{Path, PathBuf};

use crate::size::Size;

const GROUPS: &str = "/sys/fs/cgroup";

/// Shares of memory are whole numbers of this many bytes, so that pages of every size fit.
const SHARE_UNIT: u64 = 4 << 20;

/// A bound on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBound {
    /// In bytes.
    pub bytes: u64,
    /// Its source.
    pub by: BoundBy,
}

/// Sources of bounds on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundBy {
    /// The memory of the host.
    Host,
    /// A control group of this process.
    Group,
}

impl MemoryBound {
    /// The bound of this process.
    pub fn here() -> MemoryBound {
        let host = rustix::system::sysinfo();
        let bytes = host.totalram.saturating_mul(u64::from(host.mem_unit));
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let files = bounds_of(&groups);
        let said = files
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        let group = said
            .filter_map(|text| text.trim().parse::<u64>().ok())
            .min();
        match group.filter(|group| *group < bytes) {
            Some(bytes) => MemoryBound {
                bytes,
                by: BoundBy::Group,
            },
            None => MemoryBound {
                bytes,
                by: BoundBy::Host,
            },
        }
    }
}

/// Reads the size of a pool: as other sizes, or as a share of the memory that agents here may have, such as `10%`.
pub fn pool(text: &str) -> Result<Size, String> {
    share(text, || MemoryBound::here().bytes)
}

fn share(text: &str, memory: impl Fn() -> u64) -> Result<Size, String> {
    let Some(number) = text.strip_suffix('%') else {
        return text.parse();
    };
    match number.trim_end().parse::<u64>() {
        Ok(percent @ 1..=100) => {
            let bytes = memory() / 100 * percent;
            Ok(Size(bytes - bytes % SHARE_UNIT))
        }
        Ok(_) | Err(_) => Err(format!("`{text}` is no share of memory from 1% to 100%")),
    }
}

/// The files with the bounds of a process's groups and of those that these are in, of both versions.
fn bounds_of(groups: &str) -> Vec<PathBuf> {
    let each = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let group = Path::new(group.trim_start_matches('/'));
        let (root, file) = match controllers {
            "" => (PathBuf::from(GROUPS), "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                (Path::new(GROUPS).join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let groups = group
            .ancestors()
            .map(move |group| root.join(group).join(file));
        Some(groups.collect::<Vec<_>>())
    });
    each.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_a_size_or_a_share_of_memory() {
        let memory = || 1000 << 20;
        assert_eq!(share("64MiB", memory), Ok(Size(64 << 20)));
        assert_eq!(share("10%", memory), Ok(Size(100 << 20)));
        assert_eq!(share("7 %", memory), Ok(Size(68 << 20)), "whole pages");
        for wrong in ["0%", "101%", "%", "-5%", "1.5%", "ten%"] {
            let told = share(wrong, memory).unwrap_err();
            assert!(told.contains("from 1% to 100%"), "{told}");
        }
    }

    #[test]
    fn bounds_are_those_of_all_groups_around_a_process() {
        let paths = |groups: &str| {
            let files = bounds_of(groups);
            let texts = files.iter().map(|path| path.display().to_string());
            texts.collect::<Vec<_>>()
        };
        let new = paths("0::/slurm/job_7\n");
        assert_eq!(
            new,
            [
                "/sys/fs/cgroup/slurm/job_7/memory.max",
                "/sys/fs/cgroup/slurm/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        let old = paths("5:cpu,cpuacct:/a\n4:memory:/job\n");
        assert_eq!(
            old,
            [
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ]
        );
    }
}
