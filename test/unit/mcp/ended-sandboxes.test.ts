/** Sandboxes that ended by themselves: their logs are no longer listed, and go in the end. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { forgetEndedSandboxes } from "../../../src/mcp/ended-sandboxes.ts";
import { SandboxLogs } from "../../../src/output/logs.ts";
import { startSpools } from "../../../src/spool/spools.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MINUTE_MS = 60_000;

test("what ended by itself leaves the list, what lives or was used just now stays", async () => {
  await using folder = await makeTempFolder();
  const root = join(folder.path, "spool");
  const clock = createFakeClock();
  const log = createSilentLog();
  await using spools = startSpools({ root, clock, log });
  await using logs = new SandboxLogs({ clock, spools, log });
  const end = new AbortController();
  const asked: string[] = [];
  const looking = forgetEndedSandboxes({
    clock,
    logs,
    get: async (sandboxId) => {
      asked.push(sandboxId);
      if (sandboxId === "igone") throw new SandboxError("not_found", "no such sandbox");
      if (sandboxId === "iunsure") throw new SandboxError("unavailable", "no reply");
    },
    forget: (sandboxId) => logs.close(sandboxId),
    signal: end.signal,
  });
  const bytes = Buffer.from("secret\n");
  for (const id of ["igone", "ilives", "iunsure"])
    logs.output(id, "p_1", { stream: "stdout", bytes });
  await expect.poll(async () => (await readdir(root)).toSorted()).toContain("igone");
  await clock.advance(4 * MINUTE_MS);
  logs.note("iused", "p_1", "started");
  await clock.advance(2 * MINUTE_MS);
  const listed = () =>
    logs
      .list()
      .map(({ sandboxId }) => sandboxId)
      .toSorted();
  expect([asked.toSorted(), listed()]).toEqual([
    ["igone", "ilives", "iunsure"],
    ["ilives", "iunsure", "iused"],
  ]);
  await clock.advance(20 * MINUTE_MS);
  expect(await logs.read("igone")).toBeUndefined();
  end.abort();
  await looking;
});
