/** Programs that the spawner starts: what they have, how they end, and what is told when it ends itself. */

import { readdirSync, readFileSync } from "node:fs";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { createSpawner } from "../../../src/envd/process/spawner.ts";
import {
  launchOf,
  makeSpawner,
  parentOf,
  readFirst,
  runToEnd,
  startOf,
} from "../../support/daemon/spawner.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const spawner = makeSpawner();
afterAll(() => spawner[Symbol.dispose]());

const ROOT = { uid: 0, gid: 0, groups: [0] };
const OTHER = { uid: 65_534, gid: 65_533, groups: [65_533, 4, 27] };
const isRoot = process.getuid?.() === 0;

const run = async (...words: readonly string[]) => runToEnd(spawner, launchOf(words));
const shell = async (script: string) => run("/bin/sh", "-c", script);

test("a program has its words, variables, directory and input as they are", async () => {
  const script = 'printf "<%s>" "$@"; pwd; cat; echo "$NAME" >&2; exit 7';
  const words = ["/bin/sh", "-c", script, "sh", "$HOME `id`", "", "a\nb", "é"];
  const launch = launchOf(words, { cwd: "/usr", env: { PATH: "/bin:/usr/bin", NAME: "=x\ny=" } });
  expect(await runToEnd(spawner, launch, "typed")).toEqual({
    outcome: { exitCode: 7, exited: true, status: "exit status 7", error: "exit status 7" },
    stdout: "<$HOME `id`><><a\nb><é>/usr\ntyped",
    stderr: "=x\ny=\n",
  });
});

test("a program has nothing of the spawner: no descriptor, variable, blocked or ignored signal", async () => {
  const script = "ls /proc/self/fd; grep -E '^Sig(Blk|Ign)' /proc/self/status; env; umask";
  const launch = launchOf(["/bin/sh", "-c", script], { env: { PATH: "/bin:/usr/bin", A: "b" } });
  const { stdout } = await runToEnd(spawner, launch);
  // The directory that `ls` reads is one more.
  expect(stdout.split("\n").slice(0, 6)).toEqual([
    "0",
    "1",
    "2",
    "3",
    "SigBlk:\t0000000000000000",
    "SigIgn:\t0000000000000000",
  ]);
  const shown = stdout
    .split("\n")
    .slice(6)
    .filter((line) => !/^(?:_|OLDPWD|SHLVL)=/.test(line));
  expect(shown.toSorted()).toEqual(["", "0022", "A=b", "PATH=/bin:/usr/bin", "PWD=/"]);
});

test("streams can be opened again by path, and the input without one is empty", async () => {
  const { stdout, stderr, outcome } = await shell("echo a >/dev/stdout; echo b >/dev/stderr; cat");
  expect([stdout, stderr, outcome.exitCode]).toEqual(["a\n", "b\n", 0]);
});

test.skipIf(!isRoot)("a program has the ids and groups of its user, and its streams", async () => {
  const script = "id -u; id -g; id -G; echo b >/dev/stderr; grep CapEff /proc/self/status";
  const launch = launchOf(["/bin/sh", "-c", script], { identity: OTHER });
  const { stdout, stderr } = await runToEnd(spawner, launch, "");
  expect(stdout).toBe("65534\n65533\n65533 4 27\nCapEff:\t0000000000000000\n");
  expect(stderr).toBe("b\n");
});

test.skipIf(!isRoot)("a program begins in no directory that its user cannot enter", async () => {
  await using folder = await makeTempFolder();
  const shown = join(folder.path, "closed", "shown");
  await mkdir(shown, { recursive: true });
  await chmod(folder.path, 0o755);
  // As after a change between the daemon's look and the start.
  await chmod(join(folder.path, "closed"), 0o700);
  const launch = launchOf(["/bin/pwd"], { cwd: shown, identity: OTHER });
  const ended = await runToEnd(spawner, launch);
  expect(ended).toMatchObject({ stdout: "", stderr: `sh: ${shown}: Permission denied\n` });
  expect(ended.outcome.exitCode).toBe(126);
});

test.for([
  ["no-such-command", 127],
  ["no such", 127],
  ["./bin/no-such", 127],
  ["/etc/passwd", 126],
  ["/etc", 126],
  ["", 127],
] as const)("the command %j ends with %i and is named by its error", async ([cmd, status]) => {
  const stderr = `sh: ${cmd}: ${status === 127 ? "not found" : "Permission denied"}\n`;
  for (const identity of isRoot ? [undefined, ROOT, OTHER] : [undefined]) {
    const ended = await runToEnd(spawner, launchOf([cmd, "a"], { cwd: "/usr", identity }));
    expect(ended).toMatchObject({ stdout: "", stderr, outcome: { exitCode: status } });
  }
});

