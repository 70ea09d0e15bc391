#!/usr/bin/env bash
# Several "hosts" on one machine: each has its own network, host name, /tmp, /run, /dev/shm and root's home, and an
# sshd; a switch of its own joins them, so that nothing touches the machine's network.
#
#   hosts.sh up FOLDER COUNT        makes h1..hN (10.77.0.1..N); FOLDER must not be under /tmp or /run
#   hosts.sh run FOLDER I CMD...    runs CMD on host I
#   hosts.sh link FOLDER I up|down  takes the link of host I up or down
#   hosts.sh limit FOLDER I RATE    limits what host I sends, such as 10mbit ("none" ends it)
#   hosts.sh limit-memory FOLDER I SIZE   limits the memory of what sshd starts from now on, such as 200M ("none" ends it)
#   hosts.sh apart FOLDER I J yes|no      takes the hosts I and J from each other, not from the rest
#   hosts.sh deaf FOLDER I J yes|no       what host I sends to host J is lost, what J sends to I arrives
#   hosts.sh crash FOLDER I         ends all processes of host I at once
#   hosts.sh boot FOLDER I          starts its sshd again; TRIREME_TEST_SSHD: one more option of sshd, also for `up`
#   hosts.sh down FOLDER            ends all processes of the hosts and removes FOLDER
#
# Exits with 77 and a message where namespaces or sshd are not to be had.
set -euo pipefail

skip() {
  echo "skipped: $*" >&2
  exit 77
}

need() {
  command -v "$1" >/dev/null || PATH=$PATH:/usr/sbin command -v "$1" >/dev/null || skip "$1 is not installed"
}

inside() {
  local index=$1
  shift
  nsenter --target "$(cat "$folder/h$index.pid")" --net --uts --mount --wd="$PWD" -- "$@"
}

# In place of this script, so that signals to it reach the command.
become() {
  local index=$1
  shift
  exec nsenter --target "$(cat "$folder/h$index.pid")" --net --uts --mount --wd="$PWD" -- "$@"
}

# A process that keeps the namespaces of one host (or of the switch) alive.
hold() {
  local name=$1
  setsid unshare --net --uts --mount --propagation private sleep 3600 </dev/null >/dev/null 2>&1 &
  echo $! >"$folder/$name.pid"
  for _ in $(seq 1000); do
    [[ "$(readlink "/proc/$!/ns/net" 2>/dev/null)" != "$(readlink /proc/$$/ns/net)" ]] && return
    kill -0 $! 2>/dev/null || break
    sleep 0.02
  done
  skip "namespaces are not permitted"
}

make_switch() {
  hold switch
  nsenter --target "$(cat "$folder/switch.pid")" --net -- sh -c \
    'ip link add br0 type bridge && ip link set br0 up && ip link set lo up' || skip "no bridges in this kernel"
}

plug_in() {
  local index=$1 host switch
  host=$(cat "$folder/h$index.pid") switch=$(cat "$folder/switch.pid")
  nsenter --target "$switch" --net -- ip link add "port$index" type veth peer name eth0 netns "$host"
  nsenter --target "$switch" --net -- ip link set "port$index" master br0 up
  inside "$index" sh -c "ip addr add 10.77.0.$index/24 dev eth0 && ip link set eth0 up && ip link set lo up"
}

make_host() {
  local index=$1 count=$2 home=$folder/h$1.home
  hold "h$index"
  plug_in "$index"
  mkdir -p "$home/.ssh"
  chmod 700 "$home" "$home/.ssh"
  cp "$folder/key" "$home/.ssh/id_ed25519"
  cp "$folder/key.pub" "$home/.ssh/authorized_keys"
  ssh-keygen -q -t ed25519 -N '' -f "$folder/h$index.hostkey"
  inside "$index" sh -c "
    hostname h$index
    for path in /tmp /run /dev/shm; do mount -t tmpfs -o size=512m tmpfs \$path; done
    mount --bind '$home' /root
    mount --bind '$folder/etc-hosts' /etc/hosts
    mkdir /tmp/cgroup && mount --rbind /sys/fs/cgroup /tmp/cgroup
    mount -t sysfs sysfs /sys && mount --move /tmp/cgroup /sys/fs/cgroup && rmdir /tmp/cgroup
    mkdir -p /run/sshd && chmod 755 /run/sshd"
  boot "$index"
}

boot() {
  local index=$1
  inside "$index" /usr/sbin/sshd -f /dev/null -h "$folder/h$index.hostkey" -o PidFile="$folder/h$index.sshd" \
    -o UsePAM=no -o PermitRootLogin=prohibit-password -o StrictModes=no -o MaxStartups=100 -o UseDNS=no \
    ${TRIREME_TEST_SSHD:+-o "$TRIREME_TEST_SSHD"}
}

