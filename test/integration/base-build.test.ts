/** The build of the template `base` by a stand-in of its builder: what it leaves, and its name. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findNewest } from "../../src/commands/templates/base-layers.ts";
import { removeDeadLayers } from "../../src/engine/storage/layers.ts";
import { BASE_RECIPE } from "../../src/engine/templates/base.ts";
import { openFakeBuilder, type FakeBuilder } from "../support/engine/fake-builder.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const RUN = join(import.meta.dirname, "../support/engine/build-base.ts");
const LIMIT = { timeout: 60_000 };

function build(builder: FakeBuilder, home: string) {
  const [program, ...words] = builder.program;
  const command = [...words.slice(0, -1), RUN, home];
  const child = spawn(program, command, { stdio: "ignore" });
  return { child, exited: once(child, "exit") };
}

const fail = () => expect.unreachable();

test("a failed build leaves nothing, also in the system's temporary directory", LIMIT, async () => {
  await using builder = await openFakeBuilder(0);
  await using home = await makeTempFolder();
  await builder.fail();
  expect(await build(builder, home.path).exited).toEqual([1, null]);
  expect(await builder.begun()).toBe(1);
  expect(await builder.left()).toEqual([]);
  expect(await readdir(join(home.path, "layers"))).toEqual([]);
});

test("what a killed build leaves goes with the next clean-up of the home", LIMIT, async () => {
  await using builder = await openFakeBuilder(0);
  await using home = await makeTempFolder();
  await builder.hold();
  const { child, exited } = build(builder, home.path);
  await expect.poll(() => builder.begun(), { timeout: 20_000 }).toBe(1);
  child.kill("SIGKILL");
  await exited;
  expect(await builder.left()).toEqual([expect.stringContaining(join(home.path, "layers"))]);
  await expect
    .poll(async () => (await removeDeadLayers(home.path, fail)).length, { timeout: 20_000 })
    .toBe(1);
  expect(await builder.left()).toEqual([]);
});

test("a new base is the newest one, also after the clock was set back", LIMIT, async () => {
  await using builder = await openFakeBuilder(0);
  await using home = await makeTempFolder();
  const ahead = Date.now() + 86_400_000;
  const root = join(home.path, "layers", `base-${ahead}-00000000`, "root");
  for (const name of ["etc", "usr/bin", "usr/lib"]) {
    await mkdir(join(root, name), { recursive: true });
  }
  await writeFile(join(root, "etc/passwd"), "");
  expect(await build(builder, home.path).exited).toEqual([0, null]);
  const newest = await findNewest(home.path, "base");
  expect(newest).toBe(`base-${ahead + 1}-${BASE_RECIPE}`);
  const layer = join(home.path, "layers", newest ?? "");
  expect(await readdir(layer)).toEqual(["root"]);
  // Every account installs into it.
  const { mode } = await stat(join(layer, "root/usr/local/lib/node_modules"));
  expect(mode & 0o777).toBe(0o777);
});
