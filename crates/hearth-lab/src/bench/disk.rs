//! A disk of known speed: a file behind a loop device, whose writes the operating system spaces out.
//!
//! Disks of virtual machines are often as fast as memory, for a while. Over such a disk a benchmark of
//! what lies before the disk measures copies in memory.

use super::rig::run;
use hearth_set::failure::{Failure, OrFail};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File that limits bytes per second of a device (control groups, first version).
const LIMITS: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

/// A disk that is mounted; dropping it takes it away.
pub(super) struct Disk {
    device: Option<PathBuf>,
    limited: Option<String>,
    mounted: Option<PathBuf>,
}

impl Disk {
    /// Makes a disk of `bytes` that takes `rate` bytes per second, and mounts it below `dir`.
    pub(super) fn make(dir: &Path, bytes: u64, rate: u64) -> Result<Disk, Failure> {
        let what = || "cannot make a disk of known speed".to_owned();
        if !Path::new(LIMITS).exists() {
            return Err(Failure::new(what()).cause(format!("there is no `{LIMITS}`")));
        }
        let mut disk = Disk {
            device: None,
            limited: None,
            mounted: None,
        };
        let (image, at) = (dir.join("disk"), dir.join("on-disk"));
        let file = fs::File::create(&image).or_fail(what)?;
        file.set_len(bytes).or_fail(what)?;
        fs::create_dir(&at).or_fail(what)?;
        let told = run(Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&image))?;
        let device = PathBuf::from(told.trim());
        disk.device = Some(device.clone());
        let mut format = Command::new("mkfs.ext4");
        run(format
            .args(["-q", "-E", "nodiscard,lazy_itable_init=0"])
            .arg(&device))?;
        run(Command::new("mount").arg(&device).arg(&at))?;
        disk.mounted = Some(at);
        let number = fs::metadata(&device).or_fail(what)?.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        fs::write(LIMITS, format!("{major}:{minor} {rate}")).or_fail(what)?;
        disk.limited = Some(format!("{major}:{minor} 0"));
        Ok(disk)
    }

    /// Its mount point.
    pub(super) fn at(&self) -> &Path {
        self.mounted
            .as_deref()
            .expect("it was mounted when it was made")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unlimited = self.limited.iter().map(|line| {
            fs::write(LIMITS, line).or_fail(|| "cannot lift the limit of a device".to_owned())
        });
        let unmounted = self.mounted.iter();
        let unmounted = unmounted.map(|at| run(Command::new("umount").arg(at)).map(drop));
        let detached = self.device.iter();
        let detached = detached
            .map(|device| run(Command::new("losetup").arg("--detach").arg(device)).map(drop));
        for done in unlimited.chain(unmounted).chain(detached) {
            if let Err(failure) = done {
                eprintln!("{failure}");
            }
        }
    }
}
