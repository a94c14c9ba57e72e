/** The end of a server whose first output has just begun a look at all spools of its folder. */

import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startSpools } from "../../../src/spool/spools.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LIMITS = { fileBytes: 1_000_000, headBytes: 1_000_000, tailBytes: 1_000_000 };

test("it waits for that look, and begins no other one", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  await using home = await makeTempFolder();
  let looks = 0;
  const clock = { now: () => Date.now(), elapsed: () => (looks += 1) };
  const root = join(home.path, "local");
  const spools = startSpools({ root, clock, log: createSilentLog() });
  const writer = spools.create({ sandboxId: "i1", name: "p_7" }, LIMITS);
  // The lease, with which looks begin, is on its way.
  const announced = writer?.announced;
  await spools[Symbol.asyncDispose]();
  // The ages are asked for once all spools have been looked at.
  expect([looks, vi.getTimerCount()]).toEqual([1, 0]);
  await announced;
});
