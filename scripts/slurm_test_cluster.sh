#!/usr/bin/env bash
# scripts/slurm_test_cluster.sh start|stop DIR: a real Slurm on this machine for tests: its own munged, a controller and
# two nodes (n0, n1), everything under DIR and on free ports, beside whatever Slurm the machine has. After `start`,
# point the Slurm commands at it: export SLURM_CONF=DIR/slurm.conf
#
# Needs the packages slurm-wlm and munge (their services need not run). Exit 6 when they are not there.
set -euo pipefail

fail() {
  echo "slurm_test_cluster: error: $*" >&2
  exit 6
}

[[ $# == 2 && $1 =~ ^(start|stop)$ ]] || { echo "usage: scripts/slurm_test_cluster.sh start|stop DIR" >&2; exit 2; }
mkdir -p "$2"
dir=$(cd "$2" && pwd)
PATH=$PATH:/usr/sbin:/sbin

# Three ports that were free a moment ago; slurmctld binds them at once.
free_ports() {
  python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in sockets))'
}

write_config() {
  local controller n0 n1 user
  read -r controller n0 n1 < <(free_ports)
  user=$(id -un)
  cat >"$dir/slurm.conf" <<CONFIG
ClusterName=rondo_test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=5
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n0 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$n0 CPUs=2
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$n1 CPUs=2
PartitionName=test Nodes=n0,n1 Default=YES MaxTime=10 State=UP
CONFIG
}

start() {
  local command node
  for command in munged slurmctld slurmd sbatch; do
    command -v "$command" >/dev/null || fail "no $command; apt-get install slurm-wlm munge brings it"
  done
  mkdir -p "$dir/state" "$dir/spool.n0" "$dir/spool.n1"
  chmod 755 "$dir"
  (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
  write_config
  export SLURM_CONF=$dir/slurm.conf
  munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munge.pid" \
    --log-file="$dir/munge.log" --seed-file="$dir/munge.seed" || fail "munged does not start; see $dir/munge.log"
  slurmctld || fail "slurmctld does not start; see $dir/slurmctld.log"
  for node in n0 n1; do
    slurmd -N "$node" || fail "slurmd does not start; see $dir/slurmd.$node.log"
  done
  wait_until_idle
}

wait_until_idle() {
  local tries
  for ((tries = 0; tries < 100; tries++)); do
    [[ $(sinfo --noheader --Node --format=%t 2>/dev/null | grep -c idle) == 2 ]] && return
    sleep 0.2
  done
  fail "the two nodes did not come up in 20 s; see $dir/slurmctld.log and $dir/slurmd.n0.log"
}

# By the process ids that the daemons wrote, and by nothing broader.
stop() {
  local file pid
  SLURM_CONF=$dir/slurm.conf timeout 10 scancel --partition=test --full 2>/dev/null || true
  for file in "$dir"/slurmd.n?.pid "$dir/slurmctld.pid" "$dir/munge.pid"; do
    [[ -s $file ]] || continue
    pid=$(<"$file")
    kill "$pid" 2>/dev/null || continue
    for _ in {1..50}; do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
  done
}

"$1"
