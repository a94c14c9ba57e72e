/** A server that is stopped for a while, as by a terminal or with its machine. */

import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startSpools } from "../../../src/spool/spools.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MIB = 1024 * 1024;
/** Longer than a disk may take. */
const STOP_MS = 5_500;

test("a write that is under way while the server is stopped is none of a disk that fails", async () => {
  await using folder = await makeTempFolder();
  const options = { root: folder.path, clock: createSystemClock(), log: createSilentLog() };
  await using spools = startSpools(options);
  const limits = { fileBytes: MIB, headBytes: MIB, tailBytes: MIB };
  const writer = spools.create({ sandboxId: "i1", name: "p_7" }, limits);
  await writer?.append("stdout", Buffer.from("one"));
  await writer?.flush();
  await writer?.append("stdout", Buffer.from("two"));
  const flushed = writer?.flush();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STOP_MS);
  await flushed;
  expect({ end: writer?.end, failure: writer?.failure }).toEqual({ end: 6, failure: undefined });
  await writer?.close({ endedAtMs: Date.now() });
});