test.for(["printf", "/usr/bin/printf", "./bin/printf"])("the command %s is found", async (cmd) => {
  const ended = await runToEnd(spawner, launchOf([cmd, "<%s>", "a b"], { cwd: "/usr" }));
  expect(ended).toMatchObject({ stdout: "<a b>", outcome: { exitCode: 0 } });
});

test.for([
  ["#!/no/such-interpreter -x\n", 127, /^sh: .*script: not found\n$/],
  ["#! /bin/sh\necho $1", 0, /^$/],
  ["echo $1", 0, /^$/],
] as const)("the script %j ends with %i", async ([content, status, error]) => {
  await using folder = await makeTempFolder();
  const script = join(folder.path, "script");
  await writeFile(script, content);
  await chmod(folder.path, 0o755);
  await chmod(script, 0o755);
  const { outcome, stdout, stderr } = await run(script, "a");
  expect([outcome.exitCode, stdout]).toEqual([status, status === 0 ? "a\n" : ""]);
  expect(stderr).toMatch(error);
});

test.for([1, 9, 15, 34, 64])("a program that signal %i ends is told as such", async (number) => {
  const { outcome } = await shell(`kill -${number} $$`);
  expect(outcome).toMatchObject({ exitCode: -1, exited: false });
  expect(outcome.status).toMatch(/^signal: (?:hangup|killed|terminated|signal \d+)$/);
});

test("a directory that cannot be entered is an error of the system, and nothing starts", async () => {
  for (const [cwd, code] of [
    ["/no/such", "ENOENT"],
    ["/etc/passwd", "ENOTDIR"],
  ] as const) {
    await expect(spawner.start(launchOf(["true"], { cwd }), startOf(true))).rejects.toMatchObject({
      code,
    });
  }
});

test("two hundred programs at once each have their own streams and end", async () => {
  const script = 'read -r line; echo "$1 $line"; exit $(($1 % 100))';
  const ended = await Promise.all(
    Array.from({ length: 200 }, async (_, index) =>
      runToEnd(spawner, launchOf(["/bin/sh", "-c", script, "sh", `${index}`]), `in ${index}\n`),
    ),
  );
  expect(ended.map(({ stdout, outcome }) => [stdout, outcome.exitCode])).toEqual(
    ended.map((_, index) => [`${index} in ${index}\n`, index % 100]),
  );
});

test("words of a megabyte arrive whole", async () => {
  const words = Array.from({ length: 10 }, (_, index) => `${index}`.repeat(100_000));
  const { stdout } = await run("printf", "%s", ...words);
  expect(stdout).toBe(words.join(""));
});

test("as many variables as are allowed arrive in their order, and take no time", async () => {
  const names = Array.from({ length: 90_000 }, (_, index) => `V${index}`);
  const env = { PATH: "/bin:/usr/bin", ...Object.fromEntries(names.map((name) => [name, ""])) };
  const { stdout } = await runToEnd(spawner, launchOf(["env"], { env }));
  expect(stdout).toBe(`PATH=/bin:/usr/bin\n${names.map((name) => `${name}=\n`).join("")}`);
}, 15_000);

test.for([
  ["", 0, "prog"],
  [":/usr/bin", 0, "prog"],
  ["/usr/bin:", 0, "prog"],
  ["/no/such:/etc/passwd:/usr/bin", 0, "true"],
  ["/usr/bin", 127, "prog"],
  ["/etc:/usr", 126, "passwd"],
  ["/etc:/usr/bin", 0, "passwd"],
  ["/usr/bin", 127, "n".repeat(300)],
  ["/usr/bin", 127, "/etc/passwd/none"],
  ["/usr/bin", 127, "./loop"],
] as const)("by the path %j a command ends with %i: %s", async ([path, status, cmd]) => {
  await using folder = await makeTempFolder();
  const link = join(folder.path, "prog");
  await symlink("/bin/true", link);
  await symlink("loop", join(folder.path, "loop"));
  const words = cmd === "passwd" ? [cmd, "--help"] : [cmd];
  const launch = launchOf(words, { cwd: folder.path, env: { PATH: path } });
  expect((await runToEnd(spawner, launch)).outcome.exitCode).toBe(status);
});

