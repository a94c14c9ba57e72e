/** What a cut run of tests left is taken away by the mark of its folder, and nothing of another. */

import { access } from "node:fs/promises";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { findMarked } from "../support/census.ts";
import { openTestHome } from "../support/home.ts";
import { openOrdinaryUser } from "../support/ordinary-user.ts";
import { startProgram } from "../support/program.ts";
import { removeRun } from "../support/run/remove-run.ts";
import { startServe, type TestServe } from "../support/serve.ts";

const NOTHING = { processes: [], containers: [], mounts: [], loopDevices: [] };

function optionsOf({ apiKey, url }: TestServe) {
  return { apiKey, apiUrl: url, sandboxUrl: url };
}

test("sandboxes, mounts and accounts of a cut run go with its folder, others stay", async () => {
  await using other = await startServe();
  const kept = await Sandbox.create("base", optionsOf(other));
  // Its end is not come to, as in a run that is cut.
  const cut = await startServe();
  await Sandbox.create("base", optionsOf(cut));
  cut.program.child.kill("SIGKILL");
  await cut.program.exited();
  const left = await findMarked(cut.home);
  expect(left.containers.length).toBeGreaterThan(0);
  expect(left.mounts.length).toBeGreaterThan(0);
  const told = await removeRun(cut.home);
  expect(told).toEqual(expect.arrayContaining(left.containers.map(({ directory }) => directory)));
  expect(await findMarked(cut.home)).toEqual(NOTHING);
  await expect(access(cut.home)).rejects.toThrow("ENOENT");
  expect(await kept.isRunning()).toBe(true);
  await kept.kill();
});

test("so does the account of an ordinary user, with its processes", async () => {
  const person = await openOrdinaryUser({ ids: true });
  const folder = person.home;
  const program = startProgram(["stdio"], { HOME: person.data }, person.program);
  await expect.poll(async () => person.processes()).not.toEqual([]);
  await removeRun(folder);
  expect(await program.exited()).toBe("SIGKILL");
  expect(await person.processes()).toEqual([]);
  await expect(access(folder)).rejects.toThrow("ENOENT");
  await expect(person[Symbol.asyncDispose]()).rejects.toThrow(/does not exist/);
});

test("a folder of a run is that of its process", async () => {
  await using home = await openTestHome();
  expect(home.path).toMatch(/\/r-\w+\/smcp-\w+$/);
});
