/** A person without root: the same sandboxes in a user namespace of their own, and what they lack. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mainJob } from "../demo/main-job.ts";
import { createSteps } from "../demo/steps.ts";
import { makeBrokenRuntime } from "../support/faults/broken-runtime.ts";
import { ORDINARY_RUNTIME } from "../support/level.ts";
import { startMcpClient, type TestClient } from "../support/mcp/mcp-client.ts";
import type { ToolReply } from "../support/mcp/tool-reply.ts";
import { LAB, startLab, type Lab } from "../support/network/lab.ts";
import { placeUser, placeUserWithout } from "../support/network/placed-user.ts";
import { openOrdinaryUser, type OrdinaryUser } from "../support/ordinary-user.ts";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

let person: OrdinaryUser;
let lab: Lab;

beforeAll(async () => {
  person = await openOrdinaryUser({ ids: true });
  lab = await startLab();
});

afterAll(async () => {
  await lab[Symbol.asyncDispose]();
  await person[Symbol.asyncDispose]();
});

function homeOf(user: OrdinaryUser): Record<string, string> {
  return {
    HOME: user.data,
    SANDBOX_MCP_HOME: user.data,
    SANDBOX_MCP_LOG_LEVEL: "silent",
    ...ORDINARY_RUNTIME,
  };
}

async function runAs(
  user: OrdinaryUser,
  words: readonly string[],
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const [command, ...first] = user.program;
  const env = { PATH: process.env["PATH"] ?? "", ...homeOf(user) };
  const child = spawn(command, [...first, ...words], { env, stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  return { code, stdout, stderr };
}

async function startClient(flags: readonly string[] = []): Promise<TestClient> {
  return startMcpClient(["--toolsets", "all", ...flags], homeOf(person), person.program);
}

async function createSandbox(client: TestClient): Promise<string> {
  const reply = await client.call("create_sandbox", {});
  assert.equal(reply.isError, false, reply.text);
  return String(reply.fields["sandbox_id"]);
}

/** Runs a command in the sandbox and gives what it wrote. */
async function shell(
  client: TestClient,
  sandbox: string,
  input: { readonly cmd: string; readonly user?: string },
): Promise<ToolReply> {
  return client.call("run_process", { sandbox_id: sandbox, ...input });
}

test("doctor says that it works, and what is lost without root", async () => {
  const { code, stdout } = await runAs(person, ["doctor", "--json"]);
  const report = JSON.parse(stdout);
  expect({ code, isUsable: report.isUsable, level: report.level }).toEqual({
    code: 0,
    isUsable: true,
    level: "userns-container",
  });
  const row = report.checks.find(({ name }: { name: string }) => name === "root");
  expect(row).toMatchObject({ outcome: "warning", remedy: "run as root to have them" });
  expect(row.detail).toMatch(/no limit on the memory.*no template host/);
});

