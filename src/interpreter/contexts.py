"""Contexts: a kernel each, one run at a time, with bounds on what waits."""

import asyncio
import os
import uuid

from http_server import HttpError
from kernel import KernelDied, KernelFailed
from line_kernel import BashKernel, JavascriptKernel
from results import error_line, stream_lines
from run_lines import LOW_BYTES, Run

MAX_CONTEXTS = 64
MAX_WAITING = 256
KEEPALIVE_S = 5
# A cell that goes on after an interrupt is interrupted again, and at last its kernel is ended.
INTERRUPT_S = (2, 3, 5)
# After a restart, a reader has so long for the lines of the run that it ended.
LAST_LINES_S = 5
NAMES = {"js": "javascript", "ts": "typescript", "py": "python", "sh": "bash"}
OFFERED = ("python", "javascript", "typescript", "bash")


def language_of(value):
    """The name of a language that is offered. Raises HttpError."""
    if not isinstance(value, str) or len(value) > 64:
        raise HttpError(400, "language is not a name")
    name = NAMES.get(value.lower(), value.lower())
    if name not in OFFERED:
        offered = ", ".join(OFFERED)
        raise HttpError(400, f"language {value} is not offered here; there are {offered}")
    return "javascript" if name == "typescript" else name


def kernel_class(language):
    if language == "python":
        try:
            from python_kernel import PythonKernel
        except ImportError as error:
            raise KernelFailed(f"the kernel of python is not installed: {error}") from error
        return PythonKernel
    return {"javascript": JavascriptKernel, "bash": BashKernel}[language]


