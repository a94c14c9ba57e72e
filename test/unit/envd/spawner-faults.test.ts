/** What interrupts the spawner, or tells something false in its place, and what becomes of programs then. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { isAlive, killProcess } from "../../../src/envd/process/kill.ts";
import { encodeOrder, launchFields } from "../../../src/envd/process/order.ts";
import { createSpawner } from "../../../src/envd/process/spawner.ts";
import {
  launchOf,
  makeSpawner,
  parentOf,
  runToEnd,
  SPAWNER,
  startOf,
} from "../../support/daemon/spawner.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a signal that comes before a program has begun ends it", async () => {
  using own = makeSpawner();
  const starts = Array.from({ length: 100 }, async () => {
    const { pid, exited } = await own.start(launchOf(["sleep", "5"]), startOf(false));
    process.kill(pid, "SIGTERM");
    return (await exited).status;
  });
  expect(new Set(await Promise.all(starts))).toEqual(new Set(["signal: terminated"]));
});

/** Takes a lease of a file, which holds whoever executes it, until its input ends. */
const LEASE = `open my $file, '+<', $ARGV[0] or die; $SIG{IO} = 'IGNORE'; $| = 1;
  fcntl $file, 1024, 1 or die "lease: $!"; print "held\\n"; sysread STDIN, $_, 1`;

test("a program whose start is held holds no pipe of another one", async () => {
  using own = makeSpawner();
  await own.prepare();
  await using folder = await makeTempFolder();
  const held = join(folder.path, "held");
  await writeFile(held, "#!/bin/sh\necho held\n");
  await chmod(held, 0o755);
  const holder = spawn("perl", ["-e", LEASE, held], { stdio: ["pipe", "pipe", "inherit"] });
  await once(holder.stdout, "data");
  let hasEnded = false;
  const other = runToEnd(own, launchOf(["echo", "other"]));
  const late = runToEnd(own, launchOf([held])).finally(() => (hasEnded = true));
  expect((await other).stdout).toBe("other\n");
  expect(hasEnded).toBe(false);
  holder.stdin.end();
  expect((await late).stdout).toBe("held\n");
});

test("the time in which all was frozen is no silence of the spawner", async () => {
  using own = makeSpawner({ replyMs: 2_000 });
  const spawner = await parentOf(own);
  process.kill(spawner, "SIGSTOP");
  const ended = runToEnd(own, launchOf(["echo", "on"]));
  // As the freezer does, it holds the daemon's timers and the spawner alike.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500);
  process.kill(spawner, "SIGCONT");
  expect((await ended).stdout).toBe("on\n");
});

test("a spawner that was stopped with all programs is waited for", async () => {
  let looks = 0;
  using own = makeSpawner({ replyMs: 50, areStopped: () => (looks += 1) > 0 });
  const spawner = await parentOf(own);
  process.kill(spawner, "SIGSTOP");
  const ended = runToEnd(own, launchOf(["echo", "on"]));
  looks = 0;
  await expect.poll(() => looks).toBeGreaterThan(30);
  process.kill(spawner, "SIGCONT");
  expect((await ended).stdout).toBe("on\n");
});

test("orders that a stopped spawner does not read take bounded memory, and are obeyed later", async () => {
  using own = makeSpawner();
  const spawner = await parentOf(own);
  process.kill(spawner, "SIGSTOP");
  const before = process.memoryUsage().arrayBuffers;
  const words = ["/bin/sh", "-c", "echo $#", "sh", ...Array<string>(10).fill("x".repeat(100_000))];
  const ended = Array.from({ length: 40 }, async () => runToEnd(own, launchOf(words)));
  await setImmediate();
  const grown = process.memoryUsage().arrayBuffers - before;
  process.kill(spawner, "SIGCONT");
  const outputs = (await Promise.all(ended)).map(({ stdout }) => stdout);
  expect(outputs).toEqual(Array(40).fill("10\n"));
  expect(grown).toBeLessThan(8 * 1024 * 1024);
});

test("a spawner that tells something meanwhile may take longer", async () => {
  const script = `for n in $(seq 30); do echo exit 1 0; sleep 0.05; done
    echo failed 1 2 chdir; exec sleep 60`;
  using own = createSpawner(["sh", "-c", script], { replyMs: 1_000 });
  const start = own.start(launchOf(["true"]), startOf(false));
  await expect(start).rejects.toMatchObject({ code: "ENOENT", message: "chdir" });
});

test("a program that nobody waits for any more is killed", async () => {
  await using folder = await makeTempFolder();
  const note = join(folder.path, "note");
  const script = `sleep 60 & echo started 7 $!; wait; touch ${note}`;
  using own = createSpawner(["sh", "-c", script]);
  void own.prepare().catch(() => undefined);
  await expect.poll(() => existsSync(note)).toBe(true);
});

