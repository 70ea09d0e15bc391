#!/bin/sh
# trireme-node ACTION: sets up one machine of a cluster. Every action may be repeated. The cluster is described in
# /etc/trireme/node.env; `trireme cluster` and cloud-init put both there.
set -eu
umask 022
export DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
. /etc/trireme/node.env
etc=/etc/trireme
say() { echo "trireme-node: $*"; }
warn() { echo "trireme-node: warning: $*"; } # `trireme cluster` shows it
fail() { echo "trireme-node: $*" >&2; exit 1; }
is_head() { [ "$TRIREME_NODE" = "$TRIREME_HEAD" ]; }

# One document serves all machines created together: each identifies itself by its address.
number_of() { (IFS=.; set -- $1; echo $((($1 << 24) + ($2 << 16) + ($3 << 8) + $4))); }
find_own_name() {
  for own in $(hostname -I); do
    for entry in $TRIREME_NODES; do [ "$own" != "${entry#*=}" ] || TRIREME_NODE=${entry%%=*}; done
  done
  [ -z "$TRIREME_NODE" ] || return 0
  own=$(hostname -I | tr ' ' '\n' | grep -m1 '\..*\.')
  TRIREME_NODE=$TRIREME_CLUSTER-$(($(number_of "$own") - $(number_of "$TRIREME_FIRST") + 1))
  TRIREME_NODES="$TRIREME_NODES $TRIREME_NODE=$own"
}
[ -n "$TRIREME_NODE" ] || find_own_name
home() { getent passwd "$TRIREME_USER" | cut -d: -f6; }

# put FILE [MODE]: standard input becomes the file, completely or not at all.
put() {
  mkdir -p "$(dirname "$1")"
  cat >"$1.new" && chmod "${2:-644}" "$1.new" && mv "$1.new" "$1"
}

# Existing files of a machine are never overwritten or removed. claim FILE...: each belongs to the cluster from now
# on. An existing foreign file is refused, or with TRIREME_TAKE_OVER moved aside and restored by `leave`.
claim() {
  there= foreign=
  for file in "$@"; do
    { [ -e "$file" ] || [ -L "$file" ]; } && ! is_own "$file" || continue
    there="$there $file"
    is_packages_key "$file" || foreign="$foreign $file"
  done
  if [ -n "$foreign" ] && [ "${TRIREME_TAKE_OVER-}" != yes ]; then
    fail "$(hostname) already has files in the place of the cluster's files:$foreign; move them away, or use \`trireme cluster create --take-over\` to move them aside until \`delete\` restores them"
  fi
  for file in $there; do keep_aside "$file"; done
  for file in "$@"; do is_listed "$file" || echo "$file" >>"$etc/own"; done
}
is_listed() { [ -e "$etc/own" ] && grep -qxF -- "$1" "$etc/own"; }
is_own() {
  [ "$TRIREME_RENAME" = yes ] && return 0  # a machine created for the cluster
  is_listed "$1" && return 0
  case $1 in
    */slurm.conf) grep -qx "# Made by \`trireme cluster\`." "$1" ;;
    */hosts) [ -f "$1" ] && ! grep -qvxE "$TRIREME_CLUSTER-[0-9]+" "$1" ;;
    *) false ;;
  esac
}
# The key that the munge package created at its installation is not the site's: it is moved aside without asking.
is_packages_key() {
  list=/var/lib/dpkg/info/munge.list
  [ "$1" = /etc/munge/munge.key ] && [ -e "$list" ] || return 1
  age=$(($(stat -c %Y "$1") - $(stat -c %Y "$list")))
  [ "$age" -ge 0 ] && [ "$age" -le 120 ]
}
keep_aside() {
  say "moved $1 to $1.before-trireme"
  ! has_systemd || for name in munge slurmctld slurmd; do
    ! systemctl is-active -q "$name" || grep -qx "$name" "$etc/services" 2>/dev/null || echo "$name" >>"$etc/services"
  done
  rm -rf "$1.before-trireme" && mv "$1" "$1.before-trireme"
  echo "$1" >>"$etc/kept"
}
# Removes the cluster's files and restores those from before.
give_back() {
  for file in "$@"; do ! is_listed "$file" || rm -rf "$file"; done
  for file in "$@"; do
    ! grep -qxF -- "$file" "$etc/kept" 2>/dev/null || mv "$file.before-trireme" "$file"
  done
}

