# Functions for cgroups of both generations; read by enter.sh and node.sh.

# Prints the root of each hierarchy.
hierarchies() {
  local hierarchy
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup
    return
  fi
  for hierarchy in /sys/fs/cgroup/*/; do
    if [ -e "$hierarchy/cgroup.procs" ]; then echo "${hierarchy%/}"; fi
  done
}

# make_group HIERARCHY NAME: a group that processes may join.
make_group() {
  mkdir -p "$1/$2"
  if [ -e "$1/$2/cpuset.cpus" ] && [ -z "$(cat "$1/$2/cpuset.cpus")" ]; then
    cat "$1/cpuset.cpus" > "$1/$2/cpuset.cpus"
    cat "$1/cpuset.mems" > "$1/$2/cpuset.mems"
  fi
}

# Mounts the view of this cgroup namespace, each hierarchy alone. One that the machine has not mounted
# would be made, and would stay with its groups.
mount_hierarchies() {
  local names=() hierarchy name
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    return
  fi
  for hierarchy in $(hierarchies); do
    name=$(basename "$hierarchy")
    if [ "$name" != systemd ] && [ "$name" != unified ]; then names+=("$name"); fi
  done
  mount -t tmpfs tmpfs /sys/fs/cgroup
  for name in "${names[@]}"; do
    mkdir "/sys/fs/cgroup/$name"
    mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" 2>/dev/null || rmdir "/sys/fs/cgroup/$name"
  done
  mkdir /sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd || rmdir /sys/fs/cgroup/systemd
}
