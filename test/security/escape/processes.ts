/** E05 to E07, E23 to E25 and E30: other processes, what was inherited, the runtime's program. */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { makeCanary, type AttackRange } from "../../support/hostile/attack-range.ts";
import { attackUnconfined } from "../../support/hostile/unconfined.ts";
import { runtimePath } from "../../support/runtimes.ts";
import { expectOutcomes } from "./own-kernel.ts";

const USERS = ["root", "user"];
const DAEMON_SHELL = ["/run/sandbox-mcp/sh", "-c", "'sleep 9'"];
const PRIVATE_PARTS = ["environ", "mem", "maps", "auxv", "io", "root/etc", "cwd/etc", "fd"];
const TRUTH_LIMIT_MS = 2_000;
const FOLDERS = ["/proc/self/fd/0", "/proc/self/fd/9", "/proc/1/root", "/proc/1/cwd"];

/** In a sandbox of the range. */
export function describeProcesses(place: () => AttackRange, runtime: string): void {
  test.for(USERS)("E05 no working folder of %s lies outside", async (user) => {
    const words = [place().canary.path];
    const outcomes = await place().attack({ program: "processes", id: "E05", words }, user);
    expect(Object.keys(outcomes)).toHaveLength(70);
    const allowed = new Set(["contained", "ENOENT", "ENOTDIR", "EACCES"]);
    expect(new Set(Object.values(outcomes)).difference(allowed)).toEqual(new Set());
    // The daemon itself is asked for such a folder too.
    for (const cwd of FOLDERS) {
      await expect(place().sandbox.commands.run("true", { cwd, user })).rejects.toThrow(
        /invalid_argument/,
      );
    }
  });

  test.for(USERS)("E06 three descriptors and no more are handed to %s", async (user) => {
    const outcomes = await place().attack({ program: "processes", id: "E06" }, user);
    expect(Object.keys(outcomes)).toEqual(["0", "1", "2"]);
    for (const target of Object.values(outcomes)) {
      expect(target).toMatch(/^(\/dev\/null|\/dev\/shm\/envd-\S+ \(deleted\)|pipe)$/);
    }
  });

  test.for(USERS)("E07 the programs of runtime and daemon are not written by %s", async (user) => {
    const programs = async () => [
      await hashOf(runtimePath(runtime) ?? ""),
      ...(await hashesOf(join(place().serve.home, "daemon"))),
    ];
    const before = await programs();
    const outcomes = await place().attack(
      { program: "processes", id: "E07", words: DAEMON_SHELL },
      user,
    );
    // With root the daemon's folder is seen through a read-only overlay, else through a mount.
    const reopen = outcomes["reopen"];
    expect(["EACCES", "EROFS"]).toContain(reopen);
    expect(outcomes).toEqual({ reopen, first: "EACCES", every: "none" });
    expect(await programs()).toEqual(before);
  });

  test.for(USERS)("E23 neither PID 1 nor the daemon is traced by %s", async (user) => {
    const words = [1, await daemonPid(place().sandbox)];
    const outcomes = await place().attack({ program: "processes", id: "E23", words }, user);
    const expected = words.flatMap((pid) => [
      ...["attach", "seize", "readv", "writev", "getfd"].map((way) => [
        `pid ${pid} ${way}`,
        "EPERM",
      ]),
      [`pid ${pid} mem`, "EACCES"],
    ]);
    expectOutcomes(place(), { id: "E23", user, outcomes }, Object.fromEntries(expected));
  });

  test.for(USERS)("E24 no token shows in any process to %s", async (user) => {
    const { sandbox, tokens } = await createWithTokens(place());
    const words = [1, await daemonPid(sandbox)];
    const { tokens: found, ...parts } = await place().attack(
      { program: "processes", id: "E24", words },
      user,
      sandbox,
    );
    await sandbox.kill();
    expect(tokens.every((token) => /^[0-9a-f]{64}$/.test(token))).toBe(true);
    expect(found).toBe("none");
    const expected = words.flatMap((pid) =>
      PRIVATE_PARTS.map((part) => [`${part} of ${pid}`, "EACCES"]),
    );
    expectOutcomes(place(), { id: "E24", user, outcomes: parts }, Object.fromEntries(expected));
  });

  test("E24 control: a token in an ordinary process is found", async () => {
    const token = randomBytes(32).toString("hex");
    const { sandbox } = place();
    const victim = await sandbox.commands.run("exec sleep 60", {
      background: true,
      envs: { TOKEN: token },
    });
    const outcomes = await place().attack({ program: "processes", id: "E24" }, "user");
    await victim.kill();
    expect(outcomes["tokens"]).toContain(token);
  });

  test.for(USERS)("E25 what %s kills is of its own sandbox", async (user) => {
    const { neighbour, options } = place();
    const watched = await neighbour.commands.run("exec sleep 600", { background: true });
    const sandbox = await place().createSandbox();
    const daemon = await daemonPid(sandbox);
    // Its own kernel lets root end the first process, and the sandbox with it.
    const first =
      place().hasOwnKernel && user === "root" ? [] : ["kill -9 1", "kill -9 -1; kill -9 1"];
    const commands = ["kill -9 -1", `kill -9 ${daemon}`, ...first];
    for (const command of commands) {
      await sandbox.commands.run(command, { user }).catch(() => undefined);
      await expect
        .poll(async () => answerOf(sandbox), { timeout: TRUTH_LIMIT_MS, interval: 50 })
        .toBe("back\n");
    }
    expect(await Sandbox.getInfo(sandbox.sandboxId, options)).toMatchObject({ state: "running" });
    const pids = (await neighbour.commands.list()).map(({ pid }) => pid);
    expect(pids).toContain(watched.pid);
    await watched.kill();
    await sandbox.kill();
  });

  test("E25 control: within one sandbox everybody's processes end", async () => {
    const sandbox = await place().createSandbox();
    const victim = await sandbox.commands.run("exec sleep 600", { background: true });
    await sandbox.commands.run("kill -9 -1", { user: "root" }).catch(() => undefined);
    await expect(victim.wait()).rejects.toThrow(/signal|terminated|unknown|missing/);
    await expect.poll(async () => answerOf(sandbox), { timeout: TRUTH_LIMIT_MS }).toBe("back\n");
    expect(await sandbox.commands.list()).toEqual([]);
    await sandbox.kill();
  });

  test.for(USERS)("E30 raised programs of %s stay in the sandbox's ids", async (user) => {
    if (place().hasOwnKernel) {
      await expectOwnIds(place(), user);
      return;
    }
    const outcomes = await place().attack({ program: "processes", id: "E30" }, user);
    const [inside, outside] = (outcomes["set-user-id"] ?? "").split(" ").map(Number);
    expect(inside).toBe(0);
    expect(outside).toBeGreaterThanOrEqual(place().firstId);
    // CAP_SYS_ADMIN is outside of the bounding set, CAP_NET_BIND_SERVICE within it.
    expect(outcomes).toMatchObject({ admin: "EPERM", "bind service": "0000000000000400" });
  });
}

