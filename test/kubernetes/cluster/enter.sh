#!/bin/bash
# Runs a program as root in namespaces of its own: what a kubelet writes to sysctls, bridges and mounts goes with them.
# usage: enter.sh DIRECTORY PROGRAM [ARGUMENT...]
set -euo pipefail

work=$(realpath -m "$1")
shift
if [ -z "${CLUSTER_INSIDE:-}" ]; then
  group=sandbox-mcp-cluster-$$
  made=()
  join() {
    mkdir "$1/$group"
    made+=("$1/$group")
    if [ -e "$1/$group/cpuset.cpus" ] && [ -z "$(cat "$1/$group/cpuset.cpus")" ]; then
      cat "$1/cpuset.cpus" > "$1/$group/cpuset.cpus"
      cat "$1/cpuset.mems" > "$1/$group/cpuset.mems"
    fi
  }
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    join /sys/fs/cgroup
  else
    for hierarchy in /sys/fs/cgroup/*/; do
      [ -e "$hierarchy/cgroup.procs" ] && join "${hierarchy%/}"
    done
  fi
  inside() {
    for directory in "${made[@]}"; do echo $BASHPID > "$directory/cgroup.procs"; done
    export CLUSTER_INSIDE=1
    exec unshare --pid --fork --kill-child --mount --net --cgroup --ipc --uts --mount-proc "$0" "$work" "$@"
  }
  status=0
  (inside "$@") || status=$?
  # Programs of killed containers leave their cgroups a moment later.
  for _ in $(seq 50); do
    for directory in "${made[@]}"; do find "$directory" -depth -type d -exec rmdir {} + 2>/dev/null || true; done
    left=0
    for directory in "${made[@]}"; do [ -d "$directory" ] && left=1; done
    [ $left = 0 ] && break
    sleep 0.2
  done
  exit $status
fi
unset CLUSTER_INSIDE

mount --make-rprivate /
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
  # The view of this cgroup namespace, each hierarchy alone.
  controllers=$(awk '$1 !~ /^#/ && $4 == 1 { print $1 }' /proc/cgroups)
  mount -t tmpfs tmpfs /sys/fs/cgroup
  for name in $controllers; do
    mkdir "/sys/fs/cgroup/$name"
    mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" 2>/dev/null || rmdir "/sys/fs/cgroup/$name"
  done
  mkdir /sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd || rmdir /sys/fs/cgroup/systemd
else
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi

# Files stand in for the sysctls of the machine that a kubelet sets.
mkdir -p "$work/sysctl"
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  [ -e "/proc/sys/$name" ] || continue
  copy=$work/sysctl/${name//\//-}
  cat "/proc/sys/$name" > "$copy"
  mount --bind "$copy" "/proc/sys/$name"
done
# A user namespace may mount /proc only where one without such files is seen.
mkdir -p "$work/proc"
mount -t proc proc "$work/proc"
for directory in /run /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers; do
  mkdir -p "$directory"
  mount -t tmpfs tmpfs "$directory"
done
ip link set lo up
ip link add node0 type veth peer name node0p
ip address add 192.0.2.2/24 dev node0
ip link set node0 up
ip link set node0p up
ip route add default via 192.0.2.1 dev node0
"$@"
