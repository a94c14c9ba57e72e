"""The lines of one reply, which wait for a reader that may be slow."""

import asyncio
import collections
import json

# Lines that a slow reader has not taken: at the first bound the kernel is stopped until the second.
HIGH_BYTES = 32 * 1024 * 1024
LOW_BYTES = 4 * 1024 * 1024


# Made once; it refuses what JSON does not have.
ENCODE = json.JSONEncoder(allow_nan=False, default=str).encode
# A line that no reader waits for goes with the next one.
PATIENT = "number_of_executions"


class Run:
    """The lines of one reply, on their way to its reader."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.lines = collections.deque()
        self.size = 0
        self.has_ended = False
        self.has_news = False
        self.waiter = None
        # Nobody reads any more: lines are dropped, and the kernel is not stopped for them.
        self.is_left = False

    def emit(self, line):
        if self.is_left:
            return
        data = ENCODE(line).encode("ascii") + b"\n"
        self.lines.append(data)
        self.size += len(data)
        if line["type"] != PATIENT:
            self.wake()
        if self.size > HIGH_BYTES:
            self.kernel.freeze(True)

    def end(self):
        self.has_ended = True
        self.wake()

    def wake(self):
        self.has_news = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(True)

    async def wait(self, timeout_s):
        """Waits for lines, the end, or a call of `wake`; false when none comes in time."""
        if self.has_news:
            return True
        loop = asyncio.get_running_loop()
        self.waiter = loop.create_future()
        timer = loop.call_later(timeout_s, give_up, self.waiter)
        try:
            return await self.waiter
        finally:
            timer.cancel()
            self.waiter = None

    def take(self):
        data = b"".join(self.lines)
        self.lines.clear()
        self.size = 0
        self.has_news = False
        return data


def give_up(waiter):
    if not waiter.done():
        waiter.set_result(False)