/** A spawner that obeys each order by `obey($id, $directory)`. */
const FALSE_SPAWNER = `$| = 1; while (sysread STDIN, my $length, 4) {
  sysread STDIN, my $order, unpack 'N', $length;
  my ($letter, $id, $directory) = unpack 'a Z* Z*', $order;
  obey($id, $directory) if $letter eq 's';
} `;

test("what is no pipe is not read, and the program is killed", async () => {
  const program = `sub obey { mkdir $_[1]; for (qw(out err)) { open my $file, '>', "$_[1]/$_" }
    my $pid = fork || exec 'sleep', '60'; print "started $_[0] $pid\\n"; waitpid $pid, 0;
    print "signal $pid 9\\n"; unlink glob "$_[1]/*"; rmdir $_[1] }`;
  using own = createSpawner(["perl", "-e", FALSE_SPAWNER + program]);
  const starts = () => own.start(launchOf(["true"]), startOf(false));
  await expect(starts()).rejects.toThrow("not a pipe");
  const before = openDescriptors();
  // The next order is obeyed after the end of the program.
  await expect(starts()).rejects.toThrow("not a pipe");
  expect(openDescriptors()).toBe(before);
});

function openDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

test("where memory takes no pipes they are made on disk", async () => {
  const program = `sub obey { my $error = $_[1] =~ m{^/dev/shm/} ? '28 pipe' : '13 chdir';
    print "failed $_[0] $error\\n" }`;
  using own = createSpawner(["perl", "-e", FALSE_SPAWNER + program]);
  const start = own.start(launchOf(["true"]), startOf(false));
  await expect(start).rejects.toMatchObject({ code: "EACCES", message: "chdir" });
});

test("a start that is tried again where its spawner ends at that moment fails", async () => {
  // The next order is written to a closed input before the first start hears of its fault.
  const script = "sleep 0.3; exec 0<&-; sleep 0.3; echo failed 1 28 pipe; exec sleep 60";
  using own = createSpawner(["sh", "-c", `echo ready; read -r line; ${script}`]);
  await own.prepare();
  const starts = Array.from({ length: 8 }, async () => {
    const launch = launchOf(["true", "\n"]);
    return own.start(launch, { hasInput: false, signal: AbortSignal.timeout(5_000) });
  });
  const failed = (await Promise.allSettled(starts)).map((each) =>
    each.status === "rejected" ? each.reason : each.value,
  );
  expect(failed).toEqual(Array(8).fill(expect.objectContaining({ code: "unavailable" })));
});

test("pipes that have gone with the spawner are no fault of the command", async () => {
  const program = `sub obey { mkdir $_[1]; for (qw(in out err)) { system "mkfifo", "$_[1]/$_" }
    my $pid = fork || exec 'true'; waitpid $pid, 0; print "started $_[0] $pid\n" }`;
  using own = createSpawner(["perl", "-e", FALSE_SPAWNER + program]);
  await expect(own.start(launchOf(["true"]), startOf(true))).rejects.toMatchObject({
    code: "unavailable",
    message: "the pipes of the process have gone",
  });
});

test.for(["before", "after"])(
  "no program outlives a daemon that ends %s its start",
  async (when) => {
    await using folder = await makeTempFolder();
    const [file, ...args] = [...SPAWNER, process.arch];
    const child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    expect(await lines.next()).toMatchObject({ value: "ready" });
    if (when === "before") child.kill("SIGSTOP");
    const pipes = join(folder.path, "pipes");
    const fields = launchFields(launchOf(["sleep", "60"]));
    child.stdin.write(encodeOrder("s", ["1", pipes, "", ...fields]));
    if (when === "after") await lines.next();
    child.stdin.destroy();
    child.kill("SIGCONT");
    await once(child, "exit");
    expect(existsSync(pipes)).toBe(false);
    // The group of the spawner, in which its programs are.
    await expect.poll(() => isAlive(-Number(child.pid))).toBe(false);
  },
);

test("a spawner whose reports reach no one ends, and so does what it started", async () => {
  await using folder = await makeTempFolder();
  const [file, ...args] = [...SPAWNER, process.arch];
  const child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"] });
  await once(child.stdout, "data");
  child.stdout.destroy();
  const fields = launchFields(launchOf(["sleep", "60"]));
  child.stdin.write(encodeOrder("s", ["1", join(folder.path, "pipes"), "", ...fields]));
  await once(child, "exit");
  child.stdin.destroy();
  await expect.poll(() => isAlive(-Number(child.pid))).toBe(false);
});

test("a process that has become another user's is left, and nothing is thrown", () => {
  const kill = vi.spyOn(process, "kill").mockImplementation(() => {
    throw Object.assign(new Error("kill"), { code: "EPERM" });
  });
  try {
    expect(() => killProcess(1, "SIGKILL")).not.toThrow();
  } finally {
    kill.mockRestore();
  }
});
