/** The short way to sandboxes of this process: which calls take it, and what ends it. */

import type { Socket } from "node:net";
import { expect, test } from "vitest";
import type { DirectRun } from "../../../src/client/direct-connection.ts";
import type { Sandbox } from "../../../src/client/envd.ts";
import type { ProcessEvent } from "../../../src/client/process.ts";
import { createService, type Service } from "../../../src/client/service.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const { signal } = new AbortController();

interface World extends AsyncDisposable {
  readonly test: TestService;
  readonly service: Service;
  /** Every connection that was made to a daemon on the short way. */
  readonly sockets: readonly Socket[];
}

async function startWorld(): Promise<World> {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await startTestService());
  const { url, socketPath, apiKey, findRun } = service.embedded;
  const sockets: Socket[] = [];
  const watched = new Map<DirectRun, DirectRun>();
  const watch = (run: DirectRun): DirectRun => {
    const same: DirectRun = {
      ended: run.ended,
      watch: run.watch,
      async dial(port, end) {
        const socket = await run.dial(port, end);
        sockets.push(socket);
        return socket;
      },
    };
    watched.set(run, same);
    return same;
  };
  const client = createService({
    url,
    socketPath,
    apiKey,
    findRun(sandboxId) {
      const run = findRun(sandboxId);
      return run && (watched.get(run) ?? watch(run));
    },
  });
  stack.use(client);
  const owned = stack.move();
  return {
    test: service,
    service: client,
    sockets,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function attachNew(world: World, body: Record<string, unknown> = {}): Promise<Sandbox> {
  const { sandboxID } = await world.test.create(body);
  return world.service.attach(sandboxID, signal);
}

async function startSleep(sandbox: Sandbox): Promise<AsyncGenerator<ProcessEvent, void>> {
  const wish = { cmd: "sleep", args: ["60"], env: {}, hasStdin: false };
  const events = sandbox.process.start(wish, { signal });
  expect((await events.next()).value).toMatchObject({ type: "start" });
  return events;
}

test("calls one after the other share connections to the daemon, those at once have one each", async () => {
  await using world = await startWorld();
  const sandbox = await attachNew(world);
  for (let round = 0; round < 8; round += 1) {
    expect(await sandbox.process.list(signal)).toEqual([]);
  }
  // A connection may not have heard yet that it is free when the next call comes.
  expect(world.sockets.length).toBeLessThanOrEqual(3);
  await Promise.all([1, 2, 3, 4].map(() => sandbox.process.list(signal)));
  expect(world.sockets.length).toBeGreaterThanOrEqual(4);
});

test("a pause cuts every connection, and what comes then is answered as by the gateway", async () => {
  await using world = await startWorld();
  const sandbox = await attachNew(world);
  const events = await startSleep(sandbox);
  await sandbox.process.list(signal);
  await world.test.embedded.sandboxes.pause(sandbox.id, true);
  await expect(events.next()).rejects.toMatchObject({ code: "unavailable" });
  expect(world.sockets.every(({ destroyed }) => destroyed)).toBe(true);
  const before = world.sockets.length;
  await expect(sandbox.process.list(signal)).rejects.toMatchObject({
    code: "unavailable",
    message: expect.stringContaining('502 "The sandbox was not found"'),
  });
  expect(world.sockets).toHaveLength(before);
});

test("a call wakes a paused sandbox that traffic may wake, and the next one is short again", async () => {
  await using world = await startWorld();
  const sandbox = await attachNew(world, { autoResume: { enabled: true } });
  await world.test.embedded.sandboxes.pause(sandbox.id, true);
  expect(await sandbox.process.list(signal)).toEqual([]);
  expect(world.sockets).toHaveLength(0);
  expect(await sandbox.process.list(signal)).toEqual([]);
  expect(world.sockets).toHaveLength(1);
});

test("a kill cuts every connection", async () => {
  await using world = await startWorld();
  const sandbox = await attachNew(world);
  const events = await startSleep(sandbox);
  await world.test.embedded.sandboxes.kill(sandbox.id);
  await expect(events.next()).rejects.toMatchObject({ code: "unavailable" });
  expect(world.sockets.map(({ destroyed }) => destroyed)).toEqual([true]);
});

test("the end of the client closes its connections", async () => {
  await using world = await startWorld();
  const sandbox = await attachNew(world);
  await sandbox.process.list(signal);
  await world.service[Symbol.asyncDispose]();
  expect(world.sockets.map(({ destroyed }) => destroyed)).toEqual([true]);
});
