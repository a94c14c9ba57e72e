/** The unmodified `@e2b/cli` against `serve`: what a user types, and what a script reads back. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { useSdkServe } from "../../support/clients/sdk.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

const CLI = resolve(import.meta.dirname, "../../../node_modules/@e2b/cli/dist/index.js");
const RUN_LIMIT_MS = 30_000;

const service = useSdkServe();
let folder: TempFolder;
let sandboxId: string;

beforeAll(async () => {
  folder = await makeTempFolder();
  sandboxId = (await cli("sandbox", "create", "--detach", "base")).stdout.trim();
});

afterAll(async () => folder[Symbol.asyncDispose]());

function environment(): Record<string, string> {
  return {
    ...service.environment,
    PATH: String(process.env["PATH"]),
    HOME: folder.path,
    NO_UPDATE_NOTIFIER: "1",
  };
}

/** One run without a terminal; `input` is what stands on its standard input. */
async function run(input: string, words: readonly string[]) {
  const { promise, resolve: done } = Promise.withResolvers<{
    readonly code: unknown;
    readonly stdout: string;
    readonly stderr: string;
  }>();
  const child = execFile(
    process.execPath,
    [CLI, ...words],
    { env: environment(), timeout: RUN_LIMIT_MS },
    (error, stdout, stderr) => done({ code: error?.code ?? 0, stdout, stderr }),
  );
  child.stdin?.end(input);
  return promise;
}

async function cli(...words: string[]) {
  return run("", words);
}

/** One run on a terminal, at which `typed` is typed once the prompt of the sandbox is there. */
async function onTerminal(words: readonly string[], typed: string): Promise<string> {
  const command = [process.execPath, CLI, ...words].map((word) => `'${word}'`).join(" ");
  const child = spawn(
    "/usr/bin/script",
    ["--quiet", "--flush", "--command", command, "/dev/null"],
    {
      env: { ...environment(), TERM: "dumb" },
      timeout: RUN_LIMIT_MS,
    },
  );
  let seen = "";
  child.stdout.on("data", (chunk) => {
    if (!seen.includes("$ ") && (seen + String(chunk)).includes("$ ")) child.stdin.write(typed);
    seen += String(chunk);
  });
  await once(child, "close");
  return stripVTControlCharacters(seen);
}

async function json(...words: string[]): Promise<unknown> {
  const { stdout } = await cli(...words, "--format", "json");
  return JSON.parse(stdout);
}

async function jsonLines(...words: string[]): Promise<unknown[]> {
  const { stdout } = await cli(...words, "--format", "json");
  return stdout
    .trim()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line): unknown => JSON.parse(line));
}

test("create prints the id; list and info tell of the sandbox, filtered by state", async () => {
  expect(sandboxId).toMatch(/^i[a-z0-9]{20}$/);
  const listed = { sandboxId, name: "base", state: "running", metadata: {}, envdVersion: "0.6.13" };
  const described = { sandboxId, lifecycle: { onTimeout: "kill", autoResume: false } };
  const found = await Promise.all([
    json("sandbox", "list"),
    json("sandbox", "list", "--state", "paused"),
    json("sandbox", "info", sandboxId),
  ]);
  expect(found).toMatchObject([[listed], [], described]);
  expect((await cli("sandbox", "list")).stdout).toContain(sandboxId);
});

test("exec passes output, input, user, folder, variables and the exit code", async () => {
  const script = "echo out; echo err >&2; exit 3";
  expect(await cli("sandbox", "exec", sandboxId, script)).toMatchObject({
    code: 3,
    stdout: "out\n",
    stderr: expect.stringMatching(/^err\n/),
  });
  expect(await run("piped in", ["sandbox", "exec", sandboxId, "cat"])).toMatchObject({
    code: 0,
    stdout: "piped in",
  });
  const flags = ["-u", "root", "-c", "/tmp", "-e", "A=1"];
  const result = await cli("sandbox", "exec", ...flags, sandboxId, "id -un; pwd; echo $A");
  expect(result.stdout).toBe("root\n/tmp\n1\n");
});

