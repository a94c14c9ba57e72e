/** Whose memory is saved: not that of a container whose runtime or daemon was replaced while it ran. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findSaveFault } from "../../../src/engine/oci/container-copies.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const REPLACED = "the sandbox runs on another runsc than the one that is installed now";
const OLDER = "the sandbox was started by another version of this service";

test("no memory is saved of a container that runs on a runtime which was replaced", async () => {
  await using folder = await makeTempFolder();
  const runtime = join(folder.path, "runsc");
  for (const path of [runtime, `${runtime}.new`]) await cp("/bin/cat", path);
  const child = spawn(runtime, { stdio: ["pipe", "pipe", "ignore"] });
  const exit = once(child, "exit");
  // It answers once it runs that program.
  child.stdin.write("x");
  await once(child.stdout, "data");
  const { pid = 0 } = child;
  const saver = { runtime, flags: [], keys: { home: folder.path, isOn: false }, daemon: "now" };
  const find = (isHalted = false) => findSaveFault(saver, { pid, isHalted, daemon: "now" });
  expect(find()).toBe(undefined);
  await rename(`${runtime}.new`, runtime);
  expect(find()).toBe(REPLACED);
  // A halted one has no process: the number may be that of another one.
  expect(find(true)).toBe(undefined);
  child.stdin.end();
  await exit;
  expect(find()).toBe(undefined);
  expect(findSaveFault("no runtime saves memory", { pid, isHalted: false, daemon: "now" })).toBe(
    "no runtime saves memory",
  );
});

test("no memory is saved of a container with the daemon of another service", () => {
  const keys = { home: "/h", isOn: false };
  const saver = { runtime: process.execPath, flags: [], keys, daemon: "now" };
  const find = (isHalted: boolean, daemon: string) =>
    findSaveFault(saver, { pid: process.pid, isHalted, daemon });
  expect([find(false, "now"), find(false, "before")]).toEqual([undefined, OLDER]);
  // What was saved of it is on the disk already.
  expect(find(true, "before")).toBe(undefined);
});
