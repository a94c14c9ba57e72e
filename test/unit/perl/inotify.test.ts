import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fields, frame, runPerl } from "../../support/daemon/perl-program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ID = Buffer.of(0, 0, 0, 5);
const ENOENT = 2;

async function ask(...requests: readonly Buffer[]): Promise<{ code: number | null; said: Buffer }> {
  const input = Buffer.concat(requests);
  const { code, stdout } = await runPerl("inotify", { words: [process.arch], input });
  return { code, said: stdout };
}

const numbers = (...values: readonly number[]) => {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, 4 * index);
  return bytes;
};

test("directories are watched and listed by kind, then all is told", async () => {
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "inner"));
  await writeFile(join(folder.path, "inner/file"), "x");
  const { code, said } = await ask(
    frame("a", ID, fields(folder.path, join(folder.path, "inner"), join(folder.path, "none"))),
  );
  const second = expect.any(Number);
  expect(code).toBe(0);
  const told = readListing(said);
  expect(told.reports).toEqual([
    { errno: 0, wd: 1, entries: [["d", second, "inner"]] },
    { errno: 0, wd: 2, entries: [["f", second, "file"]] },
    { errno: ENOENT, wd: 0, entries: [] },
  ]);
  expect(told.left).toEqual(frame("d", ID));
});

test.for([
  ["no path", frame("a", ID), Buffer.concat([frame("l", ID), frame("d", ID)])],
  ["a watch that is not there is ended", frame("r", numbers(77)), Buffer.alloc(0)],
] as const)("%s", async ([, request, said]) => {
  expect(await ask(request)).toEqual({ code: 0, said });
});

test.for([
  ["within a length", Buffer.of(0, 0)],
  ["within a request", Buffer.of(0, 0, 0, 9, 0x61, 0, 0)],
  ["at once", Buffer.alloc(0)],
] as const)("an end of the input %s ends it", async ([, input]) => {
  expect(await ask(input)).toEqual({ code: 0, said: Buffer.alloc(0) });
});

interface Report {
  errno: number;
  wd: number;
  entries: [flag: string, second: number, name: string][];
}

/** The first frame, a listing, and the bytes after it. */
function readListing(bytes: Buffer): { reports: Report[]; left: Buffer } {
  const end = 4 + bytes.readUInt32BE(0);
  expect(bytes.subarray(4, 9)).toEqual(Buffer.concat([Buffer.from("l"), ID]));
  const reports: Report[] = [];
  let at = 9;
  const next = () => bytes.readUInt32BE((at += 4) - 4);
  while (at < end) {
    const report: Report = { errno: next(), wd: next(), entries: [] };
    for (let left = next(); left > 0; left -= 1) {
      const flag = String.fromCharCode(bytes[at] ?? 0);
      at += 1;
      const [second, length] = [next(), next()];
      report.entries.push([flag, second, bytes.toString("utf8", at, at + length)]);
      at += length;
    }
    reports.push(report);
  }
  return { reports, left: bytes.subarray(end) };
}
