"""The kernel of Python: ipykernel in a process, spoken to by Jupyter's protocol over unix sockets."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import zmq

from kernel import Kernel, KernelDied, KernelFailed
from messages import Channel, Messages, content_of
from output import open_reader
from results import error_line, result_line, stream_lines

PROGRAM = Path(__file__).with_name("python_process.py")
START_TIMEOUT_S = 90
UNREAD_MESSAGES = 64
# After the reply of a cell its last output may still be on the way.
LAST_OUTPUT_S = 2
HEARTBEAT_S = 5
MISSED_HEARTBEATS = 4
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")


class Cell:
    """A request that runs: over once its reply and its last output have come."""

    def __init__(self, identifier):
        self.identifier = identifier
        self.has_reply = False
        self.is_idle = False
        self.over = asyncio.get_running_loop().create_future()
        # What else goes on for it.
        self.timers = []

    def finish(self):
        if not self.over.done():
            self.over.set_result(None)

    def fail(self, error):
        if not self.over.done():
            self.over.set_exception(error)


class PythonKernel(Kernel):
    """One ipykernel. Each cell is one execute_request."""

    def __init__(self, owner, cwd):
        super().__init__(owner, cwd)
        self.folder = None
        self.messages = None
        self.channels = {}
        self.exit = None
        # The running request.
        self.cell = None
        self.beat = None

    async def start(self):
        self.folder = tempfile.mkdtemp(prefix="kernel-", dir=os.environ["INTERPRETER_FOLDER"])
        os.chown(self.folder, self.owner.uid, self.owner.gid)
        path = os.path.join(self.folder, "connection.json")
        ports = {f"{name}_port": index for index, name in enumerate(CHANNELS, 1)}
        key = os.urandom(32).hex()
        facts = {
            "transport": "ipc",
            "ip": os.path.join(self.folder, "socket"),
            "signature_scheme": "hmac-sha256",
            "key": key,
            **ports,
        }
        with open(path, "w", encoding="utf8", opener=private) as file:
            json.dump(facts, file)
        os.chown(path, self.owner.uid, self.owner.gid)
        self.messages = Messages(key.encode())
        await self._spawn(path)
        self._connect(facts["ip"], ports)
        await self._greet()

    async def _spawn(self, path):
        ready, told = os.pipe()
        try:
            command = (sys.executable, str(PROGRAM), path, str(os.getpid()), str(told))
            await self.spawn(command, pass_fds=(told,))
        except BaseException:
            os.close(ready)
            raise
        finally:
            os.close(told)
        self.exit = asyncio.ensure_future(self.process.wait())
        self.exit.add_done_callback(self._on_exit)
        line = await first_line(ready, START_TIMEOUT_S)
        if line == b"ready\n":
            return
        await self.stop()
        raise KernelFailed(f"the kernel of python cannot start: {self.death()}")

    def _connect(self, address, ports):
        # What this server has not read waits in the memory of the kernel.
        output = {zmq.RCVHWM: UNREAD_MESSAGES, zmq.SUBSCRIBE: b""}
        # One that was not answered is given up, and the next is sent all the same.
        heart = {zmq.REQ_RELAXED: 1, zmq.REQ_CORRELATE: 1}
        kinds = {
            "shell": (zmq.DEALER, self._on_reply, {}),
            "iopub": (zmq.SUB, self._on_output, output),
            "hb": (zmq.REQ, self._on_beat, heart),
        }
        for name, (kind, take, options) in kinds.items():
            place = f"ipc://{address}-{ports[f'{name}_port']}"
            self.channels[name] = Channel(kind, place, take, options)

    async def _greet(self):
        """Repeats a request without effect until its output arrives: then no later one is missed."""
        for _ in range(600):
            self._send("kernel_info_request", {}, {})
            self.cell.has_reply = True
            done, _ = await asyncio.wait([self.cell.over], timeout=0.15)
            self.cell = None
            if not self.is_alive:
                break
            if done:
                return
        raise KernelFailed(f"the kernel of python cannot start: {self.death()}")

    async def warm(self):
        # An error, whose traceback loads most.
        await self._run("1/0", None)

    async def execute(self, code, variables, emit):
        # One request for all: each costs a round trip to the kernel.
        metadata = {"sandbox_variables": self.news(), "call_variables": variables}
        await self._run(code, emit, {name: value for name, value in metadata.items() if value})

    async def _run(self, code, emit, metadata=None):
        if not self.is_alive:
            raise KernelDied(self.death())
        self.emit = emit
        request = {
            "code": code,
            "silent": emit is None,
            "store_history": emit is not None,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        cell = self._send("execute_request", request, metadata or {})
        self._later(HEARTBEAT_S, self._start_heart)
        try:
            await cell.over
        finally:
            for timer in cell.timers:
                timer.cancel()
            self.finish_output()
            self.cell, self.emit = None, None

    def _send(self, kind, content, metadata):
        """Sends the request that runs from now on. Raises KernelDied."""
        identifier, frames = self.messages.encode(kind, content, metadata)
        self.cell = Cell(identifier)
        try:
            self.channels["shell"].send(frames)
        except zmq.ZMQError as error:
            raise KernelDied("the kernel reads no requests") from error
        return self.cell

    def _later(self, seconds, work):
        """Does it unless the cell is over by then."""
        loop = asyncio.get_running_loop()
        self.cell.timers.append(loop.call_later(seconds, work))

    def _on_exit(self, _):
        if self.cell is None:
            return
        if self.cell.has_reply:
            self.cell.finish()
        else:
            self.cell.fail(KernelDied(self.death()))

    def _start_heart(self):
        self.cell.timers.append(asyncio.ensure_future(self._watch_heart(self.cell)))

    async def _watch_heart(self, cell):
        """Fails the cell once the kernel's sockets are no longer served."""
        missed = 0
        while missed < MISSED_HEARTBEATS:
            if not self.is_frozen:
                missed = 0 if await self._hear() else missed + 1
            await asyncio.sleep(HEARTBEAT_S)
        cell.fail(KernelDied(self.death()))

    async def _hear(self):
        self.beat = asyncio.get_running_loop().create_future()
        try:
            self.channels["hb"].send([b"beat"])
        except zmq.ZMQError:
            # There is no place for it: nothing reads.
            pass
        done, _ = await asyncio.wait([self.beat], timeout=HEARTBEAT_S)
        return len(done) == 1

    def _on_beat(self, _):
        if not self.beat.done():
            self.beat.set_result(None)

    def _on_reply(self, frames):
        kind, parent, _ = self.messages.decode(frames)
        cell = self.cell
        if cell is None or parent != cell.identifier or kind != "execute_reply":
            return
        cell.has_reply = True
        if cell.is_idle:
            cell.finish()
        else:
            self._later(LAST_OUTPUT_S, cell.finish)

    def _on_output(self, frames):
        kind, parent, text = self.messages.decode(frames)
        cell = self.cell
        if cell is None or parent != cell.identifier:
            return
        content = content_of(text)
        if kind == "status":
            cell.is_idle = cell.is_idle or content["execution_state"] == "idle"
            if cell.is_idle and cell.has_reply:
                cell.finish()
        elif self.emit is None:
            return
        elif kind == "stream":
            for line in stream_lines(content["name"], content["text"]):
                self.emit(line)
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self.emit(result_line(content["data"], kind == "execute_result"))
        elif kind == "error":
            trace = "\n".join(content["traceback"])
            self.emit(error_line(content["ename"], content["evalue"], trace))
        elif kind == "execute_input":
            count = content["execution_count"]
            self.emit({"type": "number_of_executions", "execution_count": count})

    async def stop(self):
        await super().stop()
        for channel in self.channels.values():
            channel.close()
        self.channels = {}
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


async def first_line(descriptor, timeout_s):
    """The first line of a pipe, which is closed then; empty where none comes in time."""
    reader = await open_reader(descriptor, 64)
    try:
        return await asyncio.wait_for(reader.readline(), timeout_s)
    except (asyncio.TimeoutError, ValueError):
        return b""


def private(path, flags):
    return os.open(path, flags | os.O_EXCL, 0o600)
