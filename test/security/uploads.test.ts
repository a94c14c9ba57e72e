/** Uploads are seen whole or not at all, whatever ends them. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  chmod,
  link,
  mkdir,
  readFile,
  readdir,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { request, type ClientRequest } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { isStagedName } from "../../src/envd/files/staging.ts";
import { EventType } from "../../src/gen/filesystem/filesystem_pb.ts";
import { startTestDaemon, type TestDaemon } from "../support/daemon/envd.ts";
import { createRandom, type Random } from "../support/random.ts";
import { tellCells } from "../support/run/cells.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const UPLOADS = 520;
const AT_ONCE = 8;
const RAW = { "content-type": "application/octet-stream" };
const run = promisify(execFile);

/** Content that tells which upload it is of, and whether it is whole. */
function makeContent(number: number, random: Random): Buffer {
  const letter = "abcdefghijklmnopqrstuvwxyz"[number % 26] ?? "a";
  return Buffer.from(letter.repeat(1 + random.below(300_000)));
}

/** Sends a body, or only the beginning of it. */
async function upload(
  daemon: TestDaemon,
  path: string,
  body: { readonly bytes: Buffer; readonly stopsAt?: number | undefined },
): Promise<number | "cut"> {
  const { promise, resolve } = Promise.withResolvers<number | "cut">();
  const url = `/files?path=${encodeURIComponent(path)}`;
  const headers = { ...RAW, "content-length": body.bytes.length };
  const settings = { socketPath: daemon.publicSocket, path: url, method: "POST", headers };
  const call: ClientRequest = request({ ...settings, agent: false }, (reply) => {
    reply.resume();
    reply.once("end", () => resolve(reply.statusCode ?? 0));
    reply.once("error", () => resolve("cut"));
  });
  call.once("error", () => resolve("cut"));
  if (body.stopsAt === undefined) call.end(body.bytes);
  else call.write(body.bytes.subarray(0, body.stopsAt), () => call.destroy());
  return promise;
}

test(
  "E55 readers see an upload whole or not at all, and one that is cut leaves nothing",
  { timeout: 120_000 },
  async (context) => {
    process.stdout.write(`FUZZ_SEED=${SEED}\n`);
    await using daemon = await startTestDaemon();
    const folder = join(daemon.folder, "work");
    await mkdir(folder);
    const { watcherId } = await daemon.files.createWatcher({ path: folder });
    const sizes = new Map<string, Set<string>>();
    let looks = 0;
    const over = new AbortController();
    const reader = (async () => {
      while (!over.signal.aborted) {
        for (const [path, whole] of sizes) {
          const text = await readFile(path, "latin1").catch(() => undefined);
          if (text === undefined) continue;
          looks += 1;
          const said = `${text.length} ${[...new Set(text)].join("")}`;
          assert(whole.has(said), `FUZZ_SEED=${SEED}: ${path} reads ${said.slice(0, 40)}`);
        }
        await new Promise((resolve) => void setImmediate(resolve));
      }
    })();
    let cuts = 0;
    const one = async (number: number): Promise<void> => {
      const random = createRandom(SEED + number);
      const path = join(folder, `f${number % AT_ONCE}`);
      const bytes = makeContent(number, random);
      const stopsAt = random.once(2) ? random.below(bytes.length) : undefined;
      const whole = sizes.get(path) ?? new Set();
      whole.add(`${bytes.length} ${bytes.toString("latin1", 0, 1)}`);
      if (stopsAt !== undefined) whole.delete(`${stopsAt} ${bytes.toString("latin1", 0, 1)}`);
      sizes.set(path, whole);
      const outcome = await upload(daemon, path, { bytes, stopsAt });
      if (outcome === "cut") cuts += 1;
      else assert.equal(outcome, 200);
    };
    try {
      for (let start = 0; start < UPLOADS; start += AT_ONCE) {
        // Each of a turn has a file of its own.
        await Promise.all(Array.from({ length: AT_ONCE }, async (_, index) => one(start + index)));
      }
    } finally {
      over.abort();
      await reader;
    }
    await expect.poll(async () => (await readdir(folder)).filter(isStagedName)).toEqual([]);
    const { events } = await daemon.files.getWatcherEvents({ watcherId });
    expect(events.filter(({ name }) => isStagedName(name))).toEqual([]);
    expect(cuts).toBeGreaterThan(UPLOADS / 4);
    // Fewer on a busy machine.
    expect(looks).toBeGreaterThan(20);
    tellCells(context, UPLOADS);
  },
);

test("E55 an upload keeps the mode, owner, attributes and links of what it replaces", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  const put = async (name: string, body: string) =>
    (
      await daemon.http(`/files?path=${encodeURIComponent(at(name))}`, {
        method: "POST",
        headers: RAW,
        body,
      })
    ).status;
  await writeFile(at("kept"), "old");
  await chmod(at("kept"), 0o640);
  await run("python3", [
    "-c",
    `import os; os.setxattr(${JSON.stringify(at("kept"))}, "user.own", b"1")`,
  ]);
  expect(await put("kept", "new")).toBe(200);
  const { stdout } = await run("python3", [
    "-c",
    `import os; print(os.listxattr(${JSON.stringify(at("kept"))}))`,
  ]);
  expect([
    await readFile(at("kept"), "utf8"),
    (await stat(at("kept"))).mode & 0o7777,
    stdout,
  ]).toEqual(["new", 0o640, "['user.own']\n"]);

  await writeFile(at("first"), "old");
  await link(at("first"), at("second"));
  expect(await put("first", "new")).toBe(200);
  expect(await readFile(at("second"), "utf8")).toBe("new");

  await symlink("missing", at("dangling"));
  await symlink("dangling", at("chain"));
  expect(await put("chain", "through")).toBe(200);
  expect([await readFile(at("missing"), "utf8"), (await stat(at("missing"))).isFile()]).toEqual([
    "through",
    true,
  ]);

  const longest = "n".repeat(255);
  expect([await put(longest, "1"), await put(longest, "2")]).toEqual([200, 200]);
  expect(await readFile(at(longest), "utf8")).toBe("2");
});

