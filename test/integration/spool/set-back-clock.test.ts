/** A clock that is set back, after which a process has the number of one that ended before. */

import { expect, test } from "vitest";
import { createSpool, makeSpoolDisk, SPOOL_KEY } from "../../support/daemon/spool-disk.ts";

const LIMITS = { fileBytes: 1_000, headBytes: 10_000, tailBytes: 10_000 };
const HOUR_MS = 3_600_000;

test("other servers find the process that runs, and not the one that ended", async () => {
  await using disk = await makeSpoolDisk();
  const [first, second] = [disk.start(), disk.start()];
  const ended = createSpool(first, LIMITS);
  await ended.append("stdout", Buffer.from("of the one that ended"));
  await ended.close({ endedAtMs: disk.nowMs });
  disk.nowMs -= HOUR_MS;
  const running = createSpool(first, LIMITS);
  await running.append("stdout", Buffer.from("of the one that runs"));
  await running.flush();
  expect(await second.find(SPOOL_KEY)).toMatchObject({ place: running.place, isLive: true });
  await running.close({ endedAtMs: disk.nowMs });
});
