"""Attacks on what is counted: processes, memory, the disk, and the kernel's smaller tables."""

import ctypes
import errno
import fcntl
import mmap
import os
import pty
import signal
import struct
import subprocess
import time

from base import LIBC, attack, main

MEGABYTE = 1 << 20


@attack("E26")
def fork_bomb(seconds, most):
    """Forks until it was refused for so long; says how many processes it had at once."""

    def explode():
        signal.alarm(0)
        children, peak, until = [], 0, None
        while len(children) < int(most) and (until is None or time.monotonic() < until):
            try:
                pid = os.fork()
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
                peak = max(peak, len(children))
                until = until or time.monotonic() + float(seconds)
                time.sleep(0.01)
                continue
            if pid == 0:
                signal.pause()
            children.append(pid)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        return str(max(peak, len(children)))

    return [("processes", explode)]


@attack("E27")
def memory_bomb(megabytes):
    def heap():
        # The kernel takes what it can from files first, and reads it again, before it kills.
        signal.alarm(90)
        area = mmap.mmap(-1, int(megabytes) * MEGABYTE)
        for offset in range(0, len(area), mmap.PAGESIZE):
            area[offset] = 1

    def files():
        try:
            with open("/dev/shm/bomb", "wb") as stream:
                for _ in range(int(megabytes)):
                    stream.write(b"x" * MEGABYTE)
        finally:
            os.unlink("/dev/shm/bomb")

    return [("heap", heap), ("tmpfs", files)]


@attack("E28")
def disk_bomb(path, megabytes, *chosen):
    os.makedirs(path, exist_ok=True)

    def fill():
        try:
            with open(f"{path}/full", "wb", buffering=0) as stream:
                for _ in range(int(megabytes)):
                    stream.write(b"x" * MEGABYTE)
        finally:
            os.unlink(f"{path}/full")

    def allocate():
        try:
            with open(f"{path}/allocated", "wb") as stream:
                os.posix_fallocate(stream.fileno(), 0, int(megabytes) * MEGABYTE)
        finally:
            os.unlink(f"{path}/allocated")

    def inodes():
        made = 0
        try:
            while made < 1_000_000:
                os.close(os.open(f"{path}/i{made}", os.O_CREAT | os.O_WRONLY))
                made += 1
        finally:
            for number in range(made):
                os.unlink(f"{path}/i{number}")

    def sparse():
        with open(f"{path}/sparse", "wb") as stream:
            os.truncate(stream.fileno(), 8 << 30)
        used = os.stat(f"{path}/sparse").st_blocks
        os.unlink(f"{path}/sparse")
        return "empty" if used < 64 else f"{used} blocks"

    rows = {"fill": fill, "fallocate": allocate, "inodes": inodes, "sparse": sparse}
    return [(name, rows[name]) for name in chosen or rows]


# --- E29: each table is used up, held for a while, and given back with the end of the process ---

MOST = 200_000


def inotify_instance():
    return wanted(LIBC.inotify_init1(0))


def wanted(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "call")
    return result


def queue(number):
    class Attributes(ctypes.Structure):
        _fields_ = [(name, ctypes.c_long) for name in ("flags", "maxmsg", "msgsize", "curmsgs")] + [
            ("reserved", ctypes.c_long * 4)]

    librt = ctypes.CDLL("librt.so.1", use_errno=True)
    name = f"/attack-{os.getpid()}-{number}".encode()
    attributes = Attributes(0, 10, 8192, 0)
    handle = wanted(librt.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, ctypes.byref(attributes)))
    # It lives on until the descriptor is closed.
    librt.mq_unlink(name)
    return handle


def shared_segment(_number):
    return wanted(LIBC.shmget(0, 4096, 0o1600))


def locked(_number):
    """A segment that stays in memory: the kernel counts it for each user."""
    identity = wanted(LIBC.shmget(0, 65536, 0o1600))
    wanted(LIBC.shmctl(identity, 11, None))


def timer(_number):
    identity = ctypes.c_int()
    wanted(LIBC.timer_create(1, None, ctypes.byref(identity)))


WATCHED = {}


def watch(number):
    """Watches on folders of its own: one for each, all in one instance."""
    if "instance" not in WATCHED:
        WATCHED["instance"] = inotify_instance()
        WATCHED["root"] = f"/var/tmp/watched-{os.getpid()}"
        os.mkdir(WATCHED["root"])
    path = f"{WATCHED['root']}/{number}"
    os.mkdir(path)
    wanted(LIBC.inotify_add_watch(WATCHED["instance"], path.encode(), 0x100))


TABLES = {
    "descriptors": lambda _number: os.open("/dev/null", os.O_RDONLY),
    "epoll": lambda _number: __import__("select").epoll(),
    "inotify": lambda _number: inotify_instance(),
    "watches": watch,
    "terminals": lambda _number: pty.openpty(),
    "segments": shared_segment,
    "locked": locked,
    "queues": queue,
    "timers": timer,
    "pipes": lambda _number: [fcntl.fcntl(end, 1031, MEGABYTE) for end in os.pipe()[:1]],
    "locks": lambda _number: fcntl.lockf(os.open("/dev/null", os.O_RDWR), fcntl.LOCK_SH),
}


def use_up(name, most):
    held, refusal = [], "none"
    while len(held) < most:
        try:
            held.append(TABLES[name](len(held)))
        except OSError as error:
            refusal = errno.errorcode.get(error.errno, "?")
            break
    return held, refusal


@attack("E29")
def exhaust(name, seconds):
    """Uses one table up and holds it, so that others can be asked meanwhile."""

    def hold():
        signal.alarm(0)
        # Opened before there is no descriptor left for it.
        with open("/dev/shm/held", "w", encoding="utf-8") as stream:
            held, refusal = use_up(name, MOST)
            stream.write(f"{len(held)} {refusal}\n")
            stream.flush()
            time.sleep(float(seconds))
        return f"{len(held)} {refusal}"

    return [(name, hold)]


@attack("E29-little")
def little():
    """What an ordinary program takes of each table; anything but ok is a neighbour's doing."""

    def some(name):
        held, refusal = use_up(name, 4)
        return "ok" if len(held) == 4 else refusal

    return [(name, lambda name=name: some(name)) for name in TABLES]


if __name__ == "__main__":
    main()
