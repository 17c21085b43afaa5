#!/usr/bin/env bash
# Builds real rigs, runs the matrix program on them with each MPI that is installed, breaks things
# half-way, and checks that nothing stays behind. Takes half a minute; exits 77 when it must skip.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d /tmp/rig-test.XXXXXX)
one=$work/one two=$work/two
trap finish EXIT

finish() {
    local status=$?
    "$here/rig.sh" down "$one" 2>/dev/null
    "$here/rig.sh" down "$two" 2>/dev/null
    rm -rf --one-file-system -- "$work"
    ((status == 0)) || echo "FAILED (status $status)"
}

claim() { printf 'ok: %s\n' "$1"; }
broken() { printf 'broken: %s\n' "$1"; exit 1; }
rig() { "$here/rig.sh" "$@" 2>>"$work/words"; }

# The prefix of a rig's namespaces, kept for after the rig is gone.
tag_of() { cut -d' ' -f1 "$1/tag"; }

# gone DIR TAG
gone() {
    [[ ! -e $1 ]] || broken "$1 is still there"
    ! ip netns list | grep -q "^$2" || broken "namespaces of $2 are still there"
    ! findmnt --raw --noheadings --output TARGET | grep -q "^$1/" || broken "mounts stay in $1"
    # The pattern comes by stdin, or grep would find itself.
    ! grep -lsaF -f - /proc/[0-9]*/cmdline <<<"$1/" || broken "processes of $1 live on"
}

hosts_share_one_volume() {
    rig up "$one" --storage 2 --compute 4 >"$work/printed"
    cmp "$work/printed" "$one/rig.json" || broken 'up prints something else than rig.json'
    echo hello >"$one/compute0/store/word"
    [[ $(<"$one/compute3/store/word") == hello ]] || broken 'compute3 does not see the file'
    rm "$one/compute0/store/word"
}

rigs_live_side_by_side() {
    local tag
    rig up "$two" --compute 1 --rate 100mbit --volume-option performance.io-cache=off >/dev/null
    rig exec "$two" storage0 gluster volume info | grep -q '^performance.io-cache: off' ||
        broken 'the volume option is not set'
    tag=$(tag_of "$two")
    # A process that ignores SIGTERM and keeps a file of the mount open must not stop `down`.
    rig exec "$two" compute0 bash -c "trap '' TERM; exec 3>'$two/compute0/store/f'; sleep 60" &
    wait_for test -e "$two/compute0/store/f"
    rig down "$two"
    wait
    gone "$two" "$tag"
    [[ -d $one/compute0/store ]] || broken 'the other rig went too'
}

matrices_multiply() {
    local mpi
    make -s -C "$here/../workloads" OUT="$work/bin"
    for mpi in openmpi mpich; do
        [[ -x $work/bin/matmul.$mpi ]] || { echo "skipped: matmul with $mpi"; continue; }
        matmul "$mpi" --init >/dev/null
        # GlusterFS can look for a file for ever that four of its clients create at one instant.
        : >"$one/compute0/store/C"
        matmul "$mpi" --verify | grep -q '"ranks":4,.*"verified":true' || broken "$mpi: no product"
        # The checker has to be able to say no. Rank 0 checks, so its own mount is spoiled: through
        # another it could still see the good product for as long as GlusterFS trusts its caches.
        printf x | dd of="$one/compute0/store/C" bs=1 seek=50000 conv=notrunc status=none
        ! matmul "$mpi" --verify-only >/dev/null 2>&1 || broken "$mpi: a wrong product passed"
        claim "four ranks multiply on the volume ($mpi)"
    done
}

matmul() {
    "$here/mpirun.sh" "$one" --mpi "$1" -- "$work/bin/matmul.$1" "$one/compute%r/store" "${@:2}"
}

down_can_be_repeated() {
    local tag
    tag=$(tag_of "$one")
    rig down "$one"
    gone "$one" "$tag"
    rig down "$one"
}

# up_cut_short SIGNAL MOMENT: MOMENT is a path that appears during `up`.
up_cut_short() {
    local tag up
    "$here/rig.sh" up "$one" >/dev/null 2>&1 &
    up=$!
    wait_for test -s "$one/tag"
    tag=$(tag_of "$one")
    wait_for test -e "$one/$2"
    # It may be through before the signal comes: then there is a rig.
    kill -s "$1" "$up" 2>/dev/null || true
    if wait "$up" 2>/dev/null || [[ $1 == KILL ]]; then rig down "$one"; fi
    gone "$one" "$tag"
}

wait_for() {
    local deadline=$((SECONDS + 120))
    until "$@"; do
        ((SECONDS < deadline)) || broken "waited too long: $*"
        sleep 0.02
    done
}

"$here/rig.sh" check || { echo 'skipped: the rig lacks what is said above'; exit 77; }
hosts_share_one_volume; claim 'compute hosts share one volume of two storage hosts'
rigs_live_side_by_side; claim 'two rigs live side by side, and one goes alone though it is busy'
matrices_multiply
down_can_be_repeated; claim 'down leaves nothing and can be repeated'
for moment in compute0 storage0/glusterd.vol compute0/store; do
    up_cut_short TERM "$moment"; claim "up stopped at $moment leaves nothing"
    up_cut_short KILL "$moment"; claim "down clears an up that was killed at $moment"
done
