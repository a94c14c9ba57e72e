/** However a stdio session ends, the server is gone within 3 s and nothing of it is left. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import { openTestHome } from "../support/home.ts";
import { makeBusy } from "../support/mcp/busy-stdio.ts";
import { openRawStdio, type RawStdio } from "../support/mcp/raw-stdio.ts";
import { makeOlderFiles } from "../support/older-files.ts";
import { OFFLINE, PROGRAM, startProgram, type TestProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const END_LIMIT_MS = 3000;
const QUIET = { SANDBOX_MCP_LOG_LEVEL: "error" };

interface Session {
  readonly program: TestProgram;
  readonly raw: RawStdio;
}

test.for<{ name: string; end: (session: Session) => void }>([
  { name: "the end of stdin", end: ({ program }) => program.child.stdin?.end() },
  { name: "SIGTERM", end: ({ program }) => program.child.kill("SIGTERM") },
  { name: "SIGINT", end: ({ program }) => program.child.kill("SIGINT") },
  { name: "SIGHUP", end: ({ program }) => program.child.kill("SIGHUP") },
  {
    name: "a closed stdout",
    end: ({ program, raw }) => {
      program.stdout.destroy();
      raw.notify("notifications/initialized");
      // The answer to this has nowhere to go.
      raw.request("tools/list").catch(() => undefined);
    },
  },
])("R1 $name ends a busy server and leaves nothing", async ({ end }) => {
  const before = await takeCensus();
  const home = await openTestHome();
  const program = startProgram(["stdio", "--home", home.path], QUIET);
  assert.ok(program.child.stdin);
  const raw = openRawStdio(program.child.stdin, program.stdout);
  await makeBusy(raw);
  const startedAt = performance.now();
  end({ program, raw });
  await program.exited();
  expect(performance.now() - startedAt).toBeLessThan(END_LIMIT_MS);
  expect(raw.strays).toEqual([]);
  await home[Symbol.asyncDispose]();
  expect(await takeCensus(home.path)).toEqual(before);
});

test("R1 a vanished parent ends the server although its pipes stay open", async () => {
  const before = await takeCensus();
  const home = await openTestHome();
  // The shell is the parent; the pipes belong to this test and stay open. What a shell starts in
  // the background reads from /dev/null unless it is told otherwise.
  const script = 'exec 4<&0; "$@" <&4 & echo $! >&3; wait';
  const words = [process.execPath, PROGRAM, "stdio", "--home", home.path];
  const parent = spawn("sh", ["-c", script, "sh", ...words], {
    stdio: ["pipe", "pipe", "inherit", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", ...OFFLINE, ...QUIET },
  });
  const [stdin, stdout, , pidPipe] = parent.stdio;
  assert.ok(stdin !== null && stdout !== null && pidPipe && "setEncoding" in pidPipe);
  const [pidText] = await once(pidPipe, "data");
  const pid = Number(String(pidText));
  await makeBusy(openRawStdio(stdin, stdout));
  parent.kill("SIGKILL");
  const isAlive = (): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      // ESRCH is the answer this test waits for.
      return false;
    }
  };
  await expect.poll(isAlive, { timeout: END_LIMIT_MS + 1000, interval: 50 }).toBe(false);
  stdin.destroy();
  stdout.destroy();
  await home[Symbol.asyncDispose]();
  expect(await takeCensus(home.path)).toEqual(before);
});

test("R1 stdin that ends before the first message ends the server", async () => {
  const home = await openTestHome();
  const program = startProgram(["stdio", "--home", home.path], QUIET);
  program.child.stdin?.end();
  expect(await program.exited()).toBe(0);
  await home[Symbol.asyncDispose]();
});

test.for([
  { name: "the end of stdin", end: ({ child }: TestProgram) => child.stdin?.end() },
  { name: "SIGTERM", end: ({ child }: TestProgram) => child.kill("SIGTERM") },
])("R1 $name ends a server that waits for the upgrade of its database", async ({ end }) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  makeOlderFiles(path);
  using other = new DatabaseSync(path);
  other.exec("BEGIN IMMEDIATE");
  await using program = startProgram(["stdio", "--home", folder.path], QUIET);
  // It is sent an opening, which it does not answer yet.
  program.child.stdin?.write(
    `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize" })}\n`,
  );
  await expect.poll(() => program.stderr(), { timeout: 20_000 }).toContain("waiting for another");
  const startedAt = performance.now();
  end(program);
  expect(await program.exited()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(END_LIMIT_MS);
});

test("R1 an end of stdin that came first ends a server that would wait for an upgrade", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  makeOlderFiles(path);
  using other = new DatabaseSync(path);
  other.exec("BEGIN IMMEDIATE");
  // Each is looked at before the wait.
  for (let index = 0; index < 2_000; index += 1) {
    const name = `base-1700000000000-${index.toString(16).padStart(8, "0")}`;
    await mkdir(join(folder.path, "layers", name), { recursive: true });
  }
  const settings = { ...QUIET, SANDBOX_MCP_ALLOW_HOST_TEMPLATE: "false" };
  await using program = startProgram(["stdio", "--home", folder.path], settings);
  program.child.stdin?.end();
  // Where it waits, it ends with an error when it has waited for long enough.
  expect(await program.exited()).toBe(0);
});

test("R1 a signal ends a server whose answers nobody reads", async () => {
  const home = await openTestHome();
  const program = startProgram(["stdio", "--home", home.path], QUIET);
  const { stdin } = program.child;
  assert.ok(stdin);
  const raw = openRawStdio(stdin, program.stdout);
  await raw.initialize();
  program.stdout.pause();
  // Each answer is some 50 kB, all of them more than a pipe has space for.
  for (let id = 100; id < 200; id += 1) {
    stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method: "tools/list" })}\n`);
  }
  await expect.poll(() => program.stdout.readableLength).toBeGreaterThan(0);
  program.child.kill("SIGTERM");
  expect(await program.exited()).toBe(0);
  await home[Symbol.asyncDispose]();
});

test("R1 gc removes what a killed server left, and only that", async () => {
  const before = await takeCensus();
  const home = await openTestHome();
  const living = startProgram(["stdio", "--home", home.path], QUIET);
  const doomed = startProgram(["stdio", "--home", home.path], QUIET);
  assert.ok(living.child.stdin && doomed.child.stdin);
  const livingRaw = openRawStdio(living.child.stdin, living.stdout);
  const doomedRaw = openRawStdio(doomed.child.stdin, doomed.stdout);
  await makeBusy(livingRaw);
  await makeBusy(doomedRaw);
  doomed.child.kill("SIGKILL");
  await doomed.exited();
  await using gc = startProgram(["gc", "--home", home.path]);
  expect(await gc.exited()).toBe(0);
  // The other server's sandbox still answers.
  const list = await livingRaw.request("resources/list");
  expect(list["resources"]).toHaveLength(1);
  living.child.stdin.end();
  await living.exited();
  await home[Symbol.asyncDispose]();
  expect(await takeCensus(home.path)).toEqual(before);
});