test("a program that ends at once leaves what it printed, and no descriptor stays open", async () => {
  await spawner.prepare();
  const before = readdirSync("/proc/self/fd").length;
  for (let round = 0; round < 50; round += 1) {
    expect((await run("echo", `${round}`)).stdout).toBe(`${round}\n`);
  }
  await expect.poll(() => readdirSync("/proc/self/fd").length).toBeLessThanOrEqual(before);
});

/** The process that started this one. */
const PARENT = "cut -d' ' -f4 /proc/$$/stat";

test("the spawner keeps no end of a pipe that the daemon has opened", async () => {
  const parent = (await shell(PARENT)).stdout.trim();
  const open = () => readdirSync(`/proc/${parent}/fd`).length;
  await run("true");
  await expect.poll(open).toBe(3);
});

test.for([
  { what: "long words", more: Array<string>(12).fill("x".repeat(100_000)) },
  { what: "many words", more: Array<string>(60_000).fill("x") },
])("the spawner gives the memory of an order of $what back", async ({ more }) => {
  using own = makeSpawner();
  const parent = await parentOf(own);
  const status = () => readFileSync(`/proc/${parent}/status`, "utf8");
  const heldKb = () => Number(/RssAnon:\s+([0-9]+)/.exec(status())?.[1]);
  const before = heldKb();
  await runToEnd(own, launchOf(["true", ...more]));
  await runToEnd(own, launchOf(["true"]));
  expect(heldKb() - before).toBeLessThan(512);
});

test("programs whose spawner is killed go on, and others start", async () => {
  using own = makeSpawner();
  const holder = await own.start(
    launchOf(["/bin/sh", "-c", `${PARENT}; read -r line; exit 3`]),
    startOf(true),
  );
  const parent = Number(await readFirst(holder));
  process.kill(parent, "SIGKILL");
  await expect.poll(() => readdirSync("/proc").includes(`${parent}`)).toBe(false);
  expect((await runToEnd(own, launchOf(["echo", "on"]))).stdout).toBe("on\n");
  expect(() => process.kill(holder.pid, 0)).not.toThrow();
  process.kill(holder.pid, "SIGKILL");
  expect(await holder.exited).toMatchObject({ exitCode: -1, exited: false, status: "unknown" });
});

test("no directory of pipes is left by a start, a refusal, or a spawner that is killed", async () => {
  await using folder = await makeTempFolder();
  const options = { parents: [folder.path, folder.path] } as const;
  using lasting = makeSpawner(options);
  await runToEnd(lasting, launchOf(["true"]));
  await lasting
    .start(launchOf(["true"], { cwd: "/no/such" }), startOf(true))
    .catch(() => undefined);
  for (let round = 0; round < 5; round += 1) {
    using own = makeSpawner(options);
    // It may do so before its own start is reported.
    const start = own.start(launchOf(["/bin/sh", "-c", "kill -9 $PPID"]), startOf(true));
    await start.then(async ({ exited }) => exited).catch(() => undefined);
  }
  await expect.poll(() => readdirSync(folder.path)).toEqual([]);
});

test("a spawner that does not answer is ended, and its callers are told", async () => {
  using own = createSpawner(["sh", "-c", "exec sleep 60", "sh"], { replyMs: 50 });
  await expect(own.start(launchOf(["true"]), startOf(false))).rejects.toMatchObject({
    code: "deadline_exceeded",
    message: "the spawner of processes does not answer",
  });
});

test("a spawner that ends at once is told to whoever waits for it", async () => {
  using own = createSpawner(["false"]);
  const fault = { code: "unavailable", message: "the spawner of processes ended" };
  await expect(own.start(launchOf(["true"]), startOf(false))).rejects.toMatchObject(fault);
  await expect(own.prepare()).rejects.toMatchObject(fault);
});

test("a spawner that is disposed of ends, and its programs go on", async () => {
  const own = makeSpawner();
  const spawned = await own.start(
    launchOf(["/bin/sh", "-c", `${PARENT}; exec sleep 60`]),
    startOf(false),
  );
  const parent = await readFirst(spawned);
  own[Symbol.dispose]();
  await expect.poll(() => readdirSync("/proc").includes(parent)).toBe(false);
  expect(readFileSync(`/proc/${spawned.pid}/comm`, "utf8")).toBe("sleep\n");
  process.kill(spawned.pid, "SIGKILL");
  expect((await spawned.exited).status).toBe("unknown");
});
