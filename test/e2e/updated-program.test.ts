/** An update removes or replaces the files of the program while a service runs. */

import assert from "node:assert/strict";
import { appendFile, cp, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { openRawStdio } from "../support/mcp/raw-stdio.ts";
import { PROGRAM, startProgram } from "../support/program.ts";
import { gvisorRuntime } from "../support/runtimes.ts";
import { startServe } from "../support/serve.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const DIST = dirname(PROGRAM);
const FLAGS = ["--pool", "0", "--on-exit", "kill"];
const runtime = gvisorRuntime();
const LIMIT_MS = 120_000;

/** The built program at a place of its own. */
async function installCopy() {
  const directory = await mkdtemp(join(tmpdir(), "installed-"));
  await symlink(join(DIST, "../node_modules"), join(directory, "node_modules"));
  await cp(join(DIST, "../package.json"), join(directory, "package.json"));
  const dist = join(directory, "dist");
  await cp(DIST, dist, { recursive: true });
  return {
    dist,
    program: join(dist, "main.js"),
    [Symbol.asyncDispose]: async () => rm(directory, { recursive: true, force: true }),
  };
}

/** As an update to a version whose programs take other arguments. */
async function breakPrograms(dist: string): Promise<void> {
  for (const name of await readdir(dist)) {
    if (/\.(?:pl|sh|mjs|cjs)$/.test(name)) await writeFile(join(dist, name), "exit 1;\n");
  }
}

test.each([
  ["removed", async (dist: string) => rm(dist, { recursive: true })],
  ["replaced", breakPrograms],
])("a service goes on while its installed files are %s", async (_change, update) => {
  await using installed = await installCopy();
  await using serve = await startServe(FLAGS, {
    command: [process.execPath, installed.program],
  });
  const options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
  const source = await Sandbox.create("base", options);
  await source.files.write("kept.txt", "kept");

  await update(installed.dist);

  const { snapshotId } = await source.createSnapshot();
  const copy = await Sandbox.create(snapshotId, options);
  expect(await copy.files.read("kept.txt")).toBe("kept");
  await source.pause({ keepMemory: false });
  await source.connect();
  expect(await source.files.read("kept.txt")).toBe("kept");
  expect(await listCopies(serve.home)).toHaveLength(1);
  serve.program.child.kill("SIGTERM");
  await serve.program.exited();
  expect(await readdir(join(serve.home, "programs"))).toEqual([]);
});

test("a stdio server whose files are removed before its first call ends at once", async () => {
  await using installed = await installCopy();
  await using home = await makeTempFolder();
  const environment = { SANDBOX_MCP_HOME: home.path };
  const command: [string, string] = [process.execPath, installed.program];
  await using program = startProgram(["stdio"], environment, command);
  assert.ok(program.child.stdin);
  const host = openRawStdio(program.child.stdin, program.stdout);
  await host.initialize();

  await rm(installed.dist, { recursive: true });

  const call = host.request("tools/call", { name: "list_sandboxes", arguments: {} });
  call.catch(() => undefined);
  // The host keeps stdin open.
  expect(await program.exited()).toBe(70);
  expect(program.stderr()).toMatch(/^sandbox-mcp: Cannot find module /m);
});

test("what a killed service copied of its program is removed by the next start", async () => {
  await using first = await startServe(FLAGS);
  const [left] = await listCopies(first.home);
  first.program.child.kill("SIGKILL");
  await first.program.exited();
  expect(await listCopies(first.home)).toEqual([left]);
  await using second = await startServe(FLAGS, { earlier: first });
  const names = await listCopies(second.home);
  expect(names).toHaveLength(1);
  expect(names).not.toContain(left);
});

/** Each has its lock beside it. */
async function listCopies(home: string): Promise<string[]> {
  const names = await readdir(join(home, "programs"));
  const copies = names.filter((name) => !name.endsWith(".lock"));
  expect(names.toSorted()).toEqual(copies.flatMap((name) => [name, `${name}.lock`]).toSorted());
  return copies;
}

test.skipIf(runtime === undefined)(
  "a newer service keeps the memory of an older sandbox in its processes, and copies files alone",
  { timeout: LIMIT_MS },
  async () => {
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    const flags = [...level, "--pause-to-disk", "exit"];
    await using older = await startServe(level);
    const options = { apiKey: older.apiKey, apiUrl: older.url, sandboxUrl: older.url };
    const sandbox = await Sandbox.create("base", options);
    const { pid } = await sandbox.commands.run("sleep 3600", { background: true, timeoutMs: 0 });
    await sandbox.pause();
    older.program.child.kill("SIGTERM");
    await older.program.exited();

    await using installed = await installCopy();
    await appendFile(join(installed.dist, "envd.cjs"), "\n");
    const origin = { earlier: older, command: [process.execPath, installed.program] } as const;
    // At its end it would move what it can.
    await using mover = await startServe(flags, origin);
    mover.program.child.kill("SIGTERM");
    await mover.program.exited();
    await using newer = await startServe(flags, origin);
    await sandbox.connect();
    expect((await sandbox.commands.list()).map((found) => found.pid)).toContain(pid);
    const response = await fetch(`${newer.url}/sandboxes/${sandbox.sandboxId}/snapshots`, {
      method: "POST",
      headers: { "x-api-key": newer.apiKey, "content-type": "application/json" },
      body: "{}",
    });
    expect(await response.json()).toMatchObject({
      memory: false,
      memoryReason: "the sandbox was started by another version of this service",
    });
    const forks = await sandbox.fork({ count: 1 });
    expect(forks).toEqual([expect.any(Sandbox)]);
    await Promise.all([sandbox, ...forks].map(async (one) => one instanceof Sandbox && one.kill()));
  },
);
