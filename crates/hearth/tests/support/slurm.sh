#!/usr/bin/env bash
# slurm.sh DIR NODE...: a Slurm whose nodes are all on this machine, for one test.
#
# It is the first process of namespaces of its own (network, processes, mounts, host name): ports and
# sockets are free whatever else runs, and nothing outlives it. It ends when its standard input does,
# so also when the test is killed. Prints `up` when the daemons have been started; a node answers a
# moment later.
set -euo pipefail

dir=$1
shift
host=hearth-slurm
addr=10.77.0.1

# Slurm looks for an address that is not the loopback's.
ip link set lo up
ip link add slurm0 type veth peer name slurm1
ip addr add "$addr/24" dev slurm0
ip link set slurm0 up
ip link set slurm1 up
hostname "$host"

mkdir -m 700 "$dir/munge" "$dir/state"
head -c 64 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"
cat >"$dir/slurm.conf" <<END
ClusterName=hearth
SlurmctldHost=$host($addr)
SlurmctldPort=17000
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
MessageTimeout=60
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PartitionName=all Nodes=ALL Default=YES State=UP
END
port=17001
for node in "$@"; do
    mkdir -m 755 "$dir/$node"
    echo "NodeName=$node NodeHostname=$host NodeAddr=$addr Port=$port CPUs=1 RealMemory=16 Feature=$node"
    port=$((port + 1))
done >>"$dir/slurm.conf"
export SLURM_CONF=$dir/slurm.conf

munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --origin="$addr" \
    --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed"
slurmctld
for node in "$@"; do
    slurmd -N "$node"
done
echo up
read -r _ || true
