/** Whatever fails in the service, no client is told a path of the machine. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, rename, truncate } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createService } from "../../src/client/service.ts";
import { createSystemClock } from "../../src/common/clock.ts";
import { ERROR_CODES, hidePaths, SandboxError, toSandboxError } from "../../src/common/errors.ts";
import { toFault } from "../../src/control/reply.ts";
import { errorReply } from "../../src/mcp/replies/respond.ts";
import { makeBrokenRuntime } from "../support/faults/broken-runtime.ts";
import { openFaultHome, type FaultHome } from "../support/faults/fault-home.ts";
import { createRandom, type Random } from "../support/random.ts";
import { tellCells } from "../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../support/runtimes.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const MESSAGES = 5_000;
const run = promisify(execFile);

const ROOTS = [
  "/var/lib/sandbox-mcp",
  "/home/someone/.local/share/sandbox-mcp",
  "/tmp/smcp-1",
  "/run/sandbox-mcp/routers",
  "/usr/lib/node_modules/sandbox-mcp/dist",
  "/proc/4711/ns",
  "/sys/fs/cgroup",
  "/dev",
];

/** A path whose names occur nowhere else. */
function makePath(random: Random): string {
  const names = Array.from(
    { length: 1 + random.below(4) },
    () => `qx${random.below(1_000_000)}${random.pick(["", ".part", "-1", ".db", ":2", ",x"])}`,
  );
  return [random.pick(ROOTS), ...names].join("/");
}

/** What systems, runtimes and tools say with a path in it. */
function makeMessage(random: Random): string {
  const [first, second] = [makePath(random), makePath(random)];
  return random.pick([
    `ENOENT: no such file or directory, open '${first}'`,
    `ENOTEMPTY: directory not empty, rename '${first}' -> '${second}'`,
    `connect ECONNREFUSED ${first}`,
    `runtime failed: cannot open \`${first}\`: No such file or directory`,
    `container_linux.go:380: starting container process caused: rootfs_linux.go:76: mounting "${first}" to rootfs at "${second}" caused: permission denied`,
    `mount: ${first}: can't find in /etc/fstab.`,
    `lowerdir=${first}:${second},upperdir=${second}: wrong fs type`,
    `database ${first} cannot be opened (${second})`,
    `Cannot find module '${first}' imported from file://${second}`,
    `at load (file://${first}:12:3)`,
    `layer was not made: ${first}; ${second}.`,
    `mkfs.ext4: ${first}`,
  ]);
}

test("E54 no message of a system or runtime leaves with its paths", (context) => {
  process.stdout.write(`FUZZ_SEED=${SEED}\n`);
  const codes = ERROR_CODES.filter(
    (code) => !["invalid_argument", "not_found", "already_exists"].includes(code),
  );
  for (let index = 0; index < MESSAGES; index += 1) {
    const random = createRandom(SEED + index);
    const message = makeMessage(random);
    const cause = Object.assign(new Error(message), { code: random.pick(["ENOENT", "EBADF"]) });
    const own = new SandboxError(random.pick(codes), message, { hint: makeMessage(random), cause });
    const lost = toSandboxError(cause, "create sandbox");
    const told = [
      toFault(own).body.message,
      toFault(cause).body.message,
      toFault(lost).body.message,
      JSON.stringify(errorReply(lost).content),
    ];
    for (const text of told) {
      assert(!/qx\d|sandbox-mcp|node_modules/.test(text), `FUZZ_SEED=${SEED + index}: ${text}`);
    }
  }
  expect(toFault(new SandboxError("unavailable", "no /a/b")).body.message).toBe("no (path)");
  tellCells(context, 4 * MESSAGES);
});

test("E54 what is no path of the machine stays", () => {
  const text = "see https://example.com/a/b or 10/s, and/or api v1/x; 1 / 2";
  expect(hidePaths(text)).toBe(text);
  // The time grows with the text alone.
  const word = "a".repeat(1_000_000);
  expect(hidePaths(word)).toBe(word);
  const message = "nothing can be mounted at /data/x";
  expect(toFault(new SandboxError("invalid_argument", message)).body.message).toBe(message);
});

test("E54 a service that cannot be reached is not named by its socket", async () => {
  const socketPath = "/tmp/qx4711/api.sock";
  const clock = createSystemClock();
  await using service = createService({ url: "http://local", socketPath, apiKey: "e2b_x", clock });
  const failure = await service.control.get("i1", AbortSignal.timeout(5_000)).catch(String);
  expect(failure).not.toContain("qx4711");
  expect(failure).toMatch(/unavailable|get i1/);
});

/** Starts a sandbox, which must fail; returns what the client is told. */
async function failToCreate(home: FaultHome): Promise<string> {
  const wish = { templateID: "base", timeout: 60, secure: false };
  const reply = await home.call("POST", "/sandboxes", wish);
  assert(reply !== undefined && reply.status >= 400, JSON.stringify(reply));
  return JSON.stringify(reply.body);
}

function checkTold(text: string, home: FaultHome): void {
  expect(text).not.toContain(home.path);
  expect(text).not.toMatch(/\/(?:tmp|var|run|proc|dev|sys|usr|home|work)\/|node_modules|dist\//);
}

test.runIf(IS_WHOLE_RUN)(
  "E54 a runtime, a layer, a disk and a database that fail",
  { timeout: 120_000 },
  async () => {
    await using runtime = await makeBrokenRuntime();
    await using home = await openFaultHome(["--runtime", runtime.path, "--pool", "0"]);
    await home.start();
    await runtime.set("tell");
    const told = await failToCreate(home);
    checkTold(told, home);
    // The log has what the client is not told.
    await expect
      .poll(() => home.stderr(), { timeout: 5_000, message: told })
      .toContain("/dev/loop7");
    await runtime.set("work");

    const layers = join(home.path, "layers");
    await rename(layers, `${layers}-away`);
    checkTold(await failToCreate(home), home);
    await rename(`${layers}-away`, layers);

    if (process.geteuid?.() === 0) {
      await run("mount", ["--bind", home.path, home.path]);
      await run("mount", ["-o", "remount,bind,ro", home.path]);
      checkTold(await failToCreate(home), home);
      await run("umount", ["-l", home.path]);
    }

    const databases = (await readdir(home.path)).filter((name) => /\.db(?:-wal)?$/.test(name));
    for (const name of databases) await truncate(join(home.path, name));
    for (const path of ["/v2/sandboxes", "/templates", "/sandboxes/i0", "/volumes", "/snapshots"]) {
      const reply = await home.call("GET", path);
      checkTold(JSON.stringify(reply?.body ?? ""), home);
    }
  },
);