test("E55 pipes, kernel files and mount points are written in place", async () => {
  await using daemon = await startTestDaemon();
  const at = (name: string) => join(daemon.folder, name);
  const put = async (path: string, body: string) =>
    (
      await daemon.http(`/files?path=${encodeURIComponent(path)}`, {
        method: "POST",
        headers: RAW,
        body,
      })
    ).status;
  await run("mkfifo", [at("pipe")]);
  const reading = run("cat", [at("pipe")]);
  // Until the reader is there, a pipe takes nothing.
  await expect.poll(async () => put(at("pipe"), "through the pipe")).toBe(200);
  expect((await reading).stdout).toBe("through the pipe");
  expect(await put("/dev/null", "x")).toBe(200);
  if (process.geteuid?.() !== 0) return;
  await writeFile(at("below"), "old");
  await writeFile(at("mounted"), "hidden");
  await run("mount", ["--bind", at("below"), at("mounted")]);
  try {
    expect(await put(at("mounted"), "new")).toBe(200);
    expect(await readFile(at("below"), "utf8")).toBe("new");
  } finally {
    await run("umount", [at("mounted")]);
  }
  expect((await readdir(daemon.folder)).filter(isStagedName)).toEqual([]);
});

test("E55 what a killed daemon left is not listed, and goes when its folder is looked at", async () => {
  await using daemon = await startTestDaemon();
  const folder = join(daemon.folder, "left");
  await mkdir(folder);
  const [old, young, ahead] = [
    join(folder, `.e2b-upload.${"0".repeat(32)}`),
    join(folder, `.e2b-upload.${"1".repeat(32)}`),
    join(folder, `.e2b-upload.${"2".repeat(32)}`),
  ];
  for (const path of [old, young, ahead]) await writeFile(path, "half");
  await utimes(old, 1_000, 1_000);
  // As of a clock that was ahead.
  const laterS = Date.now() / 1_000 + 365 * 86_400;
  await utimes(ahead, laterS, laterS);
  const { entries } = await daemon.files.listDir({ path: folder, depth: 1 });
  expect(entries).toEqual([]);
  await expect.poll(async () => readdir(folder)).toEqual([`.e2b-upload.${"1".repeat(32)}`]);
});

test("E55 a full disk leaves the old content and nothing else", async () => {
  if (process.geteuid?.() !== 0) return;
  await using daemon = await startTestDaemon();
  const folder = join(daemon.folder, "small");
  await mkdir(folder);
  await run("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]);
  try {
    await writeFile(join(folder, "kept"), "old content");
    const reply = await daemon.http(`/files?path=${encodeURIComponent(join(folder, "kept"))}`, {
      method: "POST",
      headers: RAW,
      body: "x".repeat(400_000),
    });
    expect(reply.status).toBe(507);
    expect([await readdir(folder), await readFile(join(folder, "kept"), "utf8")]).toEqual([
      ["kept"],
      "old content",
    ]);
  } finally {
    await run("umount", [folder]);
  }
});

test("E55 a watch is told of an upload as of a file that was written, by its own name alone", async () => {
  await using daemon = await startTestDaemon();
  const folder = join(daemon.folder, "watched");
  await mkdir(folder);
  await writeFile(join(folder, "kept"), "old");
  const { watcherId } = await daemon.files.createWatcher({ path: folder });
  for (const name of ["kept", "new"]) {
    await upload(daemon, join(folder, name), { bytes: Buffer.from("content") });
  }
  const told: string[] = [];
  const look = async () => {
    const { events } = await daemon.files.getWatcherEvents({ watcherId });
    told.push(...events.map(({ name, type }) => `${type} ${name}`));
    return told;
  };
  await expect.poll(look).toContain(`${EventType.WRITE} new`);
  expect(told).toEqual([
    `${EventType.WRITE} kept`,
    `${EventType.CREATE} new`,
    `${EventType.WRITE} new`,
  ]);
});

test("E55 of an upload that its daemon did not outlive the old content stays", async () => {
  await using place = await makeTempFolder();
  const path = join(place.path, "kept");
  await writeFile(path, "old");
  {
    await using daemon = await startTestDaemon();
    const headers = { ...RAW, "content-length": 1_000_000 };
    const url = `/files?path=${encodeURIComponent(path)}`;
    const settings = { socketPath: daemon.publicSocket, path: url, method: "POST", headers };
    const call = request({ ...settings, agent: false }).on("error", () => undefined);
    call.write("new");
    await expect.poll(async () => (await readdir(place.path)).filter(isStagedName)).toHaveLength(1);
  }
  expect(await readFile(path, "utf8")).toBe("old");
});