class Context:
    """One kernel with its name, its directory and its turn."""

    def __init__(self, language, cwd, owner):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self.owner = owner
        self.kernel = None
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.is_removed = False
        # What the next run has to tell of this kernel.
        self.note = None
        self.starting = None
        # The run whose lines are sent, with its connection.
        self.sending = None

    def describe(self):
        facts = {"id": self.id, "language": self.language, "cwd": self.cwd}
        memory = self.kernel.memory_mb() if self.kernel is not None else None
        return facts if memory is None else {**facts, "memory_mb": memory}

    async def ready(self):
        """Starts the kernel where there is none. Raises KernelFailed."""
        if self.is_removed:
            raise KernelFailed("the context was removed")
        if self.starting is None and self.kernel is not None:
            if self.kernel.is_alive and not self.kernel.is_leaving:
                return
        if self.starting is None:
            self.starting = asyncio.ensure_future(self._start())
        # Whoever leaves does not end a start that others wait for.
        await asyncio.shield(self.starting)

    async def _start(self):
        try:
            if self.kernel is not None:
                if self.note is None and not self.kernel.is_told:
                    self.note = f"{self.kernel.death()} since the last cell; its variables are gone"
                await self.kernel.stop()
            self.kernel = kernel_class(self.language)(self.owner, self.cwd)
            await self.kernel.start()
        except Exception as error:
            kernel, self.kernel = self.kernel, None
            if kernel is not None:
                await kernel.stop()
            if isinstance(error, KernelFailed):
                raise
            # As on a full disk.
            raise KernelFailed(f"the kernel cannot start: {error}") from error
        finally:
            self.starting = None

    async def restart(self):
        """A new kernel; what runs ends, and what waits runs in the new one."""
        if self.starting is None:
            await self._end("the context was restarted")
        # One that is being started is new enough.
        await self.ready()

    async def _end(self, cause):
        """Ends the kernel. Others do not wait for a reader who takes nothing of the run that ends so."""
        if self.sending is not None:
            asyncio.get_running_loop().call_later(LAST_LINES_S, self._cut, self.sending)
        if self.kernel is not None:
            self.kernel.is_told, self.kernel.cause = True, cause
            await self.kernel.stop()

    def _cut(self, sending):
        if self.sending is sending:
            sending[1].abort()

    async def remove(self):
        self.is_removed = True
        if self.starting is not None:
            await asyncio.wait([self.starting])
        await self._end("the context was removed")

    async def run(self, code, variables, connection):
        """Runs a cell and writes its lines. A reader that leaves interrupts it."""
        if self.waiting >= MAX_WAITING:
            raise HttpError(429, f"{MAX_WAITING} runs wait for this context already")
        self.waiting += 1
        gone = asyncio.ensure_future(connection.gone())
        try:
            connection.begin_lines()
            if not await self._turn(connection, gone):
                return
            try:
                await self._run(code, variables, connection, gone)
            finally:
                self.turn.release()
        finally:
            self.waiting -= 1
            if not gone.done():
                # Until it has ended, nothing else can read from the connection.
                gone.cancel()
                await asyncio.wait([gone])

    async def _turn(self, connection, gone):
        """Waits for the turn; false when the reader leaves first."""
        if self.waiting == 1 and not self.turn.locked():
            await self.turn.acquire()
            return True
        turn = asyncio.ensure_future(self.turn.acquire())
        try:
            while not turn.done():
                await asyncio.wait([turn, gone], timeout=KEEPALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    break
                if not turn.done():
                    await connection.write_lines(KEEPALIVE)
        except OSError:
            gone.cancel()
        finally:
            has_turn = turn.done() and not turn.cancelled()
            if not has_turn:
                turn.cancel()
                await asyncio.wait([turn])
                has_turn = not turn.cancelled()
            if has_turn and (gone.done() or gone.cancelled()):
                self.turn.release()
                has_turn = False
        return has_turn

    async def _run(self, code, variables, connection, gone):
        run = Run(None)
        gone.add_done_callback(lambda _: run.wake())
        cell = asyncio.ensure_future(self._cell(code, variables, run))
        self.sending = (run, connection)
        try:
            await self._send(run, connection, gone)
        finally:
            self.sending = None
            if not cell.done():
                await self._interrupt(cell, run)
                await asyncio.wait([cell])
            if run.kernel is not None:
                # Its last lines may have stopped it.
                run.kernel.freeze(False)

    async def _cell(self, code, variables, run):
        try:
            await self.ready()
            run.kernel = self.kernel
            if run.is_left:
                return
            if self.note is not None:
                for line in stream_lines("stderr", f"[{self.note}]\n"):
                    run.emit(line)
                self.note = None
            await self.kernel.execute(code, variables, run.emit)
        except (KernelDied, KernelFailed) as error:
            run.emit(error_line("KernelDied", f"{error}; its variables are gone", ""))
            await self._renew(run.kernel)
        except Exception as error:  # noqa: BLE001
            # What a kernel answers is the caller's; one that was not understood is in no known state.
            run.emit(error_line("KernelDied", f"{type(error).__name__}: {error}; its variables are gone", ""))
            await self._renew(run.kernel)
        finally:
            run.end()

    async def _renew(self, kernel):
        """Ends the kernel of a cell, and starts a new one for whoever runs next, unless none is wanted."""
        if kernel is not None:
            # It is this cell that tells of its end; a restart may have begun another one meanwhile.
            kernel.is_told = True
            await kernel.stop()
        if not self.is_removed:
            asyncio.ensure_future(self._try_ready())

    async def _try_ready(self):
        try:
            await self.ready()
        except KernelFailed:
            # The next run says so.
            return

    async def _send(self, run, connection, gone):
        """Writes the lines as they come, until the end or until the reader leaves."""
        try:
            while True:
                has_news = await run.wait(KEEPALIVE_S)
                if gone.done():
                    return
                has_ended, data = run.has_ended, run.take()
                if has_ended:
                    await connection.end_lines(data + END)
                    return
                await connection.write_lines(data if has_news else data + KEEPALIVE)
                if run.kernel is not None and run.size < LOW_BYTES:
                    run.kernel.freeze(False)
        except OSError:
            # The reader is gone.
            return

    async def _interrupt(self, cell, run):
        """Ends a cell whose reader has left; its output goes nowhere."""
        run.is_left = True
        run.take()
        if run.kernel is None:
            await asyncio.wait([cell])
            return
        for seconds in INTERRUPT_S:
            run.kernel.interrupt()
            done, _ = await asyncio.wait([cell], timeout=seconds)
            if done:
                return
        self.note = "the kernel of this context was started again: a cell went on after its caller had left"
        await run.kernel.stop()


KEEPALIVE = b'{"type": "keepalive"}\n'
END = b'{"type": "end_of_execution"}\n'


class Contexts:
    """All contexts, with the default of each language."""

    def __init__(self, owner):
        self.owner = owner
        self.by_id = {}
        self.defaults = {}

    def default(self, language):
        """The default context of a language, made at its first use."""
        context = self.by_id.get(self.defaults.get(language))
        if context is None:
            context = self._add(language, self.owner.home)
            self.defaults[language] = context.id
        return context

    def create(self, language, cwd):
        if not os.path.isdir(cwd):
            raise HttpError(400, f"cwd {cwd[:256]} is no directory")
        return self._add(language, cwd)

    def _add(self, language, cwd):
        if len(self.by_id) >= MAX_CONTEXTS:
            raise HttpError(429, f"there are {MAX_CONTEXTS} contexts already; remove one")
        context = Context(language, cwd, self.owner)
        self.by_id[context.id] = context
        return context

    def get(self, context_id):
        context = self.by_id.get(context_id)
        if context is None:
            raise HttpError(404, f"Context {str(context_id)[:64]} not found")
        return context

    async def remove(self, context_id):
        context = self.get(context_id)
        del self.by_id[context_id]
        await context.remove()
