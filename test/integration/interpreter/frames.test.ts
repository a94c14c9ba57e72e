/** Frames between a Python kernel and its server, and the kernel's end of their connection. */

import { expect, test } from "vitest";
import { evaluate } from "../../support/daemon/interpreter-modules.ts";

/** A channel with a loop, whose cells are `run`; `ours` is the end of the server. */
const CHANNEL = `
import asyncio, os, socket
from cell_channel import CellChannel
from frames import Frames, frame_of

class Session:
    def send(self, *words, **options): return "whole"
    def pack(self, content): return json.dumps(content, ensure_ascii=False).encode()
class Thread:
    def _really_send(self, frames): pass

ours, theirs = socket.socketpair()
session, thread = Session(), Thread()
channel = CellChannel(theirs.detach())
channel.replace(session, thread)
loop = asyncio.new_event_loop()

def say(kind, content, parent="one"):
    session.send(None, kind, content, {"header": {"msg_id": parent}})

def lines_until_done(run, count=1):
    """The messages of that many cells."""
    channel.start(loop, run)
    for number in range(count):
        ours.sendall(frame_of("cell", json.dumps({"number": number}).encode()))
    frames, seen = Frames(), []
    def read():
        for kind, content in frames.take(ours.recv(65536)):
            seen.append([kind, json.loads(content or b"null")])
        if sum(kind == "done" for kind, _ in seen) == count: loop.stop()
    loop.add_reader(ours, read)
    loop.run_forever()
    return seen
`;

test("frames that come in parts of any size are whole again", async () => {
  const program = `
from frames import Frames, frame_of
sent = [("stream", b"a\\nb"), ("done", b""), ("error", bytes(range(256)) * 300)]
data = b"".join(frame_of(*frame) for frame in sent)
def take(size):
    frames = Frames()
    parts = (data[at : at + size] for at in range(0, len(data), size))
    return [frame for part in parts for frame in frames.take(part)]
print(json.dumps([take(size) == sent for size in (1, 3, 7, 1000, len(data))]))`;
  expect(await evaluate(program)).toEqual([true, true, true, true, true]);
});

test("a frame that is too large is refused by its length alone", async () => {
  const program = `
from frames import MAX_FRAME_BYTES, Frames
def outcome(size):
    try: return list(Frames().take(size.to_bytes(4, "big")))
    except ValueError as error: return str(error)
print(json.dumps([outcome(MAX_FRAME_BYTES), outcome(MAX_FRAME_BYTES + 1)]))`;
  expect(await evaluate(program)).toEqual([[], "a message is larger than 100663296 bytes"]);
});

test("messages of the running cell are sent in their order, no other ones, and then its end", async () => {
  const program = `${CHANNEL}
async def run(request):
    say("stream", {"text": "before"})
    channel.cell = "one"
    for number in range(200): say("stream", number)
    say("stream", {"text": "of an earlier cell"}, "zero")
    say("status", {"execution_state": "busy"})
    header, parent = json.dumps({"msg_type": "stream"}), json.dumps({"msg_id": "one"})
    frames = [b"topic", b"<IDS|MSG>", b"signature", header.encode(), parent.encode(), b"{}", b'"of a fork"']
    thread._really_send(frames)
    say("stream", "\\ud83d")
print(json.dumps(lines_until_done(run)))`;
  const numbers = [...Array(200).keys()].map((number) => ["stream", number]);
  expect(await evaluate(program)).toEqual([
    ...numbers,
    ["stream", "of a fork"],
    ["stream", "\ud83d"],
    ["done", 0],
  ]);
});

test("an error that a kernel prints and does not send is told at the end of its cell", async () => {
  const program = `${CHANNEL}
async def run(request):
    channel.cell = "one"
    error = {"ename": "E", "evalue": "v", "traceback": ["t"]}
    if request["number"] == 0: say("error", error)
    status = "ok" if request["number"] == 2 else "error"
    say("execute_reply", {"status": status, **error, "traceback": ["of an earlier cell"]})
print(json.dumps(lines_until_done(run, 3)))`;
  expect(await evaluate(program)).toEqual([
    ["error", { ename: "E", evalue: "v", traceback: ["t"] }],
    ["done", 0],
    ["error", { ename: "E", evalue: "v", traceback: ["E: v"] }],
    ["done", 1],
    ["done", 2],
  ]);
});

test("a fork that leaves its cell ends, and answers no later one", async () => {
  const program = `${CHANNEL}
forks = []
async def run(request):
    channel.cell = "one"
    fork = os.fork()
    if fork == 0: say("stream", "of the fork")
    else: forks.append(fork)
    say("stream", request["number"])
seen = lines_until_done(run, 2)
print(json.dumps([seen, [os.waitpid(fork, 0)[1] for fork in forks]]))`;
  expect(await evaluate(program)).toEqual([
    [
      ["stream", 0],
      ["done", 0],
      ["stream", 1],
      ["done", 1],
    ],
    [0, 0],
  ]);
});

test("a kernel whose connection is closed ends", async () => {
  const program = `${CHANNEL}
fork = os.fork()
if fork == 0:
    # As the kernel: forks of this process have no connection any more.
    ours, theirs = socket.socketpair()
    channel = CellChannel(theirs.detach())
    channel.start(loop, None)
    ours.close()
    loop.run_forever()
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])))`;
  expect(await evaluate(program)).toBe(70);
});

test("output is cut into parts, and what else is too large for a message is named", async () => {
  const program = `${CHANNEL}
import cell_channel
cell_channel.MAX_CONTENT_BYTES, cell_channel.MAX_PART_CHARACTERS = 500, 3
cell_channel.MAX_ERROR_CHARACTERS = 10
async def run(request):
    channel.cell = "one"
    say("stream", {"name": "stdout", "text": "abcdefg"})
    say("display_data", {"data": {"text/plain": "x" * 500}})
    say("execute_result", {"data": {"x/y": "x" * 500, "text/plain": "text", "image/png": "p" * 99}})
    say("execute_result", {"data": {"text/plain": "x" * 500, "image/png": "p" * 99}})
    say("error", {"ename": "E", "evalue": "12345" * 3, "traceback": ["ab", "cd"]})
    say("execute_input", {"code": "x" * 500, "execution_count": 7})
print(json.dumps(lines_until_done(run)))`;
  expect(await evaluate(program)).toEqual([
    ["stream", { name: "stdout", text: "abc" }],
    ["stream", { name: "stdout", text: "def" }],
    ["stream", { name: "stdout", text: "g" }],
    ["display_data", { data: { "text/plain": "[the result is too large to be sent]" } }],
    ["execute_result", { data: { "text/plain": "text", "image/png": "p".repeat(99) } }],
    [
      "execute_result",
      {
        data: {
          "text/plain": "[the result is too large to be sent]",
          "image/png": "p".repeat(99),
        },
      },
    ],
    [
      "error",
      { ename: "E", evalue: "12345\n[... 5 characters ...]\n12345", traceback: ["ab\ncd"] },
    ],
    ["execute_input", { execution_count: 7 }],
    ["done", 0],
  ]);
});
