/** Files whose names are not UTF-8 are listed, and what is listed can be given back. */

import assert from "node:assert/strict";
import { lstat, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fromSystemBytes, toSystemBytes, toWirePath } from "../../src/common/file-names.ts";
import { startTestDaemon } from "../support/daemon/envd.ts";
import { makeName } from "../support/hostile/strange-names.ts";
import { startMcpWorld } from "../support/mcp/mcp-sandbox.ts";
import { createRandom } from "../support/random.ts";
import { tellCells } from "../support/run/cells.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const NAMES = 520;
const CONVERSIONS = 20_000;

function inFolder(folder: string, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${folder}/`), name]);
}

async function isThere(path: Buffer): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

test("E56 any bytes of a name survive the way through the daemon, and all it tells is UTF-8", (context) => {
  for (let index = 0; index < CONVERSIONS; index += 1) {
    const name = makeName(createRandom(SEED + index));
    const inside = fromSystemBytes(name);
    assert.deepEqual(toSystemBytes(inside), name, `FUZZ_SEED=${SEED + index}`);
    assert(toWirePath(inside).isWellFormed(), `FUZZ_SEED=${SEED + index}`);
  }
  expect(toWirePath(fromSystemBytes(Buffer.from([0x61, 0xff, 0x5c])))).toBe(String.raw`a\xff\x5c`);
  tellCells(context, CONVERSIONS);
});

test(
  "E56 each listed name leads to its file alone, and removes it alone",
  { timeout: 60_000 },
  async (context) => {
    process.stdout.write(`FUZZ_SEED=${SEED}\n`);
    await using daemon = await startTestDaemon();
    const folder = join(daemon.folder, "names");
    await mkdir(folder);
    const names = new Map<string, Buffer>();
    for (let index = 0; index < NAMES; index += 1) {
      const name = makeName(createRandom(SEED + index));
      // Where a name reads as another one's escape, the name as it is comes first: see below.
      const listed = toWirePath(fromSystemBytes(name));
      if (names.has(listed)) continue;
      names.set(listed, name);
      await writeFile(inFolder(folder, name), listed);
    }
    const { entries } = await daemon.files.listDir({ path: folder, depth: 1 });
    expect(entries.map((entry) => entry.name).toSorted()).toEqual([...names.keys()].toSorted());
    let kept = names.size;
    for (const [index, { path, name }] of entries.entries()) {
      const bytes = names.get(name);
      assert(bytes !== undefined);
      const { entry } = await daemon.files.stat({ path });
      assert.deepEqual([entry?.name, entry?.size], [name, BigInt(Buffer.byteLength(name))]);
      const reply = await daemon.http(`/files?path=${encodeURIComponent(path)}`);
      assert.deepEqual([reply.status, reply.text], [200, name]);
      const destination = join(folder, `moved-${index}`);
      if (index % 2 === 0) await daemon.files.move({ source: path, destination });
      else await daemon.files.remove({ path });
      assert(
        !(await isThere(inFolder(folder, bytes))),
        `FUZZ_SEED=${SEED}: ${name} is still there`,
      );
      kept -= index % 2;
    }
    expect(await readdir(folder)).toHaveLength(kept);
    tellCells(context, names.size);
  },
);

test("E56 of a name and the escape of another one the name as it is comes first", async () => {
  await using daemon = await startTestDaemon();
  const folder = join(daemon.folder, "both");
  await mkdir(folder);
  const [raw, literal] = [Buffer.from([0xff]), Buffer.from(String.raw`\xff`)];
  for (const name of [raw, literal]) await writeFile(inFolder(folder, name), "");
  const path = join(folder, String.raw`\xff`);
  const left = async () => [
    await isThere(inFolder(folder, raw)),
    await isThere(inFolder(folder, literal)),
  ];
  await daemon.files.remove({ path });
  expect(await left()).toEqual([true, false]);
  await daemon.files.remove({ path });
  expect(await left()).toEqual([false, false]);
});

test("E56 trees with such names are listed, watched, written to and removed", async () => {
  await using daemon = await startTestDaemon();
  const folder = join(daemon.folder, "tree");
  const deep = inFolder(folder, Buffer.from([0xe9, 0x2f, 0xfe, 0x2f, 0xc3]));
  await mkdir(deep, { recursive: true });
  await writeFile(Buffer.concat([deep, Buffer.from([0x2f, 0xff])]), "");
  const { entries } = await daemon.files.listDir({ path: folder, depth: 9 });
  const top = join(folder, String.raw`\xe9`);
  const [second, third] = [join(top, String.raw`\xfe`), join(top, String.raw`\xfe/\xc3`)];
  expect(entries.map(({ path }) => path)).toEqual([
    top,
    second,
    third,
    join(third, String.raw`\xff`),
  ]);
  const { watcherId } = await daemon.files.createWatcher({ path: second, recursive: true });
  await writeFile(Buffer.concat([deep, Buffer.from([0x2f, 0xfd])]), "");
  const look = async () =>
    (await daemon.files.getWatcherEvents({ watcherId })).events.map(({ name }) => name);
  await expect.poll(look).toContain(String.raw`\xc3/\xfd`);
  const reply = await daemon.http(`/files?path=${encodeURIComponent(join(third, "new"))}`, {
    method: "POST",
    headers: { "content-type": "application/octet-stream", "x-metadata-key": "value" },
    body: "content",
  });
  expect([reply.status, JSON.parse(reply.text)]).toEqual([
    200,
    [{ path: join(third, "new"), name: "new", type: "file", metadata: { key: "value" } }],
  ]);
  expect(await isThere(Buffer.concat([deep, Buffer.from("/new")]))).toBe(true);
  const missing = await daemon.files.stat({ path: join(third, "none") }).catch(String);
  expect(missing).toContain(String.raw`\xe9/\xfe/\xc3/none`);
  await daemon.files.remove({ path: top });
  expect(await readdir(folder)).toEqual([]);
});

test("E56 the tools list such names and remove them", async () => {
  await using world = await startMcpWorld();
  const sandbox = { sandbox_id: await world.createSandbox() };
  const folder = join(world.folder, "names");
  await mkdir(folder, { recursive: true });
  await writeFile(inFolder(folder, Buffer.from([0x61, 0xff])), "content");
  const { text } = await world.call("list_directory", { ...sandbox, path: folder });
  const quoted = /"(?:[^"\\]|\\.)*"/.exec(text)?.[0] ?? "";
  const path: unknown = JSON.parse(quoted);
  expect(path).toBe(join(folder, String.raw`a\xff`));
  expect((await world.call("read_file", { ...sandbox, path })).text).toContain("\ncontent\n");
  await world.call("remove_path", { ...sandbox, path });
  expect(await readdir(folder)).toEqual([]);
});
