"""What every kernel is: a process of its own with the interface that a context uses."""

import asyncio
import json
import os
import pwd
import signal

from output import Output

# Environment names that the server itself was started with and no cell needs.
VARIABLES_FILE = "/run/e2b/.variables.json"
HIDDEN_VARIABLES = ("INTERPRETER_FOLDER", "INTERPRETER_LANGUAGES", "INTERPRETER_PORT", "INTERPRETER_USER", "SUDO_COMMAND", "SUDO_GID", "SUDO_UID", "SUDO_USER")
STOP_TIMEOUT_S = 2
# Has the operating system end a kernel with the server, also where a cell runs that never yields.
END_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")


class KernelDied(Exception):
    """The process of a kernel ended, or answers no more; the text says how."""


class KernelFailed(Exception):
    """A kernel could not be started; the text says why."""


class Owner:
    """The user as whom kernels run, and the variables that they begin with."""

    def __init__(self, name):
        entry = pwd.getpwnam(name)
        self.home = entry.pw_dir
        self.ids = {}
        if os.geteuid() == 0 and entry.pw_uid != 0:
            groups = os.getgrouplist(name, entry.pw_gid)
            self.ids = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}
        self.uid = entry.pw_uid
        self.gid = entry.pw_gid
        account = {"HOME": entry.pw_dir, "USER": name, "LOGNAME": name, "SHELL": "/bin/bash"}
        self.environment = {**os.environ, **account}
        for hidden in HIDDEN_VARIABLES:
            self.environment.pop(hidden, None)
        self.variables = {}
        self.read_at = None

    def read_variables(self):
        """The variables of the sandbox; a pooled one gets those of its creator while it runs."""
        try:
            changed = os.stat(VARIABLES_FILE).st_mtime_ns
            if changed != self.read_at:
                with open(VARIABLES_FILE, encoding="utf8") as file:
                    self.variables = json.load(file)
                self.read_at = changed
        except (OSError, ValueError):
            # Not told by this daemon, or not whole yet: what was known holds.
            pass
        return self.variables


def open_pipes(count):
    """So many pipes, or none where this process may open no further file."""
    pipes = []
    try:
        for _ in range(count):
            pipes.append(os.pipe())
    except OSError:
        for end in (end for pipe in pipes for end in pipe):
            os.close(end)
        raise
    return pipes


class Kernel:
    """The process of one context. `execute` runs one cell and reports through `emit`."""

    def __init__(self, owner, cwd):
        self.owner = owner
        self.cwd = cwd
        self.process = None
        self.is_frozen = False
        # Of the sandbox, as this process has them.
        self.variables = None
        # Whether it takes no further cell, as it is about to exit.
        self.is_leaving = False
        # Whether a caller knows of its end.
        self.is_told = False
        # Why this server ended it, if it did.
        self.cause = None
        # Where the lines of the running cell go.
        self.emit = None
        self.outputs = []

    async def start(self):
        raise NotImplementedError

    async def warm(self):
        """Runs a cell that nobody asked for, which loads what cells need. Raises KernelDied."""
        raise NotImplementedError

    def news(self):
        """The variables of the sandbox where they have changed, else nothing."""
        now = self.owner.read_variables()
        if now is self.variables:
            return {}
        self.variables = now
        return now

    async def execute(self, code, variables, emit):
        """Runs one cell. Raises KernelDied."""
        raise NotImplementedError

    def interrupt(self):
        self.freeze(False)
        self.send_signal(signal.SIGINT)

    @property
    def is_alive(self):
        return self.process is not None and self.process.returncode is None

    def leave(self):
        """Takes note of an exit that a cell asked for. The next cell is for a new kernel."""
        self.is_leaving, self.cause = True, "the kernel exited"

    async def spawn(self, arguments, **options):
        """Starts the process, the leader of a session, which ends with this server."""
        self.variables = self.owner.read_variables()
        (out_end, out), (error_end, error) = open_pipes(2)
        try:
            self.process = await asyncio.create_subprocess_exec(
                *END_WITH_PARENT,
                *arguments,
                cwd=self.cwd,
                env={**self.owner.environment, **self.owner.read_variables()},
                start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=error,
                **self.owner.ids,
                **options,
            )
        except (OSError, ValueError) as failure:
            os.close(out_end)
            os.close(error_end)
            raise KernelFailed(f"the kernel cannot start: {failure}") from failure
        finally:
            os.close(out)
            os.close(error)
        self.outputs = [Output(self, "stdout", out_end), Output(self, "stderr", error_end)]

    def drain(self):
        """Passes on what was written until now."""
        for output in self.outputs:
            output.drain()

    def finish_output(self):
        """Passes on the last output of a cell, with a character that has no end."""
        for output in self.outputs:
            output.drain()
            output.finish()

    def send_signal(self, number):
        """To the process and all that it started in its group."""
        if not self.is_alive:
            return
        try:
            os.killpg(self.process.pid, number)
        except OSError:
            pass

    def freeze(self, is_frozen):
        """Stops the process while its output waits for a slow reader, and reads none of it meanwhile.

        The signal does not reach programs in sessions of their own; what they write to is full at some
        time, and stops them. The output of a process that has ended is read to its end.
        """
        if self.is_frozen == is_frozen or (is_frozen and not self.is_alive):
            return
        self.is_frozen = is_frozen
        for output in self.outputs:
            if is_frozen:
                output.pause()
            else:
                output.resume()
        self.send_signal(signal.SIGSTOP if is_frozen else signal.SIGCONT)

    async def stop(self):
        self.send_signal(signal.SIGKILL)
        if self.process is not None:
            try:
                await asyncio.wait_for(self.process.wait(), STOP_TIMEOUT_S)
            except asyncio.TimeoutError:
                pass
        for output in self.outputs:
            output.close()
        self.outputs = []

    def memory_mb(self):
        """What its process holds in memory."""
        try:
            with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
                pages = int(file.read().split()[1])
        except (AttributeError, OSError, ValueError, IndexError):
            return None
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 1_048_576)

    def death(self):
        """How the process ended, in words."""
        if self.cause is not None:
            return self.cause
        code = None if self.process is None else self.process.returncode
        if code is None:
            return "the kernel does not answer"
        if code >= 0:
            return f"the kernel exited with code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        cause = ", as when the memory of the sandbox is used up" if name == "SIGKILL" else ""
        return f"the kernel was ended by {name}{cause}"
