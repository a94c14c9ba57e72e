/**
 * What holds the sandboxes of an ordinary user, on a machine with version 2 cgroups of which a part
 * is the user's: prints what was seen as JSON. `init.sh` starts it as root of that machine.
 */

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import type { OrdinaryUser } from "../support/ordinary-user.ts";
import { startProgram, type TestProgram } from "../support/program.ts";

const TREE = "/sys/fs/cgroup";
const GROUPS = join(TREE, "manager/sandbox-mcp");
/** Such a machine runs as one process of another one: all takes its time. */
const CALL_LIMIT_MS = 300_000;
const WAIT_LIMIT_MS = 120_000;
const POLL_MS = 200;
const API_KEY = `e2b_${"ab".repeat(20)}`;
const FLAGS = "--memory-mb 128 --pids 64 --cpus 1 --pool 0".split(" ");

const account = (process.env["ACCOUNT"] ?? "").trim();
const home = process.env["ACCOUNT_HOME"] ?? "";

/** The account, started in this cgroup. */
function placeIn(cgroup: string): OrdinaryUser {
  const enter = `echo $$ > ${join(TREE, cgroup, "cgroup.procs")} && exec "$@"`;
  const identity = ["setpriv", "--reuid", account, "--regid", account, "--clear-groups"];
  const program = [join(home, "node"), join(home, "dist/main.js")];
  return {
    name: account,
    home,
    data: "/mnt/data",
    uid: -1,
    idBase: undefined,
    program: ["sh", "-c", enter, "sh", ...identity, ...program],
    processes: async () => [],
    [Symbol.asyncDispose]: async () => undefined,
  };
}

/** What `doctor` says of cgroups, for a program that is started there. */
async function doctor(cgroup: string): Promise<string> {
  const words = ["doctor", "--home", "/mnt/data"];
  await using program = startProgram(words, {}, placeIn(cgroup).program);
  const text: string[] = [];
  program.stdout.setEncoding("utf8").on("data", (part: string) => text.push(part));
  if (program.child.exitCode === null) await once(program.child, "exit");
  const lines = text.join("").split("\n");
  return lines.find((line) => line.includes(" cgroups: "))?.replace(/ →.*$/, "") ?? text.join("");
}

/** A service on this port, or on any. */
async function serveOn(port: string): Promise<{ url: string; program: TestProgram }> {
  const words = ["serve", "--port", port, "--home", "/mnt/data", ...FLAGS];
  const { program: command } = placeIn("manager/app.slice/app.scope");
  const program = startProgram(words, { SANDBOX_MCP_API_KEY: API_KEY }, command);
  for await (const line of createInterface({ input: program.stdout })) {
    const url = /^listening on (http\S+)$/.exec(line)?.[1];
    if (url !== undefined) return { url, program };
  }
  throw new Error(`serve ended:\n${program.stderr()}`);
}

const read = async (folder: string, name: string) =>
  (await readFile(join(folder, name), "utf8").catch(() => "gone")).trim();

async function reaches(name: string, wanted: string, folder: string): Promise<boolean> {
  const endMs = performance.now() + WAIT_LIMIT_MS;
  while (!(await read(folder, name)).includes(wanted)) {
    if (performance.now() > endMs) return false;
    await delay(POLL_MS);
  }
  return true;
}

/** Bombs in a sandbox, and what the kernel says of its cgroup. */
async function attack(sandbox: Sandbox, group: string): Promise<object> {
  const run = async (command: string) => {
    try {
      const { stdout, exitCode } = await sandbox.commands.run(command, {
        timeoutMs: CALL_LIMIT_MS,
      });
      return { exitCode, text: stdout.trim() };
    } catch (error) {
      return { exitCode: Reflect.get(Object(error), "exitCode"), text: String(error) };
    }
  };
  const hog = await run("exec python3 -c 'print(len(b\"x\" * (300 << 20)))'");
  const forks =
    "for i in $(seq 200); do sleep 20 & done 2>/dev/null; jobs -p | wc -l; kill $(jobs -p)";
  await run(`bash -c '${forks}'`);
  await run("timeout 5 sh -c 'while :; do :; done' || true");
  const events = await read(group, "memory.events");
  const kills = Number(/^oom_kill (\d+)$/m.exec(events)?.[1]);
  return {
    hog: hog.exitCode,
    hasMemoryKills: kills > 0,
    hasProcessRefusals: /^max [1-9]/m.test(await read(group, "pids.events")),
    isMetered: /^nr_periods [1-9]/m.test(await read(group, "cpu.stat")),
    after: (await run("echo lives")).text,
  };
}

const facts: Record<string, unknown> = {};
facts["doctor"] = {
  "an application of the user": await doctor("manager/app.slice/app.scope"),
  "a session": await doctor("session.scope"),
  "a unit with processes": await doctor("unit"),
  "a unit without memory": await doctor("few/unit"),
};
facts["unit"] = {
  hasProcesses: (await read(join(TREE, "unit"), "cgroup.procs")) !== "",
  groups: await read(join(TREE, "unit/sandbox-mcp"), "cgroup.procs"),
};
const { url, program } = await serveOn("0");
const options = { apiKey: API_KEY, apiUrl: url, sandboxUrl: url, requestTimeoutMs: CALL_LIMIT_MS };
const sandbox = await Sandbox.create("base", { ...options, timeoutMs: 3_600_000 });
const group = join(GROUPS, sandbox.sandboxId.replace(/-.*$/, ""));
const names = ["memory.max", "memory.swap.max", "pids.max", "cpu.max"];
facts["limits"] = Object.fromEntries(
  await Promise.all(names.map(async (name) => [name, await read(group, name)])),
);
facts["attacks"] = await attack(sandbox, group);
await sandbox.pause();
facts["isPaused"] = await reaches("cgroup.events", "frozen 1", group);
await Sandbox.connect(sandbox.sandboxId, { ...options, timeoutMs: 3_600_000 });
facts["isResumed"] = await reaches("cgroup.events", "frozen 0", group);

// The guardian alone is left: it freezes one at its deadline, and another service resumes it.
const lifecycle = { onTimeout: "pause" } as const;
const late = await Sandbox.create("base", { ...options, timeoutMs: 60_000, lifecycle });
const lateGroup = join(GROUPS, late.sandboxId.replace(/-.*$/, ""));
const killed = once(program.child, "exit");
program.child.kill("SIGKILL");
await killed;
facts["isFrozenByGuardian"] = await reaches("cgroup.events", "frozen 1", lateGroup);
const next = await serveOn(new URL(url).port);
const again = await Sandbox.connect(late.sandboxId, { ...options, timeoutMs: 3_600_000 });
const { stdout } = await again.commands.run("echo lives", { timeoutMs: CALL_LIMIT_MS });
facts["afterGuardian"] = [stdout.trim(), await read(lateGroup, "memory.max")];
await again.kill();
await sandbox.kill();
const ended = once(next.program.child, "exit");
next.program.child.kill("SIGTERM");
await ended;
facts["isLeft"] = (await read(GROUPS, "cgroup.procs")) !== "gone";
process.stdout.write(`${JSON.stringify(facts)}\n`);
