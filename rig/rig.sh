#!/usr/bin/env bash
# Test hosts on one machine: storage hosts that serve a real file system and compute hosts that mount
# it, each in a network namespace of its own, joined by shaped links. README.md has the tour.
#
# Three facts hold at every moment of a rig's life, so `down` needs no records and can finish what
# an `up` that was killed half-way left behind:
#   R1: DIR/tag was written first, and the name of every namespace of the rig begins with it.
#   R2: every process of the rig lives in one of those namespaces.
#   R3: every mount and every file of the rig is below DIR.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=rig/net.sh
source "$here/net.sh"
# shellcheck source=rig/stores.sh
source "$here/stores.sh"
# shellcheck source=rig/check.sh
source "$here/check.sh"

readonly USAGE='usage: rig.sh check [STORE]
       rig.sh up DIR [--store gluster] [--storage 1] [--compute 4] [--rate 1gbit]
               [--volume-option KEY=VALUE]... [--client-option WORD]...
       rig.sh stores
       rig.sh exec DIR HOST COMMAND [ARGUMENT]...
       rig.sh down DIR'

say() { printf 'rig: %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
misuse() { printf 'error: %s\n%s\n' "$*" "$USAGE" >&2; exit 2; }

# wait_until SECONDS COMMAND...: polls until the command succeeds; fails when the time is over.
wait_until() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.05
    done
}

# ---- up -----------------------------------------------------------------------------------------

store=gluster
storage_count=1
compute_count=4
rate=1gbit
volume_options=() client_options=()

parse_up_options() {
    while (($#)); do
        # `--key=value` is read as `--key value`.
        if [[ $1 == --*=* ]]; then
            set -- "${1%%=*}" "${1#*=}" "${@:2}"
        fi
        (($# >= 2)) || misuse "\`$1\` needs a value"
        case $1 in
            --store) store=$2 ;;
            --storage) storage_count=$2 ;;
            --compute) compute_count=$2 ;;
            --rate) rate=$2 ;;
            --volume-option) volume_options+=("$2") ;;
            --client-option) client_options+=("$2") ;;
            *) misuse "unknown option \`$1\`" ;;
        esac
        shift 2
    done
    check_up_options
}

check_up_options() {
    local option
    # A host's number is in the last part of its address.
    [[ $storage_count =~ ^(0|[1-9][0-9]{0,2})$ ]] && ((storage_count <= 250)) ||
        misuse "\`--storage $storage_count\` is not a count from 0 to 250"
    [[ $compute_count =~ ^[1-9][0-9]{0,2}$ ]] && ((compute_count <= 250)) ||
        misuse "\`--compute $compute_count\` is not a count from 1 to 250"
    is_store "$store" || misuse "\`--store $store\` is none of: $STORES"
    [[ $store == gluster* ]] || ((storage_count <= 1)) || misuse "$store has one storage host here"
    rate_bits "$rate" >/dev/null || misuse "\`--rate $rate\` is not a rate such as 1gbit or 100mbit"
    for option in ${volume_options[@]+"${volume_options[@]}"}; do
        [[ $option == ?*=?* ]] || misuse "\`--volume-option $option\` is not KEY=VALUE"
    done
}

# Makes DIR and its tag (R1). Only an empty directory is taken, because `down` empties it.
claim_dir() {
    local made=no
    if [[ ! -e $dir ]]; then
        mkdir -p -- "$dir"
        made=yes
    fi
    [[ -z $(ls -A -- "$dir") ]] || fail "cannot build a rig in \`$dir\`: it is not empty"
    tag=hearth-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
    printf '%s %s\n' "$tag" "$made" >"$dir/tag"
}

up() {
    dir=$(realpath -m -- "$1")
    shift
    parse_up_options "$@"
    # GlusterFS splits brick paths and volume files at blanks, colons and the like.
    [[ $dir =~ ^[A-Za-z0-9_./-]+$ ]] || fail "cannot build a rig in \`$dir\`:" \
        'its name may hold letters, digits and . _ - only'
    check_quietly "$store" ||
        fail "this machine cannot build such a rig; \`rig.sh check $store\` says why"
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    claim_dir
    trap 'undo_up $?' EXIT
    build_hosts
    if ((storage_count > 0)); then
        build_store
        mount_store
    fi
    write_description
    trap - EXIT
    cat -- "$dir/rig.json"
}

