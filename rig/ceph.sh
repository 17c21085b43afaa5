# shellcheck shell=bash
# The CephFS of a rig: a monitor, a manager, a metadata server and an object store in memory on the
# first storage host, and ceph-fuse on every compute host.
#
# Sourced by rig.sh; uses `dir` and the functions of net.sh.

# Room of the object store, all of it memory that is taken as files grow.
readonly CEPH_BYTES=$((6 << 30))

ceph_build() {
    local home=$dir/storage0 addr
    addr=$(addr_of storage0)
    mkdir -- "$home"/{mon,mgr,osd,mds,run,log}
    ceph_configure "$home" "$addr"
    ceph_daemon monmaptool --create --fsid "$(ceph_fsid)" --addv a "$(ceph_doors "$addr")" \
        "$home/monmap"
    ceph_daemon ceph-mon --mkfs -i a --monmap "$home/monmap"
    ceph_daemon ceph-mon -i a
    wait_until 40 ceph_ask -s || fail 'the monitor of Ceph does not answer'
    ceph_daemon ceph-mgr -i a
    # The monitor ignores an object store that has another number than it was told.
    ceph_ask osd new "$(ceph_fsid)" || fail 'Ceph takes no object store'
    ceph_daemon ceph-osd -i 0 --mkfs --osd-uuid "$(ceph_fsid)"
    ceph_daemon ceph-osd -i 0
    wait_until 40 ceph_has_osd || fail 'the object store of Ceph does not come'
    ceph_ask osd pool create metadata 8 && ceph_ask osd pool create data 8 &&
        ceph_ask fs new hearth metadata data || fail 'Ceph makes no file system'
    ceph_daemon ceph-mds -i a
    wait_until 60 ceph_has_mds || fail 'the metadata server of Ceph does not come'
}

ceph_configure() {
    local home=$1
    cat /proc/sys/kernel/random/uuid >"$home/fsid"
    cat >"$home/ceph.conf" <<CONF
[global]
fsid = $(ceph_fsid)
mon_host = $(ceph_doors "$2")
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
admin_socket = $home/run/\$name.\$pid.asok
log_file = $home/log/\$name.log
crash_dir = $home/log
mon_cluster_log_file = $home/log/cluster.log
osd_pool_default_size = 1
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
[mon]
mon_data = $home/mon
[mgr]
mgr_data = $home/mgr
[osd]
osd_data = $home/osd
osd_objectstore = memstore
memstore_device_bytes = $CEPH_BYTES
[mds]
mds_data = $home/mds
[client]
log_file = $home/log/client.log
CONF
}

ceph_doors() { printf '[v2:%s:3300,v1:%s:6789]' "$1" "$1"; }

ceph_fsid() { cat -- "$dir/storage0/fsid"; }

ceph_daemon() {
    local conf=(-c "$dir/storage0/ceph.conf")
    [[ $1 != monmaptool ]] || conf=()
    compute_run storage0 "$1" "${conf[@]}" "${@:2}" </dev/null >>"$dir/storage0/words" 2>&1
}

ceph_ask() {
    compute_run storage0 timeout 20 ceph -c "$dir/storage0/ceph.conf" "$@" \
        </dev/null >>"$dir/storage0/words" 2>&1
}

ceph_says() {
    compute_run storage0 timeout 20 ceph -c "$dir/storage0/ceph.conf" "${@:2}" </dev/null 2>&1 |
        grep -q "$1"
}
ceph_has_osd() { ceph_says '1 up' osd stat; }
ceph_has_mds() { ceph_says 'up:active' mds stat; }

ceph_mount() {
    mkdir -p -- "$dir/$1/run"
    compute_run "$1" ceph-fuse -c "$dir/storage0/ceph.conf" --id admin \
        --log-file="$dir/$1/client.log" --admin-socket="$dir/$1/run/client.asok" \
        ${client_options[@]+"${client_options[@]}"} "$dir/$1/store" </dev/null >>"$dir/$1/words" 2>&1
}

# Until the manager has counted there is no room.
ceph_works() { (($(stat -f -c %a -- "$dir/$1/store" 2>/dev/null || echo 0) > 0)); }
