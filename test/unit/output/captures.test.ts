/** How many processes a server watches at once, however many calls ask for them together. */

import { expect, test } from "vitest";
import type { Sandbox } from "../../../src/client/envd.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { Captures } from "../../../src/output/captures.ts";
import { SandboxLogs } from "../../../src/output/logs.ts";
import { startSpools } from "../../../src/spool/spools.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const LIMIT = 128;

/** Every process runs until the server ends. */
function sandboxOf(running: Set<number>): Sandbox {
  async function* connect(pid: number, signal: AbortSignal) {
    running.add(pid);
    yield { type: "start", pid };
    await new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
  }
  const list = async () => [...running].map((pid) => ({ pid }));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it is asked for here
  return { id: "i1", process: { connect, list } } as unknown as Sandbox;
}

test("processes that are attached to together are counted before they are watched", async () => {
  const clock = createSystemClock();
  const log = createSilentLog();
  await using spools = startSpools({ root: undefined, clock, log });
  await using logs = new SandboxLogs({ clock, spools, log });
  await using captures = new Captures({ clock, logs, log, spools, isRunning: async () => false });
  const running = new Set<number>();
  const sandbox = sandboxOf(running);
  const pids = Array.from({ length: LIMIT + 2 }, (_, index) => index + 1);
  // A process that is attached to twice takes one place.
  const asked = [1, ...pids].map(async (pid) => captures.attach(sandbox, pid));
  const failures = (await Promise.allSettled(asked)).flatMap((each) =>
    each.status === "rejected" ? [String(each.reason)] : [],
  );
  const said = "this server follows 128 processes in all sandboxes, the limit";
  expect(failures).toEqual(Array(2).fill(expect.stringContaining(said)));
  expect(running.size).toBe(LIMIT);
  expect(captures.inState("i1", "running")).toHaveLength(LIMIT);
});

const listNone = async () => [];

async function* connectAtEnd(pid: number) {
  yield { type: "start", pid };
  yield { type: "end", exitCode: 0, status: "exit status 0" };
}

test("the output of an ended process outlives a jump of the wall clock", async () => {
  const clock = createFakeClock();
  const log = createSilentLog();
  await using spools = startSpools({ root: undefined, clock, log });
  await using logs = new SandboxLogs({ clock, spools, log });
  await using captures = new Captures({ clock, logs, log, spools, isRunning: async () => false });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it is asked for here
  const sandbox = {
    id: "i1",
    process: { connect: connectAtEnd, list: listNone },
  } as unknown as Sandbox;
  await captures.attach(sandbox, 1);
  clock.set(clock.now() + 3_600_000);
  expect(captures.find("i1", 1)?.state.kind).toBe("ended");
  await clock.advance(15 * 60_000 + 1);
  expect(captures.find("i1", 1)).toBeUndefined();
});
