/** Downloads of files that programs change meanwhile: each is one regular file, and has an end. */

import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { appendFile, readFile, truncate, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { endChild } from "../../support/end-child.ts";

const CONTENT = "regular";
const DOWNLOADS = 60;
const MAX_BYTES = 1024 * 1024;
/** More than sockets and streams hold. */
const LARGE_BYTES = 16 * 1024 * 1024;
/** Makes a name lead to each of two files in turn, as fast as it can. */
const SWAP = `my ($name, @targets) = @ARGV;
  while (1) {
    for my $target (@targets) { symlink $target, "$name.new"; rename "$name.new", $name }
  }`;

async function open(daemon: TestDaemon, path: string, encoding: string) {
  const wanted = request({
    socketPath: daemon.publicSocket,
    path: `/files?path=${encodeURIComponent(path)}`,
    headers: { "accept-encoding": encoding },
    agent: false,
  });
  const [reply] = await once(wanted.end(), "response");
  return reply;
}

/** The status and the content, of which an endless one is cut. */
async function download(daemon: TestDaemon, path: string): Promise<string> {
  const reply = await open(daemon, path, "identity");
  let bytes = Buffer.alloc(0);
  for await (const chunk of reply) {
    bytes = Buffer.concat([bytes, chunk]);
    if (bytes.length > MAX_BYTES) return "endless";
  }
  return reply.statusCode === 200 ? bytes.toString() : String(reply.statusCode);
}

test.for(["/dev/zero", "pipe"])("a file that becomes %s is not read as one", async (other) => {
  await using daemon = await startTestDaemon();
  const [name, file] = [join(daemon.folder, "name"), join(daemon.folder, "file")];
  await writeFile(file, CONTENT);
  const pipe = join(daemon.folder, "pipe");
  execFileSync("sh", ["-c", `mkfifo "$1"`, "sh", pipe]);
  const swap = spawn("perl", ["-e", SWAP, name, file, other === "pipe" ? pipe : other]);
  try {
    await expect.poll(() => download(daemon, name)).not.toBe("404");
    const seen = new Set<string>();
    for (let count = 0; count < DOWNLOADS; count += 1) seen.add(await download(daemon, name));
    expect([...seen].filter((outcome) => ![CONTENT, "400"].includes(outcome))).toEqual([]);
  } finally {
    await endChild(swap);
  }
});

test("a compressed download ends where the file ended when it began", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "growing");
  const content = randomBytes(LARGE_BYTES);
  await writeFile(path, content);
  const reply = await open(daemon, path, "gzip");
  await appendFile(path, randomBytes(MAX_BYTES));
  const unpacked = gunzipSync(await buffer(reply));
  expect([unpacked.length, unpacked.equals(content)]).toEqual([LARGE_BYTES, true]);
});

test.for(["identity", "gzip"])(
  "a download of a file that became shorter does not end as a whole one (%s)",
  async (encoding) => {
    await using daemon = await startTestDaemon();
    const path = join(daemon.folder, "shrinking");
    await writeFile(path, randomBytes(LARGE_BYTES));
    const reply = await open(daemon, path, encoding);
    await truncate(path, MAX_BYTES);
    await expect(buffer(reply)).rejects.toMatchObject({ code: "ECONNRESET" });
  },
);

test("a file of sysfs, which says that it is longer, is whole as it is", async () => {
  await using daemon = await startTestDaemon();
  const path = "/sys/devices/system/cpu/online";
  const content = await readFile(path);
  expect(gunzipSync(await buffer(await open(daemon, path, "gzip"))).equals(content)).toBe(true);
});
