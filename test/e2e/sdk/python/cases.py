"""The Python package against a running service: every case once blocking and once with asyncio.

The three variables that the package itself reads say where the service is. Each case prints one
line of JSON: its client, its name, and what went wrong or null.
"""

import asyncio
import inspect
import io
import json
import os
import sys
import traceback

import e2b
import httpx
from e2b import AsyncSandbox, Sandbox

MISSING_PID = 999_999


async def done(value):
    """The value of a call, whichever of the two clients made it."""
    return await value if inspect.isawaitable(value) else value


async def refused(kind, call):
    """What a call raised; nothing, or another kind, fails the case."""
    try:
        await done(call())
    except kind as error:
        return error
    raise AssertionError(f"not refused with {kind.__name__}")


async def until(check):
    """Waits for a check to hold, for at most ten seconds."""
    for _ in range(200):
        if await done(check()):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("did not come true in time")


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


async def case_output_and_exit_code(sandbox):
    result = await done(sandbox.commands.run("echo out; echo err >&2; id -un; pwd"))
    equal((result.stdout, result.stderr), ("out\nuser\n/home/user\n", "err\n"))
    equal(result.exit_code, 0)
    error = await refused(e2b.CommandExitException, lambda: sandbox.commands.run("exit 3"))
    equal((error.exit_code, error.error), (3, "exit status 3"))


async def case_torn_last_character(sandbox):
    result = await done(sandbox.commands.run(r"printf 'a%.0s' $(seq 8191); printf '\xe2'"))
    equal(result.stdout, "a" * 8191 + "\ufffd")


async def case_user_folder_and_variables(sandbox):
    run = sandbox.commands.run
    result = await done(run("id -un; pwd; echo $ONE", user="root", cwd="/tmp", envs={"ONE": "1"}))
    equal(result.stdout, "root\n/tmp\n1\n")
    await refused(e2b.AuthenticationException, lambda: run("true", user="nobody-here"))
    await refused(e2b.InvalidArgumentException, lambda: run("true", cwd="/missing"))


async def case_background_list_connect_and_kill(sandbox):
    commands = sandbox.commands
    handle = await done(commands.run("echo up; exec sleep 600", background=True))
    listed = await done(commands.list())
    equal([(found.pid, found.cmd) for found in listed], [(handle.pid, "/bin/bash")])
    joined = await done(commands.connect(handle.pid))
    equal(joined.pid, handle.pid)
    equal(await done(commands.kill(handle.pid)), True)
    error = await refused(e2b.CommandExitException, joined.wait)
    equal((error.exit_code, error.error), (-1, "signal: killed"))
    await refused(e2b.CommandExitException, handle.wait)
    equal(await done(commands.kill(handle.pid)), False)
    equal(await done(commands.list()), [])
    await refused(e2b.NotFoundException, lambda: commands.connect(MISSING_PID))


async def case_standard_input(sandbox):
    commands = sandbox.commands
    handle = await done(commands.run("cat", background=True, stdin=True))
    await done(commands.send_stdin(handle.pid, "sent ä\n"))
    streamed = await stream_input(sandbox, handle.pid, ["strea", "med\n"])
    await done(commands.close_stdin(handle.pid))
    result = await done(handle.wait())
    equal(result.stdout, "sent ä\n" + streamed)


async def stream_input(sandbox, pid, pieces):
    """Sends pieces in one call, where the release has it; says what was sent."""
    if not hasattr(sandbox.commands, "stream_input"):
        return ""
    if isinstance(sandbox, Sandbox):
        sandbox.commands.stream_input(pid, pieces)
    else:
        async with sandbox.commands.stream_input(pid) as stream:
            for piece in pieces:
                await stream.send(piece)
    return "".join(pieces)


async def case_a_timeout_is_one(sandbox):
    run = sandbox.commands.run
    await refused(e2b.TimeoutException, lambda: run("sleep 60", timeout=0.5))

    async def is_quiet():
        return await done(sandbox.commands.list()) == []

    await until(is_quiet)


