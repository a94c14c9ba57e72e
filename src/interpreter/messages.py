"""Jupyter's messages on a socket: what cells need of them, without the parts that nobody reads."""

import asyncio
import datetime
import hmac
import json
import uuid

import zmq

DELIMITER = b"<IDS|MSG>"
VERSION = "5.3"
# A larger message breaks the connection instead of filling the memory of the server.
MAX_MESSAGE_BYTES = 96 * 1024 * 1024
# Messages that are read before others have their turn.
MAX_BATCH = 64
CONTEXT = zmq.Context()


class Messages:
    """Signs and reads the messages of one kernel."""

    def __init__(self, key):
        self.signer = hmac.new(key, digestmod="sha256")
        self.session = uuid.uuid4().hex
        self.count = 0

    def encode(self, kind, content, metadata):
        """The identifier of a new message, and its frames."""
        self.count += 1
        identifier = f"{self.session}_{self.count}"
        header = {
            "msg_id": identifier,
            "msg_type": kind,
            "session": self.session,
            "username": "",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "version": VERSION,
        }
        parts = [json.dumps(part).encode("ascii") for part in (header, {}, metadata, content)]
        return identifier, [DELIMITER, self.sign(parts), *parts]

    def decode(self, frames):
        """Type, identifier of the request, and content as text. Raises for what is no message."""
        at = frames.index(DELIMITER) + 1
        parts = frames[at + 1 : at + 5]
        if len(parts) != 4 or not hmac.compare_digest(self.sign(parts), frames[at]):
            raise ValueError("a message that the kernel did not sign")
        header, parent, _, content = parts
        return json.loads(header)["msg_type"], json.loads(parent).get("msg_id"), content

    def sign(self, parts):
        signer = self.signer.copy()
        for part in parts:
            signer.update(part)
        return signer.hexdigest().encode("ascii")


def content_of(text):
    """The content of a message. What is no UTF-8, as half of a pair of surrogates, is replaced."""
    return json.loads(text.decode("utf8", "replace"))


class Channel:
    """One socket of a kernel; `take(frames)` gets each message as it comes."""

    def __init__(self, kind, address, take, options):
        self.take = take
        self.loop = asyncio.get_running_loop()
        self.socket = CONTEXT.socket(kind)
        self.socket.linger = 0
        self.socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        for option, value in options.items():
            self.socket.setsockopt(option, value)
        self.socket.connect(address)
        self.descriptor = self.socket.getsockopt(zmq.FD)
        self.loop.add_reader(self.descriptor, self.read)

    def send(self, frames):
        """Raises ZMQError where there is no room for the message."""
        self.socket.send_multipart(frames, zmq.NOBLOCK)
        # The descriptor announces a message once, and sending may have used that up.
        self.loop.call_soon(self.read)

    def read(self):
        for _ in range(MAX_BATCH):
            if self.socket.closed:
                return
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.ZMQError:
                # There is none, or none is waited for.
                return
            try:
                self.take(frames)
            except Exception:  # noqa: BLE001
                # The kernel is the caller's program and may send anything.
                continue
        self.loop.call_soon(self.read)

    def close(self):
        if not self.socket.closed:
            self.loop.remove_reader(self.descriptor)
            self.socket.close()
