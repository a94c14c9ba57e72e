"""The answers of a kernel of our own, read from its pipe a line at a time."""

import asyncio
import os

from output import CHUNK_BYTES, unread_bytes


class Answers(asyncio.Protocol):
    """What came of them until now. Nothing more is read while a whole one waits to be taken."""

    def __init__(self, limit):
        self.limit = limit
        self.data = bytearray()
        # The place of the first newline, and how far it was looked for.
        self.end = -1
        self.searched = 0
        self.is_paused = False
        self.is_closed = False
        self.transport = None
        self.news = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        self._look()

    def connection_lost(self, error):
        self.is_closed = True
        self.news.set()

    async def take(self):
        """The next one with its newline; what is left, perhaps nothing, once the pipe is closed.

        Raises ValueError for one that is larger than `limit` bytes.
        """
        while self.end < 0 and not self.is_closed and len(self.data) <= self.limit:
            self.news.clear()
            await self.news.wait()
        size = self.end + 1 if self.end >= 0 else len(self.data)
        if size > self.limit:
            raise ValueError(f"an answer is larger than {self.limit} bytes")
        line = bytes(self.data[:size])
        del self.data[:size]
        self.end, self.searched = -1, 0
        self._look()
        return line

    def pause(self, is_paused):
        self.is_paused = is_paused
        self._read_or_wait()

    def finish(self):
        """Takes in what was written until now, up to `limit` bytes, and nothing that is written later."""
        if self.transport.is_closing():
            return
        pipe = self.transport.get_extra_info("pipe").fileno()
        left = unread_bytes(pipe)
        while left > 0 and len(self.data) <= self.limit:
            data = _read_now(pipe, min(left, CHUNK_BYTES))
            # Any program of the user may open the pipe and read it, too.
            if data == b"":
                break
            self.data += data
            left -= len(data)
        self.transport.close()
        self._look()

    def close(self):
        """Gives up what was not taken; another process may hold the pipe and never close it."""
        self.transport.close()

    def _look(self):
        if self.end < 0:
            self.end = self.data.find(b"\n", self.searched)
            self.searched = len(self.data)
        if self.end >= 0 or len(self.data) > self.limit:
            self.news.set()
        self._read_or_wait()

    def _read_or_wait(self):
        if self.transport.is_closing():
            return
        if self.is_paused or self.end >= 0 or len(self.data) > self.limit:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


def _read_now(pipe, size):
    """Nothing where the pipe has nothing now."""
    try:
        return os.read(pipe, size)
    except BlockingIOError:
        return b""


async def open_answers(descriptor, limit):
    """Those of a pipe, whose descriptor is theirs from now on."""
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    loop = asyncio.get_running_loop()
    _, answers = await loop.connect_read_pipe(lambda: Answers(limit), pipe)
    return answers
