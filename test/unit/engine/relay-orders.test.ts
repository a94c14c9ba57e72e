/** Orders to the relay of a container: one whose relay dies before the answer is given to the next relay. */

import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { askByRelay, pausedByKernel, type RelayDial } from "../../../src/engine/gvisor/relay.ts";
import { openProcessGroup } from "../../../src/engine/oci/process-group.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Starts nothing: what stands for the relays is there. */
const again: RelayDial = async (dial) => dial().catch(dial);

const SILENCE = "silence";
/** Longer than an order waits for its answer. */
const LONG_MS = 20_000;

/** A relay that answers each order by the next of these; without one it ends the connection. */
async function startRelays(answers: string[]) {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const orders: string[] = [];
  const server = createServer((socket) => {
    socket.once("data", (line) => {
      orders.push(line.toString());
      const answer = answers.shift() ?? "";
      if (answer === SILENCE) server.emit(SILENCE);
      else socket.end(answer);
    });
  });
  await mkdir(join(folder.path, "runtime"));
  server.listen(join(folder.path, "runtime/orders.sock"));
  await once(server, "listening");
  stack.defer(() => void server.close());
  const owned = stack.move();
  const cgroup = pausedByKernel(openProcessGroup("i0", folder.path), folder.path, again);
  const { path: directory } = folder;
  return {
    server,
    cgroup,
    directory,
    orders,
    [Symbol.asyncDispose]: async () => owned.disposeAsync(),
  };
}

test("an order without an answer is given once more", async () => {
  await using relays = await startRelays(["", "paused\n"]);
  await relays.cgroup.freeze();
  expect(relays.orders).toEqual(["pause\n", "pause\n"]);
});

test("an order that was refused is not repeated", async () => {
  await using relays = await startRelays(["failed\n", "paused\n"]);
  await expect(relays.cgroup.freeze()).rejects.toThrow("the container did not pause");
  expect(relays.orders).toEqual(["pause\n"]);
});

test("an order that nothing answers in time is not obeyed, and not repeated", async () => {
  await using relays = await startRelays([SILENCE]);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const asked = once(relays.server, SILENCE);
  const frozen = relays.cgroup.freeze().catch((error: unknown) => error);
  await asked;
  await vi.advanceTimersByTimeAsync(LONG_MS);
  const refused = { code: "unavailable", message: "the container did not pause" };
  expect(await frozen).toMatchObject(refused);
  expect(relays.orders).toEqual(["pause\n"]);
});

test.for([
  { answer: "running\n", expected: true },
  { answer: "paused\n", expected: false },
  { answer: "failed\n", expected: false },
  { answer: "", expected: false },
])(
  "the answer $answer to the question for the daemon → $expected",
  async ({ answer, expected }) => {
    await using relays = await startRelays([answer]);
    expect(await askByRelay(relays.directory)).toBe(expected);
    expect(relays.orders).toEqual(["ask\n"]);
  },
);

test("a daemon that does not answer in time, and a relay that is not there, do not answer", async () => {
  await using relays = await startRelays([SILENCE]);
  expect(await askByRelay(relays.directory)).toBe(false);
  expect(await askByRelay(join(relays.directory, "none"))).toBe(false);
});