# For clusters created by versions without this list.
list_own() {
  [ ! -e "$etc/own" ] && [ -e "$etc/health" ] || return 0
  for file in "$etc/nhc.conf" "$etc/slurm-health" "$etc/slurm-prolog" "$etc/slurm-epilog"; do [ ! -e "$file" ] || echo "$file"; done >"$etc/own"
  ! cmp -s /etc/munge/trireme.key /etc/munge/munge.key 2>/dev/null || echo /etc/munge/munge.key >>"$etc/own"
  [ "$(readlink /usr/local/bin/trireme)" != /opt/trireme/bin/trireme ] || printf '/usr/local/bin/trireme\n/opt/trireme\n' >>"$etc/own"
}

# Before anything is changed: refuses all foreign files together. $1: the package's extension.
claim_all() {
  files=
  [ "$1" != tar.gz ] || files="/opt/trireme /usr/local/bin/trireme"
  ! is_head || files="$files $TRIREME_STORAGE_PATH/hosts"
  if [ "$TRIREME_SCHEDULER" = slurm ]; then
    files="$files /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /etc/munge/munge.key"
    ! has_accounting || files="$files /etc/slurm/slurmdbd.conf"
  fi
  claim $files
}
# block FILE: standard input becomes this cluster's part of the file; empty: none.
block() {
  begin="# trireme cluster $TRIREME_CLUSTER: begin" end="# trireme cluster $TRIREME_CLUSTER: end"
  mkdir -p "$(dirname "$1")"
  [ -e "$1" ] || : >"$1"
  text=$(cat)
  {
    sed "/^$begin\$/,/^$end\$/d" "$1"
    [ -z "$text" ] || printf '%s\n%s\n%s\n' "$begin" "$text" "$end"
  } >"$1.trireme-new"
  # /etc/hosts may be a mount point, which cannot be replaced by a rename.
  cmp -s "$1.trireme-new" "$1" || cat "$1.trireme-new" >"$1"
  rm -f "$1.trireme-new"
}

# packages NAME...: installs those that are missing; `a|b` is b if a does not exist.
packages() {
  missing=
  for entry in "$@"; do
    first=${entry%%|*} other=${entry##*|}
    for name in "$first" "$other"; do
      [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" != installed ] || continue 2
    done
    missing="$missing $entry"
  done
  [ -n "$missing" ] || return 0
  apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 update >/dev/null || fail "apt-get update failed; missing packages:$missing"
  names=
  for entry in $missing; do
    apt-cache show "${entry%%|*}" >/dev/null 2>&1 && names="$names ${entry%%|*}" || names="$names ${entry##*|}"
  done
  apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $names >/dev/null || fail "apt-get cannot install$names"
}

has_systemd() { [ -d /run/systemd/system ]; }

# The one place that starts services: service NAME start|restart|stop.
service() {
  if has_systemd; then
    case $2 in
      stop) systemctl disable --now "$1" 2>/dev/null || true ;;
      start) systemctl enable --now "$1" ;;
      restart) systemctl enable "$1" && systemctl restart "$1" ;;
    esac
    return
  fi
  pid=/run/trireme-$1.pid
  if [ "$2" != start ] && [ -s "$pid" ]; then
    kill "$(cat "$pid")" 2>/dev/null || true
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$(cat "$pid")" 2>/dev/null || break; sleep 0.5; done
    rm -f "$pid"
  fi
  [ "$2" != stop ] || return 0
  [ ! -s "$pid" ] || ! kill -0 "$(cat "$pid")" 2>/dev/null || return 0
  case $1 in
    munge)
      mkdir -p /run/munge /var/lib/munge /var/log/munge && chown munge: /run/munge /var/lib/munge /var/log/munge /etc/munge
      chmod 755 /run/munge
      setpriv --reuid munge --regid munge --clear-groups munged --force --pid-file=/run/munge/munged.pid
      cp /run/munge/munged.pid "$pid" ;;
    mariadb)
      install -d -o mysql -g mysql /run/mysqld
      [ -d /var/lib/mysql/mysql ] || mariadb-install-db --user=mysql >/dev/null
      setsid mariadbd --user=mysql --skip-networking >>/var/log/trireme-mariadb.log 2>&1 </dev/null &
      echo $! >"$pid" ;;
    slurmctld | slurmd | slurmdbd)
      log=/var/log/trireme-$1.log
      setsid "$1" -D >>"$log" 2>&1 </dev/null &
      echo $! >"$pid"
      sleep 1
      kill -0 "$(cat "$pid")" 2>/dev/null || fail "$1 exited immediately: $(tail -n 3 "$log")" ;;
    nfs-kernel-server)
      exportfs -ra && rpcbind && rpc.nfsd 8 && rpc.mountd || fail "this kernel cannot serve NFS; use storage.kind: existing" ;;
    trireme-health) /usr/local/sbin/trireme-node health ;;
    *) fail "unknown service $1" ;;
  esac
}

