#!/usr/bin/env bash
# Runs one phase of a program on one host:
#
#   phase.sh NAME PHASE DIR HOST HOSTS
#
# NAME.sh defines the phases, of which each is a function; one that is missing does nothing.
#   prepare   on host 0, in the empty DIR
#   work      on all hosts at once
#   check     on each host, one after another; prints what must be the same everywhere
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
name=$1 phase=$2 dir=$3
# shellcheck disable=SC2034 # the programs use them
host=$4 hosts=$5
export LC_ALL=C TZ=UTC PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 022

# each_host COMMAND...: runs it with the number of each host.
each_host() { for ((i = 0; i < hosts; i++)); do "$@" "$i"; done; }

# digest DIR: names, kinds, rights and bytes of all below it.
digest() {
    (
        cd -- "$1"
        find . -mindepth 1 -printf '%P %y %m %l\n' | sort
        find . -type f -print0 | sort -z | xargs -0r sha256sum
    ) | sha256sum
}

cd -- "$dir"
# shellcheck source=/dev/null
source "$here/$name.sh"
if declare -F "$phase" >/dev/null; then "$phase"; fi
