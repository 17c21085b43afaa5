#!/usr/bin/env bash
# The remote shell of an MPI launcher whose hosts are a rig's.
# `rsh.sh [OPTION]... ADDRESS COMMAND...` runs the command in the namespace of the host with that
# address. HEARTH_RIG is the rig's directory.
set -euo pipefail

: "${HEARTH_RIG:?is not set: start this script through mpirun.sh}"

# Options that launchers pass to a real rsh or ssh.
while [[ ${1-} == -* ]]; do
    shift
done
addr=${1:?an address is missing}
shift

host=$(awk -v addr="$addr" '$2 == addr { print $1 }' "$HEARTH_RIG/hosts")
if [[ -z $host ]]; then
    echo "error: no host of the rig in \`$HEARTH_RIG\` has address \`$addr\`" >&2
    exit 1
fi
read -r tag _ <"$HEARTH_RIG/tag"

# A host name of its own: ranks that see the same name would take each other's memory for their own.
# The command is one shell line, as rsh defines it.
exec nsenter --net="/run/netns/$tag-$host" -- unshare --uts -- \
    bash -c 'hostname "$1" && eval "$2"' rsh "$host" "$*"
