/** Archives that are being sent: how many bytes of one team, and that no other one ends them. */

import { readdir, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { SandboxError } from "../../../../src/common/errors.ts";
import { openUploads } from "../../../../src/sandboxes/template-builds/uploads.ts";
import { makeTempFolder } from "../../../support/temp-folder.ts";

const GIB = 1024 ** 3;

function open(directory: string, requireSpaceLeft = async (): Promise<void> => undefined) {
  const copies = { requireSpaceLeft };
  return openUploads({ directory, owner: "own", key: "ab".repeat(32), copies, now: Date.now });
}

/** Whether a promise is still open after everything that is ready has run. */
async function waits(promise: Promise<unknown>): Promise<boolean> {
  const nothing = Symbol("nothing");
  return (await Promise.race([promise, setImmediate(nothing)])) === nothing;
}

test("uploads of a team have a bound of bytes together, and the next one waits for its turn", async () => {
  await using folder = await makeTempFolder();
  const uploads = await open(folder.path);
  const bodies = [new PassThrough(), new PassThrough()];
  const sent = bodies.map((body, index) =>
    uploads.receive(uploads.sign("a", `a${index}`), String(4 * GIB), { body }),
  );
  const next = uploads.receive(uploads.sign("a", "aa"), "1", { body: Readable.from(["x"]) });
  await uploads.receive(uploads.sign("b", "aa"), "1", { body: Readable.from(["x"]) });
  expect(await waits(next)).toBe(true);
  for (const body of bodies) body.destroy();
  await Promise.allSettled(sent);
  await next;
  expect(await uploads.find("a", "aa")).toBeDefined();
});

test("the archives of a build with many COPY steps are taken, however many are sent at once", async () => {
  await using folder = await makeTempFolder();
  const uploads = await open(folder.path);
  const hashes = Array.from({ length: 40 }, (_, index) => `c${index}`);
  const bodies = hashes.map(() => new PassThrough());
  const sent = hashes.map((hash, index) =>
    uploads.receive(uploads.sign("a", hash), "1", { body: bodies[index] ?? new PassThrough() }),
  );
  const parts = async () => (await readdir(folder.path)).filter((name) => name.endsWith(".part"));
  await expect.poll(async () => (await parts()).length).toBe(16);
  for (const body of bodies) body.end("x");
  await Promise.all(sent);
  expect(await readdir(folder.path)).toHaveLength(hashes.length);
});

test("an upload whose client leaves while it waits gives its turn to the next one", async () => {
  await using folder = await makeTempFolder();
  const uploads = await open(folder.path);
  const busy = Array.from({ length: 16 }, () => new PassThrough());
  const sent = busy.map((body, index) =>
    uploads.receive(uploads.sign("a", `b${index}`), "1", { body }),
  );
  const left = new PassThrough();
  const abandoned = uploads.receive(uploads.sign("a", "aa"), "1", { body: left });
  const next = uploads.receive(uploads.sign("a", "bb"), "1", { body: Readable.from(["x"]) });
  left.destroy();
  busy[0]?.end("x");
  await expect(abandoned).rejects.toMatchObject({ code: "ERR_STREAM_PREMATURE_CLOSE" });
  await next;
  for (const body of busy) body.end("x");
  await Promise.all(sent);
  expect(await uploads.find("a", "aa")).toBeUndefined();
});

test("an upload whose client leaves while it waits is over before its turn", async () => {
  await using folder = await makeTempFolder();
  const uploads = await open(folder.path);
  const busy = Array.from({ length: 16 }, () => new PassThrough());
  const sent = busy.map((body, index) =>
    uploads.receive(uploads.sign("a", `b${index}`), "1", { body }),
  );
  const gone = new AbortController();
  const content = { body: new PassThrough(), signal: gone.signal };
  const abandoned = uploads.receive(uploads.sign("a", "aa"), "1", content);
  gone.abort();
  await expect(abandoned).rejects.toMatchObject({ code: "canceled" });
  for (const body of busy) body.end("x");
  await Promise.all(sent);
});

test("an archive that is being written does not make place for another one", async () => {
  await using folder = await makeTempFolder();
  const uploads = await open(folder.path);
  const body = new PassThrough();
  const sent = uploads.receive(uploads.sign("a", "aa"), "2", { body });
  body.write("x");
  const parts = async () => (await readdir(folder.path)).filter((name) => name.endsWith(".part"));
  await expect.poll(async () => (await parts()).length).toBe(1);
  // A file of holes that leaves no place, and is newer.
  const large = join(folder.path, "large");
  await writeFile(large, "");
  await truncate(large, 16 * GIB);
  const later = new Date(Date.now() + 60_000);
  await utimes(large, later, later);
  await uploads.receive(uploads.sign("b", "bb"), "1", { body: Readable.from(["x"]) });
  expect(await parts()).toHaveLength(1);
  body.end("y");
  await sent;
  expect(await uploads.find("a", "aa")).toBeDefined();
});

test("an upload ends where the disk has too little left for what images were promised", async () => {
  await using folder = await makeTempFolder();
  let looks = 0;
  const uploads = await open(folder.path, async () => {
    looks += 1;
    if (looks > 2) throw new SandboxError("resource_exhausted", "no space left");
  });
  const chunk = Buffer.alloc(1024 ** 2);
  let sent = 0;
  async function* send() {
    for (; sent < 64; sent += 1) yield chunk;
  }
  const received = uploads.receive(uploads.sign("a", "aa"), String(64 * chunk.length), {
    body: Readable.from(send()),
  });
  await expect(received).rejects.toMatchObject({ code: "resource_exhausted" });
  expect(sent).toBeLessThan(64);
  expect(await readdir(folder.path)).toEqual([]);
});
