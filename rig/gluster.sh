# shellcheck shell=bash
# The GlusterFS volume of a rig: a daemon and a brick on every storage host, a client on every
# compute host.
#
# Sourced by rig.sh; uses `dir`, `tag` and the options of the rig at hand.

readonly VOLUME=hearth

# Directories that GlusterFS names in its code, whatever its options say, and where each is found
# below a storage host's own directory. All of /run, because glusterd.socket is put right there.
readonly GLUSTER_DIRS='/var/lib/glusterd:lib /var/log/glusterfs:log /run:run'

# storage_exec HOST COMMAND...: becomes a command on a storage host, where GlusterFS's directories
# are the host's own. Each call gets a fresh mount namespace with the same content, which therefore
# need not be kept anywhere.
storage_exec() {
    # The copy of the machine's mounts drops every FUSE mount at once: it would otherwise keep the
    # file systems of other rigs alive after they are unmounted.
    # shellcheck disable=SC2016 # the inner shell expands these
    exec nsenter --net="$(netns_path "$1")" -- unshare --mount -- bash -euc '
        own=$1 dirs=$2
        shift 2
        findmnt --raw --noheadings --output TARGET,FSTYPE | sort -r |
            while read -r target type; do
                [[ $type == fuse* ]] || continue
                # A mount goes by itself when its directory is removed meanwhile, here too.
                umount --lazy -- "$target" 2>/dev/null || ! mountpoint -q -- "$target"
            done
        for pair in $dirs; do
            mount --bind -- "$own/${pair#*:}" "${pair%:*}"
        done
        exec "$@"
    ' storage "$dir/$1" "$GLUSTER_DIRS" "${@:2}"
}

storage_run() { (storage_exec "$@"); }

# The daemon may fail without an answer, which the command line tool awaits for two minutes.
gluster_on() { storage_run "$1" timeout 30 gluster --mode=script "${@:2}" </dev/null; }

gluster_build() {
    local host
    for host in $(hosts_of storage); do
        start_daemon "$host"
    done
    for host in $(hosts_of storage); do
        wait_until 20 daemon_answers "$host" || fail "glusterd on \`$host\` does not answer"
    done
    join_pool
    tune_volume
    create_volume
}

# What sites set where few files are shared: names, attributes and bytes kept for long.
tune_volume() {
    [[ $store == gluster-tuned ]] || return 0
    volume_options=(
        features.cache-invalidation=on features.cache-invalidation-timeout=600
        performance.cache-invalidation=on performance.md-cache-timeout=600
        performance.stat-prefetch=on performance.nl-cache=on performance.nl-cache-timeout=600
        performance.readdir-ahead=on performance.parallel-readdir=on
        performance.cache-size=256MB performance.cache-refresh-timeout=10
        network.inode-lru-limit=200000
        ${volume_options[@]+"${volume_options[@]}"}
    )
    client_options=(
        --attribute-timeout=30 --entry-timeout=30 --negative-timeout=30
        ${client_options[@]+"${client_options[@]}"}
    )
}

start_daemon() {
    local home=$dir/$1
    mkdir -- "$home"/{lib,log,run,run/gluster,brick}
    # Without the keepalive options no peer can be added.
    cat >"$home/glusterd.vol" <<VOL
volume management
    type mgmt/glusterd
    option working-directory /var/lib/glusterd
    option transport-type socket
    option transport.socket.keepalive-time 10
    option transport.socket.keepalive-interval 2
    option transport.socket.listen-port 24007
    option ping-timeout 0
end-volume
VOL
    storage_run "$1" glusterd --volfile="$home/glusterd.vol" --log-file="$home/log/glusterd.log" \
        --pid-file="$home/run/glusterd.pid" </dev/null >&2
}

daemon_answers() { gluster_on "$1" pool list >/dev/null 2>&1; }

# The first storage host invites the others.
join_pool() {
    local host
    ((storage_count > 1)) || return 0
    for host in $(hosts_of storage | tail -n +2); do
        gluster_on storage0 peer probe "$(addr_of "$host")" >/dev/null
    done
    for host in $(hosts_of storage); do
        wait_until 20 pool_complete "$host" || fail "the storage hosts do not find each other"
    done
}

# Every host must agree, or creating the volume is refused.
pool_complete() {
    local joined
    joined=$(gluster_on "$1" peer status | grep -c '^State: Peer in Cluster (Connected)') || true
    ((joined == storage_count - 1))
}

create_volume() {
    local host option bricks=()
    for host in $(hosts_of storage); do
        bricks+=("$(addr_of "$host"):$dir/$host/brick")
    done
    # `force`: the bricks may lie on the machine's root file system, which suits a test.
    gluster_on storage0 volume create "$VOLUME" transport tcp "${bricks[@]}" force >&2
    for option in ${volume_options[@]+"${volume_options[@]}"}; do
        gluster_on storage0 volume set "$VOLUME" "${option%%=*}" "${option#*=}" >&2
    done
    gluster_on storage0 volume start "$VOLUME" >&2
    wait_until 20 bricks_online || fail 'a brick did not start'
}

bricks_online() {
    local online
    online=$(gluster_on storage0 volume status "$VOLUME" detail | grep -c '^Online *: Y') || true
    ((online == storage_count))
}

gluster_mount() {
    local home=$dir/$1
    compute_run "$1" glusterfs --volfile-server="$(addr_of storage0)" --volfile-id="/$VOLUME" \
        --log-file="$home/client.log" --pid-file="$home/client.pid" --process-name=fuse \
        ${client_options[@]+"${client_options[@]}"} "$home/store" </dev/null >&2
}
