/** A server that is killed between any two writes: the next one goes on behind whole bytes. */

import { copyFile, mkdir, readdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { headName } from "../../../src/spool/folders.ts";
import { measureSpool } from "../../../src/spool/reader.ts";
import { HEADER_BYTES } from "../../../src/spool/segment.ts";
import {
  createSpool,
  makeSpoolDisk,
  readSpool,
  SPOOL_KEY,
} from "../../support/daemon/spool-disk.ts";

const LIMITS = { fileBytes: 64, headBytes: 200, tailBytes: 10_000 };
const DEAD_OWNER = "00000000000000aa";

test("whatever of the newest file is on the disk, the next owner continues behind it", async () => {
  await using disk = await makeSpoolDisk();
  const writer = createSpool(disk.start(), LIMITS);
  // Each is a file of its own.
  for (const text of ["first ".repeat(9), "second ".repeat(9), "0123456789"]) {
    await writer.append("stdout", Buffer.from(text));
    await writer.flush();
  }
  await writer.close(undefined);
  const names = await readdir(writer.place.folder);
  const newest = names.toSorted().at(-1) ?? "";
  const before = "first ".repeat(9) + "second ".repeat(9);
  const { length } = await readFile(join(writer.place.folder, newest));
  for (let size = 0; size <= length; size += 1) {
    const dead = join(disk.root, "i1", `p_7.${disk.nowMs + size + 1}.${DEAD_OWNER}`);
    await mkdir(dead);
    for (const name of names) await copyFile(join(writer.place.folder, name), join(dead, name));
    await truncate(join(dead, newest), size);
    const whole = before + "0123456789".slice(0, Math.max(0, size - HEADER_BYTES - 4));
    expect((await measureSpool(dead)).end).toBe(whole.length);
    const spools = disk.start();
    const found = await spools.find(SPOOL_KEY);
    const taken = found && (await spools.takeOver(found.place, LIMITS));
    await taken?.writer.append("stderr", Buffer.from("after"));
    await taken?.writer.close({ endedAtMs: disk.nowMs });
    const folder = taken?.writer.place.folder ?? "";
    expect([(await readSpool(folder)).toString(), taken?.writer.failure]).toEqual([
      `${whole}after`,
      undefined,
    ]);
    expect((await measureSpool(folder)).written).toMatchObject({ stdout: whole.length, stderr: 5 });
  }
});

test("a kill between the mark of the gap and the removal behind it leaves one gap", async () => {
  await using disk = await makeSpoolDisk();
  const first = disk.start();
  const writer = createSpool(first, { ...LIMITS, tailBytes: 1e6 });
  const texts = Array.from({ length: 12 }, (_, index) =>
    String.fromCharCode(97 + index).repeat(60),
  );
  for (const text of texts.slice(0, 6)) {
    await writer.append("stdout", Buffer.from(text));
    await writer.flush();
  }
  await writer.close(undefined);
  await first[Symbol.asyncDispose]();
  await writeFile(join(writer.place.folder, headName(120)), "");
  const second = disk.start();
  const taken = await second.takeOver(writer.place, { ...LIMITS, headBytes: 1e6, tailBytes: 300 });
  for (const text of texts.slice(6)) {
    await taken?.writer.append("stdout", Buffer.from(text));
    await taken?.writer.flush();
  }
  await taken?.writer.close(undefined);
  const folder = taken?.writer.place.folder ?? "";
  const heads = (await readdir(folder)).filter((name) => name.startsWith("head-"));
  const { gap, end } = await measureSpool(folder);
  expect([heads, gap.start, end]).toEqual([[headName(120)], 120, 720]);
  const whole = texts.join("");
  expect((await readSpool(folder)).toString()).toBe(
    whole.slice(0, gap.start) + whole.slice(gap.end),
  );
  expect(gap.end).toBeGreaterThan(gap.start);
});
