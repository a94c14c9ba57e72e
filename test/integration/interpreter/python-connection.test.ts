/** The server's end of the connection to a Python kernel, to which cells and their programs write, too. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);
const PROGRAMS = resolve(import.meta.dirname, "../../../src/interpreter");

/** A kernel whose process only sleeps, and whose end of the connection is `theirs`. */
const KERNEL = `
import asyncio, json, socket, sys
sys.path.insert(0, ${JSON.stringify(PROGRAMS)})
from frames import Frames, frame_of
from python_kernel import Connection, PythonKernel

class Owner:
    def read_variables(self): return {}

async def start():
    kernel = PythonKernel(Owner(), "/")
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    taken = []
    def take(kind, text):
        taken.append(kind)
        kernel._take(kind, text)
    kernel.connection = Connection(take)
    await asyncio.get_running_loop().create_unix_connection(lambda: kernel.connection, sock=ours)
    kernel.process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    kernel.end = asyncio.ensure_future(kernel._watch_end())
    return kernel, theirs, taken

async def begin(kernel):
    lines = []
    cell = asyncio.ensure_future(kernel.execute("", {}, lines.append))
    await asyncio.sleep(0)
    return lines, cell

def said(text):
    return frame_of("stream", json.dumps({"name": "stdout", "text": text}).encode())

async def write(theirs, data):
    await asyncio.get_running_loop().sock_sendall(theirs, data)
`;

async function evaluate(program: string): Promise<unknown> {
  const whole = `${KERNEL}\n${program}\nprint(json.dumps(asyncio.run(main())))`;
  const { stdout } = await run("python3", ["-B", "-c", whole], { timeout: 30_000 });
  return JSON.parse(stdout);
}

test("an end that a cell claims is not the end of a later cell", async () => {
  const program = `
async def main():
    kernel, theirs, taken = await start()
    texts, sent = [], 0
    for number in (1, 2, 3):
        lines, cell = await begin(kernel)
        # Of the first one, twice: by the cell, and at its end.
        for ended in (1, number):
            await write(theirs, said(f"{number}") + frame_of("done", str(ended).encode()))
            sent += 2
            while len(taken) < sent: await asyncio.sleep(0)
        await cell
        texts.append("".join(line["text"] for line in lines))
    await kernel.stop()
    return texts`;
  expect(await evaluate(program)).toEqual(["1", "22", "33"]);
});

test("a program that writes to the connection waits for a slow reader", async () => {
  const program = `
async def main():
    kernel, theirs, _ = await start()
    lines, cell = await begin(kernel)
    kernel.freeze(True)
    writing = asyncio.ensure_future(write(theirs, said("y" * 1000) * 5000 + frame_of("done", b"1")))
    await asyncio.wait([writing], timeout=1)
    taken, is_waiting = len(lines), not writing.done()
    kernel.freeze(False)
    await asyncio.gather(writing, cell)
    await kernel.stop()
    return [taken, is_waiting, len(lines)]`;
  expect(await evaluate(program)).toEqual([0, true, 5000]);
});

test("what a kernel wrote last is read, also where its reader is slow", async () => {
  const program = `
async def main():
    kernel, theirs, _ = await start()
    lines, cell = await begin(kernel)
    kernel.freeze(True)
    await write(theirs, said("last"))
    theirs.close()
    kernel.process.kill()
    try:
        await cell
    except Exception as error:
        lines.append(str(error))
    await kernel.stop()
    return [line["text"] for line in lines[:-1]] + [lines[-1].split(",")[0]]`;
  expect(await evaluate(program)).toEqual(["last", "the kernel was ended by SIGKILL"]);
});
