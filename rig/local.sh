# shellcheck shell=bash
# A file system of one machine as the store of a rig: ext4, XFS or btrfs on a loop device, which
# every compute host sees. What a host of a cluster would cache by itself is not shown by it.
#
# Sourced by rig.sh; uses `dir` and `store`.

readonly DISK_BYTES=4G

local_build() {
    local home=$dir/storage0
    mkdir -- "$home/disk"
    truncate -s "$DISK_BYTES" -- "$home/image"
    case $store in
        ext4) mkfs.ext4 -q -F "$home/image" >>"$home/words" 2>&1 ;;
        xfs) mkfs.xfs -q "$home/image" >>"$home/words" 2>&1 ;;
        btrfs) mkfs.btrfs -q "$home/image" >>"$home/words" 2>&1 ;;
    esac
    # The loop device goes with its mount.
    mount -o loop -t "$store" -- "$home/image" "$home/disk"
    rm -rf -- "$home/disk/lost+found"
    chmod 755 -- "$home/disk"
}

local_mount() { mount --bind -- "$dir/storage0/disk" "$dir/$1/store"; }
