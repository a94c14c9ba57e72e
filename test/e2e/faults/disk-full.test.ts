/** The disk of the home becomes full in the middle of things: each says so, and nothing is half there. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { StepName } from "../../../src/common/steps.ts";
import { fateOf, KEPT } from "../../support/faults/fault-cases.ts";
import { make } from "../../support/faults/fault-home.ts";
import {
  LEFT_BYTES,
  openSmallDiskStage,
  type SmallDiskStage,
} from "../../support/faults/small-disk-stage.ts";

const DISK_FULL = 507;
/** More than is left of the disk, less than a sandbox may write. */
const LARGE = "x".repeat(48 * 1024 * 1024);

let stage: SmallDiskStage;

beforeAll(async () => {
  stage = await openSmallDiskStage(["--disk-mb", "96"]);
});

afterEach(() => stage.clear());

afterAll(() => stage[Symbol.asyncDispose]());

/** The last that the service said of its disk. */
function lastWord(): string | undefined {
  return stage.home
    .stderr()
    .match(/disk (?:is nearly full|has room again)/g)
    ?.at(-1);
}

async function makeLarge(): Promise<string> {
  const id = await make(stage.home);
  await stage.home.enter(id, KEPT.path, KEPT.text);
  await stage.home.enter(id, "/files?path=/home/user/large.txt", LARGE);
  return id;
}

const COPIES: readonly { readonly path: string; readonly body: unknown }[] = [
  { path: "/snapshots", body: { name: "shot" } },
  { path: "/fork", body: { count: 1 } },
];

test.for(COPIES)("no space for the copy of $path", async ({ path, body }) => {
  const { home, disk } = stage;
  await expect.poll(lastWord).not.toBe("disk is nearly full");
  const id = await makeLarge();
  await home.plan({ step: "layer.begun", action: "hold" });
  const copy = home.call("POST", `/sandboxes/${id}${path}`, body);
  await home.hit();
  await disk.fill(LEFT_BYTES);
  // What the sandbox wrote before must not be taken for writing on a full disk: that would pause it.
  await expect.poll(lastWord).toBe("disk is nearly full");
  await home.release();
  expect(await copy).toMatchObject({ status: DISK_FULL });
  expect(await home.enter(id, KEPT.path)).toMatchObject({ body: KEPT.text });
  await disk.free();
  await stage.expectTruth();
  expect(await home.call("POST", `/sandboxes/${id}${path}`, body)).toMatchObject({ status: 201 });
});

const STARTS: readonly StepName[] = ["container.ids", "launch.prepared", "create.healthy"];

test.for(STARTS)("no space from %s of a start on", async (step) => {
  const { home, disk } = stage;
  await home.plan({ step, action: "hold" });
  const create = home.call("POST", "/sandboxes", { templateID: "base", secure: false });
  await home.hit();
  await disk.fill(0);
  await home.release();
  // What is written already may be enough for all that is still to be written.
  expect([201, DISK_FULL]).toContain((await create)?.status);
  await disk.free();
  await stage.expectTruth();
  expect(await home.call("POST", "/sandboxes", { templateID: "base" })).toMatchObject({
    status: 201,
  });
});

test("on a full disk nothing begins, and everything that runs can be paused, woken and ended", async () => {
  const { home, disk } = stage;
  const [frozen, halted, ended] = [await make(home), await make(home), await make(home)];
  await home.enter(halted, KEPT.path, KEPT.text);
  await disk.fill(0);
  for (const path of ["", `/${frozen}/snapshots`, `/${frozen}/fork`]) {
    const answer = await home.call("POST", `/sandboxes${path}`, { templateID: "base" });
    expect(answer).toMatchObject({ status: DISK_FULL });
  }
  await home.call("POST", `/sandboxes/${halted}/pause`, { memory: false });
  await home.call("POST", `/sandboxes/${frozen}/pause`);
  await home.call("DELETE", `/sandboxes/${ended}`);
  expect(await fateOf(home, ended)).toBe("gone");
  await disk.free();
  await stage.expectTruth();
  for (const id of [frozen, halted]) {
    await home.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 });
    expect(await fateOf(home, id)).toBe("running");
  }
  expect(await home.enter(halted, KEPT.path)).toMatchObject({ body: KEPT.text });
});
