"""Keeps one process that serves. When that process ends, all that its kernels started ends with it."""

import ctypes
import os
import signal
import sys
import time

RESTART_PAUSE_S = 0.2
BACKLOG = 512
# Programs of a cell that multiply are ended in rounds; a server that is not started would be worse.
MAX_ROUNDS = 1_000
ROUND_PAUSE_S = 0.01
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def supervise(host, port):
    """Returns in each new serving process: the listener, and an empty folder for its kernels' sockets."""
    listener = listen(host, port)
    # A shell starts what runs in the background with SIGINT ignored, and kernels would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Kernels of a server that ended, and programs without a parent, become children of this process.
    set_process_option(PR_SET_CHILD_SUBREAPER, 1)
    folder = f"{os.environ.get('TMPDIR', '/tmp')}/interpreter-{os.urandom(8).hex()}"
    own_id = os.getpid()
    while True:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            set_process_option(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != own_id:
                os._exit(1)
            empty(folder)
            return listener, folder
        signal.signal(signal.SIGTERM, lambda *_: stop(folder))
        status = wait_for(child)
        end_all()
        print(f"interpreter: the server ended ({status}), starting it again", file=sys.stderr)
        time.sleep(RESTART_PAUSE_S)


def listen(host, port):
    """Of this process, so that a connection that comes while no server runs waits for the next one."""
    import socket

    return socket.create_server((host, port), backlog=BACKLOG)


def stop(folder):
    """Ends the server and all that runs below it, and then this process."""
    end_all()
    empty(folder)
    os.rmdir(folder)
    os._exit(0)


def wait_for(child):
    """Waits for the end of a child, and for whatever else ends meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == child:
            return status


def end_all():
    """Ends all descendants of this process. Each round finds those that were made during the last."""
    for _ in range(MAX_ROUNDS):
        ids = descendants()
        if not ids:
            return
        for number in ids:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        reap()
        time.sleep(ROUND_PAUSE_S)


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return


def descendants():
    """Ids of the processes below this one, each after its parent."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            children.setdefault(parent_of(name), []).append(int(name))
    found = list(children.get(os.getpid(), []))
    for number in found:
        found.extend(children.get(number, []))
    return found


def parent_of(name):
    """The parent of a process; 0 for one that has ended."""
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            # The name of the program, in parentheses, may contain anything.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def empty(folder):
    """An empty directory, whatever a server left there. Users may pass it, and list nothing."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder, 0o711)


def set_process_option(option, value):
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
