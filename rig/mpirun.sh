#!/usr/bin/env bash
# Runs one rank of an MPI program on every compute host of a rig, or on the first of them: rank i on
# host compute<i>.
# The launcher itself runs on compute0, so nothing leaves the rig's own network.
set -euo pipefail

readonly USAGE='usage: mpirun.sh DIR [--mpi openmpi|mpich] [--ranks N] -- PROGRAM [ARGUMENT]...'
misuse() { printf 'error: %s\n%s\n' "$*" "$USAGE" >&2; exit 2; }

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
mpi=openmpi
ranks=

(($# >= 1)) || misuse 'a directory is missing'
HEARTH_RIG=$(realpath -m -- "$1")
shift
while [[ ${1-} == --mpi || ${1-} == --ranks ]]; do
    (($# >= 2)) || misuse "\`$1\` needs a value"
    case $1 in
        --mpi) mpi=$2 ;;
        --ranks) ranks=$2 ;;
    esac
    shift 2
done
[[ -z $ranks || $ranks =~ ^[1-9][0-9]{0,2}$ ]] || misuse "\`--ranks $ranks\` is not a count"
[[ ${1-} == -- ]] && (($# >= 2)) || misuse 'a program is missing after `--`'
shift
[[ -s $HEARTH_RIG/rig.json ]] || misuse "there is no complete rig in \`$HEARTH_RIG\`"
export HEARTH_RIG

hosts=$(awk '/^compute/ { print $2 }' "$HEARTH_RIG/hosts" | head -n "${ranks:-999}" | paste -sd,)
count=$(awk -F, '{ print NF }' <<<"$hosts")
[[ -z $ranks || $ranks == "$count" ]] || misuse "there are $count compute hosts for $ranks ranks"
readonly SUBNET=10.77.0.0/16

# Ranks share the machine's cores, however many there are: nothing is pinned.
case $mpi in
    openmpi)
        launch=(
            mpirun.openmpi --allow-run-as-root --bind-to none --map-by node
            --host "$hosts" -np "$count"
            --mca plm rsh --mca plm_rsh_agent "$here/rsh.sh"
            --mca oob_tcp_if_include "$SUBNET"
            --mca btl self,vader,tcp --mca btl_tcp_if_include "$SUBNET"
            --mca pml ob1
        )
        ;;
    mpich)
        launch=(
            mpiexec.mpich -launcher ssh -launcher-exec "$here/rsh.sh"
            -hosts "$hosts" -ppn 1 -n "$count" -iface eth0
        )
        ;;
    *) misuse "\`$mpi\` is not an MPI this script knows" ;;
esac
command -v "${launch[0]}" >/dev/null || { echo "error: \`${launch[0]}\` is missing" >&2; exit 1; }

first=${hosts%%,*}
# rsh takes one line for its shell; `exec`, so that a signal for this script reaches the launcher.
exec "$here/rsh.sh" "$first" "exec $(printf '%q ' "${launch[@]}" "$@")"