test("connect opens a terminal in a running sandbox and leaves it running", async () => {
  const seen = await onTerminal(["sandbox", "connect", sandboxId], "echo $((40 + 2)); exit\r");
  expect(seen.split(/[\r\n]+/)).toContain("42");
  expect(await json("sandbox", "info", sandboxId)).toMatchObject({ state: "running" });
});

test("create opens a terminal in a new sandbox, which ends with it", async () => {
  const seen = await onTerminal(["sandbox", "create", "base"], "echo $E2B_SANDBOX_ID; exit\r");
  const created = seen.split(/[\r\n]+/).find((line) => /^i[a-z0-9]{20}$/.test(line)) ?? "";
  expect(created).not.toBe("");
  const isListed = async () => (await cli("sandbox", "list")).stdout.includes(created);
  await expect.poll(isListed).toBe(false);
});

const logLine = z.object({ timestamp: z.string(), level: z.string(), message: z.string() });

test("logs are shown from their level on, as text and as JSON", async () => {
  const [told, all, shown] = await Promise.all([
    jsonLines("sandbox", "logs", sandboxId),
    jsonLines("sandbox", "logs", "--level", "DEBUG", sandboxId),
    cli("sandbox", "logs", sandboxId),
  ]);
  const lines = told.map((line) => logLine.parse(line));
  expect(lines[0]).toMatchObject({ level: "info", message: "Sandbox created" });
  expect(lines.map(({ level }) => level)).not.toContain("debug");
  expect(all.map((line) => logLine.parse(line).level)).toContain("debug");
  expect(shown.stdout).toMatch(/INFO .*Sandbox created/);
});

test("metrics tell what the sandbox uses", async () => {
  const [samples, shown] = await Promise.all([
    jsonLines("sandbox", "metrics", sandboxId),
    cli("sandbox", "metrics", sandboxId),
  ]);
  expect(samples[0]).toMatchObject({ cpuCount: 2, memTotal: 512 * 1024 * 1024 });
  expect(shown.stdout).toMatch(/CPU: .*Memory: .*Disk: /);
});

test("pause and resume change the state", async () => {
  expect((await cli("sandbox", "pause", sandboxId)).stdout).toContain("has been paused");
  expect(await json("sandbox", "list", "--state", "paused")).toHaveLength(1);
  expect((await cli("sandbox", "resume", sandboxId)).stdout).toContain("has been resumed");
});

test("snapshots are made, listed and deleted", async () => {
  const made = await cli("sandbox", "snapshot", "create", "--name", "by-cli", sandboxId);
  expect(made.stdout).toContain("local/by-cli:default");
  expect((await cli("sandbox", "snapshot", "list")).stdout).toContain("local/by-cli:default");
  const removed = await cli("sandbox", "snapshot", "delete", "local/by-cli:default");
  expect(removed.code).toBe(0);
  expect((await cli("sandbox", "snapshot", "list")).stdout).not.toContain("by-cli");
});

test("templates are listed", async () => {
  const names = z.array(z.object({ names: z.array(z.string()) }));
  expect(names.parse(await json("template", "list")).flatMap((found) => found.names)).toContain(
    "base",
  );
});

test("kill ends one, and all; a second kill says that there is none", async () => {
  const other = (await cli("sandbox", "create", "--detach")).stdout.trim();
  expect((await cli("sandbox", "kill", other)).stdout).toContain("has been killed");
  expect((await cli("sandbox", "kill", other)).stderr).toContain("wasn't found");
  expect((await cli("sandbox", "kill", "--all")).code).toBe(0);
  expect(await json("sandbox", "list")).toEqual([]);
});

test("a wrong key and a missing sandbox end with a fault", async () => {
  const missing = await cli("sandbox", "exec", "i00000000000000000000", "true");
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining("not found")]);
  const child = spawn(process.execPath, [CLI, "sandbox", "list"], {
    env: { ...environment(), E2B_API_KEY: `e2b_${"0".repeat(40)}` },
    timeout: RUN_LIMIT_MS,
  });
  const [shown, [code]] = await Promise.all([text(child.stderr), once(child, "close")]);
  expect([code, shown]).toEqual([1, expect.stringContaining("Unauthorized")]);
});