set_names() { for entry in $TRIREME_NODES; do echo "${entry#*=} ${entry%%=*}"; done | block /etc/hosts; }

set_storage() {
  path=$TRIREME_STORAGE_PATH
  case $TRIREME_STORAGE in
    existing) [ -d "$path" ] || fail "$path does not exist, but storage.kind is existing: mount it on every node" ;;
    nfs)
      mkdir -p "$path"
      if is_head; then
        packages nfs-kernel-server
        for entry in $TRIREME_NODES; do
          [ "${entry%%=*}" = "$TRIREME_HEAD" ] || echo "$path ${entry#*=}(rw,sync,no_subtree_check,no_root_squash)"
        done | block /etc/exports
        service nfs-kernel-server start
        exportfs -ra
      else
        packages nfs-common
        mount_storage "$TRIREME_HEAD:$path" nfs "rw,hard,nofail,_netdev"
      fi ;;
    provider)
      packages nfs-common
      mkdir -p "$path"
      mount_storage "$TRIREME_STORAGE_SOURCE" nfs4 "$TRIREME_STORAGE_OPTIONS" ;;
  esac
  # The folder belongs to the login user; on existing machines it is not changed.
  [ "$TRIREME_STORAGE" = existing ] || ! { is_head || [ "$TRIREME_STORAGE" = provider ]; } || chown "$TRIREME_USER" "$path"
}

mount_storage() {
  echo "$1 $TRIREME_STORAGE_PATH $2 $3 0 0" | block /etc/fstab
  # The head may not be ready yet.
  for _ in $(seq 60); do
    ! mountpoint -q "$TRIREME_STORAGE_PATH" || return 0
    mount "$TRIREME_STORAGE_PATH" 2>/run/trireme-mount && return 0
    sleep 5
  done
  fail "cannot mount $1 on $TRIREME_STORAGE_PATH: $(cat /run/trireme-mount)"
}

# The automatic end of the machines: a timer that survives restarts.
set_end() {
  [ "$TRIREME_END_MINUTES" != 0 ] || return 0
  { [ "$TRIREME_END" = shutdown ] || is_head; } || return 0
  [ -e "$etc/end-at" ] || date -u -d "+$TRIREME_END_MINUTES minutes" '+%Y-%m-%d %H:%M:%S UTC' | put "$etc/end-at"
  printf '[Unit]\nDescription=End of the cluster %s\n[Service]\nType=oneshot\nExecStart=/usr/local/sbin/trireme-node end\nRestart=on-failure\nRestartSec=60\n' \
    "$TRIREME_CLUSTER" | put /etc/systemd/system/trireme-end.service
  printf '[Unit]\nDescription=End of the cluster %s\n[Timer]\nOnCalendar=%s\nPersistent=true\n[Install]\nWantedBy=timers.target\n' \
    "$TRIREME_CLUSTER" "$(cat "$etc/end-at")" | put /etc/systemd/system/trireme-end.timer
  systemctl daemon-reload && systemctl enable --now trireme-end.timer
}

