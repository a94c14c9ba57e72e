/** The time limit of a process beside that of the stream of its starter. */

import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { afterAll, expect, test } from "vitest";
import { RunningProcess } from "../../../src/envd/process/child.ts";
import { createOutputBudget } from "../../../src/envd/process/output-budget.ts";
import { ProcessConfigSchema } from "../../../src/gen/process/process_pb.ts";
import { launchOf, makeSpawner, parentOf } from "../../support/daemon/spawner.ts";

const LIMIT_MS = 20;

const spawner = makeSpawner();
afterAll(() => spawner[Symbol.dispose]());

async function startSleep(signal: AbortSignal, timeoutMs = LIMIT_MS): Promise<RunningProcess> {
  const { running } = await RunningProcess.start({
    config: create(ProcessConfigSchema, { cmd: "sleep", args: ["60"] }),
    launch: launchOf(["sleep", "60"]),
    tag: undefined,
    operationId: "",
    hasInput: false,
    spawner,
    codec: "json",
    budget: createOutputBudget(),
    terminal: undefined,
    timeoutMs,
    signal,
  });
  return running;
}

test("a process is not killed before the stream of its starter met the limit", async () => {
  const stream = new AbortController();
  const running = await startSleep(stream.signal);
  await delay(10 * LIMIT_MS);
  expect(() => process.kill(running.pid, 0)).not.toThrow();
  stream.abort();
  expect(await running.ended).toMatchObject({ exitCode: -1 });
});

test("a process whose starter left is killed at its limit", async () => {
  const stream = new AbortController();
  const running = await startSleep(stream.signal);
  stream.abort();
  expect(await running.ended).toMatchObject({ exitCode: -1 });
});

test("the limit counts from the call, however long the start has taken", async () => {
  const limitMs = 2_000;
  const stopped = await parentOf(spawner);
  process.kill(stopped, "SIGSTOP");
  const starting = startSleep(AbortSignal.timeout(limitMs), limitMs);
  await delay(limitMs);
  process.kill(stopped, "SIGCONT");
  const running = await starting;
  const startedAtMs = performance.now();
  await running.ended;
  expect(performance.now() - startedAtMs).toBeLessThan(limitMs / 2);
});
