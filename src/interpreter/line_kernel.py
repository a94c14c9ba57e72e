"""Kernels of our own, JavaScript and bash: a program that takes cells on one pipe and answers on
another, a line each, with its output on the pipes of any program."""

import asyncio
import json
import os
import shlex
from pathlib import Path

from answers import open_answers
from kernel import Kernel, KernelDied, KernelFailed, open_pipes
from output import open_writer
from results import error_line, result_line

HERE = Path(__file__).parent
START_TIMEOUT_S = 30
# A larger answer ends the kernel instead of filling the memory of the server.
MAX_ANSWER_BYTES = 96 * 1024 * 1024
CLOSED = "the kernel closed its pipes"


class LineKernel(Kernel):
    """The pipes of such a program; each language says what it is asked and what it answers."""

    def __init__(self, owner, cwd):
        super().__init__(owner, cwd)
        self.count = 0
        # Of the running cell: a cell may write answers, too, and claims no end of a later one.
        self.number = 0
        self.writer = None
        self.answers = None

    def command(self, asked, answered):
        raise NotImplementedError

    def question(self, code, variables):
        raise NotImplementedError

    async def start(self):
        (asked, write_end), (read_end, answered) = open_pipes(2)
        try:
            await self.spawn(self.command(asked, answered), pass_fds=(asked, answered))
        except BaseException:
            os.close(write_end)
            os.close(read_end)
            raise
        finally:
            os.close(asked)
            os.close(answered)
        self.writer = await open_writer(write_end)
        self.answers = await open_answers(read_end, MAX_ANSWER_BYTES)
        try:
            line = await asyncio.wait_for(self.answers.take(), START_TIMEOUT_S)
        except (asyncio.TimeoutError, ValueError):
            line = b""
        if line.strip() != b"ready":
            await asyncio.sleep(0.05)
            death = self.death()
            await self.stop()
            raise KernelFailed(f"the kernel cannot start: {death}")

    async def warm(self):
        # A caller may have been faster; the cell of nobody does not count.
        count = self.count
        await self.execute(self.FIRST_CELL, {}, lambda line: None)
        self.count = count

    async def execute(self, code, variables, emit):
        self.count += 1
        self.number += 1
        emit({"type": "number_of_executions", "execution_count": self.count})
        self.emit = emit
        try:
            self.writer.write(self.question(code, variables))
            await self._before_end(self.writer.drain())
            while True:
                answer = await self._answer()
                if answer is None:
                    return
        except OSError as error:
            await self._gone(CLOSED)
            raise KernelDied(self.death()) from error
        except ValueError as error:
            await self._gone("the kernel sent an answer that is not valid")
            raise KernelDied(self.death()) from error
        finally:
            self.finish_output()
            self.emit = None

    async def _answer(self):
        """Passes on one answer; None after the last of a cell."""
        line = await self._read_line()
        if not line.endswith(b"\n"):
            await self._gone(CLOSED)
            raise KernelDied(self.death())
        answer = json.loads(line)
        # What was written before this answer stands before it.
        self.drain()
        kind = answer["type"]
        if kind == "result":
            self.emit(result_line(answer["data"], bool(answer.get("main"))))
        elif kind == "error":
            self.emit(error_line(answer["name"], answer["value"], answer["traceback"]))
        return None if kind == "done" and answer.get("number") == self.number else answer

    async def _read_line(self):
        """One answer; once the process has ended, those that it left, and empty after them."""
        line = await self._before_end(self.answers.take())
        if not self.is_alive:
            self.freeze(False)
            # Another process may hold the pipe and write for ever.
            self.answers.finish()
        return await self.answers.take() if line is None else line

    def freeze(self, is_frozen):
        super().freeze(is_frozen)
        # A program in a session of its own may write answers, too.
        self.answers.pause(self.is_frozen)

    async def _before_end(self, work):
        """What comes of the work; None where the process ends first, whoever else holds its pipes."""
        working = asyncio.ensure_future(work)
        ended = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait([working, ended], return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            ended.cancel()

    async def _gone(self, cause):
        """A program that closed its pipes, or does not keep to the protocol, is no use any more."""
        try:
            await asyncio.wait_for(self.process.wait(), 0.5)
        except asyncio.TimeoutError:
            self.cause = self.cause or cause
            await self.stop()

    async def stop(self):
        await super().stop()
        if self.writer is not None and not self.writer.is_closing():
            # What was not read is lost: another process may hold the pipe and never read it.
            self.writer.transport.abort()
        if self.answers is not None:
            self.answers.close()


class JavascriptKernel(LineKernel):
    """node, with the types of TypeScript taken away."""

    FIRST_CELL = "0 as number"

    def command(self, asked, answered):
        program = str(HERE / "javascript-process.mjs")
        # Modules of V8 are what tells imports apart. Node would abort after an interrupt of a callback,
        # such as one of a timer, whose end its account of asynchronous calls then lacks.
        options = ("--no-warnings", "--experimental-vm-modules", "--no-force-async-hooks-checks")
        return ("node", *options, program, str(asked), str(answered))

    def question(self, code, variables):
        question = {"code": code, "variables": variables, "news": self.news(), "number": self.number}
        return json.dumps(question).encode("ascii") + b"\n"

    async def execute(self, code, variables, emit):
        await super().execute(code, variables, lambda line: None if is_farewell(line) else emit(line))

    def interrupt(self):
        super().interrupt()
        # The main thread does not hear signals during a loop; its worker hears this.
        self.writer.write(b'{"type": "interrupt"}\n')


class BashKernel(LineKernel):
    """bash, which sources one cell after the other."""

    FIRST_CELL = ":"

    def command(self, asked, answered):
        program = str(HERE / "bash-process.sh")
        return ("bash", "--noprofile", "--norc", program, str(asked), str(answered))

    def question(self, code, variables):
        names = [name for name in variables if is_name(name)]
        # A text with NUL would end the question early; bash has no such texts.
        cell = code.replace("\0", "").encode()
        parts = (exports(self.news()), exports(variables), " ".join(names), str(len(cell)), str(self.number))
        return b"".join(part.replace("\0", "").encode() + b"\0" for part in parts) + cell


def exports(variables):
    named = {name: text for name, text in variables.items() if is_name(name)}
    return "".join(f"\\builtin export {name}={shlex.quote(text)}\n" for name, text in named.items())


def is_name(text):
    return text.isascii() and text.isidentifier()


def is_farewell(line):
    """What node says at its exit while its worker is connected."""
    return line["type"] == "stderr" and line["text"] == "Waiting for the debugger to disconnect...\n"