async def case_text_and_bytes(sandbox):
    files = sandbox.files
    for text in ["some text, ä and 🙂\n", ""]:
        info = await done(files.write("text.txt", text))
        equal((info.name, info.path, info.type), ("text.txt", "/home/user/text.txt", e2b.FileType.FILE))
        equal(await done(files.read("text.txt")), text)
        equal(bytes(await done(files.read("text.txt", format="bytes"))), text.encode())
    error = await refused(e2b.FileNotFoundException, lambda: files.read("missing"))
    assert "path '/home/user/missing' does not exist" in str(error), error
    await refused(e2b.FileNotFoundException, lambda: files.read("missing", format="stream"))
    await refused(e2b.InvalidArgumentException, lambda: files.read("/tmp"))


async def case_streams_in_and_out(sandbox):
    files = sandbox.files
    text = "0123456789" * 23_000
    for gzip in [False, True]:
        await done(files.write("wide.txt", io.BytesIO(text.encode()), gzip=gzip))
        equal(await gathered(await done(files.read("wide.txt", format="stream", gzip=gzip))), text)
        await done(files.write("wide.txt", io.StringIO(text), gzip=gzip))
        equal(await done(files.read("wide.txt")), text)
    reader = await done(files.read("wide.txt", format="stream"))
    if isinstance(sandbox, Sandbox):
        next(iter(reader))
        reader.close()
    else:
        await anext(aiter(reader))
        await reader.aclose()
    equal(len(await done(files.read("wide.txt", format="bytes"))), len(text))


async def gathered(reader):
    pieces = []
    if hasattr(reader, "__aiter__"):
        async for piece in reader:
            pieces.append(piece)
    else:
        pieces.extend(reader)
    return b"".join(pieces).decode()


async def case_many_files_and_their_order(sandbox):
    files = sandbox.files
    paths = ["tree/file1.txt", "tree/subdir1/in.txt", "tree/subdir1/sub/deep.txt", "tree/subdir2/in.txt"]
    written = await done(files.write_files([{"path": path, "data": path} for path in paths]))
    equal([info.path for info in written], [f"/home/user/{path}" for path in paths])
    async def listed(depth):
        found = await done(files.list("tree", depth=depth))
        return [entry.path.removeprefix("/home/user/tree/") for entry in found]

    equal(await listed(1), ["file1.txt", "subdir1", "subdir2"])
    equal(
        await listed(2),
        ["file1.txt", "subdir1", "subdir1/in.txt", "subdir1/sub", "subdir2", "subdir2/in.txt"],
    )
    await refused(e2b.InvalidArgumentException, lambda: files.list("tree", depth=0))
    await refused(e2b.FileNotFoundException, lambda: files.list("missing"))


async def case_what_an_entry_says(sandbox):
    files = sandbox.files
    await done(files.write("info.txt", "12345"))
    await done(sandbox.commands.run("ln -sf info.txt info-link"))
    entry = await done(files.get_info("info.txt"))
    equal(
        (entry.type, entry.size, entry.mode, entry.permissions, entry.owner, entry.group),
        (e2b.FileType.FILE, 5, 0o644, "-rw-r--r--", "user", "user"),
    )
    equal((entry.symlink_target, entry.modified_time.tzinfo is None), (None, False))
    link = await done(files.get_info("info-link"))
    equal(link.symlink_target, "/home/user/info.txt")
    await refused(e2b.FileNotFoundException, lambda: files.get_info("missing"))


async def case_folders_moves_and_removals(sandbox):
    files = sandbox.files
    equal(await done(files.make_dir("made/inner")), True)
    equal(await done(files.make_dir("made/inner")), False)
    await done(files.write("made/old.txt", "kept"))
    equal((await done(files.rename("made/old.txt", "made/new.txt"))).path, "/home/user/made/new.txt")
    equal(await done(files.exists("made/old.txt")), False)
    equal(await done(files.read("made/new.txt")), "kept")
    await refused(e2b.FileNotFoundException, lambda: files.rename("made/old.txt", "made/x"))
    await done(files.remove("made"))
    await done(files.remove("made"))
    equal(await done(files.exists("made")), False)


