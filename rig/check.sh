# shellcheck shell=bash
# What a machine must have to carry a rig.
#
# Sourced by rig.sh.

# Commands and the Debian packages that bring them.
readonly NEEDED='
    ip:iproute2 tc:iproute2
    nsenter:util-linux unshare:util-linux findmnt:mount
    fusermount3:fuse3'

# The same for each kind of store.
needed_by() {
    case $1 in
        gluster*) echo glusterd:glusterfs-server gluster:glusterfs-cli glusterfs:glusterfs-client ;;
        moosefs) echo mfsmaster:moosefs-master mfschunkserver:moosefs-chunkserver mfsmount:moosefs-client ;;
        ceph) echo ceph-mon:ceph-mon ceph-mgr:ceph-mgr ceph-osd:ceph-osd ceph-mds:ceph-mds \
            ceph-fuse:ceph-fuse ceph:ceph-common ;;
        nfs) echo ganesha.nfsd:nfs-ganesha-vfs mount.nfs4:nfs-common ;;
        ext4) echo mkfs.ext4:e2fsprogs ;;
        xfs) echo mkfs.xfs:xfsprogs ;;
        btrfs) echo mkfs.btrfs:btrfs-progs ;;
    esac
}

# Says what is missing and what to type; succeeds when all is there.
check_store() {
    local pair packages=()
    problems=0
    is_store "$1" || misuse "\`$1\` is none of: $STORES"
    for pair in $NEEDED $(needed_by "$1"); do
        command -v "${pair%:*}" >/dev/null || packages+=("${pair#*:}")
    done
    if ((${#packages[@]})); then
        lacks packages "apt-get install $(printf '%s\n' "${packages[@]}" | sort -u | paste -sd' ')"
    fi
    [[ $1 != nfs ]] || grep -qw nfs4 /proc/filesystems || modprobe nfs 2>/dev/null ||
        lacks "the kernel's NFS client" 'modprobe nfs, or another kernel; Debian has no NFS client for FUSE'
    [[ -c /dev/fuse ]] || lacks '/dev/fuse' 'modprobe fuse'
    if ((EUID != 0)); then
        lacks 'the rights of root' "sudo $0 ..."
    elif ((problems == 0)); then
        kernel_shapes || lacks 'veth, bridge or tbf in the kernel' 'modprobe -a veth bridge sch_tbf'
    fi
    ((problems == 0))
}

check_quietly() { check_store "$1" 2>/dev/null; }

lacks() {
    printf 'missing: %s\n  type: %s\n' "$1" "$2" >&2
    problems=$((problems + 1))
}

# Tries every kind of device a rig needs in a namespace that vanishes with the shell.
kernel_shapes() {
    unshare --net -- bash -ec '
        ip link add br0 type bridge
        ip link add name veth0 type veth peer name veth1
        tc qdisc add dev veth0 root tbf rate 1gbit burst 100000 latency 50ms
    ' 2>/dev/null
}
