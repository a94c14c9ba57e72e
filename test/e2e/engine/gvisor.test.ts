/**
 * The OCI engine on gVisor's runtime: the suite of all engines, and what its containers do in their
 * own way. Where no such runtime is installed, the one test here says which command brings it.
 */

import { existsSync } from "node:fs";
import { readFile, realpath, writeFile } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Container, Layer } from "../../../src/engine/engine.ts";
import { MISSING, UNBOUNDED } from "../../../src/engine/gvisor/abilities.ts";
import { findProgram } from "../../../src/engine/host/find-program.ts";
import { readRecord } from "../../../src/engine/oci/container-record.ts";
import { describeEngine } from "../../suites/engine.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LIMIT_MS = 60_000;
/** CAP_SYS_ADMIN */
const MOUNT_RIGHT = 1n << 21n;
const runtime = gvisorRuntime();
if (runtime === undefined) describeAbsence();
else describePresence(runtime);

function describeAbsence(): void {
  test("gVisor is not installed, and doctor names the command; scripts/setup.sh --gvisor runs it", async () => {
    await using host = await startOciHost("auto");
    const { checks } = await host.engine.probe("fresh");
    const check = checks.find(({ name }) => name === "isolation gvisor");
    expect(check?.remedy).toMatch(/runsc/);
    await expectRefusal(host);
  });
}

async function expectRefusal(host: OciHost): Promise<void> {
  const spec = { ...host.specOf((await host.create()).id), isolation: "gvisor" as const };
  const id = `${host.idPrefix}own`;
  const created = host.engine.create(
    { ...spec, id, directory: host.directoryOf(id) },
    AbortSignal.timeout(LIMIT_MS),
  );
  await expect(created).rejects.toMatchObject({ code: "unavailable" });
}

/** What differs between versions of the runtime. */
interface Found {
  readonly kernel: string;
  readonly givesRights: boolean;
  readonly hidesEnvironment: boolean;
  readonly keepsAttributes: boolean;
  readonly keptEntries: number;
}

/** By what doctor says of its trial, so that these tests prove doctor right. */
async function readFound(host: OciHost, name: string): Promise<Found> {
  const { checks } = await host.engine.probe();
  const { detail = "", remedy = "" } = checks.find((check) => check.name === name) ?? {};
  const missing = Object.values(MISSING).filter((text) => detail.includes(text));
  expect(remedy).toMatch(missing.length === 0 ? /^$/ : /newer runsc/);
  return {
    kernel: /; kernel (\S+) inside/.exec(detail)?.[1] ?? "",
    givesRights: !missing.includes(MISSING.setId),
    hidesEnvironment: !missing.includes(MISSING.environment),
    keepsAttributes: !missing.includes(MISSING.attributes),
    keptEntries: detail.includes(UNBOUNDED) ? 1000 : 64,
  };
}

