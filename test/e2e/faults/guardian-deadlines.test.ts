/** A service that was killed, or left its sandboxes, leaves each until its time to live, and no longer. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { takeCensus } from "../../support/census.ts";
import {
  createBusy,
  END_LIMIT_MS,
  findProcesses,
  NOTHING,
  openGuardedHome,
  startStdio,
} from "../../support/faults/guarded.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

function optionsOf({ apiKey, url }: TestServe) {
  return { apiKey, apiUrl: url, sandboxUrl: url };
}

test("a killed serve leaves its sandboxes until their time to live, and no longer", async () => {
  const before = await takeCensus();
  {
    await using first = await startServe();
    const options = optionsOf(first);
    const long = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
    const short = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
    const paused = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
    const lifecycle = { onTimeout: "pause" as const };
    const pausing = await Sandbox.create("base", { ...options, timeoutMs: 600_000, lifecycle });
    await paused.pause();
    await short.setTimeout(4_000);
    await pausing.setTimeout(4_000);
    first.program.child.kill("SIGKILL");
    await first.program.exited();
    // The pool is nobody's; of the four, one ends at its time.
    const containers = async () => (await findProcesses(first.home)).containers.length;
    await expect.poll(containers, { timeout: 3_000 }).toBe(4);
    await expect.poll(containers, { timeout: END_LIMIT_MS }).toBe(3);
    await delay(2_000);
    expect(await containers()).toBe(3);
    await using second = await startServe([], { earlier: first });
    const again = optionsOf(second);
    await expect
      .poll(async () => (await findProcesses(first.home)).guardians, { timeout: END_LIMIT_MS })
      .toHaveLength(1);
    expect(await Sandbox.getInfo(long.sandboxId, again)).toMatchObject({ state: "running" });
    expect(await Sandbox.getInfo(paused.sandboxId, again)).toMatchObject({ state: "paused" });
    await expect
      .poll(async () => (await Sandbox.getInfo(pausing.sandboxId, again)).state)
      .toBe("paused");
    await expect(Sandbox.getInfo(short.sandboxId, again)).rejects.toThrow("not found");
    for (const { sandboxId } of [long, paused, pausing]) await Sandbox.kill(sandboxId, again);
  }
  expect(await takeCensus()).toEqual(before);
});

test("a sandbox that a stdio server leaves ends at its time to live", async () => {
  await using home = await openGuardedHome();
  await using session = await startStdio(home.path, ["--on-exit", "leave"]);
  await createBusy(session, { timeout_seconds: 15 });
  const beganMs = performance.now();
  await session[Symbol.asyncDispose]();
  expect((await findProcesses(home.path)).containers).toHaveLength(1);
  await expect
    .poll(async () => findProcesses(home.path), { timeout: 15_000 + END_LIMIT_MS })
    .toEqual(NOTHING);
  expect(performance.now() - beganMs).toBeGreaterThan(10_000);
  // No clean-up by hand is needed for what is left of it.
  await using next = await startStdio(home.path);
  await createBusy(next);
  await expect
    .poll(() => readdir(join(home.path, "instances")), { timeout: END_LIMIT_MS })
    .toHaveLength(1);
});
