/** The time limit of a process beside that of the stream of its starter. */

import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { RunningProcess } from "../../../src/envd/process/child.ts";
import { createOutputBudget } from "../../../src/envd/process/output-budget.ts";
import { createPipeSource } from "../../../src/envd/process/pipes.ts";
import { ProcessConfigSchema } from "../../../src/gen/process/process_pb.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";

const LIMIT_MS = 20;

async function startSleep(signal: AbortSignal): Promise<RunningProcess> {
  const { running } = await RunningProcess.start({
    config: create(ProcessConfigSchema, { cmd: "sleep", args: ["60"] }),
    launch: {
      file: "/bin/sleep",
      args: ["60"],
      cwd: "/",
      env: {},
      ids: undefined,
      words: ["sleep", "60"],
      identity: undefined,
    },
    tag: undefined,
    operationId: "",
    hasInput: false,
    pipes: createPipeSource(["perl", "-f", `${PERL_DIRECTORY}/make-pipes.pl`]),
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