/** What its own kernel raises is root of this kernel, which itself has ids of the sandbox. */
async function expectOwnIds(range: AttackRange, user: string): Promise<void> {
  const { sandbox } = range;
  const sudo = await sandbox.commands.run("sudo -n true; echo $?", { user });
  const admin = await range
    .attack({ program: "processes", id: "E30" }, user)
    .then((outcomes) => outcomes["admin"], String);
  // Some of these kernels know no set-user-id programs, by which a user begins this attack.
  const hasBegun = user === "root" || sudo.stdout.trim() === "0";
  expect(admin).toMatch(hasBegun ? /^(EPERM|ENOTSUP)$/ : /exit status 1/);
  const ids = await idsOfSandbox(sandbox.sandboxId);
  expect(ids.length).toBeGreaterThan(1);
  expect(Math.min(...ids)).toBeGreaterThanOrEqual(range.firstId);
}

/** The ids on this machine of all processes of a sandbox but the relay, which is the host's. */
async function idsOfSandbox(sandboxId: string): Promise<number[]> {
  const group = await readFile(`/sys/fs/cgroup/pids/sandbox-mcp/${sandboxId}/cgroup.procs`, "utf8");
  const found = group
    .split("\n")
    .filter(Boolean)
    .map(async (pid) => {
      const [status, command] = await Promise.all([
        readFile(`/proc/${pid}/status`, "utf8").catch(() => ""),
        readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""),
      ]);
      const ids = /^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$/m.exec(status)?.slice(1).map(Number) ?? [];
      return command.includes("sentry-relay") ? [] : ids;
    });
  return (await Promise.all(found)).flat();
}

