"""Attacks by system calls: namespaces, socket families, calling conventions, the machine itself."""

import ctypes
import fcntl
import mmap
import os
import pty
import signal
import struct
import termios
import time

from base import IS_X64, LIBC, NUMBERS, attack, call, main

NAMESPACES = {
    "time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
    "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}


@attack("E21")
def new_namespaces():
    def by_clone(flag):
        # A raw clone without a stack is a fork.
        if call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0) == 0:
            os._exit(0)

    def by_clone3(flag):
        arguments = struct.pack("11Q", flag, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
        if call("clone3", ctypes.create_string_buffer(arguments), len(arguments)) == 0:
            os._exit(0)

    rows = []
    for name, flag in NAMESPACES.items():
        rows.append((f"unshare {name}", lambda flag=flag: call("unshare", flag)))
        rows.append((f"clone3 {name}", lambda flag=flag: by_clone3(flag)))
        # The old call takes the flag of time for a part of the signal's number.
        if name != "time":
            rows.append((f"clone {name}", lambda flag=flag: by_clone(flag)))
    return rows


@attack("E22")
def join_namespaces():
    def own(kind):
        call("setns", os.open(f"/proc/self/ns/{kind}", os.O_RDONLY), 0)

    def first(kind):
        call("setns", os.open(f"/proc/1/ns/{kind}", os.O_RDONLY), 0)

    rows = [(f"own {kind}", lambda kind=kind: own(kind)) for kind in ("net", "uts", "ipc", "mnt")]
    rows += [(f"first {kind}", lambda kind=kind: first(kind))
             for kind in ("net", "uts", "ipc", "mnt", "pid", "cgroup", "user")]
    everything = NAMESPACES["net"] | NAMESPACES["uts"]
    return rows + [("pidfd", lambda: call("setns", call("pidfd_open", 1, 0), everything))]


# --- E31: socket families by every calling convention of the processor ---

FAMILIES = range(46)
X32_BIT = 0x40000000
SYS_SOCKETCALL_32, SYS_SOCKET_32, DATAGRAM = 102, 359, 2


def machine_code(code):
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    machine_code.kept = area
    return ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_long,
                            ctypes.c_long)(address)


def by_interrupt(number, first, second, third):
    """A call of the 32-bit convention from a 64-bit process."""
    # push rbx; mov eax,edi; mov ebx,esi; mov ecx,edx; mov edx,r8d... (rcx is the fourth argument)
    code = b"\x53\x41\x89\xc8\x89\xf8\x89\xf3\x89\xd1\x44\x89\xc2\xcd\x80\x48\x98\x5b\xc3"
    return checked(machine_code(code)(number, first, second, third))


def checked(result):
    if -4096 < result < 0:
        raise OSError(-result, "call")
    return result


def by_socketcall(family):
    MAP_32BIT = 0x40
    LIBC.mmap.restype = ctypes.c_void_p
    low = LIBC.mmap(None, 4096, 3, 0x22 | MAP_32BIT, -1, 0)
    ctypes.memmove(low, struct.pack("III", family, DATAGRAM, 0), 12)
    return by_interrupt(SYS_SOCKETCALL_32, 1, low, 0)


@attack("E31")
def families():
    def native(family, kind=DATAGRAM, protocol=0):
        return call("socket", family, kind, protocol)

    rows = [(f"native {family}", lambda family=family: native(family)) for family in FAMILIES]
    rows += [(f"netlink {protocol}", lambda protocol=protocol: native(16, 3, protocol))
             for protocol in range(1, 22)]
    rows += [("packet raw", lambda: native(17, 3, 0x0300)), ("inet raw", lambda: native(2, 3, 1))]
    # The family is 32 bits wide in the kernel and 64 in a filter.
    rows += [("wide vsock", lambda: native(40 | 1 << 32)), ("wide inet", lambda: native(17 << 32 | 17))]
    if not IS_X64:
        return rows
    rows += [(f"socketcall {family}", lambda family=family: by_socketcall(family))
             for family in FAMILIES]
    rows += [(f"int80 {family}", lambda family=family: by_interrupt(SYS_SOCKET_32, family, DATAGRAM, 0))
             for family in FAMILIES]
    return rows + [(f"x32 {family}", lambda family=family: x32_socket(family)) for family in FAMILIES]


def x32_socket(family):
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(X32_BIT | NUMBERS["socket"][0]), ctypes.c_long(family),
                          ctypes.c_long(DATAGRAM), ctypes.c_long(0))
    if result == -1:
        raise OSError(ctypes.get_errno(), "socket")
    return result


@attack("E32")
def refused_calls(*names):
    rows = [(name, lambda name=name: call(name, 0, 0, 0, 0, 0)) for name in names]
    return rows + [(f"personality {value:#x}", lambda value=value: call("personality", value))
                   for value in (0x1, 0x40000, 0x400000)]


@attack("E33")
def terminals():
    def on_terminal(action):
        _, terminal = pty.openpty()
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        return action(terminal)

    def steal(terminal, request):
        ctypes.set_errno(0)
        letter = ctypes.c_char(b"x")
        result = LIBC.ioctl(terminal, ctypes.c_ulong(request), ctypes.byref(letter))
        if result == -1:
            raise OSError(ctypes.get_errno(), "ioctl")

    return [
        ("TIOCSTI", lambda: on_terminal(lambda terminal: steal(terminal, 0x5412))),
        ("TIOCSTI wide", lambda: on_terminal(lambda terminal: steal(terminal, 1 << 32 | 0x5412))),
        ("TIOCLINUX", lambda: on_terminal(lambda terminal: steal(terminal, 0x541C))),
        ("TIOCCONS", lambda: on_terminal(lambda terminal: steal(terminal, 0x541D))),
    ]


@attack("E34")
def machine():
    def set_clock():
        now = time.clock_gettime_ns(time.CLOCK_REALTIME)
        call("clock_settime", 0, ctypes.create_string_buffer(struct.pack("qq", *divmod(now, 10**9))))

    def adjust():
        # ADJ_MAXERROR with the largest error: nothing moves.
        call("adjtimex", ctypes.create_string_buffer(struct.pack("Iiqqqi", 4, 0, 0, 0, 16_000_000, 0)
                                                     + bytes(208)))

    def account():
        call("acct", 0)

    return [
        ("clock_settime", set_clock),
        ("adjtimex", adjust),
        ("sethostname", lambda: call("sethostname", ctypes.create_string_buffer(b"taken"), 5)),
        ("setdomainname", lambda: call("setdomainname", ctypes.create_string_buffer(b"taken"), 5)),
        ("reboot", lambda: call("reboot", 0xFEE1DEAD, 672274793, 0, 0)),
        ("acct", account),
        ("swapon", lambda: call("swapon", ctypes.create_string_buffer(b"/etc/passwd"), 0)),
        ("syslog", lambda: call("syslog", 10, 0, 0)),
    ]


@attack("E35")
def device_folder():
    def listing():
        names = set(os.listdir("/dev"))
        wanted = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue",
                  "fd", "stdin", "stdout", "stderr", "core", "console"}
        return " ".join(sorted(names - wanted)) or "none"

    names = ["kmsg", "mem", "kvm", "vsock", "fuse", "net/tun", "loop-control", "vda", "port"]
    rows = [(name, lambda name=name: os.close(os.open(f"/dev/{name}", os.O_RDONLY))) for name in names]
    return [("beyond the list", listing), *rows]


if __name__ == "__main__":
    main()