test("what a user has perl load and decode changes no program of the service", async () => {
  const library = join(person.home, "perl");
  await mkdir(join(library, "File"), { recursive: true });
  await writeFile(join(library, "File/Glob.pm"), 'die "of another perl"');
  const paths = [`PERL5LIB=${library}`, `PERLLIB=${library}`];
  const own = ["PERL5OPT=-MNo::Such::Module", "PERL_UNICODE=SDA", "LC_ALL=xx_XX", ...paths];
  const program = ["env", ...own, ...person.program] as const;
  const { code, stderr } = await runAs({ ...person, program }, ["doctor"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("the main job of the product passes, and its end leaves nothing", async () => {
  const steps = createSteps(() => undefined);
  const client = await startClient();
  await mainJob(client, steps);
  await client[Symbol.asyncDispose]();
  expect(steps.failures()).toEqual([]);
  await expect.poll(async () => person.processes()).toEqual([]);
  expect(await readdir(join(person.data, "instances"))).toEqual([]);
});

test("root inside is neither the person nor anybody else of this machine", async () => {
  await using client = await startClient();
  const sandbox = await createSandbox(client);
  const cmd = "exec sleep 86399";
  await client.call("run_process", { sandbox_id: sandbox, cmd, user: "root", wait_seconds: 0 });
  const [pid] = (await person.processes())
    .filter((line) => line.endsWith("sleep 86399"))
    .map((line) => line.split(" ")[0]);
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const idBase = person.idBase ?? 0;
  expect(status).toMatch(new RegExp(`^Uid:\\s+${idBase}\\s+${idBase}\\s`, "m"));
  // A group of the person, such as that of a container engine's socket, would be a way out.
  expect(/^Groups:\s*(.*)$/m.exec(status)?.[1]?.trim()).toBe(String(idBase));
  expect(status).toMatch(/^Seccomp:\s+2$/m);
});

test("a sandbox has a boot id of its own, whose mount shows no path of the machine", async () => {
  await using client = await startClient();
  const sandbox = await createSandbox(client);
  const cmd = `cat ${BOOT_ID}; echo $E2B_BOOT_ID; grep boot_id /proc/self/mountinfo | cut -d' ' -f4,5`;
  const { text: output } = await shell(client, sandbox, { cmd });
  const [own, told] = output.match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g) ?? [];
  expect(own).toBeDefined();
  expect(told).toBe(own);
  expect(own).not.toBe((await readFile(BOOT_ID, "utf8")).trim());
  expect(output).toContain(`/boot_id ${BOOT_ID}`);
});

test("nothing of the person's home is in sight, and the doors of the kernel are shut", async () => {
  await using client = await startClient();
  const sandbox = await createSandbox(client);
  const attempts = [
    `ls -A ${JSON.stringify(person.data)}`,
    "ls -A /proc/1/root/root/.ssh",
    "mount -t tmpfs none /mnt",
    "unshare --user true",
    "mknod /tmp/disk b 252 0",
    "echo x > /proc/sys/kernel/core_pattern",
    // Who may read a program's file may trace what runs it, such as the daemon with its token.
    "cat /run/sandbox-mcp/loader",
    "cat /proc/1/environ",
  ];
  for (const cmd of attempts) {
    const reply = await shell(client, sandbox, { cmd, user: "root" });
    expect({ cmd, code: reply.fields["exit_code"] }).not.toEqual({ cmd, code: 0 });
  }
});

test("a paused sandbox stands still and goes on, its shell too", async () => {
  // A pool that fills up would run beside it.
  await using client = await startClient(["--pool", "0"]);
  const sandbox = await createSandbox(client);
  const cmd = "while :; do date +%s%N > /tmp/now; sleep 0.05; done";
  await client.call("run_process", { sandbox_id: sandbox, cmd, wait_seconds: 0 });
  await client.call("pause_sandbox", { sandbox_id: sandbox });
  const running = await runningProcesses(person);
  expect(running).toEqual([]);
  await client.call("connect_sandbox", { sandbox_id: sandbox });
  const first = await shell(client, sandbox, { cmd: "cat /tmp/now; sleep 0.3; cat /tmp/now" });
  const [before, after] = first.text.match(/\d{19}/g) ?? [];
  expect(before).toBeDefined();
  expect(after).not.toBe(before);
});

/** Those with a subordinate id that are not stopped. */
async function runningProcesses(user: OrdinaryUser): Promise<string[]> {
  const found: string[] = [];
  for (const line of await user.processes()) {
    const status = await readFile(`/proc/${line.split(" ")[0]}/status`, "utf8").catch(() => "");
    const owner = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1] ?? -1);
    if (owner !== user.uid && !/^State:\s+T/m.test(status)) found.push(line);
  }
  return found;
}

test("processes of one user of a sandbox end at the limit", async () => {
  await using client = await startClient(["--pids", "64"]);
  const sandbox = await createSandbox(client);
  const bomb = "for i in $(seq 200); do sleep 5 > /dev/null 2>&1 & done";
  const reply = await shell(client, sandbox, { cmd: bomb });
  expect(reply.text).toMatch(/Resource temporarily unavailable|Cannot fork/);
  expect((await person.processes()).length).toBeLessThan(100);
});

test("a second server of the same person works beside the first, and outlives it", async () => {
  const first = await startClient();
  await using second = await startClient();
  const sandbox = await createSandbox(second);
  await first[Symbol.asyncDispose]();
  const reply = await shell(second, sandbox, { cmd: "id -un" });
  expect(reply.text).toContain("user");
});

test("gc removes what a killed server left", async () => {
  const client = await startClient();
  await createSandbox(client);
  process.kill(client.pid, "SIGKILL");
  await client[Symbol.asyncDispose]();
  expect(await person.processes()).not.toEqual([]);
  expect(await runAs(person, ["gc"])).toMatchObject({ code: 0, stderr: "" });
  await expect.poll(async () => person.processes()).toEqual([]);
  expect(await readdir(join(person.data, "instances"))).toEqual([]);
});

const isContainer = (line: string) => line.includes("/run/sandbox-mcp/sh -c");

test.for(["ends", "is killed"])("a server that %s in a start leaves no process", async (end) => {
  await using runtime = await makeBrokenRuntime();
  await using client = await startClient(["--pool", "0", "--runtime", runtime.path]);
  await client.call("list_sandboxes", {});
  await runtime.set("silent");
  const creating = createSandbox(client).catch(() => undefined);
  await expect.poll(async () => (await person.processes()).some(isContainer)).toBe(true);
  if (end === "is killed") process.kill(client.pid, "SIGKILL");
  await client[Symbol.asyncDispose]();
  await creating;
  await expect.poll(async () => person.processes()).toEqual([]);
  expect(await runAs(person, ["gc"])).toMatchObject({ code: 0, stderr: "" });
  expect(await readdir(join(person.data, "instances"))).toEqual([]);
});

test("without subordinate ids the start ends with the command that gives them", async () => {
  await using bare = await openOrdinaryUser({ ids: false });
  const { code, stderr } = await runAs(bare, ["stdio"]);
  expect(code).toBe(69);
  expect(stderr).toMatch(/\/etc\/subuid.*usermod --add-subuids/);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test("it is told which flags need root", async () => {
  const flags = ["--store-gb", "8", "--volume-mb", "100", "--allow-host-template"];
  const place = ["--build-base", "off", "--port", "0", "--home", join(person.home, "none")];
  const { code, stderr } = await runAs(person, ["serve", ...flags, ...place]);
  expect(code).toBe(69);
  const told = stderr.matchAll(/^sandbox-mcp: (--[a-z-]+): not used without root/gm);
  expect([...told].map(([, flag]) => `${flag}`).toSorted()).toEqual(
    flags.filter((word) => word.startsWith("--")).toSorted(),
  );
});

/** A stdio server of the person on a machine that has an internet. */
async function startOnline(program: OrdinaryUser["program"]): Promise<TestClient> {
  const network = { SANDBOX_MCP_EGRESS: "on", SANDBOX_MCP_DNS: LAB.nameServer };
  const flags = ["--toolsets", "all", "--pool", "0"];
  return startMcpClient(flags, { ...homeOf(person), ...network }, program);
}

test("a sandbox reaches the internet and not the machine, and the end leaves nothing", async () => {
  const client = await startOnline(placeUser(person, lab.namespace).program);
  const sandbox = await createSandbox(client);
  const fetchFrom = async (host: string) =>
    (await shell(client, sandbox, { cmd: `curl -sS -m 3 http://${host}:${LAB.port}/` })).text;
  expect(await fetchFrom("service.test")).toContain(`far ${LAB.publicHost} saw ${LAB.machine}`);
  for (const host of [LAB.machine, LAB.bridge, ...LAB.unreachable]) {
    expect(await fetchFrom(host)).not.toMatch(/ saw /);
  }
  const uplinks = async () =>
    (await person.processes()).filter((line) => line.includes(" sandbox-mcp-uplink:"));
  expect(await uplinks()).toHaveLength(1);
  await client.call("kill_sandbox", { sandbox_id: sandbox });
  await expect.poll(uplinks).toEqual([]);
  await createSandbox(client);
  expect(await uplinks()).toHaveLength(1);
  process.kill(client.pid, "SIGKILL");
  await client[Symbol.asyncDispose]();
  await expect.poll(async () => person.processes(), { timeout: 10_000 }).toEqual([]);
  expect(await runAs(person, ["gc"])).toMatchObject({ code: 0 });
});

test.for([
  ["slirp4netns", /no slirp4netns/, /install.* slirp4netns/],
  ["tunnel", /no access to \/dev\/net\/tun/, /^sudo chmod 0666 \/dev\/net\/tun$/],
] as const)("without %s sandboxes have loopback, and it is told", async ([hidden, why, remedy]) => {
  const { program } = placeUserWithout(person, lab.namespace, hidden);
  await using client = await startOnline(program);
  const { fields, text: words } = await client.call("create_sandbox", {});
  expect(words).toContain("no internet in it: this machine has no way out for sandboxes");
  const sandbox = String(fields["sandbox_id"]);
  const { text: links } = await shell(client, sandbox, { cmd: "grep -c : /proc/net/dev; id -un" });
  expect(links).toMatch(/\b1\nuser\b/);
  const { code, stdout } = await runAs({ ...person, program }, ["doctor", "--json"]);
  expect(code).toBe(0);
  const checks: { name: string }[] = JSON.parse(stdout).checks;
  const row = checks.find(({ name }) => name === "internet");
  expect(row).toMatchObject({ outcome: "warning" });
  expect(row).toMatchObject({
    detail: expect.stringMatching(why),
    remedy: expect.stringMatching(remedy),
  });
});
