/**
 * The OCI engine on gVisor's runtime: the suite of all engines, and what its containers do in their
 * own way. Where no such runtime is installed, the one test here says which command brings it.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Container, Layer } from "../../../src/engine/engine.ts";
import { describeEngine } from "../../suites/engine.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost, type OciHost } from "../../support/oci-host.ts";
import { initDaemon, runInside } from "../../support/run-inside.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LIMIT_MS = 60_000;
const runtime = gvisorRuntime();
if (runtime === undefined) describeAbsence();
else describePresence(runtime);

function describeAbsence(): void {
  test("gVisor is not installed, and doctor names the command; scripts/setup.sh --gvisor runs it", async () => {
    await using host = await startOciHost("auto");
    const { checks } = await host.engine.probe("fresh");
    const check = checks.find(({ name }) => name === "isolation gvisor");
    expect(check?.remedy).toMatch(/runsc/);
    const spec = { ...host.specOf((await host.create()).id), isolation: "gvisor" as const };
    const id = `${host.idPrefix}own`;
    const created = host.engine.create(
      { ...spec, id, directory: host.directoryOf(id) },
      AbortSignal.timeout(LIMIT_MS),
    );
    await expect(created).rejects.toMatchObject({ code: "unavailable" });
  });
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
    beforeAll(async () => {
      host = await startOciHost(path, "gvisor");
      layers = await baseLayers();
      container = await host.create({ layers });
      await initDaemon(container);
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
      expect(stdout).toMatch(/gvisor\nMemTotal: 262144 kB\n/);
    });

    test("the ports of the daemon serve no program without the secret, which root alone reads", async () => {
      const ask = "exec 9<>/dev/tcp/127.0.0.1/4; yes | head -c 4096 >&9; timeout 5 cat <&9 | wc -c";
      const reply = await run(`bash -c '${ask}'`, "user");
      expect(reply.stdout.trim()).toBe("0");
      const secrets = await run(
        "cat /proc/1/environ /proc/2/environ /run/sandbox-mcp.secret",
        "user",
      );
      expect(secrets).toMatchObject({ exitCode: 1, stdout: "" });
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

    test("a daemon that is killed comes back, and keeps its ports meanwhile", async () => {
      await run("kill -KILL $(pgrep -f daemon.cjs | grep -v '^1$' | head -n 1)").catch(() => "");
      await initDaemon(container);
      expect((await run("echo back")).stdout).toBe("back\n");
    });

    test("sudo gives root, and files of /tmp and of the root are on the sandbox's disk", async () => {
      const { stdout } = await run(
        "sudo -n id -u; echo a >/tmp/a; echo b >/home/user/b; df --output=target /tmp | tail -n 1",
        "user",
      );
      expect(stdout).toMatch(/^0\n/);
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

    test("too much memory ends the whole sandbox, and says so", async () => {
      await using other = await host.create({ layers, limits: { memoryMb: 128 } });
      await initDaemon(other);
      await runInside(other, "python3 -c 'bytearray(400 << 20)'").catch(() => undefined);
      expect(await other.exit).toEqual({ reason: "out of memory" });
    });

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
      expect(stdout).toBe(`${spec.bootId}\n`);
      await own.halt();
      const adopted = await host.engine.adopt(id, directory);
      await adopted?.boot(spec, AbortSignal.timeout(LIMIT_MS));
      expect(adopted?.level).toBe("gvisor");
      await adopted?.[Symbol.asyncDispose]();
    });
  });
}
