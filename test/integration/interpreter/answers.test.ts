/** The answers of a kernel of our own, as its server reads them from their pipe. */

import { expect, test } from "vitest";
import { evaluate } from "../../support/daemon/interpreter-modules.ts";

/** `answers` come from a pipe to which a thread writes `data`, as long as it is read. */
const ANSWERS = `
import asyncio, os, threading
from answers import open_answers

LIMIT = 300_000

def write(descriptor, data):
    try:
        for start in range(0, len(data), 4096):
            os.write(descriptor, data[start : start + 4096])
    except BrokenPipeError:
        pass
    os.close(descriptor)

async def begin(data):
    read_end, write_end = os.pipe()
    answers = await open_answers(read_end, LIMIT)
    threading.Thread(target=write, args=(write_end, data)).start()
    return answers
`;

test("answers are taken one by one, and what is left at the end", async () => {
  const program = `${ANSWERS}
async def main():
    answers = await begin(b"one\\n\\n" + b"x" * 299_999 + b"\\ntwo\\nrest")
    return [(await answers.take()).decode() for _ in range(6)]
print(json.dumps(asyncio.run(main())))`;
  expect(await evaluate(program)).toEqual([
    "one\n",
    "\n",
    `${"x".repeat(299_999)}\n`,
    "two\n",
    "rest",
    "",
  ]);
});

test("no more is read while one waits to be taken", async () => {
  const program = `${ANSWERS}
async def main():
    answers = await begin((b"a" * 63 + b"\\n") * 100_000)
    first = await answers.take()
    for _ in range(1_000):
        await asyncio.sleep(0)
    ahead = len(answers.data)
    count = 1
    while await answers.take():
        count += 1
    return [len(first), ahead <= 262_144, count]
print(json.dumps(asyncio.run(main())))`;
  expect(await evaluate(program)).toEqual([64, true, 100_000]);
});

test("an answer that is too large is refused before it is read", async () => {
  const program = `${ANSWERS}
async def main():
    answers = await begin(b"x" * 3_000_000)
    try:
        await answers.take()
    except ValueError as error:
        for _ in range(1_000):
            await asyncio.sleep(0)
        held = len(answers.data)
        answers.transport.close()
        return [str(error), held <= LIMIT + 262_144]
print(json.dumps(asyncio.run(main())))`;
  expect(await evaluate(program)).toEqual(["an answer is larger than 300000 bytes", true]);
});

test("a pause holds what comes until it ends", async () => {
  const program = `${ANSWERS}
async def main():
    read_end, write_end = os.pipe()
    answers = await open_answers(read_end, LIMIT)
    answers.pause(True)
    os.write(write_end, b"one\\n")
    os.close(write_end)
    taking = asyncio.ensure_future(answers.take())
    for _ in range(1_000):
        await asyncio.sleep(0)
    before = taking.done()
    answers.pause(False)
    return [before, (await taking).decode(), (await answers.take()).decode()]
print(json.dumps(asyncio.run(main())))`;
  expect(await evaluate(program)).toEqual([false, "one\n", ""]);
});

test("a kernel that is stopped keeps no pipe open, also where answers were left in it", async () => {
  const program = `${ANSWERS}
from line_kernel import LineKernel

async def main():
    read_end, write_end = os.pipe()
    kernel = LineKernel(None, "/")
    kernel.answers = await open_answers(read_end, LIMIT)
    os.write(write_end, b"one\\ntwo\\n")
    first = await kernel.answers.take()
    await kernel.stop()
    # Its end is that of a turn of the loop.
    for _ in range(10):
        await asyncio.sleep(0)
    try:
        os.fstat(read_end)
    except OSError:
        return [first.decode(), "closed"]
    return [first.decode(), "open"]
print(json.dumps(asyncio.run(main())))`;
  expect(await evaluate(program)).toEqual(["one\n", "closed"]);
});

test("after an end what was written before is taken, and nothing later", async () => {
  const program = `${ANSWERS}
async def main():
    read_end, write_end = os.pipe()
    answers = await open_answers(read_end, LIMIT)
    os.write(write_end, b"one\\n")
    first = await answers.take()
    os.write(write_end, b"two\\nthree\\nrest")
    answers.finish()
    answers.finish()
    try:
        for _ in range(1_000):
            os.write(write_end, b"later\\n")
            await asyncio.sleep(0)
    except BrokenPipeError:
        pass
    return [line.decode() for line in [first, *[await answers.take() for _ in range(4)]]]
print(json.dumps(asyncio.run(main())))`;
  expect(await evaluate(program)).toEqual(["one\n", "two\n", "three\n", "rest", ""]);
});

test.for([
  { end: "open", code: "" },
  { end: "closed", code: "os.close(write_end)" },
])(
  "an end whose answers another process reads first is over, with the pipe $end",
  async ({ code }) => {
    const program = `${ANSWERS}
import answers as module, signal

async def main():
    # A loop that never ends fails by the signal, not by the limit of the test.
    signal.alarm(10)
    read_end, write_end = os.pipe()
    answers = await open_answers(read_end, LIMIT)
    os.write(write_end, b"one\\ntwo\\n")
    count = module.unread_bytes
    def count_and_lose(descriptor):
        size = count(descriptor)
        os.read(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY), 4)
        ${code}
        return size
    module.unread_bytes = count_and_lose
    answers.finish()
    return [(await answers.take()).decode() for _ in range(2)]
print(json.dumps(asyncio.run(main())))`;
    expect(await evaluate(program)).toEqual(["two\n", ""]);
  },
);