undo_up() {
    trap '' INT TERM HUP
    trap - EXIT
    # A cleaning step that fails must not keep the next one from running.
    set +e
    if (($1 == 1)); then show_errors; fi
    say "up did not finish (status $1); taking the rig down"
    down "$dir"
    exit "$1"
}

build_hosts() {
    local host
    say "building $storage_count storage and $compute_count compute hosts, links of $rate"
    make_switch
    while read -r host addr; do
        make_host "$host" "$addr"
    done < <(host_table | tee -- "$dir/hosts")
}

# One line `NAME ADDRESS` for every host. Hosts count from 0, as MPI ranks do.
host_table() {
    local i
    for ((i = 0; i < storage_count; i++)); do echo "storage$i $SUBNET.1.$((i + 1))"; done
    for ((i = 0; i < compute_count; i++)); do echo "compute$i $SUBNET.2.$((i + 1))"; done
}

# Names of this rig's hosts of one kind (`storage` or `compute`), in order.
hosts_of() { sed -n "s/^\($1[0-9]*\) .*/\1/p" -- "$dir/hosts"; }
addr_of() { sed -n "s/^$1 //p" -- "$dir/hosts"; }

write_description() {
    {
        printf '{"dir":"%s","store":"%s","volume":"%s",' "$dir" "$store" "$VOLUME"
        printf '"storage":[%s],' "$(hosts_of storage | describe_hosts)"
        printf '"compute":[%s]}\n' "$(hosts_of compute | describe_hosts)"
    } >"$dir/rig.json"
}

describe_hosts() {
    local host comma=''
    while read -r host; do
        printf '%s{"name":"%s","netns":"%s","addr":"%s"' \
            "$comma" "$host" "$(netns_of "$host")" "$(addr_of "$host")"
        if [[ $host == compute* ]]; then printf ',"mount":"%s"' "$dir/$host/store"; fi
        printf '}'
        comma=,
    done
}

# ---- exec and down -----------------------------------------------------------------------------

# Reads the tag of the rig in $1 into `dir`, `tag` and `made`; fails when there is none.
find_rig() {
    dir=$(realpath -m -- "$1")
    [[ -s $dir/tag ]] && read -r tag made <"$dir/tag" && [[ $tag == hearth-???????? ]]
}

# Becomes the command: the id of this process is then the command's, for whoever wants to end it.
exec_on() {
    find_rig "$1" || fail "there is no rig in \`$1\`"
    [[ -e $(netns_path "$2") ]] || fail "the rig in \`$dir\` has no host \`$2\`"
    case $2 in
        storage*) storage_exec "${@:2}" ;;
        *) compute_exec "${@:2}" ;;
    esac
}

# The compute hosts go first: their clients leave cleanly only while the storage hosts still answer.
down() {
    local kind
    find_rig "$1" || { say "there is no rig in \`$1\`"; return 0; }
    unmount_below "$dir"
    abort_below "$dir"
    for kind in compute storage switch; do
        end_processes "$kind" || fail "processes of \`$tag\` outlive SIGKILL; run down again"
        unmount_below "$dir" --lazy
        delete_hosts "$kind"
    done
    [[ -z $(mounts_below "$dir") ]] || fail "cannot empty \`$dir\`: something is mounted there"
    # The tag goes last, so that a `down` cut short can be run again.
    find "$dir" -xdev -mindepth 1 -maxdepth 1 ! -name tag -exec rm -rf --one-file-system -- {} +
    rm -f -- "$dir/tag"
    if [[ $made == yes ]]; then rmdir -- "$dir"; fi
}

# ---- the command line ---------------------------------------------------------------------------

command=${1-}
shift || true
case $command in
    check) (($# <= 1)) || misuse 'check takes a store and nothing else'; check_store "${1-gluster}" ;;
    stores) printf '%s\n' $STORES ;;
    up) (($# >= 1)) && [[ $1 != -* ]] || misuse 'up needs a directory'; up "$@" ;;
    exec) (($# >= 3)) || misuse 'exec needs a directory, a host and a command'; exec_on "$@" ;;
    down) (($# == 1)) || misuse 'down needs a directory and nothing else'; down "$1" ;;
    help | --help | -h) printf '%s\n' "$USAGE" ;;
    *) misuse "unknown command \`$command\`" ;;
esac
