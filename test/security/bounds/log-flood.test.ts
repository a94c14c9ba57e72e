/** E51: whatever a program in the place of a daemon writes as its log, the service reads it at its own pace. */

import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Clock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { followDaemon } from "../../../src/sandboxes/follow-daemon.ts";
import { startLogBook } from "../../../src/sandboxes/log-book.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { tellCells } from "../../support/cells.ts";
import { heldBytes } from "../../support/collect-now.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { serveFloods } from "../../support/flood-server.ts";
import { FLOOD_SHAPES, makeFlood, type LogFlood } from "../../support/log-floods.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";

/** Pins of src/sandboxes/log-pace.ts. */
const BURST = { lines: 2_000, bytes: 1_048_576, connections: 8 };
const PER_SECOND = { lines: 500, bytes: 262_144, connections: 1 };
/** What a connection takes from the kernel before anybody asks how much. */
const READ_AHEAD_BYTES = 192 * 1_024;
const ROUNDS = 3;
const SEEDS_PER_SHAPE = IS_WHOLE_RUN ? 21 : 1;
const MAX_GROWTH_BYTES = 16 * 1_024 * 1_024;

/** A clock of which the test knows that somebody waits for it. */
function createWatchedClock() {
  const clock = createFakeClock();
  let sleepers = 0;
  let slept = Promise.withResolvers<void>();
  const watched: Clock = {
    now: () => clock.now(),
    async sleep(ms, signal) {
      sleepers += 1;
      slept.resolve();
      try {
        await clock.sleep(ms, signal);
      } finally {
        sleepers -= 1;
      }
    },
  };
  return {
    clock: watched,
    /** Moves on as soon as somebody waits. */
    async advance(ms: number): Promise<void> {
      while (sleepers === 0) {
        slept = Promise.withResolvers();
        await slept.promise;
      }
      await clock.advance(ms);
    },
  };
}

interface Outcome {
  readonly bytes: number;
  readonly lines: readonly string[];
  readonly connections: number;
  readonly elapsedMs: number;
}

/** Follows a daemon that floods, for a time that the test makes pass. */
async function follow(flood: LogFlood, random: Random): Promise<Outcome> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "smcp-flood-"));
  stack.defer(() => rm(folder, { recursive: true }));
  const server = createServer();
  serveFloods(server, () => flood);
  const path = join(folder, "s");
  server.listen(path);
  await once(server, "listening");
  stack.defer(() => void server.close());
  const { clock, advance } = createWatchedClock();
  const log = createSilentLog();
  const store = stack.use(openStore({ path: ":memory:" }));
  const logBook = stack.use(startLogBook({ store, clock, log }));
  const sockets: Socket[] = [];
  const container = {
    async dialControl() {
      const socket = connect(path);
      sockets.push(socket);
      await once(socket, "connect");
      return socket;
    },
  };
  const subject = { sandboxId: "i1", team: "local", templateId: "base" };
  const init = () => ({ timestamp: new Date(0).toISOString() });
  const follower = followDaemon(
    { clock, log, logBook },
    { container, subject, init, isInitialized: false },
  );
  let elapsedMs = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const ms = random.below(2_000);
    await advance(ms);
    elapsedMs += ms;
  }
  await advance(0);
  follower[Symbol.dispose]();
  const bytes = sockets.reduce((sum, socket) => sum + socket.bytesRead, 0);
  for (const socket of sockets) socket.destroy();
  const none = store.logs.cursor("i1") === "" && !store.logs.has(subject);
  const query = { sandboxId: "i1", team: "local", limit: 100_000, startMs: 0 };
  const lines = none ? [] : logBook.read(query).map(({ line }) => line);
  return { bytes, lines, connections: sockets.length, elapsedMs };
}

test("E51 floods of every shape are read at the service's pace and hold no memory", async (context) => {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
  let count = 0;
  let before = 0;
  for (let round = 0; round < SEEDS_PER_SHAPE; round += 1) {
    for (const shape of FLOOD_SHAPES) {
      const random = createRandom(seed + count);
      const outcome = await follow(makeFlood(random, shape), random);
      const { bytes, lines, connections, elapsedMs } = outcome;
      const allowed = (what: keyof typeof BURST) =>
        BURST[what] + (elapsedMs / 1_000 + 1) * PER_SECOND[what];
      const said = `FUZZ_SEED=${seed}, case ${count}: ${shape.name}`;
      expect(connections, said).toBeLessThanOrEqual(2 * allowed("connections"));
      expect(bytes, said).toBeLessThanOrEqual(
        allowed("bytes") + connections * READ_AHEAD_BYTES,
      );
      // Each line can have a mark for those before it, and each connection one.
      expect(lines.length, said).toBeLessThanOrEqual(2 * allowed("lines") + connections);
      for (const line of lines) expect(JSON.parse(line).sandboxID, said).toBe("i1");
      count += 1;
    }
    if (round === 0) before = heldBytes();
  }
  expect(heldBytes() - before, `FUZZ_SEED=${seed}`).toBeLessThan(MAX_GROWTH_BYTES);
  tellCells(context, count);
}, 300_000);
