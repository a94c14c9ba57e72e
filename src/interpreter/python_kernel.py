"""The kernel of Python: ipykernel in a process, spoken to by Jupyter's protocol over unix sockets."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import zmq
import zmq.asyncio
from jupyter_client.session import Session

from kernel import Kernel, KernelDied, KernelFailed
from output import open_reader
from results import error_line, result_line, stream_lines

PROGRAM = Path(__file__).with_name("python_process.py")
START_TIMEOUT_S = 90
# A larger message breaks the connection instead of filling the memory of the server.
MAX_MESSAGE_BYTES = 96 * 1024 * 1024
UNREAD_MESSAGES = 64
# After the reply of a cell its last output may still be on the way.
LAST_OUTPUT_S = 2
HEARTBEAT_S = 5
MISSED_HEARTBEATS = 4
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
CONTEXT = zmq.asyncio.Context()


class PythonKernel(Kernel):
    """One ipykernel. Each cell is one execute_request."""

    def __init__(self, owner, cwd):
        super().__init__(owner, cwd)
        self.folder = None
        self.session = None
        self.sockets = {}
        self.readers = []
        # Of the running request: its id, where its messages go, and what its end is told by.
        self.parent = None
        self.idle = None
        self.replies = {}

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
        self.session = Session(key=key.encode())
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
        line = await first_line(ready, START_TIMEOUT_S)
        if line == b"ready\n":
            return
        await self.stop()
        raise KernelFailed(f"the kernel of python cannot start: {self.death()}")

    def _connect(self, address, ports):
        kinds = {"shell": zmq.DEALER, "iopub": zmq.SUB, "hb": zmq.REQ}
        for name, kind in kinds.items():
            socket = CONTEXT.socket(kind)
            socket.linger = 0
            socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
            self.sockets[name] = socket
        # What this server has not read waits in the memory of the kernel.
        self.sockets["iopub"].setsockopt(zmq.RCVHWM, UNREAD_MESSAGES)
        self.sockets["iopub"].subscribe(b"")
        # One that was not answered is given up, and the next is sent all the same.
        self.sockets["hb"].setsockopt(zmq.REQ_RELAXED, 1)
        self.sockets["hb"].setsockopt(zmq.REQ_CORRELATE, 1)
        for name, socket in self.sockets.items():
            socket.connect(f"ipc://{address}-{ports[f'{name}_port']}")
        takers = {"iopub": self._on_output, "shell": self._on_reply}
        self.readers = [asyncio.ensure_future(self._read(*taker)) for taker in takers.items()]

    async def _greet(self):
        """Repeats a request without effect until its output arrives: then no later one is missed."""
        for _ in range(600):
            self.idle = asyncio.get_running_loop().create_future()
            self.parent = await self._request("kernel_info_request", {})
            done, _ = await asyncio.wait([self.idle], timeout=0.15)
            if done:
                self.parent = None
                return
            if not self.is_alive:
                break
        raise KernelFailed(f"the kernel of python cannot start: {self.death()}")

    async def warm(self):
        # An error, whose traceback loads most.
        await self._run("1/0", None)

    async def execute(self, code, variables, emit):
        # One request for all: each costs a round trip to the kernel.
        metadata = {"sandbox_variables": self.news(), "call_variables": variables}
        await self._run(code, emit, {name: value for name, value in metadata.items() if value})

    async def _run(self, code, emit, metadata=None):
        loop = asyncio.get_running_loop()
        self.emit, self.idle = emit, loop.create_future()
        request = {
            "code": code,
            "silent": emit is None,
            "store_history": emit is not None,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        reply = loop.create_future()
        message = self.session.msg("execute_request", request, metadata=metadata)
        self.parent = message["header"]["msg_id"]
        self.replies = {self.parent: reply}
        try:
            await self.sockets["shell"].send_multipart(self.session.serialize(message))
            await self._until(reply)
            await asyncio.wait([self.idle], timeout=LAST_OUTPUT_S)
        finally:
            self.finish_output()
            self.parent, self.emit, self.replies = None, None, {}

    async def _until(self, reply):
        """Waits for the reply as long as the process lives and its heart beats."""
        ended = asyncio.ensure_future(self.process.wait())
        beats = asyncio.ensure_future(self._watch_heart())
        try:
            await asyncio.wait([reply, ended, beats], return_when=asyncio.FIRST_COMPLETED)
            if not reply.done():
                raise KernelDied(self.death())
        finally:
            ended.cancel()
            beats.cancel()

    async def _watch_heart(self):
        """Returns once the kernel's sockets are no longer served."""
        missed = 0
        while missed < MISSED_HEARTBEATS:
            await asyncio.sleep(HEARTBEAT_S)
            if self.is_frozen:
                continue
            await self.sockets["hb"].send(b"beat")
            missed = 0 if await self.sockets["hb"].poll(HEARTBEAT_S * 1_000) else missed + 1
            if missed == 0:
                await self.sockets["hb"].recv()

    async def _request(self, kind, content):
        message = self.session.msg(kind, content)
        await self.sockets["shell"].send_multipart(self.session.serialize(message))
        return message["header"]["msg_id"]

    async def _read(self, name, take):
        while True:
            parts = await self.sockets[name].recv_multipart()
            try:
                _, parts = self.session.feed_identities(parts)
                message = self.session.deserialize(parts)
                take(message, message["parent_header"].get("msg_id"))
            except Exception:  # noqa: BLE001
                # The kernel is the caller's program and may send anything.
                continue

    def _on_reply(self, message, parent):
        reply = self.replies.get(parent)
        if reply is not None and not reply.done() and message["msg_type"] == "execute_reply":
            reply.set_result(message["content"])

    def _on_output(self, message, parent):
        if parent is None or parent != self.parent:
            return
        kind, content = message["msg_type"], message["content"]
        if kind == "status":
            if content["execution_state"] == "idle" and not self.idle.done():
                self.idle.set_result(None)
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
        for reader in self.readers:
            reader.cancel()
        for socket in self.sockets.values():
            socket.close()
        self.sockets = {}
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
