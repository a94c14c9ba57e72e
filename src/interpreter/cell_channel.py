"""The end of a Python kernel of the connection to its server: cells come in, messages go out.

Messages take this way instead of Jupyter's sockets, where each wakes three threads.
"""

import json
import os
import queue
import socket
import threading
import time

from frames import Frames, frame_of

# A cell that is ahead of its reader by so many messages waits.
MAX_UNSENT = 64
UNSENT_PAUSE_S = 0.001
READ_BYTES = 262_144
# The server takes no larger message: output is cut into parts, and what else is larger is named.
MAX_CONTENT_BYTES = 64 * 1024 * 1024
MAX_PART_CHARACTERS = 4 * 1024 * 1024
MAX_ERROR_CHARACTERS = 262_144
NO_SERVER = 70
DELIMITER = b"<IDS|MSG>"
# What becomes lines of a reply.
KINDS = ("execute_input", "stream", "display_data", "execute_result", "update_display_data", "error")


class CellChannel:
    """Runs cells by `run(request)`, one after the other, and sends what ipykernel says of them."""

    def __init__(self, descriptor):
        self.socket = socket.socket(fileno=descriptor)
        os.set_inheritable(descriptor, False)
        # What a fork inherits would hide the end of this process.
        os.register_at_fork(after_in_child=self.socket.close)
        self.process = os.getpid()
        self.frames = Frames()
        self.unsent = queue.SimpleQueue()
        # The identifier of the running cell.
        self.cell = None
        self.has_error = False
        # What ipykernel's session does with messages.
        self.send_whole = None
        self.pack = None

    def start(self, loop, run):
        # A thread that no interrupt reaches: none cuts a message in two.
        threading.Thread(target=self._send_all, daemon=True).start()
        loop.add_reader(self.socket, self._read, loop, run)

    def tell(self, kind, content=b""):
        """Sends a message in its turn."""
        while self.unsent.qsize() > MAX_UNSENT:
            time.sleep(UNSENT_PAUSE_S)
        self.unsent.put(frame_of(kind, content))

    def _send_all(self):
        while True:
            parts = [self.unsent.get()]
            while len(parts) < MAX_UNSENT and not self.unsent.empty():
                parts.append(self.unsent.get())
            try:
                self.socket.sendall(b"".join(parts))
            except OSError:
                # Closed by a cell, or the server is gone.
                os._exit(NO_SERVER)

    def _read(self, loop, run):
        try:
            data = self.socket.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data == b"":
            os._exit(NO_SERVER)
        for kind, content in self.frames.take(data):
            if kind == "cell":
                loop.create_task(self._run(run, json.loads(content)))

    async def _run(self, run, request):
        try:
            await run(request)
        finally:
            if os.getpid() != self.process:
                # A fork that has left its cell is no second kernel.
                os._exit(0)
            self.cell, self.has_error = None, False
            self.tell("done", str(request["number"]).encode("ascii"))

    def replace(self, session, thread):
        """Takes the messages of ipykernel's session, and those that forked processes hand to its thread."""
        self.send_whole, self.pack = session.send, session.pack
        session.send = self._send
        relay = thread._really_send

        def really_send(frames, *args, **options):
            if os.getpid() == self.process:
                self._relay(frames)
            else:
                relay(frames, *args, **options)

        thread._really_send = really_send

    def _send(self, stream, message, content=None, parent=None, *args, **options):
        if os.getpid() != self.process:
            return self.send_whole(stream, message, content, parent, *args, **options)
        if isinstance(message, dict):
            kind, content, parent = message["header"]["msg_type"], message["content"], message["parent_header"]
        else:
            kind = message
        parent = parent or {}
        if kind == "execute_reply" and content["status"] == "error" and not self.has_error:
            # IPython only prints groups of exceptions and faults of magics.
            kind, content = "error", error_of(content)
        if self._is_wanted(kind, parent.get("header", parent)):
            self.has_error = self.has_error or kind == "error"
            self._tell_all(kind, content)
        return {"content": content}

    def _tell_all(self, kind, content):
        for part in parts_of(kind, content):
            packed = self._packed(part)
            if len(packed) > MAX_CONTENT_BYTES:
                packed = self._packed({"data": self._smallest_forms(part)})
            self.tell(kind, packed)

    def _smallest_forms(self, content):
        """As many forms of a result as one message takes."""
        data = content.get("data") if isinstance(content, dict) else None
        forms = data if isinstance(data, dict) else {}
        sizes = {mime: len(self._packed({mime: value})) for mime, value in forms.items()}
        kept, left = {}, MAX_CONTENT_BYTES // 2
        for mime in sorted(sizes, key=sizes.get):
            left -= sizes[mime]
            if left >= 0:
                kept[mime] = forms[mime]
        return {**TOO_LARGE, **kept}

    def _packed(self, content):
        try:
            return self.pack(content)
        except UnicodeEncodeError:
            # Half of a pair of surrogates has no form in UTF-8.
            return json.dumps(content).encode("ascii")

    def _relay(self, frames):
        header, parent, _, content = frames[frames.index(DELIMITER) + 2 :][:4]
        kind = json.loads(header)["msg_type"]
        if self._is_wanted(kind, json.loads(parent)):
            if len(content) > MAX_CONTENT_BYTES:
                self._tell_all(kind, json.loads(content))
            else:
                self.tell(kind, content)

    def _is_wanted(self, kind, parent):
        """Late output of an earlier cell is no part of a later one."""
        return kind in KINDS and self.cell is not None and parent.get("msg_id") == self.cell


def error_of(reply):
    """The error of a cell by its reply, whose traceback may be that of an earlier cell."""
    name, value = str(reply.get("ename")), str(reply.get("evalue"))
    return {"ename": name, "evalue": value, "traceback": [f"{name}: {value}"]}


TOO_LARGE = {"text/plain": "[the result is too large to be sent]"}


def parts_of(kind, content):
    """A message as messages of a bounded size; only displays may be larger. Cells may send anything."""
    fields = content if isinstance(content, dict) else {}
    if kind == "stream" and isinstance(fields.get("text"), str):
        text = fields["text"]
        for start in range(0, len(text), MAX_PART_CHARACTERS):
            yield {**fields, "text": text[start : start + MAX_PART_CHARACTERS]}
    elif kind == "error" and isinstance(fields.get("traceback"), list):
        names = {name: cut(str(fields.get(name))) for name in ("ename", "evalue")}
        yield {**names, "traceback": [cut("\n".join(map(str, fields["traceback"])))]}
    elif kind == "execute_input" and "execution_count" in fields:
        # The server knows the code.
        yield {"execution_count": fields["execution_count"]}
    else:
        yield content


def cut(text):
    """The beginning and the end of a text that is too long."""
    if len(text) <= MAX_ERROR_CHARACTERS:
        return text
    half = MAX_ERROR_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"
