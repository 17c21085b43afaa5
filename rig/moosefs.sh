# shellcheck shell=bash
# The MooseFS of a rig: a master and a chunk server on the first storage host, a client on every
# compute host.
#
# Sourced by rig.sh; uses `dir` and the functions of net.sh.

moosefs_build() {
    local home=$dir/storage0 addr
    addr=$(addr_of storage0)
    mkdir -- "$home"/{master,chunks,disk}
    # A fresh master begins with these eight bytes: an empty file system.
    printf 'MFSM NEW' >"$home/master/metadata.mfs"
    printf '* / rw,alldirs,admin,maproot=0:0\n' >"$home/exports.cfg"
    printf '%s\n' "$home/disk" >"$home/hdd.cfg"
    cat >"$home/master.cfg" <<CFG
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = $home/master
EXPORTS_FILENAME = $home/exports.cfg
CFG
    cat >"$home/chunks.cfg" <<CFG
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = $home/chunks
HDD_CONF_FILENAME = $home/hdd.cfg
MASTER_HOST = $addr
MASTER_RECONNECTION_DELAY = 1
CFG
    compute_run storage0 mfsmaster -c "$home/master.cfg" start </dev/null >>"$home/words" 2>&1
    compute_run storage0 mfschunkserver -c "$home/chunks.cfg" start </dev/null >>"$home/words" 2>&1
}

moosefs_mount() {
    compute_run "$1" mfsmount "$dir/$1/store" -H "$(addr_of storage0)" \
        ${client_options[@]+"${client_options[@]}"} </dev/null >>"$dir/$1/words" 2>&1
}

# The first bytes can wait for seconds until the chunk server takes them.
moosefs_works() {
    local probe=$dir/$1/store/.rig-$1
    timeout 25 dd if=/dev/zero of="$probe" bs=1 count=1 conv=fsync 2>/dev/null &&
        timeout 25 dd if=/dev/zero of="$probe" bs=1 count=2 conv=notrunc,fsync 2>/dev/null
    rm -f -- "$probe"
}
