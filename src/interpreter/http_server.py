"""A small HTTP/1.1 server on asyncio: bounded requests, JSON and text replies, streamed lines.

Every request ends with the connection in a known state; a client that leaves during a streamed
reply is noticed by the end of its input.
"""

import asyncio
import contextlib
import json

MAX_HEAD_BYTES = 65_536
# Code and variables of one call.
MAX_BODY_BYTES = 32 * 1024 * 1024
# Of all requests at once: each is kept until it is answered, in the memory of the sandbox.
MAX_BODIES_BYTES = 8 * MAX_BODY_BYTES
# Smaller ones are not counted.
SMALL_BODY_BYTES = 65_536
# More than the gateway lets into one sandbox, and those of programs inside: a client takes a
# connection that ends without a reply for the end of the sandbox.
MAX_CONNECTIONS = 1_024
READ_TIMEOUT_S = 60
IDLE_TIMEOUT_S = 600
# The head of a streamed reply goes with its first lines where they come so soon.
HEAD_DELAY_S = 0.05

LINES_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n"
    b"cache-control: no-store\r\nx-accel-buffering: no\r\ntransfer-encoding: chunked\r\n\r\n"
)

REASONS = {
    200: "OK",
    204: "No Content",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpError(Exception):
    """A reply with a status of failure; clients show its text."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Request:
    """One request, read whole."""

    def __init__(self, method, path, body, keeps_alive):
        self.method = method
        self.path = path
        self.body = body
        self.keeps_alive = keeps_alive

    def json(self):
        """The body as an object; an empty body is an empty object."""
        try:
            value = json.loads(self.body or b"{}")
        except (ValueError, RecursionError) as error:
            raise HttpError(400, f"the body is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise HttpError(400, "the body is not a JSON object")
        return value


class Bodies:
    """What the bodies of all requests take."""

    def __init__(self):
        self.bytes = 0

    def add(self, size):
        if self.bytes + size > MAX_BODIES_BYTES:
            raise HttpError(429, f"the bodies of all requests exceed {MAX_BODIES_BYTES} bytes")
        self.bytes += size


class Connection:
    """One connection of a client."""

    def __init__(self, reader, writer, bodies):
        self.reader = reader
        self.writer = writer
        self.bodies = bodies
        # Of this connection's request.
        self.counted = 0
        self.early = b""
        self.is_streaming = False
        # Of a streamed reply, what is still to be sent before its next lines.
        self.head = b""
        self.head_timer = None

    @contextlib.contextmanager
    def _limit(self, seconds):
        """Ends the connection where the work takes longer; its reader sees the end of its input."""
        timer = asyncio.get_running_loop().call_later(seconds, self.writer.transport.abort)
        try:
            yield
        finally:
            timer.cancel()

    async def read_request(self):
        """The next request; None at the end of the connection."""
        with self._limit(IDLE_TIMEOUT_S):
            head = await self._read_head()
        if head is None:
            return None
        lines = head.decode("latin1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3:
            raise HttpError(400, "malformed request line")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("expect", "").lower() == "100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        with self._limit(READ_TIMEOUT_S):
            body = await self._read_body(headers)
        keeps_alive = headers.get("connection", "").lower() != "close" and words[2] == "HTTP/1.1"
        return Request(words[0], words[1].partition("?")[0], body, keeps_alive)

    def _count(self, size):
        if size > SMALL_BODY_BYTES:
            self.bodies.add(size - self.counted)
            self.counted = size

    def forget_body(self):
        """Gives back what the body of the last request was counted with."""
        self.bodies.bytes -= self.counted
        self.counted = 0

    async def _more(self):
        data = await self.reader.read(65_536)
        self.early += data
        return data != b""

    async def _read_head(self):
        while b"\r\n\r\n" not in self.early:
            if len(self.early) > MAX_HEAD_BYTES:
                raise HttpError(400, "the head of the request is too large")
            if not await self._more():
                return None
        head, _, self.early = self.early.partition(b"\r\n\r\n")
        return head

    async def _exactly(self, size):
        if len(self.early) < size:
            missing = size - len(self.early)
            self.early += await self.reader.readexactly(missing)
        data, self.early = self.early[:size], self.early[size:]
        return data

    async def _read_body(self, headers):
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await self._read_chunks()
        length = headers.get("content-length", "0")
        # isdigit alone takes digits of other scripts.
        if not (length.isascii() and length.isdigit()):
            raise HttpError(400, "malformed content-length")
        # A number of many digits is not converted: that would take quadratic time.
        if len(length) > 12 or int(length) > MAX_BODY_BYTES:
            raise HttpError(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        self._count(int(length))
        return await self._exactly(int(length))

    async def _line(self):
        while b"\r\n" not in self.early:
            if len(self.early) > MAX_HEAD_BYTES or not await self._more():
                raise HttpError(400, "malformed chunk")
        line, _, self.early = self.early.partition(b"\r\n")
        return line

    async def _read_chunks(self):
        parts, total = [], 0
        while True:
            digits = (await self._line()).partition(b";")[0].strip()
            try:
                size = int(digits[:16], 16)
            except ValueError as error:
                raise HttpError(400, "malformed chunk") from error
            total += size
            if size < 0 or total > MAX_BODY_BYTES:
                raise HttpError(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
            self._count(total)
            if size == 0:
                while await self._line() != b"":
                    pass
                return b"".join(parts)
            parts.append(await self._exactly(size))
            if await self._exactly(2) != b"\r\n":
                raise HttpError(400, "malformed chunk")

    async def reply(self, status, content_type, body):
        head = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-type: {content_type}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode("latin1") + body)
        await self.writer.drain()

    async def reply_json(self, value, status=200):
        await self.reply(status, "application/json", json.dumps(value).encode("ascii"))

    def begin_lines(self):
        """Begins a reply of one JSON object a line."""
        self.is_streaming = True
        self.head = LINES_HEAD
        self.head_timer = asyncio.get_running_loop().call_later(HEAD_DELAY_S, self._send_head)

    def _send_head(self):
        self.writer.write(self._take_head())

    def _take_head(self):
        head, self.head = self.head, b""
        self.head_timer.cancel()
        return head

    async def write_lines(self, data):
        if data:
            self.writer.write(b"%b%x\r\n%b\r\n" % (self._take_head(), len(data), data))
            await self.writer.drain()

    async def end_lines(self, data):
        """The last lines."""
        end = b"%b%x\r\n%b\r\n0\r\n\r\n" % (self._take_head(), len(data), data)
        self.writer.write(end)
        await self.writer.drain()
        self.is_streaming = False

    def abort(self):
        """Ends the connection at once, whatever its client has not read."""
        self.writer.transport.abort()

    async def gone(self):
        """Returns once the client has closed its side, or sends more than a request may be long."""
        try:
            while len(self.early) <= MAX_HEAD_BYTES and await self._more():
                pass
        except OSError:
            pass


async def serve(listener, handle):
    """Serves until it is cancelled; `handle(request, connection)` answers each request."""
    count = 0
    bodies = Bodies()

    async def accept(reader, writer):
        nonlocal count
        if count >= MAX_CONNECTIONS:
            writer.close()
            return
        count += 1
        try:
            connection = Connection(reader, writer, bodies)
            try:
                await talk(connection, handle)
            finally:
                connection.forget_body()
        finally:
            count -= 1
            writer.close()

    server = await asyncio.start_server(accept, sock=listener, limit=1 << 20)
    print(f"interpreter: listening on port {server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


async def talk(connection, handle):
    """Answers the requests of one connection."""
    try:
        while True:
            connection.forget_body()
            try:
                request = await connection.read_request()
            except HttpError as error:
                await fail(connection, error)
                return
            if request is None:
                return
            try:
                await handle(request, connection)
            except HttpError as error:
                await fail(connection, error)
            if connection.is_streaming or not request.keeps_alive:
                return
    except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        # The client is gone, or says nothing more.
        return


async def fail(connection, error):
    if not connection.is_streaming:
        await connection.reply(error.status, "text/plain; charset=utf-8", str(error).encode("utf8", "replace"))