/** Unconfined. */
export function describeProcessesControl(): void {
  test("E05 control: a descriptor that was left open leads out", async () => {
    await using canary = await makeCanary();
    const attack = { program: "processes", id: "E05", words: [canary.path] };
    expect(await attackUnconfined(attack, "leak")).toMatchObject({
      "/proc/self/fd/9": "escaped",
      "/proc/1/root": "contained",
    });
  });

  test("E06 control: a descriptor that was left open shows", async () => {
    const outcomes = await attackUnconfined({ program: "processes", id: "E06" }, "leak");
    expect(outcomes).toMatchObject({ "9": "folder" });
  });

  test("E07 control: a program is written once it has ended", async () => {
    const words = ["own", "30"];
    const outcomes = await attackUnconfined({ program: "processes", id: "E07", words });
    expect(outcomes).toMatchObject({ reopen: "ok" });
  });

  test("E23 control: a process is traced, read and robbed", async () => {
    const outcomes = await attackUnconfined({ program: "processes", id: "E23" });
    expect(Object.keys(outcomes)).toHaveLength(6);
    expect(new Set(Object.values(outcomes))).toEqual(new Set(["ok"]));
  });

  test("E24 control: another process shows all of itself", async () => {
    const outcomes = await attackUnconfined({ program: "processes", id: "E24", words: [1] });
    const parts = PRIVATE_PARTS.map((part) => outcomes[`${part} of 1`]);
    expect(new Set(parts)).toEqual(new Set(["ok"]));
  });

  test("E30 control: a raised program is root of the machine", async () => {
    const outcomes = await attackUnconfined({ program: "processes", id: "E30" });
    expect(outcomes).toMatchObject({ "set-user-id": "0 0", admin: "0000000000200000" });
  });
}

/** A sandbox with the tokens that its maker was told. */
async function createWithTokens(range: AttackRange) {
  const reply = await fetch(`${range.serve.url}/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": range.serve.apiKey, "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base", secure: true }),
  });
  const body: unknown = await reply.json();
  assert.ok(typeof body === "object" && body !== null && "sandboxID" in body);
  const tokens = Object.entries(body).flatMap(([name, value]) =>
    name.endsWith("AccessToken") && typeof value === "string" ? [value] : [],
  );
  assert.ok(tokens.length > 0, "the reply has a token");
  const sandbox = await Sandbox.connect(String(body.sandboxID), range.options);
  await range.equip(sandbox);
  return { sandbox, tokens };
}

async function daemonPid(sandbox: Sandbox): Promise<number> {
  const { stdout } = await sandbox.commands.run("pgrep -P 1 -f /daemon[.]");
  return Number(stdout);
}

async function answerOf(sandbox: Sandbox): Promise<string> {
  return sandbox.commands.run("echo back").then(({ stdout }) => stdout, String);
}

async function hashOf(path: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(path))
    .digest("hex");
}

async function hashesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return Promise.all(files.map(async (entry) => hashOf(join(entry.parentPath, entry.name))));
}