end_cluster() {
  if [ "$TRIREME_END" = shutdown ]; then
    exec shutdown -h now
  fi
  ask() { curl -sf -H Metadata:true "http://169.254.169.254/metadata/$1"; }
  token=$(ask 'identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fmanagement.azure.com%2F' |
    sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p')
  [ -n "$token" ] || fail "got no token for the machine's identity"
  subscription=$(ask 'instance/compute/subscriptionId?api-version=2021-02-01&format=text')
  # On standard input, so that no list of processes shows the token.
  printf 'header = "Authorization: Bearer %s"\n' "$token" |
    curl -sf -X DELETE -K - "https://management.azure.com/subscriptions/$subscription/resourcegroups/$TRIREME_END?api-version=2021-04-01"
}

# The first good result becomes the expected state, without the load: a node that has just worked is not faulty.
check_health() {
  command -v trireme >/dev/null || fail "trireme is not installed"
  if [ ! -s "$etc/nhc.conf" ]; then
    trireme health gen >"$etc/nhc.found" || fail "trireme health gen failed"
    claim "$etc/nhc.conf"
    grep -v check_ps_loadavg "$etc/nhc.found" | put "$etc/nhc.conf"
  fi
  trireme health -c "$etc/nhc.conf" >"$etc/health.new" 2>&1 || true
  mv "$etc/health.new" "$etc/health"
  cat "$etc/health"
}

set_health() {
  if has_systemd; then
    printf '[Unit]\nDescription=Node checks of Trireme\nAfter=network-online.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/sbin/trireme-node health\n[Install]\nWantedBy=multi-user.target\n' |
      put /etc/systemd/system/trireme-health.service
    systemctl daemon-reload
  fi
  service trireme-health restart
}

# Registered memory is locked, and its usual limit is a few MiB. On existing machines limits are
# left to their owner.
set_fabric() {
  [ "$TRIREME_RENAME" = yes ] || return 0
  printf '* soft memlock unlimited\n* hard memlock unlimited\nroot soft memlock unlimited\nroot hard memlock unlimited\n' | put /etc/security/limits.d/90-trireme.conf
  [ "${TRIREME_FABRIC-}" = yes ] || return 0
  packages rdma-core ibverbs-providers ibverbs-utils "libfabric1|libfabric1t64"
  case $(uname -r) in *-azure | *-aws) packages "linux-modules-extra-$(uname -r)|rdma-core" ;; esac
}

