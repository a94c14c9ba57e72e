/** One container on a real runtime: what it is, what it may use, and how it ends. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import type { StepMessage } from "../../../src/common/steps.ts";
import type { Layer } from "../../../src/engine/engine.ts";
import { readRecord } from "../../../src/engine/oci/container-record.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { takeCensus } from "../../support/census.ts";
import { cgroupPlaces } from "../../support/engine/cgroup-places.ts";
import { openLimits } from "../../support/engine/container-limits.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { takeIds } from "../../support/engine/taken-ids.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const BUILD_TIMEOUT_MS = 600_000;
const NOTICE_MS = 2_000;
const START_MS = 30_000;

let base: readonly Layer[];

beforeAll(async () => {
  base = await baseLayers();
}, BUILD_TIMEOUT_MS);

describe.each(["crun", "runc"])("a container on %s", (runtime) => {
  let host: OciHost;

  beforeAll(async () => {
    host = await startOciHost(runtime);
    await host.engine.probe();
  });

  afterAll(async () => host[Symbol.asyncDispose]());

  async function recordOf(id: string) {
    const record = await readRecord(host.directoryOf(id));
    if (record === undefined) throw new Error(`no record of ${id}`);
    return record;
  }

  /** Mode and number of the system call filters, as the kernel tells them. */
  async function filtersOf(id: string) {
    const { pid } = await recordOf(id);
    return (await readFile(`/proc/${pid}/status`, "utf8")).match(/^Seccomp\S*:\s+\d+$/gm);
  }

  test("the probe proves the runtime and remembers it", async () => {
    const fresh = await host.engine.probe("fresh");
    const cached = await host.engine.probe();
    expect({ ...fresh, runtime: fresh.runtime?.split(" ")[0], checks: [] }).toEqual({
      runtime,
      level: "userns-container",
      isUsable: true,
      checks: [],
    });
    // A fresh one looks for another kernel too, which no start needs.
    const own = fresh.checks.filter(({ name }) => name !== "isolation gvisor");
    expect(own).toHaveLength(fresh.checks.length - 1);
    expect(cached).toEqual({ ...fresh, checks: own });
  });

  test("users of the base template work, and root is reached by sudo", async () => {
    await using container = await host.create({ layers: base });
    await initDaemon(container);
    const result = await runInside(container, "id -un; id -Gn; sudo -n id -un; pwd", "user");
    expect(result).toEqual({
      exitCode: 0,
      stdout: "user\nuser sudo\nroot\n/home/user\n",
      stderr: "",
    });
  });

  test("the kernel holds the limits that were asked for", async () => {
    await using container = await host.create({
      limits: { memoryMb: 128, cpus: 0.5, pids: 40 },
    });
    const { pid } = await recordOf(container.id);
    expect(await cgroupPlaces(pid)).toEqual(new Set([`/sandbox-mcp/${container.id}`]));
    const { limits } = await openLimits(container.id);
    expect(await limits()).toEqual({
      memory: 128 * 1024 * 1024,
      memoryAndSwap: 128 * 1024 * 1024,
      cpuQuota: 50_000,
      pids: 40,
    });
  });

  test("a later container is filtered as the first one, which the runtime compiled for", async () => {
    await using first = await host.create();
    await using later = await host.create({ layers: base });
    expect(await filtersOf(later.id)).toEqual(await filtersOf(first.id));
    expect(String(await filtersOf(later.id))).toMatch(/^Seccomp:\s+2,/);
    const config = await readFile(join(host.directoryOf(later.id), "config.json"), "utf8");
    expect(config.includes('"defaultAction"')).toBe(runtime !== "crun");
    await initDaemon(later);
    const refused = await runInside(later, "unshare --user true; mount -t tmpfs none /mnt");
    expect(refused.exitCode).not.toBe(0);
  });

  test("it takes nothing that the machine has once: huge pages, filters, core dumps, modules", async () => {
    await using container = await host.create({ layers: base });
    await initDaemon(container);
    const lines = [
      "import ctypes, errno, mmap, resource, socket, struct",
      "def attempt(work):",
      "    try: work(); return 'ok'",
      "    except OSError as error: return errno.errorcode[error.errno]",
      "instruction = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 1))",
      "filter = struct.pack('HxxxxxxQ', 1, ctypes.addressof(instruction))",
      "one = socket.socket(type=socket.SOCK_DGRAM)",
      "print(attempt(lambda: mmap.mmap(-1, 1 << 21, flags=0x40022)))",
      "print(attempt(lambda: one.setsockopt(1, 26, filter)))",
      "print(attempt(lambda: one.setsockopt(1, 51, filter)))",
      "print(attempt(lambda: one.setsockopt(1, 8, 4096)))",
      "print(attempt(lambda: socket.socketpair(40, 1)), attempt(lambda: socket.socket(2, 5, 132)))",
      "print(attempt(socket.socketpair), attempt(lambda: socket.socket(2, 1, 262)))",
      "print(attempt(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))))",
      "print(*resource.getrlimit(resource.RLIMIT_CORE))",
    ];
    const program = `python3 - <<'end'\n${lines.join("\n")}\nend`;
    const { stdout } = await runInside(container, program, "user");
    const outcomes = stdout.trim().split("\n");
    expect(outcomes.slice(0, 4)).toEqual(["ENOMEM", "EPERM", "EPERM", "ok"]);
    // The kernel would look for a module of the machine.
    expect(outcomes.slice(4, 6)).toEqual(["EPERM EPERM", "ok EPROTONOSUPPORT"]);
    // With a limit of 0, and not of 1, it gives a dump to the machine's own program.
    expect(outcomes.slice(6)).toEqual(["ok", "1 1"]);
  });

  test("two containers share no namespace, no id and no disk", async () => {
    await using first = await host.create();
    await using second = await host.create();
    const [one, two] = [await recordOf(first.id), await recordOf(second.id)];
    expect(Math.abs(one.idBase - two.idBase)).toBeGreaterThanOrEqual(65_536);
    for (const kind of ["pid", "mnt", "net", "ipc", "uts", "cgroup", "user"]) {
      const links = [one.pid, two.pid, "self"].map(async (pid) =>
        readlink(`/proc/${pid}/ns/${kind}`),
      );
      expect(new Set(await Promise.all(links)).size).toBe(3);
    }
  });

  test("pause stops every process where it stands, resume goes on", async () => {
    await using container = await host.create({ layers: base });
    await initDaemon(container);
    await runInside(
      container,
      "(i=0; while :; do i=$((i+1)); echo $i > /tmp/n; done) >/dev/null 2>&1 & echo on",
    );
    const counter = join(host.directoryOf(container.id), "disk/root/tmp/n");
    await expect.poll(async () => readFile(counter, "utf8").catch(() => "")).not.toBe("");
    await container.pause();
    await container.pause();
    const before = await readFile(counter, "utf8");
    await expect
      .poll(async () => readFile(counter, "utf8"), { interval: 50, timeout: 200 })
      .toBe(before);
    await container.resume();
    await expect.poll(async () => readFile(counter, "utf8")).not.toBe(before);
  });

  test("a full disk is the sandbox's own trouble", async () => {
    await using container = await host.create({ layers: base, limits: { diskMb: 32 } });
    await initDaemon(container);
    const full = await runInside(container, "dd if=/dev/zero of=/big bs=1M count=100 2>&1; ls /");
    expect(full.stdout).toContain("No space left on device");
    const after = await runInside(container, "rm /big; echo again > /small; cat /small");
    expect(after).toEqual({ exitCode: 0, stdout: "again\n", stderr: "" });
  });

  test("the daemon starts again when it is killed inside, and its secrets are its own", async () => {
    await using container = await host.create({ layers: base });
    await initDaemon(container);
    const peek = await runInside(
      container,
      "cat /proc/1/environ; cat /proc/2/environ; ls /proc/2/fd",
    );
    expect(peek.stdout).toBe("");
    await runInside(container, "kill -9 2").catch(() => undefined);
    await initDaemon(container);
    const result = await runInside(container, "echo alive");
    expect(result.stdout).toBe("alive\n");
  });

  test("a container that is killed from outside ends within two seconds", async () => {
    const container = await host.create();
    const { pid } = await recordOf(container.id);
    const startedMs = performance.now();
    process.kill(pid, "SIGKILL");
    // The handle keeps no process alive; this timer does meanwhile.
    const alive = setInterval(() => undefined, NOTICE_MS);
    expect(await container.exit).toEqual({ reason: "init ended" });
    clearInterval(alive);
    expect(performance.now() - startedMs).toBeLessThan(NOTICE_MS);
    const lost = container.dialControl(AbortSignal.timeout(NOTICE_MS));
    await expect(lost).rejects.toMatchObject({ code: "unavailable" });
    await container[Symbol.asyncDispose]();
  });

  test("nothing is left after the end, however often it is asked for", async () => {
    const before = await takeCensus(host.home);
    const container = await host.create({ layers: base });
    await initDaemon(container);
    await container.pause();
    const during = await takeCensus(host.home);
    expect(during.processes.length).toBeGreaterThan(0);
    expect(during.loopDevices).toHaveLength(1);
    await container[Symbol.asyncDispose]();
    await container[Symbol.asyncDispose]();
    expect(await container.exit).toEqual({ reason: "killed" });
    expect(await takeCensus(host.home)).toEqual(before);
  });

  test("a later process finds the container, and one that is gone it does not", async () => {
    const container = await host.create();
    const directory = host.directoryOf(container.id);
    const later = await startOciHost(runtime);
    await using adopted = await later.engine.adopt(container.id, directory);
    await adopted?.pause();
    await adopted?.resume();
    await container[Symbol.asyncDispose]();
    expect(await later.engine.adopt(container.id, directory)).toBeUndefined();
    await later[Symbol.asyncDispose]();
  });

  test("a boot that fails says why, also when its clean-up fails too", async () => {
    await using container = await host.create();
    await container.halt();
    const faults = new Map([
      ["boot.mounted", new SandboxError("deadline_exceeded", "the start took too long")],
      ["halt.killed", new SandboxError("unavailable", "processes did not end")],
    ]);
    const fail = (message: unknown) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the channel carries nothing else
      const step = message as StepMessage;
      const fault = faults.get(step.name);
      if (fault !== undefined) step.hold = Promise.reject(fault);
    };
    const boot = async () =>
      container.boot(host.specOf(container.id), AbortSignal.timeout(START_MS));
    subscribe("sandbox-mcp:step", fail);
    try {
      await expect(boot()).rejects.toMatchObject({ message: "the start took too long" });
    } finally {
      unsubscribe("sandbox-mcp:step", fail);
    }
    await boot();
    expect(container.isHalted).toBe(false);
  });

  test("a halted one whose ids are those of another now goes on with others", async () => {
    await using container = await host.create({ layers: base });
    const directory = host.directoryOf(container.id);
    const { idBase } = await recordOf(container.id);
    await initDaemon(container);
    await runInside(container, "echo kept >/home/user/file; mkdir /home/user/own", "user");
    await container.halt();
    await using taken = await takeIds(directory);
    expect(taken).toBeDefined();
    await using adopted = await host.engine.adopt(container.id, directory);
    await adopted?.boot(host.specOf(container.id), AbortSignal.timeout(START_MS));
    expect((await recordOf(container.id)).idBase).not.toBe(idBase);
    if (adopted === undefined) throw new Error("not adopted");
    await initDaemon(adopted);
    const look = "cat file; touch own/more; stat -c %U file own own/more /etc";
    const { stdout } = await runInside(adopted, `cd; ${look}`, "user");
    expect(stdout).toBe("kept\nuser\nuser\nuser\nroot\n");
    // A later process finds them.
    await adopted.halt();
    const again = await host.engine.adopt(container.id, directory);
    expect(again?.isHalted).toBe(true);
  });

  test("another process removes it by its folder and id, and what is not ours stays", async () => {
    const before = await takeCensus(host.home);
    const container = await host.create();
    const directory = host.directoryOf(container.id);
    await container.pause();
    await writeFile(join(directory, "foreign"), "");
    await expect(host.engine.remove(container.id, directory)).rejects.toMatchObject({
      code: "internal",
    });
    expect(await readdir(directory)).toEqual(["foreign"]);
    await rm(join(directory, "foreign"));
    await host.engine.remove(container.id, directory);
    await host.engine.remove(container.id, directory);
    expect(await takeCensus(host.home)).toEqual(before);
  });

  test("a template whose /dev leads out of it is refused before a runtime sees it", async () => {
    const before = await takeCensus(host.home);
    await using decoy = await makeTempFolder();
    await using layer = await makeTempFolder();
    await symlink(decoy.path, join(layer.path, "dev"));
    const refused = host.create({ layers: [{ root: layer.path }] });
    await expect(refused).rejects.toMatchObject({ code: "invalid_argument" });
    expect(await readdir(decoy.path)).toEqual([]);
    expect(await takeCensus(host.home)).toEqual(before);
  });

  test("a start that is canceled leaves nothing", async () => {
    const before = await takeCensus(host.home);
    for (const afterMs of [0, 5, 10, 15, 20, 25, 30, 35, 40, 50]) {
      const signal = AbortSignal.timeout(afterMs);
      const container = await host.create({ layers: base, signal }).catch(() => undefined);
      await container?.[Symbol.asyncDispose]();
    }
    expect(await takeCensus(host.home)).toEqual(before);
  });

  test("a root without any file is enough for the daemon", async () => {
    await using container = await host.create();
    await initDaemon(container);
    const socket = await container.dialPublic(AbortSignal.timeout(NOTICE_MS));
    socket.write("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const [chunk] = await socket.take(1).toArray();
    expect(String(chunk)).toMatch(/^HTTP\/1\.1 204 /);
  });
});
