#!/usr/bin/env bash
# A Slurm of its own on hosts made by hosts.sh: slurmctld on host 1, slurmd on the others, munge on all of them.
#
#   slurm.sh up FOLDER COUNT [HEALTH_PROGRAM PROLOG EPILOG]   on the hosts that `hosts.sh up FOLDER COUNT` made
#   slurm.sh join FOLDER I   starts the daemons of node I again, after `hosts.sh crash` and `hosts.sh boot`
#
#   slurm.sh restart FOLDER COUNT   starts slurmctld again, with its jobs, and waits until all nodes are idle
#
# TRIREME_TEST_GPUS: of every node, at most 4. Clients need SLURM_CONF=FOLDER/slurm.conf. `hosts.sh down FOLDER` ends it. Exits with 77 and a message where Slurm is
# not installed.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "skipped: $*" >&2
  exit 77
}

on() { "$here/hosts.sh" run "$folder" "$@"; }

write_config() {
  local nodes health= select=linear
  [[ -z $gpus ]] || select=cons_tres # the other one has no GPUs for the steps of a job
  nodes=$(seq -f 'h%.0f' -s, 2 "$count")
  # slurmctld asks a node that was resumed whether it is there only while no health check is under way, so not every second.
  [[ -z $health_program ]] ||
    health=$(printf '%s\n' "HealthCheckProgram=$health_program" HealthCheckInterval=5 HealthCheckNodeState=ANY \
      "Prolog=$prolog" PrologFlags=Alloc "Epilog=$epilog")
  mkdir -p "$folder/state" "$folder/slurm"
  # slurmd looks for control groups even where no plugin uses them; those of version 1 it does not open before.
  echo CgroupPlugin=cgroup/v1 >"$folder/cgroup.conf"
  # Slurm wants a device file for each GPU: some that every node has.
  [[ -z $gpus ]] || printf "NodeName=$nodes Name=gpu File=/dev/%s\n" null zero full random | head -n "$gpus" >"$folder/gres.conf"
  cat >"$folder/slurm.conf" <<CONF
ClusterName=bed
SlurmctldHost=h1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/slurm/spool.%n
SlurmctldPidFile=$folder/slurm/slurmctld.pid
SlurmdPidFile=$folder/slurm/slurmd.%n.pid
SlurmctldLogFile=$folder/slurm/slurmctld.log
SlurmdLogFile=$folder/slurm/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/$select
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=3
SlurmdTimeout=20
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,nohold_on_prolog_fail
$health
${gpus:+GresTypes=gpu}
NodeName=$nodes CPUs=2 ${gpus:+Gres=gpu:$gpus} State=UNKNOWN
PartitionName=all Nodes=$nodes Default=YES MaxTime=INFINITE State=UP
PartitionName=small Nodes=$nodes MaxTime=10 MaxNodes=1 State=UP
CONF
}

start_munge() {
  on "$1" sh -c "mkdir -p /run/munge && chmod 755 /run/munge && chown root:root /run /run/munge &&
    munged --force --key-file='$folder/munge.key' --num-threads=1 --socket=/run/munge/munge.socket.2 \
      --pid-file=/run/munge/munged.pid --log-file=/run/munge/munged.log --seed-file=/run/munge/seed"
}

up() {
  local host
  for tool in slurmctld slurmd srun sbatch munged; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
  write_config
  export SLURM_CONF=$folder/slurm.conf
  on 1 srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
  head -c 1024 /dev/urandom >"$folder/munge.key"
  chmod 400 "$folder/munge.key"
  for host in $(seq "$count"); do
    start_munge "$host"
    # Where clients look that were not told another place, such as those that come over ssh.
    [[ ! -d /etc/slurm ]] || on "$host" mount --bind "$folder" /etc/slurm
  done
  on 1 slurmctld -c </dev/null >/dev/null 2>&1
  for host in $(seq 2 "$count"); do on "$host" slurmd </dev/null >/dev/null 2>&1; done
  wait_until_idle && return
  echo "the nodes never became idle" >&2
  on 1 sinfo >&2 || true
  tail -n 5 "$folder"/slurm/*.log >&2
  return 1
}

wait_until_idle() {
  for _ in $(seq 600); do
    [[ "$(on 1 sinfo -h -r -t idle -o %D 2>/dev/null)" == $((count - 1)) ]] && return
    sleep 0.1
  done
  return 1
}

# A slurmctld that starts counts anew which nodes are occupied.
restart() {
  local pid
  export SLURM_CONF=$folder/slurm.conf
  pid=$(cat "$folder/slurm/slurmctld.pid")
  kill "$pid"
  while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  on 1 slurmctld </dev/null >/dev/null 2>&1
  wait_until_idle
}

join() {
  export SLURM_CONF=$folder/slurm.conf
  # What steps left that died would be taken for running ones; a real host boots without it.
  rm -rf "$folder/slurm/spool.h$1"
  on "$1" find /tmp -mindepth 1 -delete
  start_munge "$1"
  on "$1" slurmd </dev/null >/dev/null 2>&1
}

command=${1:?up, join or restart} folder=${2:?folder} count=${3:?count or node} health_program=${4-} prolog=${5-} epilog=${6-} gpus=${TRIREME_TEST_GPUS-}
[[ $folder == /* ]] || folder=$PWD/$folder
case $command in
  up) up ;;
  join) join "$count" ;;
  restart) restart ;;
  *) echo "slurm.sh: no command $command" >&2 && exit 2 ;;
esac
