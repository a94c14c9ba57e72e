/**
 * The OCI runtime fails, hangs or takes the service along: create, boot and fork, which alone call
 * it, say so in time, and nothing is left. What hangs takes its deadline of 30 s each time, so only
 * `npm run faults` waits for it.
 */

import { readdir } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  makeBrokenRuntime,
  type BrokenRuntime,
  type RuntimeMood,
} from "../../support/faults/broken-runtime.ts";
import { fateOf, KEPT } from "../../support/faults/fault-cases.ts";
import { make } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { NO_POOL, openFaultStage, type FaultStage } from "../../support/faults/fault-stage.ts";

const { isWhole } = faultRun();
const FAILURES: readonly { readonly mood: RuntimeMood; readonly status: number }[] = [
  { mood: "fail", status: 503 },
  ...(isWhole
    ? ([
        { mood: "hang", status: 504 },
        { mood: "late", status: 504 },
      ] as const)
    : []),
];

let runtime: BrokenRuntime;
let stage: FaultStage;

beforeAll(async () => {
  runtime = await makeBrokenRuntime();
  stage = await openFaultStage([...NO_POOL, "--runtime", runtime.path]);
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await runtime[Symbol.asyncDispose]();
});

test.for(FAILURES)("a runtime that is told to $mood", async ({ mood, status }) => {
  const { home } = stage;
  const source = await make(home);
  const halted = await make(home);
  await home.enter(halted, KEPT.path, KEPT.text);
  await home.call("POST", `/sandboxes/${halted}/pause`, { memory: false });
  await runtime.set(mood);
  const [create, boot, fork] = await Promise.all([
    home.call("POST", "/sandboxes", { templateID: "base" }),
    home.call("POST", `/sandboxes/${halted}/connect`, { timeout: 60 }),
    home.call("POST", `/sandboxes/${source}/fork`, { count: 1 }),
  ]);
  await runtime.set("work");
  expect(create?.status).toBe(status);
  expect(boot?.status).toBe(status);
  expect(fork).toMatchObject({ status: 201, body: [{ error: { code: status } }] });
  expect(await fateOf(home, halted)).toBe("paused");
  expect(await readdir("/tmp")).not.toContain(runtime.copyName);
  await stage.expectTruth();
  await home.call("POST", `/sandboxes/${halted}/connect`, { timeout: 60 });
  expect(await home.enter(halted, KEPT.path)).toMatchObject({ body: KEPT.text });
  await stage.clear();
});

test.for<RuntimeMood>(["kill first", "kill last"])(
  "a service that dies while its runtime is told to %s",
  async (mood) => {
    const { home } = stage;
    const halted = await make(home);
    await home.enter(halted, KEPT.path, KEPT.text);
    await home.call("POST", `/sandboxes/${halted}/pause`, { memory: false });
    for (const path of ["/sandboxes", `/sandboxes/${halted}/connect`]) {
      await runtime.set(mood);
      expect(await home.call("POST", path, { templateID: "base", timeout: 60 })).toBe(undefined);
      await home.ended();
      await runtime.set("work");
      await home.start();
      await stage.expectTruth();
      expect(await fateOf(home, halted)).toBe("paused");
    }
    await home.call("POST", `/sandboxes/${halted}/connect`, { timeout: 60 });
    expect(await home.enter(halted, KEPT.path)).toMatchObject({ body: KEPT.text });
    await stage.clear();
  },
);
