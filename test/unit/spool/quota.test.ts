/** Space for outputs: what counts is what they have written, not what they might. */

import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Entry } from "../../../src/spool/folders.ts";
import { createQuota } from "../../../src/spool/quota.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const FILE_BYTES = 1_000_000;
const FILES = 8;
const LIMITS = { sandboxBytes: FILES * FILE_BYTES, homeBytes: 100 * FILE_BYTES };
/** No other survey is made within ten times as long: that is longer than a loaded machine pauses a test. */
const SURVEY_MS = 200;

function placeOf(pid: number) {
  const name = `p_${pid}`;
  return { sandboxId: "i1", name, createdAtMs: 1, owner: "a", folder: `/none/${name}` };
}

async function open(path: string, entries: readonly Entry[]) {
  const quota = createQuota(
    path,
    async () => {
      await delay(SURVEY_MS);
      return [...entries];
    },
    LIMITS,
  );
  for (let pid = 1; pid <= FILES; pid += 1) {
    expect(await quota.requestSpace(placeOf(pid), FILE_BYTES)).toBe("free");
  }
  return quota;
}

test("a further file is granted where those before it are short", async () => {
  await using folder = await makeTempFolder();
  const quota = await open(folder.path, []);
  expect(await quota.requestSpace(placeOf(99), FILE_BYTES)).toBe("free");
});

test("where they are full there is no more space, without a wait for it", async () => {
  await using folder = await makeTempFolder();
  const quota = await open(folder.path, []);
  for (let pid = 1; pid <= FILES; pid += 1) quota.noteWritten(placeOf(pid), FILE_BYTES);
  const wait = delay((SURVEY_MS * 10) / 2, "late");
  const granted = quota.requestSpace(placeOf(99), FILE_BYTES);
  expect(await Promise.race([granted, wait])).toBe("tight");
});
