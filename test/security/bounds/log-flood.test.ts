/** E51: whatever a program in the place of a daemon writes as its log, the service reads it at its own pace. */

import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Clock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { followDaemon } from "../../../src/sandboxes/logs/follow-daemon.ts";
import { startLogBook } from "../../../src/sandboxes/logs/log-book.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { heldBytes } from "../../support/collect-now.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { serveFloods } from "../../support/hostile/flood-server.ts";
import { startFloodedService } from "../../support/hostile/flooded-service.ts";
import { FLOOD_SHAPES, makeFlood, type LogFlood } from "../../support/hostile/log-floods.ts";
import { measureNeighbour } from "../../support/hostile/neighbour.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { tellFigures } from "../../support/run/figures.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";

/** Pins of src/sandboxes/logs/log-pace.ts. */
const BURST = { lines: 1_000, bytes: 1_048_576, connections: 8 };
const PER_SECOND = { lines: 300, bytes: 262_144, connections: 1 };
/** What a connection takes from the kernel before anybody asks how much. */
const READ_AHEAD_BYTES = 192 * 1_024;
const ROUNDS = 3;
const SEEDS_PER_SHAPE = IS_WHOLE_RUN ? 21 : 1;
const MAX_GROWTH_BYTES = 16 * 1_024 * 1_024;

interface WatchedClock {
  readonly clock: Clock;
  /** Moves on as soon as somebody waits. */
  readonly advance: (ms: number) => Promise<void>;
}

/** A clock of which the test knows that somebody waits for it. */
function createWatchedClock(): WatchedClock {
  const clock = createFakeClock();
  const sleeping = new Set<symbol>();
  let slept = Promise.withResolvers<void>();
  const watched: Clock = {
    now: () => clock.now(),
    elapsed: () => clock.elapsed(),
    async sleep(ms, signal) {
      const sleeper = Symbol("sleeper");
      sleeping.add(sleeper);
      slept.resolve();
      try {
        await clock.sleep(ms, signal);
      } finally {
        sleeping.delete(sleeper);
      }
    },
  };
  return {
    clock: watched,
    async advance(ms) {
      while (sleeping.size === 0) {
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

const UNPACED = { take: async () => undefined };
const toInit = () => ({ timestamp: new Date(0).toISOString() });

/** Follows a daemon that floods, for a time that the test makes pass. */
async function follow(flood: LogFlood, random: Random, isPaced = true): Promise<Outcome> {
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
  const follower = followDaemon(
    { clock, log, logBook: isPaced ? logBook : { ...logBook, openPace: () => UNPACED } },
    { container, subject, init: toInit, isInitialized: false },
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
  const found = none ? [] : await logBook.read(query);
  const lines = found.map(({ line }) => line);
  return { bytes, lines, connections: sockets.length, elapsedMs };
}

/** The one that cost most: as many lines as go into a second. */
const COSTLY = "log lines";
const FLOODERS = 3;
const CALLS = 100;
/** A flood of the whole service is far above it; a machine with other work is not. */
const MAX_RATIO = 8;
const MAX_RESIDENT_GROWTH_BYTES = 128 * 1_024 * 1_024;

test("E51 R18 the calls of a neighbour beside a flood of log lines", async (context) => {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
  await using flooded = await startFloodedService();
  const resident = process.memoryUsage().rss;
  const figures = await measureNeighbour({
    bomb: "flood of log lines",
    call: () => flooded.call(),
    ignite: async () => flooded.flood({ count: FLOODERS, seed, shape: COSTLY }),
    rounds: IS_WHOLE_RUN ? 4 : 1,
    calls: IS_WHOLE_RUN ? 100 : 30,
  });
  tellFigures(context, figures);
  // Less than a few milliseconds are the machine's own.
  const usualMs = Math.max(figures.without.p90, 5);
  expect(figures.beside.p90 / usualMs, `FUZZ_SEED=${seed}`).toBeLessThan(MAX_RATIO);
  expect(process.memoryUsage().rss - resident).toBeLessThan(MAX_RESIDENT_GROWTH_BYTES);
});

test("E51 sandboxes that flood in any shape leave a neighbour all of its calls", async () => {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
  await using flooded = await startFloodedService();
  await using floods = await flooded.flood({ count: FLOODERS, seed });
  let answered = 0;
  for (let call = 0; call < CALLS; call += 1) {
    await flooded.call();
    answered += 1;
  }
  expect([floods.ids.length, answered], `FUZZ_SEED=${seed}`).toEqual([FLOODERS, CALLS]);
});

/** What it took that is more than the pace allows. */
function faultsOf({ bytes, lines, connections, elapsedMs }: Outcome): string[] {
  const allowed = (what: keyof typeof BURST) =>
    BURST[what] + (elapsedMs / 1_000 + 1) * PER_SECOND[what];
  // Of each connection the daemon is told first, by another one.
  const most = {
    connections: 2 * allowed("connections"),
    bytes: allowed("bytes") + connections * READ_AHEAD_BYTES,
    // Each line can have a mark for those before it, and each connection one.
    lines: 2 * allowed("lines") + connections,
  };
  const strangers = lines.filter((line) => JSON.parse(line).sandboxID !== "i1");
  return [
    ...(connections <= most.connections ? [] : [`${connections} connections`]),
    ...(bytes <= most.bytes ? [] : [`${bytes} bytes`]),
    ...(lines.length <= most.lines ? [] : [`${lines.length} lines`]),
    ...(strangers.length === 0 ? [] : [`${strangers.length} lines of others`]),
  ];
}

test("E51 floods of every shape are read at the service's pace and hold no memory", async (context) => {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
  let count = 0;
  let before = 0;
  for (let round = 0; round < SEEDS_PER_SHAPE; round += 1) {
    for (const shape of FLOOD_SHAPES) {
      const random = createRandom(seed + count);
      const outcome = await follow(makeFlood(random, shape), random);
      expect({ seed, count, shape: shape.name, faults: faultsOf(outcome) }).toEqual({
        seed,
        count,
        shape: shape.name,
        faults: [],
      });
      count += 1;
    }
    if (round === 0) before = heldBytes();
  }
  // What the ends of the last connections held goes when they have closed.
  await expect
    .poll(() => heldBytes() - before, { message: `FUZZ_SEED=${seed}` })
    .toBeLessThan(MAX_GROWTH_BYTES);
  tellCells(context, count);
}, 300_000);

test("E51 control: without the pace all of a flood is read", async () => {
  const random = createRandom(1);
  const [shape] = FLOOD_SHAPES.filter(({ name }) => name === "long lines");
  if (shape === undefined) throw new Error("no such shape");
  const outcome = await follow(makeFlood(random, shape), random, false);
  expect(faultsOf(outcome)).toContain(`${outcome.bytes} bytes`);
});
