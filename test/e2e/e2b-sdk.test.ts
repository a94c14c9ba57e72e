/** The unmodified `e2b` package against `serve`: what its users do, from create to kill. */

import assert from "node:assert/strict";
import { Sandbox, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { takeCensus, type Census } from "../support/census.ts";
import { startServe, type TestServe } from "../support/serve.ts";

let before: Census;
let serve: TestServe;
let options: SandboxOpts;

beforeAll(async () => {
  before = await takeCensus();
  serve = await startServe();
  options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
});

afterAll(async () => {
  await serve[Symbol.asyncDispose]();
  assert.deepEqual(await takeCensus(), before);
});

async function withSandbox(work: (sandbox: Sandbox) => Promise<void>): Promise<void> {
  const sandbox = await Sandbox.create("base", options);
  try {
    await work(sandbox);
  } finally {
    await sandbox.kill();
  }
}

test("commands stream their output and report their exit code", async () => {
  await withSandbox(async (sandbox) => {
    const seen: string[] = [];
    const result = await sandbox.commands.run("whoami; pwd; echo problem >&2; echo $GREETING", {
      envs: { GREETING: "hello" },
      onStdout: (text) => {
        seen.push(text);
      },
    });
    expect(result).toMatchObject({
      exitCode: 0,
      stdout: "user\n/home/user\nhello\n",
      stderr: "problem\n",
    });
    expect(seen.join("")).toBe("user\n/home/user\nhello\n");
    await expect(sandbox.commands.run("exit 3")).rejects.toMatchObject({ exitCode: 3 });
  });
});

test("a user may open the standard streams by path", async () => {
  await withSandbox(async (sandbox) => {
    const script =
      "echo out > /dev/stdout; echo err | tee /dev/stderr; sudo sh -c 'id -u > /dev/stderr'";
    const result = await sandbox.commands.run(script);
    expect(result).toMatchObject({ exitCode: 0, stdout: "out\nerr\n", stderr: "err\n0\n" });
  });
});

test("output arrives while the command still runs", async () => {
  await withSandbox(async (sandbox) => {
    const { promise: firstLine, resolve } = Promise.withResolvers<string>();
    const command = await sandbox.commands.run("echo first; read line; echo got $line", {
      background: true,
      stdin: true,
      onStdout: (text) => resolve(text),
    });
    expect(await firstLine).toBe("first\n");
    await sandbox.commands.sendStdin(command.pid, "second\n");
    expect(await command.wait()).toMatchObject({ exitCode: 0, stdout: "first\ngot second\n" });
  });
});

test("a background command is listed, killed, and gone", async () => {
  await withSandbox(async (sandbox) => {
    const command = await sandbox.commands.run("exec sleep 600", { background: true });
    const pids = (await sandbox.commands.list()).map((process) => process.pid);
    expect(pids).toContain(command.pid);
    expect(await sandbox.commands.kill(command.pid)).toBe(true);
    await expect(command.wait()).rejects.toMatchObject({ error: "signal: killed" });
    expect(await sandbox.commands.list()).toEqual([]);
    expect(await sandbox.commands.kill(999_999)).toBe(false);
  });
});

test("files are written, read, listed, renamed and removed", async () => {
  await withSandbox(async (sandbox) => {
    const info = await sandbox.files.write("notes/a.txt", "alpha");
    expect(info).toMatchObject({ name: "a.txt", type: "file", path: "/home/user/notes/a.txt" });
    const written = await sandbox.files.write([
      { path: "notes/b.txt", data: "beta" },
      { path: "/home/user/notes/c.bin", data: new Uint8Array([0, 255, 1]).buffer },
    ]);
    expect(written.map((file) => file.path)).toEqual([
      "/home/user/notes/b.txt",
      "/home/user/notes/c.bin",
    ]);
    expect(await sandbox.files.read("notes/a.txt")).toBe("alpha");
    expect([...(await sandbox.files.read("notes/c.bin", { format: "bytes" }))]).toEqual([
      0, 255, 1,
    ]);
    const names = (await sandbox.files.list("notes")).map((entry) => entry.name);
    expect(names).toEqual(["a.txt", "b.txt", "c.bin"]);
    await sandbox.files.rename("notes/a.txt", "notes/d.txt");
    expect(await sandbox.files.exists("notes/a.txt")).toBe(false);
    expect(await sandbox.files.getInfo("notes/d.txt")).toMatchObject({
      name: "d.txt",
      owner: "user",
      group: "user",
      permissions: "-rw-r--r--",
      size: 5,
    });
    await sandbox.files.remove("notes");
    expect(await sandbox.files.exists("notes")).toBe(false);
    expect(await sandbox.files.makeDir("fresh")).toBe(true);
    expect(await sandbox.files.makeDir("fresh")).toBe(false);
    await expect(sandbox.files.read("missing")).rejects.toThrow(/does not exist/);
  });
});

test("a watched folder reports what happens in it", async () => {
  await withSandbox(async (sandbox) => {
    await sandbox.files.makeDir("watched");
    const events: string[] = [];
    const handle = await sandbox.files.watchDir("watched", (event) => {
      events.push(`${event.type} ${event.name}`);
    });
    await sandbox.files.write("watched/new.txt", "x");
    await expect.poll(() => events, { timeout: 5000 }).toContain("create new.txt");
    await handle.stop();
  });
});

test("sandboxes are listed and their time to live is changed", async () => {
  await withSandbox(async (sandbox) => {
    const page = await Sandbox.list(options).nextItems();
    expect(page.map((item) => item.sandboxId)).toContain(sandbox.sandboxId);
    await sandbox.setTimeout(600_000);
    const { endAt } = await sandbox.getInfo();
    expect(endAt.getTime() - Date.now()).toBeGreaterThan(590_000);
    expect(await sandbox.isRunning()).toBe(true);
  });
});

test("a paused sandbox keeps its processes and files", async () => {
  await withSandbox(async (sandbox) => {
    await sandbox.files.write("kept.txt", "kept");
    const command = await sandbox.commands.run("exec sleep 600", { background: true });
    await sandbox.pause();
    expect(await sandbox.isRunning()).toBe(false);
    const resumed = await Sandbox.connect(sandbox.sandboxId, options);
    expect(await resumed.files.read("kept.txt")).toBe("kept");
    expect((await resumed.commands.list()).map((process) => process.pid)).toContain(command.pid);
  });
});

test("a snapshot starts a second sandbox with the same files", async () => {
  await withSandbox(async (sandbox) => {
    await sandbox.files.write("/opt/tool/run.sh", "echo from the snapshot");
    await sandbox.commands.run("rm /etc/debian_version", { user: "root" });
    const snapshot = await sandbox.createSnapshot();
    await sandbox.files.write("/opt/tool/run.sh", "changed later");
    const second = await Sandbox.create(snapshot.snapshotId, options);
    try {
      const result = await second.commands.run("sh /opt/tool/run.sh; ls /etc/debian_version || id");
      expect(result.stdout).toContain("from the snapshot\nuid=1000(user)");
      expect(second.sandboxId).not.toBe(sandbox.sandboxId);
    } finally {
      await second.kill();
    }
  });
});

test("a killed sandbox is gone for every call", async () => {
  const sandbox = await Sandbox.create("base", options);
  expect(await sandbox.kill()).toBe(true);
  expect(await sandbox.kill()).toBe(false);
  expect(await sandbox.isRunning()).toBe(false);
  await expect(sandbox.getInfo()).rejects.toThrow(/not found/);
});

test("killing the sandbox ends a running command with its end of life", async () => {
  const sandbox = await Sandbox.create("base", options);
  const command = await sandbox.commands.run("exec sleep 600", { background: true });
  const [outcome] = await Promise.allSettled([command.wait(), sandbox.kill()]);
  expect(String(outcome.status === "rejected" && outcome.reason)).toContain("end of life");
});

test("a sandbox ends by itself when its time is over", async () => {
  const sandbox = await Sandbox.create("base", { ...options, timeoutMs: 1000 });
  await expect.poll(() => sandbox.isRunning(), { timeout: 10_000 }).toBe(false);
});

test("bad input is refused with its own error", async () => {
  await expect(Sandbox.create("no-such-template", options)).rejects.toThrow(/not found/);
  await expect(Sandbox.connect("i00000000000000000000", options)).rejects.toThrow(/not found/);
  const wrongKey = { ...options, apiKey: `e2b_${"0".repeat(40)}` };
  await expect(Sandbox.create("base", wrongKey)).rejects.toThrow(/401|API key/i);
  await withSandbox(async (sandbox) => {
    await expect(sandbox.commands.run("true", { user: "nobody-here" })).rejects.toThrow(/user/);
    await expect(sandbox.commands.run("true", { cwd: "/missing" })).rejects.toThrow(/cwd/);
    await expect(sandbox.files.list("/missing")).rejects.toThrow(/not found/);
  });
});