up() {
  local count=$1 index
  [[ $EUID == 0 ]] || skip "network namespaces need root"
  for tool in unshare nsenter ip ssh ssh-keygen sshd; do need "$tool"; done
  case $folder in
    /tmp/* | /run/* | /root/* | /dev/shm/*)
      echo "hosts.sh: $folder lies where each host has a folder of its own; take another" >&2
      exit 2
      ;;
  esac
  unshare --net --uts --mount true 2>/dev/null || skip "namespaces are not permitted"
  mkdir -p "$folder"
  ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
  echo "127.0.0.1 localhost" >"$folder/etc-hosts"
  for index in $(seq "$count"); do echo "10.77.0.$index h$index" >>"$folder/etc-hosts"; done
  make_switch
  for index in $(seq "$count"); do make_host "$index" "$count"; done
  for index in $(seq "$count"); do sed "s/^/h$index,10.77.0.$index /; s/ [^ ]*$//" "$folder/h$index.hostkey.pub"; done \
    >"$folder/known_hosts"
  for index in $(seq "$count"); do cp "$folder/known_hosts" "$folder/h$index.home/.ssh/known_hosts"; done
}

# Everything in the network namespace of a process is its host's; ours is never one of them.
kill_host() {
  local keeper=$1 spared=$2 link candidate pids=()
  link=$(readlink "/proc/$keeper/ns/net" 2>/dev/null) || return 0
  [[ $link == "$(readlink /proc/$$/ns/net)" ]] && return 0
  for candidate in /proc/[0-9]*; do
    [[ "$(readlink "$candidate/ns/net" 2>/dev/null)" == "$link" && ${candidate#/proc/} != "$spared" ]] &&
      pids+=("${candidate#/proc/}")
  done
  ((${#pids[@]} == 0)) || kill -KILL "${pids[@]}" 2>/dev/null || true
}

crash() { kill_host "$(cat "$folder/h$1.pid")" "$(cat "$folder/h$1.pid")"; }

down() {
  local file
  for file in "$folder"/*.pid; do
    [[ -e $file ]] && kill_host "$(cat "$file")" none
  done
  rm -rf "$folder"
}

apart() {
  local isolated=off port
  [[ $3 == no ]] || isolated=on
  for port in "$1" "$2"; do nsenter --target "$(cat "$folder/switch.pid")" --net -- bridge link set dev "port$port" isolated "$isolated"; done
  # What the two knew of each other's place would do for a while.
  inside "$1" ip neigh flush dev eth0
  inside "$2" ip neigh flush dev eth0
}

# Frames to an address that nobody has: no host answers that the other one is missing.
deaf() {
  if [[ $3 == yes ]]; then
    inside "$1" ip neigh replace "10.77.0.$2" lladdr 02:00:00:00:00:99 dev eth0 nud permanent
  else
    inside "$1" ip neigh del "10.77.0.$2" dev eth0
  fi
}

limit_memory() {
  local index=$1 size=$2 group=/sys/fs/cgroup/memory/trireme-h$1 file=memory.limit_in_bytes
  [[ -e /sys/fs/cgroup/memory ]] || group=/sys/fs/cgroup/trireme-h$index file=memory.max
  if [[ $size == none ]]; then
    kill "$(cat "$folder/h$index.sshd")"
    boot "$index"
    for _ in $(seq 100); do rmdir "$group" 2>/dev/null && return || sleep 0.1; done
  elif ! { mkdir -p "$group" && echo "$size" >"$group/$file" && cat "$folder/h$index.sshd" >"$group/cgroup.procs"; }; then
    rmdir "$group" || true
    skip "memory cannot be limited by control groups here"
  fi
}

command=${1:?up, run, link, limit, limit-memory, apart, deaf, crash, boot or down} folder=${2:?folder}
[[ $folder == /* ]] || folder=$PWD/$folder
shift 2
case $command in
  up) up "$1" ;;
  run) become "$@" ;;
  link) inside "$1" ip link set eth0 "$2" ;;
  crash) crash "$1" ;;
  boot) boot "$1" ;;
  apart) apart "$@" ;;
  deaf) deaf "$@" ;;
  limit-memory) limit_memory "$@" ;;
  limit)
    inside "$1" tc qdisc del dev eth0 root 2>/dev/null || true
    [[ $2 == none ]] || inside "$1" tc qdisc add dev eth0 root tbf rate "$2" burst 128kb latency 50ms
    ;;
  down) down ;;
  *) echo "hosts.sh: no command $command" >&2 && exit 2 ;;
esac