# Machines with GPUs have an image with the driver, CUDA and NCCL; without persistence mode each job waits for the driver.
set_gpus() {
  [ "${TRIREME_GPUS-}" = yes ] && grep -qxs 0x10de /sys/bus/pci/devices/*/vendor || return 0
  nvidia-smi -L >/dev/null 2>&1 || fail "this machine has GPUs, but NVIDIA's driver does not answer (nvidia-smi -L); name an image with the driver in node.image"
  nvidia-smi -pm 1 >/dev/null || warn "cannot turn on the GPUs' persistence mode"
  ldconfig -p | grep -q libnccl.so.2 || warn "the image has no NCCL"
}

boot() {
  list_own
  [ -z "${1-}" ] || claim_all "$1"
  [ "$TRIREME_RENAME" != yes ] || [ "$(hostname)" = "$TRIREME_NODE" ] || hostnamectl set-hostname "$TRIREME_NODE"
  set_names
  packages openmpi-bin openssh-client ca-certificates
  set_fabric
  set_gpus
  set_storage
  set_end
  say "$TRIREME_NODE is set up"
}

# The key for logins between nodes: created once, on the head, and only its public half leaves it.
head_key() {
  file=$(home)/.ssh/trireme-$TRIREME_CLUSTER
  if [ ! -s "$file.pub" ]; then
    install -d -m 700 -o "$TRIREME_USER" "$(home)/.ssh"
    ssh-keygen -q -t ed25519 -N '' -C "trireme $TRIREME_CLUSTER" -f "$file"
    chown "$TRIREME_USER" "$file" "$file.pub"
  fi
  cat "$file.pub"
}

# trust: reads the head's public key and then the nodes' host keys from standard input.
trust() {
  folder=$(home)/.ssh
  install -d -m 700 -o "$TRIREME_USER" "$folder"
  IFS= read -r key
  case $key in ssh-*) ;; *) fail "the public key is missing" ;; esac
  echo "$key" | block "$folder/authorized_keys"
  chmod 600 "$folder/authorized_keys" && chown "$TRIREME_USER" "$folder/authorized_keys"
  block /etc/ssh/ssh_known_hosts
  ! is_head || {
    names=
    for entry in $TRIREME_NODES; do names="$names ${entry%%=*} ${entry#*=}"; done
    printf 'Host%s\n  IdentityFile %s\n  StrictHostKeyChecking yes\n' "$names" "$folder/trireme-$TRIREME_CLUSTER" | block "$folder/config"
    chmod 600 "$folder/config" && chown "$TRIREME_USER" "$folder/config"
  }
}

# build FILE: builds a .tar.gz of the sources once into a package in the shared folder; prints its path.
build_program() {
  built=$TRIREME_STORAGE_PATH/.trireme/built-$(sha256sum "$1" | cut -c1-16) work=/var/lib/trireme-build log=/var/log/trireme-build.log
  if [ ! -d "$built" ]; then
    rm -rf "$work" "$built.new" && mkdir -p "$work"
    tar -xzf "$1" -C "$work" >"$log" 2>&1 || fail "$1 is not a .tar.gz"
    script=$(find "$work" -maxdepth 3 -path '*/scripts/package' | head -n 1)
    [ -n "$script" ] || fail "$1 has no sources of Trireme: scripts/package is missing"
    packages dpkg-dev
    cuda=
    if [ -x /usr/local/cuda/bin/nvcc ]; then cuda=--cuda
    elif [ "${TRIREME_GPUS-}" = yes ]; then fail "the cluster has GPUs, but this image has no CUDA compiler (/usr/local/cuda/bin/nvcc), so a program built here could not use them; name an image with it in node.image, or a package of \`scripts/package --cuda\` in software.package"
    fi
    (cd "$(dirname "$script")/.." && scripts/bootstrap && PATH=$PATH:/usr/local/cuda/bin scripts/package --output "$built.new" $cuda) >"$log" 2>&1 ||
      fail "cannot build Trireme here, the full log is $log: $(tail -n 2 "$log" | tr '\n' ' ')"
    rm -rf "$work" && mv "$built.new" "$built"
  fi
  for file in "$built"/*.deb "$built"/*.tar.gz; do
    [ ! -e "$file" ] || { echo "$file"; return 0; }
  done
  fail "$built has no package"
}

# install FILE: a package or a tarball; "-": it is already installed.
install_program() {
  case $1 in
    -) command -v trireme >/dev/null || fail "trireme is not installed; name a package in software.package, or sources in software.source" ;;
    *.deb) apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends --allow-downgrades --reinstall "$1" >/dev/null || fail "apt-get cannot install $1" ;;
    *.tar.gz)
      claim /opt/trireme /usr/local/bin/trireme
      rm -rf /opt/trireme.new && mkdir -p /opt/trireme.new
      tar -xzf "$1" -C /opt/trireme.new --strip-components=1
      rm -rf /opt/trireme && mv /opt/trireme.new /opt/trireme
      ln -sfn /opt/trireme/bin/trireme /usr/local/bin/trireme ;;
    *) fail "$1 is neither a .deb nor a .tar.gz" ;;
  esac
  trireme --version >/dev/null || fail "trireme does not start here"
  check_gpu_library
}

# A program without it computes on the processors of a machine with GPUs.
check_gpu_library() {
  [ "${TRIREME_GPUS-}" = yes ] && grep -qxs 0x10de /sys/bus/pci/devices/*/vendor || return 0
  library=$(dirname "$(readlink -f "$(command -v trireme)")")/libtrireme_cuda.so
  [ -e "$library" ] || warn "this machine has GPUs, but there is no $library: trireme computes on its processors; \`scripts/package --cuda\` makes packages with it"
}

has_accounting() { [ "${TRIREME_ACCOUNTING-}" = yes ] && is_head; }

