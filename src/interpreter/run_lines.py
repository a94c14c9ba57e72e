"""The lines of one reply, which wait for a reader that may be slow."""

import asyncio
import collections
import json

# Lines that a slow reader has not taken: at the first bound the kernel is stopped until the second.
HIGH_BYTES = 32 * 1024 * 1024
LOW_BYTES = 4 * 1024 * 1024


class Run:
    """The lines of one reply, on their way to its reader."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.lines = collections.deque()
        self.size = 0
        self.news = asyncio.Event()
        self.has_ended = False
        # Nobody reads any more: lines are dropped, and the kernel is not stopped for them.
        self.is_left = False

    def emit(self, line):
        if self.is_left:
            return
        data = json.dumps(line, allow_nan=False, default=str).encode("ascii") + b"\n"
        self.lines.append(data)
        self.size += len(data)
        self.news.set()
        if self.size > HIGH_BYTES:
            self.kernel.freeze(True)

    def end(self):
        self.has_ended = True
        self.news.set()

    def take(self):
        data = b"".join(self.lines)
        self.lines.clear()
        self.size = 0
        self.news.clear()
        return data
