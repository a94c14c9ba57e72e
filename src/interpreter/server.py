"""The code interpreter inside a sandbox: contexts and cells over HTTP.

Runs as root where it can, so that a cell cannot end it; kernels run as the user of the sandbox. A
parent process starts it again when it ends.
"""

import asyncio
import os

from supervisor import supervise

HOST = "0.0.0.0"
PORT = 49999
USER = "user"
# Languages whose default context is started ahead.
EARLY = "python,javascript"
MAX_VARIABLES = 1_000
WARM_TIMEOUT_S = 60


async def main(listener):
    from contexts import Contexts, language_of
    from http_server import HttpError, serve
    from kernel import KernelFailed, Owner

    contexts = Contexts(Owner(os.environ.get("INTERPRETER_USER", USER)))
    languages = os.environ.get("INTERPRETER_LANGUAGES", EARLY).split(",")
    early = [asyncio.ensure_future(warm(contexts.default(name))) for name in languages]

    async def handle(request, connection):
        words = request.path.strip("/").split("/")
        route = ROUTES.get((request.method, len(words), words[0], words[2] if len(words) > 2 else ""))
        if route is None:
            raise HttpError(404, "no such route")
        await route(request, connection, words)

    async def health(request, connection, words):
        # Ready means that the first cell does not wait.
        await asyncio.wait(early)
        await connection.reply_json("OK")

    async def execute(request, connection, words):
        body = request.json()
        code, context_id, language = (body.get(key) for key in ("code", "context_id", "language"))
        if not isinstance(code, str):
            raise HttpError(400, "code is missing or no text")
        if not is_unicode(code):
            raise HttpError(400, "code has half a character (a lone surrogate)")
        if context_id is not None and language is not None:
            raise HttpError(400, "Only one of context_id or language can be provided")
        variables = variables_of(body.get("env_vars"))
        if context_id is not None:
            context = contexts.get(context_id if isinstance(context_id, str) else "")
        else:
            context = contexts.default(language_of("python" if language is None else language))
        if context.kernel is None:
            await start(context)
        await context.run(code, variables, connection)

    def variables_of(value):
        value = {} if value is None else value
        is_record = isinstance(value, dict) and len(value) <= MAX_VARIABLES
        if not is_record or not all(isinstance(text, str) for text in value.values()):
            raise HttpError(400, "env_vars is not a record of texts")
        for name, text in value.items():
            if name == "" or "=" in name or "\0" in name + text or not is_unicode(name + text):
                raise HttpError(400, f"env_vars: {ascii(name[:64])} cannot be a variable")
        return value

    async def start(context):
        try:
            await context.ready()
        except KernelFailed as error:
            fail(context, error)

    def fail(context, error):
        """Raises the error of a request whose kernel did not start: 404 where another removed its context."""
        contexts.get(context.id)
        raise HttpError(500, str(error)) from error

    async def list_contexts(request, connection, words):
        await connection.reply_json([context.describe() for context in contexts.by_id.values()])

    async def create_context(request, connection, words):
        body = request.json()
        language = language_of(body.get("language") or "python")
        cwd = body.get("cwd") or contexts.owner.home
        if not isinstance(cwd, str) or "\0" in cwd:
            raise HttpError(400, "cwd is not a path")
        context = contexts.create(language, cwd)
        gone = asyncio.ensure_future(connection.gone())
        try:
            await start(context)
            if gone.done():
                # Nobody knows its id.
                raise ConnectionResetError
        except (HttpError, OSError):
            await contexts.remove(context.id)
            raise
        finally:
            gone.cancel()
            await asyncio.wait([gone])
        facts = context.describe()
        await connection.reply_json({key: facts[key] for key in ("id", "language", "cwd")})

    async def restart_context(request, connection, words):
        context = contexts.get(words[1])
        try:
            await context.restart()
        except KernelFailed as error:
            fail(context, error)
        await connection.reply_json(None)

    async def remove_context(request, connection, words):
        await contexts.remove(words[1])
        await connection.reply_json(None)

    ROUTES = {
        ("GET", 1, "health", ""): health,
        ("POST", 1, "execute", ""): execute,
        ("GET", 1, "contexts", ""): list_contexts,
        ("POST", 1, "contexts", ""): create_context,
        ("POST", 3, "contexts", "restart"): restart_context,
        ("DELETE", 2, "contexts", ""): remove_context,
    }
    await serve(listener, handle)


def is_unicode(text):
    """Whether a text of JSON can be written at all: half of a pair of \\u escapes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


async def warm(context):
    """Starts the kernel of a default context and runs a cell in it, which loads what cells need."""
    from kernel import KernelDied, KernelFailed

    try:
        await context.ready()
        async with context.turn:
            await warm_in_time(context.kernel)
    except (KernelDied, KernelFailed):
        # The first run says so.
        return


async def warm_in_time(kernel):
    """A program of the user that the kernel loads may never end: then the next run has a new kernel."""
    if kernel is None:
        return
    try:
        await asyncio.wait_for(kernel.warm(), WARM_TIMEOUT_S)
    except asyncio.TimeoutError:
        kernel.cause = f"the kernel did not answer within {WARM_TIMEOUT_S} s"
        await kernel.stop()


if __name__ == "__main__":
    port = int(os.environ.get("INTERPRETER_PORT", PORT))
    listener, os.environ["INTERPRETER_FOLDER"] = supervise(HOST, port)
    asyncio.run(main(listener))