# Whether Slurm can confine jobs by control groups: through systemd, or where those of version 1 can be created.
has_cgroups() {
  ! has_systemd || return 0
  for group in freezer cpuset memory devices; do
    mkdir "/sys/fs/cgroup/$group/trireme-try" 2>/dev/null || return 1
    rmdir "/sys/fs/cgroup/$group/trireme-try"
  done
}
count_gpus() { find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l; }

# Slurm's PMIx plug-in opens libpmix.so, which is in libpmix-dev; no package depends on it.
slurm_packages() {
  claim /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /etc/munge/munge.key
  ! is_head || packages slurmctld
  packages munge slurmd slurm-client libpmix-dev "slurm-wlm-mpi-plugins|slurmd"
}

# The machine's own name, whether it has control groups, its GPUs, and its hardware as slurmd sees it, as a line of
# slurm.conf.
slurm_hardware() {
  slurm_packages >&2
  line=$(slurmd -C | sed -n 's/^NodeName=//p' | sed 's/ *UpTime=.*//')
  echo "${line%% *} $(has_cgroups && echo yes || echo no) $(count_gpus) ${line#* }"
}

# Accounts of jobs: slurmdbd and its database on the head. The database knows slurmdbd by its user (unix_socket), so there
# is no password.
set_accounting() {
  if has_systemd; then systemctl is-active -q mariadb; else [ -S /run/mysqld/mysqld.sock ]; fi || is_noted mariadb || echo mariadb >>"$etc/started"
  packages mariadb-server slurmdbd
  claim /etc/slurm/slurmdbd.conf
  service mariadb start
  for _ in $(seq 60); do ! mariadb-admin ping >/dev/null 2>&1 || break; sleep 1; done
  mariadb -e 'CREATE DATABASE IF NOT EXISTS trireme_slurm; CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket; GRANT ALL ON trireme_slurm.* TO slurm@localhost' ||
    fail "cannot create the database of Slurm's accounts"
  printf '%s\n' '# Made by `trireme cluster`.' AuthType=auth/munge DbdHost=localhost SlurmUser=slurm StorageType=accounting_storage/mysql StorageHost=localhost StorageUser=slurm \
    StorageLoc=trireme_slurm | put /etc/slurm/slurmdbd.conf 600
  chown slurm: /etc/slurm/slurmdbd.conf
  service slurmdbd restart
  for _ in $(seq 60); do ! sacctmgr -n show cluster >/dev/null 2>&1 || return 0; sleep 1; done
  fail "slurmdbd does not answer: $(sacctmgr -n show cluster 2>&1 | tail -n 1)"
}
is_noted() { grep -qx "$1" "$etc/started" 2>/dev/null; }

# Created once, on the head; prints base64.
munge_key() {
  [ -s /etc/munge/trireme.key ] || { umask 077; head -c 1024 /dev/urandom >/etc/munge/trireme.key; }
  base64 -w0 /etc/munge/trireme.key && echo
}

# slurm: reads the munge key and then slurm.conf from standard input.
set_slurm() {
  slurm_packages
  IFS= read -r key
  (umask 077; echo "$key" | base64 -d >/etc/munge/munge.key.new)
  chown munge: /etc/munge/munge.key.new && chmod 400 /etc/munge/munge.key.new
  munge_action=start
  cmp -s /etc/munge/munge.key.new /etc/munge/munge.key 2>/dev/null || munge_action=restart
  mv /etc/munge/munge.key.new /etc/munge/munge.key
  put /etc/slurm/slurm.conf
  {
    [ -e /sys/fs/cgroup/cgroup.controllers ] || echo CgroupPlugin=cgroup/v1
    printf 'ConstrainCores=yes\nConstrainRAMSpace=yes\nConstrainDevices=yes\n'
  } | put /etc/slurm/cgroup.conf
  gpus=$(count_gpus)
  [ "$gpus" = 0 ] || { claim /etc/slurm/gres.conf && echo "Name=gpu File=/dev/nvidia[0-$((gpus - 1))]" | put /etc/slurm/gres.conf; }
  # A failed Prolog drains the node with a reason; nohold_on_prolog_fail lets the job run elsewhere.
  for name in health prolog epilog; do
    detached=
    [ "$name" != health ] || detached=' --detached'
    claim "$etc/slurm-$name"
    printf '#!/bin/sh\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexec trireme health -c %s --drain%s\n' "$etc/nhc.conf" "$detached" |
      put "$etc/slurm-$name" 755
  done
  mkdir -p /var/spool/trireme/slurmctld /var/spool/trireme/slurmd # separate from the site's, which belongs to another cluster
  chown -R slurm: /var/spool/trireme/slurmctld
  service munge "$munge_action"
  ! has_accounting || set_accounting
  ! is_head || service slurmctld restart
  service slurmd restart
}

