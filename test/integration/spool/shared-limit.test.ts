/** The limit of a sandbox, which the outputs of many processes that still run share. */

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { measureSpool, readPieces } from "../../../src/spool/reader.ts";
import { startSpools, type Spools } from "../../../src/spool/spools.ts";
import type { SpoolWriter } from "../../../src/spool/writer.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MIB = 1024 * 1024;
const FILE_BYTES = MIB / 4;
const LIMITS = { fileBytes: FILE_BYTES, headBytes: 4 * MIB, tailBytes: 12 * MIB };
const SANDBOX_BYTES = 8 * MIB;
const PROCESSES = 12;
/** Each process has the file in which its first part ends, and two newer ones. */
const MOST_BYTES = SANDBOX_BYTES + PROCESSES * 3 * FILE_BYTES;

async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true });
  const facts = await Promise.all(names.map((name) => stat(join(folder, name))));
  return facts.filter((each) => each.isFile()).reduce((sum, { size }) => sum + size, 0);
}

function begin(spools: Spools, pid: number): SpoolWriter {
  const writer = spools.create({ sandboxId: "i1", name: `p_${pid}` }, LIMITS);
  if (writer === undefined) throw new Error("no spool");
  return writer;
}

test("the first parts of many outputs end where the sandbox has no more space", async () => {
  await using folder = await makeTempFolder();
  const limits = { sandboxBytes: SANDBOX_BYTES, homeBytes: 100 * MIB };
  const options = { clock: createSystemClock(), log: createSilentLog(), limits };
  const { path: root } = folder;
  await using spools = startSpools({ root, ...options });
  const writers = Array.from({ length: PROCESSES }, (_, index) => begin(spools, index + 1));
  const chunk = Buffer.alloc(64 * 1024, "x");
  for (let sent = 0; sent < 4 * MIB; sent += chunk.length) {
    for (const writer of writers) await writer.append("stdout", chunk);
  }
  for (const writer of writers) await writer.flush();
  expect(await sizeOf(root)).toBeLessThan(MOST_BYTES);
  const [first] = writers;
  const place = first?.place.folder ?? "";
  const extent = await measureSpool(place);
  expect(extent).toMatchObject({ end: 4 * MIB, gap: first?.gap });
  const beginning = await readPieces(place, 0, 4 * MIB);
  const total = beginning.reduce((sum, { bytes }) => sum + bytes.length, 0);
  expect(total).toBe(extent.end - (extent.gap.end - extent.gap.start));
  expect(beginning[0]?.start).toBe(0);
  for (const writer of writers) await writer.close({ endedAtMs: Date.now() });
});