async def keeps_attributes(sandbox):
    """Whether a program can set an attribute, which is where metadata are kept."""
    if "MAY_LACK_ATTRIBUTES" not in os.environ:
        return True
    code = 'import os; open("marked", "w"); os.setxattr("marked", "user.mark", b"x")'
    said = (await done(sandbox.commands.run(f"python3 -c '{code}' 2>&1; true"))).stdout
    if said != "" and "Operation not supported" not in said:
        raise AssertionError(said)
    return said == ""


async def case_metadata(sandbox):
    files = sandbox.files
    is_kept = await keeps_attributes(sandbox)
    for is_raw in [False, True]:
        given = {"author": "somebody", "Kind": "a draft"}
        stored = {"author": "somebody", "kind": "a draft"} if is_kept else None
        info = await done(files.write("meta", "x", metadata=given, use_octet_stream=is_raw))
        equal(info.metadata, stored)
        equal((await done(files.get_info("meta"))).metadata, stored)
        await done(files.write("meta", "x"))
        equal((await done(files.get_info("meta"))).metadata or {}, {})
    await refused(
        e2b.InvalidArgumentException, lambda: files.write("never", "x", metadata={"a b": "x"})
    )


async def case_a_watched_folder(sandbox):
    files = sandbox.files
    await done(files.make_dir("watched/below"))
    events = []
    options = {"recursive": True, "include_entry": True, "allow_network_mounts": True, "user": "user"}
    if isinstance(sandbox, Sandbox):
        handle = files.watch_dir("watched", **options)
        equal(handle.get_new_events(), [])
    else:
        handle = await files.watch_dir("watched", on_event=events.append, **options)
    await done(files.write("watched/below/new.txt", "x"))

    def has_write():
        if isinstance(sandbox, Sandbox):
            events.extend(handle.get_new_events())
        return any(event.type == e2b.FilesystemEventType.WRITE for event in events)

    await until(has_write)
    equal((events[0].type, events[0].name), (e2b.FilesystemEventType.CREATE, "below/new.txt"))
    written = [event for event in events if event.type == e2b.FilesystemEventType.WRITE]
    equal(written[-1].entry.path, "/home/user/watched/below/new.txt")
    await done(handle.stop())
    if isinstance(sandbox, Sandbox):
        await refused(e2b.SandboxException, handle.get_new_events)
    missing = {} if isinstance(sandbox, Sandbox) else {"on_event": print}
    await refused(e2b.FileNotFoundException, lambda: files.watch_dir("missing", **missing))


PROMPT = b"$ "


async def case_a_terminal(sandbox):
    shown = bytearray()
    size = e2b.PtySize(rows=24, cols=80)
    typed = b"echo [$ABC] [$(tput cols)]; exit\n"
    if isinstance(sandbox, Sandbox):
        terminal = sandbox.pty.create(size, envs={"ABC": "123"})
        # Before its prompt bash reads the size and sets it again, which undoes a change in between.
        for _, _, data in terminal:
            shown.extend(data or b"")
            if PROMPT in shown:
                break
        sandbox.pty.resize(terminal.pid, e2b.PtySize(rows=50, cols=100))
        sandbox.pty.send_stdin(terminal.pid, typed)
        result = terminal.wait(on_pty=shown.extend)
    else:
        terminal = await sandbox.pty.create(size, on_data=shown.extend, envs={"ABC": "123"})
        await until(lambda: PROMPT in shown)
        await sandbox.pty.resize(terminal.pid, e2b.PtySize(rows=50, cols=100))
        await sandbox.pty.send_stdin(terminal.pid, typed)
        result = await terminal.wait()
    equal(result.exit_code, 0)
    assert b"[123] [100]" in shown, bytes(shown)
    equal(await done(sandbox.pty.kill(MISSING_PID)), False)


