/** A process of an earlier server, where the disk lets no server take its output over. */

import assert from "node:assert";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { isWatchedAnew } from "../../../src/output/capture.ts";
import { Captures } from "../../../src/output/captures.ts";
import { startSpools, type Spools } from "../../../src/spool/spools.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { factOf, startServer } from "../../support/mcp/mcp-server.ts";

const full = async (): Promise<never> => {
  throw Object.assign(new Error("no space left on the device"), { code: "ENOSPC" });
};

/** A process that the server which started it has left, and what another one on this disk watches it by. */
async function leaveProcess(faults: Partial<Spools>) {
  await using stack = new AsyncDisposableStack();
  const world = stack.use(await startMcpWorld());
  const id = await world.createSandbox();
  const first = await startServer(world);
  const started = await first.ask("run_process", {
    sandbox_id: id,
    cmd: "/bin/sh",
    args: ["-c", "echo first; read line"],
    wait_seconds: 0,
    keep_stdin_open: true,
  });
  const pid = Number(factOf(started, /process_id: p_([0-9]+)/));
  await first[Symbol.asyncDispose]();
  const root = join(world.test.home, "spool");
  const log = createSilentLog();
  const spools = stack.use(startSpools({ root, clock: createSystemClock(), log }));
  const captures = stack.use(
    new Captures({
      clock: createSystemClock(),
      logs: world.state.logs,
      log,
      spools: { ...spools, ...faults },
      isRunning: async () => true,
    }),
  );
  const sandbox = await world.service.attach(id, AbortSignal.timeout(20_000));
  const owned = stack.move();
  return { captures, sandbox, pid, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test.for([
  { disk: "takes nothing", faults: { takeOver: full }, isAnew: true },
  { disk: "takes its output", faults: {}, isAnew: false },
])("it is watched from now on where the disk $disk: $isAnew", async ({ faults, isAnew }) => {
  await using scene = await leaveProcess(faults);
  const { captures, sandbox, pid } = scene;
  const before = await captures.recall(sandbox.id, pid);
  assert(before !== undefined);
  const view = await captures.attach(sandbox, pid);
  expect(view.state.kind).toBe("running");
  expect(isWatchedAnew(view, before)).toBe(isAnew);
  expect(view.output.totalBytes > 0).toBe(!isAnew);
});

test("no stream of it stays open where it is not watched", async () => {
  await using scene = await leaveProcess({ find: full });
  const { sandbox, pid } = scene;
  let ended = 0;
  const connect: typeof sandbox.process.connect = (...given) => {
    const events = sandbox.process.connect(...given);
    const end = events.return.bind(events);
    return Object.assign(events, {
      async return() {
        ended += 1;
        return end();
      },
    });
  };
  const counted = { ...sandbox, process: { ...sandbox.process, connect } };
  await expect(scene.captures.attach(counted, pid)).rejects.toThrow("no space left");
  expect(ended).toBe(1);
});
