/** What breaks under a sandbox is told to the call in flight, and the state becomes true soon. */

import assert from "node:assert/strict";
import { Sandbox, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { takeCensus, type Census } from "../support/census.ts";
import { hostPidOf } from "../support/engine/host-pid.ts";
import { startServe, type TestServe } from "../support/serve.ts";

const TRUTH_LIMIT_MS = 2000;

let before: Census;
let serve: TestServe;
let options: SandboxOpts;

beforeAll(async () => {
  before = await takeCensus();
  serve = await startServe(["--disk-mb", "64"]);
  options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
});

afterAll(async () => {
  await serve[Symbol.asyncDispose]();
  assert.deepEqual(await takeCensus(serve.home), before);
});

test("a sandbox killed from outside is gone within 2 s, and its stream breaks", async () => {
  const sandbox = await Sandbox.create("base", options);
  const command = await sandbox.commands.run("exec sleep 600", { background: true });
  process.kill(await hostPidOf(sandbox.sandboxId), "SIGKILL");
  const killedAt = performance.now();
  await expect(command.wait()).rejects.toThrow(/end of life|not found|terminated/);
  await expect
    .poll(async () => Sandbox.getInfo(sandbox.sandboxId, options).catch(String), {
      timeout: TRUTH_LIMIT_MS,
      interval: 50,
    })
    .toMatch(/not found/);
  expect(performance.now() - killedAt).toBeLessThan(TRUTH_LIMIT_MS);
  expect(await sandbox.isRunning()).toBe(false);
  expect((await fetch(`${serve.url}/health`)).status).toBe(204);
});

test("a daemon killed inside breaks its calls, comes back, and still asks for its token", async () => {
  const sandbox = await Sandbox.create("base", options);
  try {
    const command = await sandbox.commands.run("exec sleep 600", { background: true });
    // Not the first process, which names it too: one of gVisor would end.
    const kill = "kill -9 $(pgrep -f daemon.cjs | grep -vx 1)";
    await sandbox.commands.run(kill, { user: "root" }).catch(() => undefined);
    await expect(command.wait()).rejects.toThrow(
      /terminated|unknown|unavailable|end of life|missing/,
    );
    await expect
      .poll(async () => sandbox.commands.run("echo back").then((result) => result.stdout, String), {
        timeout: TRUTH_LIMIT_MS,
      })
      .toBe("back\n");
    const unsigned = await fetch(`${serve.url}/files?path=/etc/hostname`, {
      headers: { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "49983" },
    });
    expect(unsigned.status).toBe(401);
  } finally {
    await sandbox.kill();
  }
});

test("a full disk is an error of its own, and space that is freed is used again", async () => {
  const sandbox = await Sandbox.create("base", options);
  try {
    await sandbox.files.write("kept.txt", "kept");
    const large = "x".repeat(80_000_000);
    await expect(sandbox.files.write("large.txt", large)).rejects.toMatchObject({
      name: "NotEnoughSpaceError",
    });
    expect(await sandbox.files.read("kept.txt")).toBe("kept");
    await sandbox.files.remove("large.txt");
    await sandbox.files.write("small.txt", "fits again");
    expect(await sandbox.files.read("small.txt")).toBe("fits again");
  } finally {
    await sandbox.kill();
  }
});