# hostfile: reads the names of the nodes from standard input.
set_hostfile() {
  claim "$TRIREME_STORAGE_PATH/hosts"
  put "$TRIREME_STORAGE_PATH/hosts"
}

# Restores the machine, except the installed packages.
leave() {
  list_own
  slurm=
  ! { is_listed /etc/slurm/slurm.conf && [ -e /etc/slurm/slurm.conf ]; } || slurm=yes
  for name in slurmd slurmctld slurmdbd munge; do [ -z "$slurm" ] || service "$name" stop; done
  ! is_listed /etc/slurm/slurmdbd.conf || mariadb -e 'DROP DATABASE IF EXISTS trireme_slurm; DROP USER IF EXISTS slurm@localhost' || say "the database of Slurm's accounts stays"
  ! is_noted mariadb || service mariadb stop
  [ -z "$slurm" ] || rm -rf /var/spool/trireme
  find /sys/fs/cgroup/*/"slurm_$TRIREME_NODE" -depth -type d -exec rmdir {} + 2>/dev/null || true
  give_back /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /etc/slurm/gres.conf /etc/slurm/slurmdbd.conf /etc/munge/munge.key
  rm -f /etc/munge/trireme.key
  ! { is_head && [ -e "$TRIREME_STORAGE_PATH" ]; } || give_back "$TRIREME_STORAGE_PATH/hosts"
  if [ "$TRIREME_STORAGE" != existing ] && mountpoint -q "$TRIREME_STORAGE_PATH"; then umount "$TRIREME_STORAGE_PATH" || umount -l "$TRIREME_STORAGE_PATH"; fi
  for file in /etc/hosts /etc/fstab; do [ ! -e "$file" ] || block "$file" </dev/null; done
  for file in /etc/exports /etc/ssh/ssh_known_hosts "$(home)/.ssh/authorized_keys" "$(home)/.ssh/config"; do
    [ ! -e "$file" ] || block "$file" </dev/null
    [ -s "$file" ] || rm -f "$file"
  done
  [ ! -e /etc/exports ] || ! command -v exportfs >/dev/null || exportfs -ra || true
  rm -f "$(home)/.ssh/trireme-$TRIREME_CLUSTER" "$(home)/.ssh/trireme-$TRIREME_CLUSTER.pub"
  rm -rf /var/lib/trireme-build /var/log/trireme-build.log
  rm -f /etc/systemd/system/trireme-health.service /run/trireme-*.pid
  give_back /usr/local/bin/trireme /opt/trireme
  for name in $(cat "$etc/services" 2>/dev/null); do service "$name" start || say "$name does not start"; done
  give_back "$etc/nhc.conf" "$etc/slurm-health" "$etc/slurm-prolog" "$etc/slurm-epilog"
  rm -f "$etc/node.env" "$etc/nhc.found" "$etc/health" "$etc/health.new" "$etc/end-at" "$etc/own" "$etc/kept" "$etc/services" "$etc/started"
  rmdir "$etc" 2>/dev/null || true
  rm -f /usr/local/sbin/trireme-node
}

action=${1:?boot, head-key, trust, build, install, health, slurm-hardware, munge-key, slurm, hostfile, leave or end}
case $action in
  boot) boot "${2-}" ;;
  head-key) head_key ;;
  trust) trust ;;
  build) build_program "$2" ;;
  install) install_program "$2" ;;
  health) check_health ;;
  set-health) set_health ;;
  slurm-hardware) slurm_hardware ;;
  munge-key) munge_key ;;
  slurm) set_slurm ;;
  hostfile) set_hostfile ;;
  leave) leave ;;
  end) end_cluster ;;
  *) fail "unknown action $action" ;;
esac
