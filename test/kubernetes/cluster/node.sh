#!/bin/bash
# A further node of the cluster: mounts, network and cgroups of its own, connected to those of the control plane.
# usage: node.sh hold NAME PROCESS   holds the namespaces; PROCESS is one of the control plane
#        node.sh run NAME HOLDER PROGRAM [ARGUMENT...]
set -euo pipefail
. "$(dirname "$0")/cgroups.sh"

readonly UPLINK=203.0.113.1 ADDRESS=203.0.113.2 PODS=10.89.0.0/16

join() {
  local hierarchy
  for hierarchy in $(hierarchies); do
    make_group "$hierarchy" "$1"
    echo $$ > "$hierarchy/$1/cgroup.procs"
  done
}

mode=$1 name=$2 process=$3
shift 3
case $mode in
  hold)
    join "$name"
    exec unshare --mount --net --cgroup "$0" inside "$name" "$process"
    ;;
  run)
    join "$name"
    exec nsenter --target "$process" --mount --net --cgroup -- "$@"
    ;;
esac

mount --make-rprivate /
mount_hierarchies
for directory in /run /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers; do
  mount -t tmpfs tmpfs "$directory"
done
plane() { nsenter --target "$process" --net -- "$@"; }
ip link set lo up
plane ip link add "$name" type veth peer name uplink netns $$
plane ip address add $UPLINK/24 dev "$name"
plane ip link set "$name" up
ip address add $ADDRESS/24 dev uplink
ip link set uplink up
ip route add default via $UPLINK
plane ip route add $PODS via $ADDRESS
echo 1 > /proc/sys/net/ipv4/ip_forward
echo ready
exec sleep infinity
