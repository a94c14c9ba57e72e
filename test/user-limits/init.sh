#!/bin/sh
# First process of a machine with version 2 cgroups alone, whose files are those of the machine that
# runs it. It gives a part of the tree to the account $ACCOUNT, as systemd does, then runs inside.ts.
# Its words arrive as variables, on the command line of the kernel.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd
ip link set lo up
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# Init module by its number: not every machine has insmod.
perl -e 'open F, "<", $ARGV[0] or die; my $none = ""; syscall(313, fileno F, $none, 0) == 0 or die $!' \
    "$(echo /usr/lib/uml/modules/*/kernel/fs/overlayfs/overlay.ko)"
mount -t ext4 /dev/ubda /mnt

mkdir -p /mnt/data/layers
chown "$ACCOUNT:$ACCOUNT" /mnt/data /mnt/data/layers
# A command line has no names with spaces, as the home of the product has here.
mount --bind "$(find "$ACCOUNT_HOME/.local" -mindepth 3 -maxdepth 3 -name layers)" /mnt/data/layers

cd /sys/fs/cgroup || exit
echo '+memory +pids +cpu' >cgroup.subtree_control
delegate() {
    mkdir -p "$1"
    chown "$ACCOUNT:$ACCOUNT" "$1" "$1/cgroup.procs" "$1/cgroup.subtree_control" "$1/cgroup.threads"
}
# The manager of a user, with an application; a session, which is root's; a unit of the system with
# `User=` and `Delegate=yes`; one that is given the counting of processes only.
delegate manager
delegate manager/app.slice
echo '+memory +pids' >manager/cgroup.subtree_control
delegate manager/app.slice/app.scope
mkdir session.scope
delegate unit
mkdir few
echo '+pids' >few/cgroup.subtree_control
delegate few/unit
cd /

"$NODE" "$INSIDE" >"$RESULT" 2>"$RESULT.errors"
sync
umount /mnt/data/layers /mnt
halt -f -p