function describePresence(path: string): void {
  describe("the suite of all engines", () => {
    describeEngine(async () => {
      const host = await startOciHost(path, "gvisor");
      const layers = await baseLayers();
      return { ...host, create: async (options) => host.create({ layers, ...options }) };
    });
  });

  describe("a container with a kernel of its own", () => {
    let host: OciHost;
    let layers: readonly Layer[];
    let container: Container;
    let found: Found;
    beforeAll(async () => {
      host = await startOciHost(path, "gvisor");
      layers = await baseLayers();
      container = await host.create({ layers });
      await initDaemon(container);
      found = await readFound(host, `runtime ${path}`);
    }, LIMIT_MS);
    afterAll(async () => host[Symbol.asyncDispose]());
    const run = async (command: string, user = "root") => runInside(container, command, user);

    test("the probe tells what was seen", async () => {
      const { checks, level } = await host.engine.probe();
      const trial = checks.find(({ name }) => name === `runtime ${path}`);
      expect([level, trial?.outcome, trial?.detail]).toEqual([
        "gvisor",
        "ok",
        expect.stringMatching(/started, limited, paused and resumed/),
      ]);
    });

    test("programs see the memory and processors of the sandbox, and another kernel", async () => {
      const { stdout } = await run("uname -r; grep MemTotal /proc/meminfo | tr -s ' '");
      expect(stdout).toBe(`${found.kernel}\nMemTotal: 262144 kB\n`);
      expect(found.kernel).not.toBe(release());
    });

    test("the ports of the daemon serve no program without the secret, which root alone reads", async () => {
      const ask = "exec 9<>/dev/tcp/127.0.0.1/4; yes | head -c 4096 >&9; timeout 5 cat <&9 | wc -c";
      const reply = await run(`bash -c '${ask}'`, "user");
      expect(reply.stdout.trim()).toBe("0");
      expect(await run("cat /run/sandbox-mcp.secret", "user")).toMatchObject({
        exitCode: 1,
        stdout: "",
      });
      const { stdout } = await run("cat /proc/1/environ | wc -c", "user");
      expect(Number(stdout) === 0).toBe(found.hidesEnvironment);
    });

    test("no file of a process shows the secret or the memory of root's to another user", async () => {
      const record = await readRecord(host.directoryOf(container.id));
      const secret = record?.secret ?? "";
      expect(secret).toMatch(/^[\da-f]{48}$/);
      const all = "for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do cat $f; echo; done";
      // As root, to know that the search would find it.
      const known = await run(`cat /run/sandbox-mcp.secret; ${all}`);
      expect(known.stdout.split(secret)).toHaveLength(2);
      expect(known.stdout).toContain("daemon.cjs");
      expect((await run(`${all}; cat /run/*.secret`, "user")).stdout).not.toContain(secret);
      const memory =
        "head -c 1 /proc/1/mem || head -c 1 /proc/$(pgrep -u root -f daemon.cjs | tail -n 1)/mem";
      const { stdout, stderr } = await run(memory, "user");
      expect([stdout, stderr.match(/denied/g)?.length]).toEqual(["", 2]);
    });

    test("no signal of root but KILL ends the first process, and programs start with defaults", async () => {
      const numbers = Array.from({ length: 64 }, (_, index) => index + 1);
      const sent = numbers.filter((number) => ![9, 19].includes(number)).join(" ");
      const ignored =
        "import signal as s; print([n for n in range(1, 65) if s.getsignal(n) == s.SIG_IGN])";
      const { stdout } = await run(
        `for s in ${sent}; do kill -$s 1 || echo $s; done; sleep 0.2; python3 -c '${ignored}'`,
      );
      // Python's own.
      expect(stdout).toBe("[13, 25]\n");
    });

    test("the relay is the one of the daemon that runs, so both know the same frames", async () => {
      const directory = host.directoryOf(container.id);
      const pid = (await readFile(join(directory, "runtime/relay"), "utf8")).trim();
      const words = (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
      const daemon = (await readRecord(directory))?.daemon ?? "";
      expect(daemon).not.toBe("");
      // A home of these tests may have a link to a daemon that all of them share.
      const folder = await realpath(join(host.home, "daemon", daemon));
      expect(words).toContain(join(folder, "sentry-relay.pl"));
    });

    test("no program inside has the right to mount, by which the first one bounded /proc", async () => {
      const { stdout } = await run("cat /proc/self/status /proc/1/status /proc/2/status");
      const masks = [...stdout.matchAll(/^Cap(?:Prm|Eff|Bnd):\t(.*)$/gm)].map(([, mask]) => mask);
      expect(masks).toHaveLength(9);
      expect(masks.filter((mask) => (BigInt(`0x${mask}`) & MOUNT_RIGHT) !== 0n)).toEqual([]);
      expect((await run("mount -t proc proc /mnt")).exitCode).not.toBe(0);
      const mounts = await run("grep ' /proc ' /proc/mounts | tail -n 1");
      expect(mounts.stdout).toMatch(/ proc rw,\S*noexec,/);
      expect(mounts.stdout).toContain(`,dentry_cache_limit=${found.keptEntries} `);
    });

    test("a daemon that is killed comes back, and keeps its ports meanwhile", async () => {
      await run("kill -KILL $(pgrep -f daemon.cjs | grep -v '^1$' | head -n 1)").catch(() => "");
      await initDaemon(container);
      expect((await run("echo back")).stdout).toBe("back\n");
    });

    test.for(["running", "paused"])(
      "a relay that was killed is started again by the next call, of a container that is %s",
      async (state) => {
        const number = join(host.directoryOf(container.id), "runtime/relay");
        const before = (await readFile(number, "utf8")).trim();
        if (state === "paused") await container.pause();
        process.kill(Number(before), "SIGKILL");
        await expect.poll(() => existsSync(`/proc/${before}/exe`)).toBe(false);
        await container.resume();
        expect((await run("echo on")).stdout).toBe("on\n");
        expect((await readFile(number, "utf8")).trim()).not.toBe(before);
      },
    );

    test("sudo gives root where the trial saw that set-id bits have an effect", async () => {
      const { stdout } = await run("sudo -n id -u", "user");
      expect(stdout).toBe(found.givesRights ? "0\n" : "");
    });

    test("files of the disk keep attributes where the trial saw that they do", async () => {
      for (const file of ["/tmp/marked", "/home/user/marked"]) {
        const set = `import os; os.setxattr("${file}", "user.mark", b"x")`;
        const { exitCode } = await run(`touch ${file}; python3 -c '${set}'`, "user");
        expect([file, exitCode === 0]).toEqual([file, found.keepsAttributes]);
      }
    });

    test("files of /tmp and of the root are on the sandbox's disk", async () => {
      await run("echo a >/tmp/a; echo b >/home/user/b", "user");
      await using folder = await makeTempFolder();
      const layer = await container.snapshot(join(folder.path, "layer"));
      await using copy = await host.create({ layers: [...layers, layer] });
      await initDaemon(copy);
      expect((await runInside(copy, "cat /tmp/a /home/user/b")).stdout).toBe("a\nb\n");
    });

    test("a fork bomb ends at the limit of its user, and the sandbox lives", async () => {
      const bomb = "n=0; while [ $n -lt 300 ]; do sleep 60 >&- & n=$((n+1)); echo $n; done";
      const { stdout } = await run(`sh -c '${bomb}' 2>&- | tail -n 1`, "user");
      expect(Number(stdout)).toBeLessThanOrEqual(100);
      expect((await run("pkill sleep; echo on")).stdout).toBe("on\n");
    });

    // Which process the machine's kernel ends is its choice: mostly the container's own kernel by the
    // first one, which asks for all at once, and that of the program by the second.
    test.for([
      { memoryMb: 128, program: "bytearray(400 << 20)" },
      { memoryMb: 512, program: "[b'x' * (1 << 20) for _ in range(800)]" },
    ])(
      "too much memory ends the program or the whole container, and both say so: $program",
      async ({ memoryMb, program }) => {
        await using other = await host.create({ layers, limits: { memoryMb } });
        await initDaemon(other);
        const ran = runInside(other, `python3 -c "${program}"`).catch(() => undefined);
        const first = await Promise.race([other.exit, ran]);
        // The connection may end before the container is known to have.
        const end = first ?? (await other.exit);
        const isWhole = "reason" in end;
        const after = isWhole ? undefined : await runInside(other, "echo on");
        const kills = isWhole ? undefined : (await other.readUsage()).outOfMemoryKills;
        expect([
          { end: { reason: "out of memory" }, said: undefined, kills: undefined },
          { end: { exitCode: 1, stdout: "", stderr: "" }, said: "on\n", kills: 1 },
        ]).toContainEqual({ end, said: after?.stdout, kills });
      },
    );

    test("a volume is shared at once with other containers", async () => {
      await using folder = await makeTempFolder();
      await writeFile(join(folder.path, "old"), "old");
      const binds = [{ source: folder.path, path: "/data" }];
      await using first = await host.create({ layers, binds });
      await using second = await host.create({ layers, binds });
      await initDaemon(first);
      await initDaemon(second);
      await runInside(first, "cat /data/old; ls /data; echo new >/data/new; chmod 666 /data/new");
      const { stdout } = await runInside(second, "ls /data; cat /data/new; echo more >>/data/new");
      expect(stdout).toBe("new\nold\nnew\n");
      expect((await runInside(first, "cat /data/new")).stdout).toBe("new\nmore\n");
    });

    test("a volume may be below /tmp, which is a mount of its own", async () => {
      await using folder = await makeTempFolder();
      const binds = [{ source: folder.path, path: "/tmp/shared" }];
      await using other = await host.create({ layers, binds });
      await initDaemon(other);
      await runInside(other, "echo in >/tmp/shared/file; echo out >/tmp/file");
      expect(await readFile(join(folder.path, "file"), "utf8")).toBe("in\n");
      expect((await runInside(other, "cat /tmp/file /tmp/shared/file")).stdout).toBe("out\nin\n");
    });

    test("another process adopts it, paused or not, by the kernel of its own", async () => {
      await container.pause();
      const adopted = await host.engine.adopt(container.id, host.directoryOf(container.id));
      if (adopted === undefined) throw new Error("not adopted");
      await adopted.pause();
      await adopted.resume();
      await adopted.resume();
      expect((await runInside(adopted, "echo on")).stdout).toBe("on\n");
    });
  });

  describe("beside containers that share the machine's kernel", () => {
    test("one container has a kernel of its own, and goes on so after a halt", async () => {
      await using host = await startOciHost("auto");
      // Beside others the engine takes the runtime of this name; a path names one for all.
      if (findProgram("runsc") === undefined) {
        await expectRefusal(host);
        return;
      }
      const { checks } = await host.engine.probe("fresh");
      const trial = checks.find(({ name }) => name === "isolation gvisor");
      const layers = await baseLayers();
      await using shared = await host.create({ layers });
      const id = `${host.idPrefix}own`;
      const directory = host.directoryOf(id);
      const spec = {
        ...host.specOf(shared.id),
        id,
        directory,
        layers,
        isolation: "gvisor" as const,
        bootId: "0123abcd-89ef-4000-8000-0123456789ab",
      };
      await using own = await host.engine.create(spec, AbortSignal.timeout(LIMIT_MS));
      expect([shared.level, own.level]).toEqual(["userns-container", "gvisor"]);
      await initDaemon(own);
      const { stdout } = await runInside(own, "cat /proc/sys/kernel/random/boot_id");
      const keepsOwn = trial?.detail.includes(MISSING.bootId);
      expect(stdout.trim() === spec.bootId).toBe(keepsOwn === false);
      await own.halt();
      const adopted = await host.engine.adopt(id, directory);
      await adopted?.boot(spec, AbortSignal.timeout(LIMIT_MS));
      expect(adopted?.level).toBe("gvisor");
      await adopted?.[Symbol.asyncDispose]();
    });
  });
}
