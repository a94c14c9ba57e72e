/** Servers whose guardian ends what a kill leaves, and the processes of both in a home. */

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { openTestHome } from "../home.ts";
import { openRawStdio, type RawStdio } from "../mcp/raw-stdio.ts";
import { startProgram, type TestProgram } from "../program.ts";

/** What a killed server may leave for this long. */
export const END_LIMIT_MS = 10_000;
const QUIET = { SANDBOX_MCP_LOG_LEVEL: "error" };

/** A home whose end also removes what a killed server left in it. */
export async function openGuardedHome() {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await openTestHome());
  stack.defer(async () => {
    const gc = startProgram(["gc", "--home", path], QUIET);
    assert.equal(await gc.exited(), 0, gc.stderr());
  });
  const owned = stack.move();
  return { path, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

export interface Session extends AsyncDisposable {
  readonly program: TestProgram;
  readonly raw: RawStdio;
}

export async function startStdio(
  home: string,
  flags: readonly string[] = [],
  command?: readonly [string, ...string[]],
): Promise<Session> {
  const program = startProgram(
    ["stdio", "--home", home, "--toolsets", "all", ...flags],
    QUIET,
    command,
  );
  assert.ok(program.child.stdin);
  program.child.stdin.on("error", () => undefined);
  const raw = openRawStdio(program.child.stdin, program.stdout);
  await raw.initialize();
  return { program, raw, [Symbol.asyncDispose]: () => program[Symbol.asyncDispose]() };
}

/** Creates a sandbox in which a process runs. */
export async function createBusy({ raw }: Session, input: object = {}): Promise<string> {
  const created = await raw.request("tools/call", { name: "create_sandbox", arguments: input });
  const fields = created["structuredContent"];
  assert.ok(typeof fields === "object" && fields !== null && "sandbox_id" in fields);
  const sandbox = { sandbox_id: String(fields.sandbox_id) };
  const run = { ...sandbox, cmd: "sleep 600", wait_seconds: 0 };
  await raw.request("tools/call", { name: "run_process", arguments: run });
  return sandbox.sandbox_id;
}

export interface Found {
  readonly guardians: readonly number[];
  /** First processes of containers. */
  readonly containers: readonly number[];
}

/** The processes of a home that its servers do not end. */
export async function findProcesses(home: string): Promise<Found> {
  const guardians: number[] = [];
  const containers: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const command = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    if (command.includes("guardian.sh") && command.includes(home)) guardians.push(Number(name));
  }
  for (const instance of await readdir(join(home, "instances")).catch(() => [])) {
    const folder = join(home, "instances", instance, "s");
    for (const id of await readdir(folder).catch(() => [])) {
      const text = await readFile(join(folder, id, "container.json"), "utf8").catch(() => "{}");
      const { pid, startTicks } = JSON.parse(text);
      const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
      const [state = "Z", ...rest] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (!"ZX".includes(state) && rest[18] === startTicks) containers.push(pid);
    }
  }
  return { guardians, containers };
}

export const NOTHING: Found = { guardians: [], containers: [] };

/** Of a home nothing is left within the time that a killed server has. */
export async function expectNothing(home: string): Promise<void> {
  await expect
    .poll(async () => findProcesses(home), { timeout: END_LIMIT_MS, interval: 100 })
    .toEqual(NOTHING);
}

/** Kills the server and waits for its end. */
export async function killServer({ program }: Session): Promise<void> {
  program.child.kill("SIGKILL");
  await program.exited();
}
