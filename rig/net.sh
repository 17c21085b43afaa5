# shellcheck shell=bash
# Hosts and their network: one namespace per host, one more for the switch between them. The network
# of the machine itself is never touched: each link is born with its two ends in their namespaces.
#
# Sourced by rig.sh; uses `tag` and `dir` of the rig at hand.

# The same in every rig: no rig can reach another, or the machine.
readonly SUBNET=10.77

netns_of() { printf '%s-%s' "$tag" "$1"; }
netns_path() { printf '/run/netns/%s-%s' "$tag" "$1"; }

# Names of this rig's existing namespaces of one kind (`storage`, `compute` or `switch`).
namespaces_of() {
    local path
    for path in /run/netns/"$tag-$1"*; do
        if [[ -e $path ]]; then printf '%s\n' "${path##*/}"; fi
    done
}

make_switch() {
    local netns
    netns=$(netns_of switch)
    ip netns add "$netns"
    ip -n "$netns" link add br0 type bridge
    ip -n "$netns" link set br0 up
}

# make_host NAME ADDRESS: a namespace with a shaped link to the switch.
make_host() {
    local netns switch
    netns=$(netns_of "$1")
    switch=$(netns_of switch)
    ip netns add "$netns"
    ip -n "$netns" link set lo up
    ip -n "$switch" link add "$1" type veth peer name eth0 netns "$netns"
    ip -n "$switch" link set "$1" master br0 up
    ip -n "$netns" addr add "$2/16" dev eth0
    ip -n "$netns" link set eth0 up
    shape "$netns" eth0
    shape "$switch" "$1"
    tune "$netns"
    mkdir -- "$dir/$1"
}

# shape NETNS DEVICE: limits what leaves by the device. Both ends of a link are shaped, so the limit
# holds in each direction.
shape() {
    # A bucket of 2 ms, yet no smaller than an unsegmented packet of 64 KiB, which could never pass.
    local burst=$(($(rate_bits "$rate") / 8 / 500))
    ((burst >= 65536 + 1514)) || burst=$((65536 + 1514))
    tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst "$burst" latency 50ms
}

# tune NETNS: connections as the hosts of a cluster have them, whatever this machine's own are for: windows that
# shrink with losses, and do not begin anew after a pause. Of such, reno is the one that a namespace may choose.
tune() {
    nsenter --net="$(printf '/run/netns/%s' "$1")" -- sysctl -qw \
        net.ipv4.tcp_congestion_control=reno net.ipv4.tcp_slow_start_after_idle=0
}

# Bits per second of a rate in tc's notation (kbit, mbit and gbit are enough here).
rate_bits() {
    [[ $1 =~ ^([1-9][0-9]{0,5})([kmg])bit$ ]] || return 1
    case ${BASH_REMATCH[2]} in
        k) echo $((BASH_REMATCH[1] * 1000)) ;;
        m) echo $((BASH_REMATCH[1] * 1000000)) ;;
        g) echo $((BASH_REMATCH[1] * 1000000000)) ;;
    esac
}

# compute_exec HOST COMMAND...: becomes a command on a compute host. `ip netns exec` would also give
# it a mount namespace of its own, and a mount made there could not be seen by anyone else.
compute_exec() { exec nsenter --net="$(netns_path "$1")" -- "${@:2}"; }
compute_run() { (compute_exec "$@"); }

# Process ids in this rig's namespaces of one kind. Being in the namespace is what makes a process
# the rig's (R2), so an id that was recycled outside of it cannot appear here.
processes_of() {
    local netns
    for netns in $(namespaces_of "$1"); do
        ip netns pids "$netns"
    done
}

no_processes() { [[ -z $(processes_of "$1") ]]; }

signal_processes() {
    local pid
    for pid in $(processes_of "$1"); do
        kill -s "$2" "$pid" 2>/dev/null || true
    done
}

# end_processes KIND: asks politely, then insists.
end_processes() {
    signal_processes "$1" TERM
    if wait_until 5 no_processes "$1"; then return 0; fi
    signal_processes "$1" KILL
    wait_until 5 no_processes "$1"
}

delete_hosts() {
    local netns
    for netns in $(namespaces_of "$1"); do
        ip netns delete "$netns"
    done
}

# Mount points below a directory, deepest first.
mounts_below() {
    findmnt --raw --noheadings --output TARGET |
        awk -v dir="$1/" 'index($0, dir) == 1' | sort -r
}

# unmount_below DIR [UMOUNT-OPTION]: a mount that is in use stays, for the next try.
unmount_below() {
    local target
    while read -r target; do
        # A client that has stopped answering must not hang us too.
        timeout 5 umount "${@:2}" -- "$target" 2>/dev/null || true
    done < <(mounts_below "$1")
}

# abort_below DIR: ends FUSE mounts that are still there. A client that waits for a page which it serves
# itself does not even die of SIGKILL before.
abort_below() {
    local connections=/sys/fs/fuse/connections number
    mountpoint -q "$connections" || mount -t fusectl none "$connections" 2>/dev/null || return 0
    while read -r number; do
        echo 1 2>/dev/null >"$connections/$number/abort" || true
    done < <(awk -v dir="$1/" 'index($5, dir) == 1 && / - fuse/ { split($3, device, ":"); print device[2] }' \
        /proc/self/mountinfo)
}
