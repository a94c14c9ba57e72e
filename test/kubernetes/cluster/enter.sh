#!/bin/bash
# Runs a program as root in namespaces of its own: what a kubelet writes to sysctls, bridges and mounts goes with them.
# usage: enter.sh DIRECTORY PROGRAM [ARGUMENT...]
set -euo pipefail
. "$(dirname "$0")/cgroups.sh"

work=$(realpath -m "$1")
shift
if [ -z "${CLUSTER_INSIDE:-}" ]; then
  group=sandbox-mcp-cluster-$$
  made=()
  for hierarchy in $(hierarchies); do
    make_group "$hierarchy" "$group"
    made+=("$hierarchy/$group")
  done
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
mount_hierarchies

# Files stand in for the sysctls of the machine that a kubelet sets. They have its values already: of two
# kubelets that write one file, the other may read it empty and end.
mkdir -p "$work/sysctl"
while read -r name value; do
  [ -e "/proc/sys/$name" ] || continue
  copy=$work/sysctl/${name//\//-}
  echo "$value" > "$copy"
  mount --bind "$copy" "/proc/sys/$name"
done <<'VALUES'
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
VALUES
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
# Between the Pods of both nodes.
echo 1 > /proc/sys/net/ipv4/ip_forward
"$@"
