/** A service that was killed leaves no sandbox: its guardian ends each one by its rule, then itself. */

import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import {
  createBusy,
  expectNothing,
  findProcesses,
  killServer,
  NOTHING,
  openGuardedHome,
  startStdio,
} from "../support/faults/guarded.ts";
import { openOrdinaryUser } from "../support/ordinary-user.ts";

const MAX_MEMORY_KB = 2_048;

test("the sandboxes of a killed stdio server end, and its guardian after them", async () => {
  const before = await takeCensus();
  {
    await using home = await openGuardedHome();
    await using session = await startStdio(home.path);
    const paused = await createBusy(session);
    await session.raw.request("tools/call", {
      name: "pause_sandbox",
      arguments: { sandbox_id: paused },
    });
    await createBusy(session);
    const { guardians, containers } = await findProcesses(home.path);
    expect(guardians).toHaveLength(1);
    expect(containers.length).toBeGreaterThanOrEqual(2);
    const status = await readFile(`/proc/${guardians[0]}/status`, "utf8");
    const kilobytes = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
    expect(kilobytes).toBeGreaterThan(0);
    expect(kilobytes).toBeLessThanOrEqual(MAX_MEMORY_KB);
    await killServer(session);
    await expectNothing(home.path);
  }
  expect(await takeCensus()).toEqual(before);
});

test("a guardian that was killed is replaced, and the new one does the same", async () => {
  await using home = await openGuardedHome();
  await using session = await startStdio(home.path);
  await createBusy(session);
  const [first = 0] = (await findProcesses(home.path)).guardians;
  process.kill(first, "SIGKILL");
  const others = async () =>
    (await findProcesses(home.path)).guardians.filter((pid) => pid !== first);
  await expect.poll(others).toHaveLength(1);
  await killServer(session);
  await expectNothing(home.path);
});

test("the guardian is gone once the last sandbox is, and comes back with the next one", async () => {
  await using home = await openGuardedHome();
  await using session = await startStdio(home.path, ["--pool", "0"]);
  for (const round of [1, 2]) {
    const id = await createBusy(session);
    expect((await findProcesses(home.path)).guardians, `round ${round}`).toHaveLength(1);
    await session.raw.request("tools/call", {
      name: "kill_sandbox",
      arguments: { sandbox_id: id },
    });
    await expect.poll(async () => findProcesses(home.path)).toEqual(NOTHING);
  }
});

test("an ordinary user's killed server leaves nothing either, running or paused", async () => {
  await using person = await openOrdinaryUser({ ids: true });
  await using session = await startStdio(person.data, ["--runtime", "auto"], person.program);
  const paused = await createBusy(session);
  await session.raw.request("tools/call", {
    name: "pause_sandbox",
    arguments: { sandbox_id: paused },
  });
  await createBusy(session);
  const { guardians, containers } = await findProcesses(person.data);
  expect(guardians).toHaveLength(1);
  expect(containers.length).toBeGreaterThanOrEqual(2);
  await killServer(session);
  await expectNothing(person.data);
  await expect.poll(async () => person.processes()).toEqual([]);
});
