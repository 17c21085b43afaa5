//! Which directories are mounts of agents.

/// The kind of file system that agents mount.
const KIND: &str = "fuse.hearth";

/// Whether an agent mounts the file system with this device number.
pub(crate) fn is_agents(device: u64) -> bool {
    // Without the list nothing is known to be such a mount.
    let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    is_among(&String::from_utf8_lossy(&list), device)
}

/// A line has the device as its third word, and the kind as the first after a dash.
fn is_among(list: &str, device: u64) -> bool {
    let device = format!("{}:{}", libc::major(device), libc::minor(device));
    list.lines().any(|line| {
        let mut words = line.split(' ');
        let is_it = words.nth(2) == Some(&device);
        is_it && words.skip_while(|word| *word != "-").nth(1) == Some(KIND)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_known_by_its_device_and_kind() {
        let list = "29 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n\
                    36 29 0:40 / /mnt rw,nosuid shared:2 - fuse.hearth hearth rw,user_id=0\n";
        assert!(is_among(list, libc::makedev(0, 40)));
        assert!(!is_among(list, libc::makedev(254, 0)));
        assert!(!is_among(list, libc::makedev(0, 4)));
    }
}
