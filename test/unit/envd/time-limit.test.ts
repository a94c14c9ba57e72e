/** The time limit of a process beside that of the stream of its starter. */

import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { afterAll, expect, test } from "vitest";
import { RunningProcess } from "../../../src/envd/process/child.ts";
import { createOutputBudget } from "../../../src/envd/process/output-budget.ts";
import { ProcessConfigSchema } from "../../../src/gen/process/process_pb.ts";
import { launchOf, makeSpawner } from "../../support/daemon/spawner.ts";

const LIMIT_MS = 20;

const spawner = makeSpawner();
afterAll(() => spawner[Symbol.dispose]());

async function startSleep(signal: AbortSignal): Promise<RunningProcess> {
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
    timeoutMs: LIMIT_MS,
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
  const running = await startSleep(AbortSignal.abort());
  expect(await running.ended).toMatchObject({ exitCode: -1 });
});
