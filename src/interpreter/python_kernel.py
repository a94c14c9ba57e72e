"""The kernel of Python: ipykernel in a process, spoken to by frames over a pair of sockets."""

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from frames import Frames, frame_of
from kernel import Kernel, KernelDied, KernelFailed
from results import error_line, result_line, stream_lines

PROGRAM = Path(__file__).with_name("python_process.py")
START_TIMEOUT_S = 90
# Between the end of the process and that of its connection: what it wrote last is read first, and
# one that has closed its connection ends, or is of no use any more.
END_S = 0.5
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")


class Connection(asyncio.Protocol):
    """Passes each message to `take(kind, content)`; one that is too large ends the connection."""

    def __init__(self, take):
        self.take = take
        self.frames = Frames()
        self.transport = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        try:
            for kind, content in self.frames.take(data):
                self.take(kind, content)
        except ValueError:
            self.transport.abort()

    def connection_lost(self, error):
        self.lost.set_result(None)


class PythonKernel(Kernel):
    """One ipykernel. Each cell is one request, answered by messages until the one that it is done."""

    def __init__(self, owner, cwd):
        super().__init__(owner, cwd)
        self.folder = None
        self.connection = None
        self.end = None
        # The running request, over once the kernel is done with that number.
        self.over = None
        self.number = 0

    async def start(self):
        self.folder = tempfile.mkdtemp(prefix="kernel-", dir=os.environ["INTERPRETER_FOLDER"])
        os.chown(self.folder, self.owner.uid, self.owner.gid)
        path = os.path.join(self.folder, "connection.json")
        # ipykernel opens these sockets; the server connects to none of them.
        facts = {
            "transport": "ipc",
            "ip": os.path.join(self.folder, "socket"),
            "signature_scheme": "hmac-sha256",
            "key": os.urandom(32).hex(),
            **{f"{name}_port": index for index, name in enumerate(CHANNELS, 1)},
        }
        with open(path, "w", encoding="utf8", opener=private) as file:
            json.dump(facts, file)
        os.chown(path, self.owner.uid, self.owner.gid)
        await self._spawn(path)

    async def _spawn(self, path):
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        self.connection = Connection(self._take)
        await loop.create_unix_connection(lambda: self.connection, sock=ours)
        with theirs:
            descriptor = theirs.fileno()
            command = (sys.executable, str(PROGRAM), path, str(os.getpid()), str(descriptor))
            await self.spawn(command, pass_fds=(descriptor,))
        self.over = loop.create_future()
        self.end = asyncio.ensure_future(self._watch_end())
        try:
            await asyncio.wait_for(self.over, START_TIMEOUT_S)
        except (KernelDied, asyncio.TimeoutError) as error:
            death = self.death()
            await self.stop()
            raise KernelFailed(f"the kernel of python cannot start: {death}") from error
        finally:
            self.over = None

    async def _watch_end(self):
        """Fails what runs once the process or its connection has ended."""
        ends = [asyncio.ensure_future(self.process.wait()), self.connection.lost]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        self.freeze(False)
        await asyncio.wait(ends, timeout=END_S)
        if self.over is not None and not self.over.done():
            self.over.set_exception(KernelDied(self.death()))

    async def warm(self):
        # An error, whose traceback loads most.
        await self._run("1/0", {}, None)

    async def execute(self, code, variables, emit):
        await self._run(code, variables, emit)

    async def _run(self, code, variables, emit):
        if not self.is_alive or self.connection.lost.done():
            raise KernelDied(self.death())
        self.number += 1
        request = {
            "number": self.number,
            "sandbox_variables": self.news(),
            "call_variables": variables,
            "content": {
                "code": code,
                "silent": emit is None,
                "store_history": emit is not None,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        }
        self.over, self.emit = asyncio.get_running_loop().create_future(), emit
        try:
            self.connection.transport.write(frame_of("cell", json.dumps(request).encode("ascii")))
            await self.over
        finally:
            self.finish_output()
            self.over, self.emit = None, None

    def interrupt(self):
        super().interrupt()
        # A cell that awaits hears of a signal once its loop has something else to do.
        self.connection.transport.write(frame_of("wake", b""))

    def freeze(self, is_frozen):
        super().freeze(is_frozen)
        # A program in a session of its own may write to the connection, too.
        if self.is_frozen:
            self.connection.transport.pause_reading()
        else:
            self.connection.transport.resume_reading()

    def _take(self, kind, text):
        if kind in ("done", "ready"):
            # A cell may write to this connection, too: what it claims is no end of a later one.
            is_due = kind == "ready" if self.number == 0 else text == b"%d" % self.number
            if is_due and self.over is not None and not self.over.done():
                self.over.set_result(None)
        elif kind == "leaving":
            self.leave()
        elif self.emit is not None:
            try:
                self._tell(kind, content_of(text))
            except Exception:  # noqa: BLE001
                # The kernel is the caller's program and may send anything.
                return

    def _tell(self, kind, content):
        if kind == "stream":
            for line in stream_lines(content["name"], content["text"]):
                self.emit(line)
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self.emit(result_line(content["data"], kind == "execute_result"))
        elif kind == "error":
            trace = "\n".join(content["traceback"])
            self.emit(error_line(content["ename"], content["evalue"], trace))
        elif kind == "execute_input":
            self.emit({"type": "number_of_executions", "execution_count": content["execution_count"]})

    async def stop(self):
        await super().stop()
        if self.connection is not None:
            self.connection.transport.abort()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def content_of(text):
    """The content of a message. What is no UTF-8, as half of a pair of surrogates, is replaced."""
    return json.loads(text.decode("utf8", "replace"))


def private(path, flags):
    return os.open(path, flags | os.O_EXCL, 0o600)
