/** What processes hold together while several are started at once. */

import { create } from "@bufbuild/protobuf";
import { afterAll, expect, test } from "vitest";
import { createDaemonLog } from "../../../src/envd/log.ts";
import { createProcessTable, type ProcessTable } from "../../../src/envd/process/running.ts";
import { ProcessConfigSchema } from "../../../src/gen/process/process_pb.ts";
import { launchOf, makeSpawner } from "../../support/daemon/spawner.ts";

/** Eight of such commands fit into what all may hold. */
const COMMAND_BYTES = 1_000_000;

const spawner = makeSpawner();
afterAll(() => spawner[Symbol.dispose]());

function begin(table: ProcessTable, cwd = "/") {
  return table.start({
    config: create(ProcessConfigSchema, { cmd: "sleep", args: ["x".repeat(COMMAND_BYTES)] }),
    launch: launchOf(["sleep", "60"], { cwd }),
    tag: undefined,
    hasInput: false,
    spawner,
    codec: "binary",
    terminal: undefined,
    timeoutMs: undefined,
    signal: new AbortController().signal,
    operationId: "1",
  });
}

async function endAll(table: ProcessTable): Promise<void> {
  const running = table.list();
  table[Symbol.dispose]();
  await Promise.all(running.map(async ({ ended }) => ended));
}

test("commands of processes that start at once are counted before any of them runs", async () => {
  const table = createProcessTable(createDaemonLog());
  const starts = Array.from({ length: 12 }, async () => begin(table));
  const results = await Promise.allSettled(starts);
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(8);
  await endAll(table);
});

test("a command that could not be started is not counted", async () => {
  const table = createProcessTable(createDaemonLog());
  for (let count = 0; count < 12; count += 1) {
    await expect(begin(table, "/none")).rejects.toMatchObject({ code: "invalid_argument" });
  }
  await begin(table);
  await endAll(table);
});
