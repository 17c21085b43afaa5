# shellcheck shell=bash
# The kinds of stores that a rig can have. Each is a file beside this one with
#   KIND_build        starts its servers; waits until clients can come
#   KIND_mount HOST   mounts it at $dir/HOST/store, which is there
#   KIND_works HOST   optional: whether the mount can be used
# Servers live in the network namespace of a storage host, clients in that of their compute host, and
# all files are below $dir, so `down` needs nothing of them.
#
# Sourced by rig.sh.

# shellcheck source=rig/gluster.sh
source "$here/gluster.sh"
# shellcheck source=rig/moosefs.sh
source "$here/moosefs.sh"
# shellcheck source=rig/ceph.sh
source "$here/ceph.sh"
# shellcheck source=rig/nfs.sh
source "$here/nfs.sh"
# shellcheck source=rig/local.sh
source "$here/local.sh"

readonly STORES='gluster gluster-tuned moosefs ceph nfs ext4 xfs btrfs'

is_store() { [[ $1 != *' '* && " $STORES " == *" $1 "* ]]; }

# The file that knows this kind.
store_kind() {
    case $store in
        gluster*) echo gluster ;;
        ext4 | xfs | btrfs) echo local ;;
        *) echo "$store" ;;
    esac
}

build_store() { "$(store_kind)_build"; }

mount_store() {
    local host kind
    kind=$(store_kind)
    for host in $(hosts_of compute); do
        mkdir -- "$dir/$host/store"
        "${kind}_mount" "$host" || fail "\`$host\` cannot mount the store"
    done
    for host in $(hosts_of compute); do
        wait_until 30 store_works "$host" || fail "\`$host\` cannot use the store"
    done
}

store_works() {
    mountpoint -q -- "$dir/$1/store" && stat -f -- "$dir/$1/store" >/dev/null 2>&1 || return 1
    ! declare -F "$(store_kind)_works" >/dev/null || "$(store_kind)_works" "$1"
}

# The last errors in every log, for somebody who wonders why `up` failed.
show_errors() {
    local log
    for log in "$dir"/storage*/log/*.log "$dir"/storage*/log/bricks/*.log "$dir"/compute*/*.log; do
        [[ -e $log ]] || continue
        # Three complaints that every fresh daemon has say nothing.
        grep -H ' [EC] \[' -- "$log" | grep -Ev 'MSGID: (101032|106053|106061)' |
            tail -n 8 >&2 || true
    done
    for log in "$dir"/storage*/words "$dir"/compute*/words; do
        [[ ! -e $log ]] || tail -n 8 -- "$log" >&2
    done
}