async def case_a_repository(sandbox):
    git = sandbox.git
    await done(git.init("/tmp/repository", initial_branch="main"))
    await done(sandbox.files.write("/tmp/repository/new.txt", "x"))
    status = await done(git.status("/tmp/repository"))
    equal((status.current_branch, status.has_untracked), ("main", True))
    await done(git.add("/tmp/repository"))
    await done(git.commit("/tmp/repository", "First", author_name="A B", author_email="a@b.test"))
    equal((await done(git.branches("/tmp/repository"))).current_branch, "main")
    await done(git.clone("/tmp/repository", "/tmp/clone"))
    equal(await done(sandbox.files.read("/tmp/clone/new.txt")), "x")
    await refused(e2b.GitUpstreamException, lambda: git.pull("/tmp/repository"))


async def case_a_signed_url(sandbox):
    await done(sandbox.files.write("signed.txt", "signed"))
    for options in [{}, {"use_signature_expiration": 60}, {"user": "user"}]:
        url = sandbox.download_url("signed.txt", **options)
        async with httpx.AsyncClient() as client:
            reply = await client.get(url)
        equal((reply.status_code, reply.text), (200, "signed"))
    async with httpx.AsyncClient() as client:
        reply = await client.get(sandbox.download_url("signed.txt", use_signature_expiration=-10))
    equal(reply.json(), {"code": 401, "message": "signature is already expired"})


async def case_the_content_of_a_volume(sandbox):
    kind = e2b.AsyncVolume if isinstance(sandbox, AsyncSandbox) else e2b.Volume
    volume = await done(kind.create(f"python-{kind.__name__}"))
    equal(await done(volume.exists("/in/a.txt")), False)
    await done(volume.make_dir("/in", mode=0o750))
    entry = await done(volume.write_file("/in/a.txt", "text", uid=0, gid=0, mode=0o600))
    equal((entry.path, entry.size, entry.uid, entry.mode), ("/in/a.txt", 4, 0, 0o600))
    await done(volume.write_file("/in/b", io.BytesIO(b"x" * 3_000_000)))
    equal(await done(volume.read_file("/in/a.txt")), "text")
    equal(len(await done(volume.read_file("/in/b", format="bytes"))), 3_000_000)
    equal([found.path for found in await done(volume.list("/in"))], ["/in/a.txt", "/in/b"])
    equal((await done(volume.update_metadata("/in/b", mode=0o644))).mode, 0o644)
    await refused(e2b.NotFoundException, lambda: volume.read_file("/missing"))
    await done(volume.remove("/in"))
    equal(await done(volume.list("/")), [])
    equal(await done(kind.destroy(volume.volume_id)), True)


async def case_pause_resume_and_life(sandbox):
    await done(sandbox.files.write("kept.txt", "kept"))
    equal(await done(sandbox.is_running()), True)
    await done(sandbox.pause())
    equal(await done(sandbox.is_running()), False)
    await done(sandbox.connect())
    equal(await done(sandbox.files.read("kept.txt")), "kept")
    await done(sandbox.set_timeout(600))
    info = await done(sandbox.get_info())
    equal(info.sandbox_id, sandbox.sandbox_id)


async def case_the_end(sandbox):
    """The last one: the sandbox is gone after it."""
    equal(await done(sandbox.kill()), True)
    equal(await done(sandbox.kill()), False)
    equal(await done(sandbox.is_running()), False)
    await refused(e2b.SandboxException, lambda: sandbox.commands.run("true"))


def report(client, name, error):
    print(json.dumps({"client": client, "name": name, "error": error}), flush=True)


async def main():
    cases = [(name[5:], case) for name, case in globals().items() if name.startswith("case_")]
    for client, kind in [("sync", Sandbox), ("async", AsyncSandbox)]:
        sandbox = await done(kind.create("base"))
        try:
            for name, case in cases:
                try:
                    await case(sandbox)
                    report(client, name, None)
                except Exception:
                    report(client, name, traceback.format_exc())
        finally:
            await done(sandbox.kill())


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
