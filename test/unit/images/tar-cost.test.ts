/** What an archive costs: time and memory follow its bytes, whatever its headers say. */

import { expect, test } from "vitest";
import { createByteReader } from "../../../src/images/byte-reader.ts";
import { readTar, type TarEntry } from "../../../src/images/tar.ts";
import { heldBytes } from "../../support/collect-now.ts";
import { paxEntry, tarEntry, tarHeader } from "../../support/images/tar-writer.ts";

const CHUNK_BYTES = 256 * 1024;
const MEBIBYTE = 1024 * 1024;

/** The paths of an archive, and how many of its bytes were asked for until its end or refusal. */
async function readPaths(archive: Iterable<Buffer>) {
  const taken = { bytes: 0, paths: [] as string[], fault: "" };
  async function* counted(): AsyncGenerator<Buffer> {
    for (const chunk of archive) {
      taken.bytes += chunk.length;
      yield chunk;
    }
  }
  const reader = createByteReader(counted());
  try {
    await readTar(reader, async ({ path, dataBytes }: TarEntry) => {
      taken.paths.push(path);
      await reader.skip(dataBytes);
    });
  } catch (error) {
    taken.fault = String(error);
  }
  return taken;
}

test("a name is held without what is behind its end", async () => {
  const path = "a-directory/of-some-name";
  const data = Buffer.alloc(64 * 1024);
  data.write(path, "latin1");
  // The same bytes each time: only what is made of them can be held.
  const name = tarEntry({ path: "name", type: "L", data, form: "gnu" });
  const entry = Buffer.concat([name, tarEntry({ path: "x" })]);
  const before = heldBytes();
  const { paths } = await readPaths(Array<Buffer>(500).fill(entry));
  const held = heldBytes() - before;
  expect(new Set(paths)).toEqual(new Set([path]));
  // Half of what the headers have.
  expect(held).toBeLessThan(16 * MEBIBYTE);
});

test("many headers before one entry take linear time", async () => {
  const header = paxEntry(Array.from({ length: 32 }, () => ["a", ""] as const));
  const headers = Array<Buffer>(2_000).fill(header);
  const before = process.threadCpuUsage();
  const { paths } = await readPaths([...headers, tarEntry({ path: "x" })]);
  expect(paths).toEqual(["x"]);
  const { user, system } = process.threadCpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(500);
});

test("records before one entry have a bound together", async () => {
  const header = paxEntry(Array.from({ length: 40_000 }, () => ["a", ""] as const));
  const entry = tarEntry({ path: "x" });
  expect((await readPaths([header, entry])).paths).toEqual(["x"]);
  expect((await readPaths([header, header, entry])).fault).toMatch(/too many records/);
});

test("the map of a sparse file ends before it fills the memory", async () => {
  function* archive(): Generator<Buffer> {
    const pax = [
      ["GNU.sparse.major", "1"],
      ["GNU.sparse.minor", "0"],
      ["GNU.sparse.realsize", "1000"],
    ] as const;
    const size = 64 * MEBIBYTE;
    yield Buffer.concat([paxEntry(pax), tarHeader({ path: "s", size })]);
    for (let left = size; left > 0; left -= CHUNK_BYTES) yield Buffer.alloc(CHUNK_BYTES, "1");
  }
  const { bytes, fault } = await readPaths(archive());
  expect(fault).toMatch(/map of a sparse file is too long/);
  expect(bytes).toBeLessThan(4 * MEBIBYTE);
});
