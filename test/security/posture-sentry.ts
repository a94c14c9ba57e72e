/**
 * R4 where programs have a kernel of their own: what the machine's kernel says about this kernel's
 * processes, at the start, after fifty programs, and after a pause.
 */

import { readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Container } from "../../src/engine/engine.ts";
import { readRecord } from "../../src/engine/oci/container-record.ts";
import { baseLayers } from "../support/base-layer.ts";
import { cgroupPlaces } from "../support/engine/cgroup-places.ts";
import { startOciHost, type OciHost } from "../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../support/engine/run-inside.ts";
import { capabilityMask, posturesOf, type ProcessPosture } from "../support/hostile/posture.ts";

const PROGRAMS = 50;
const LIMITS = { memoryMb: 256, cpus: 0.5, diskMb: 64, pids: 64 };
const BYTES_PER_MB = 1024 * 1024;
/** None of them in any of its processes, in whatever user namespace. */
const POWERFUL = [
  "CAP_SYS_ADMIN CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_BOOT CAP_SYS_TIME CAP_NET_ADMIN CAP_NET_RAW",
  "CAP_MKNOD CAP_BPF CAP_PERFMON CAP_SYSLOG",
].flatMap((line) => line.split(" "));
const OWN_NAMESPACES = ["mnt", "net", "ipc", "uts", "user"];

export function describeSentryPosture(runtime: string): void {
  let host: OciHost;
  let container: Container;
  let idBase: number;

  beforeAll(async () => {
    host = await startOciHost(runtime, "gvisor");
    container = await host.create({ layers: await baseLayers(), limits: LIMITS });
    await initDaemon(container);
    const record = await readRecord(host.directoryOf(container.id));
    if (record === undefined) throw new Error("no record");
    ({ idBase } = record);
  });

  afterAll(async () => host[Symbol.asyncDispose]());

  test("R4 processes of its kernel have no rights, at the start", async () => {
    await expectPosture();
  });

  test("R4 limits are those that were asked for, and hold for all of its kernel", async () => {
    expect(await readLimit("memory", "memory.limit_in_bytes")).toBe(LIMITS.memoryMb * BYTES_PER_MB);
    const period = await readLimit("cpu", "cpu.cfs_period_us");
    expect((await readLimit("cpu", "cpu.cfs_quota_us")) / period).toBe(LIMITS.cpus);
    expect(await readLimit("pids", "pids.max")).toBe(4 * LIMITS.pids + 256);
    for (const { pid } of await kernelProcesses()) {
      expect(await cgroupPlaces(pid)).toEqual(new Set([`/sandbox-mcp/${container.id}`]));
    }
  });

  test("R4 its kernel sees no file system of the machine", async () => {
    for (const { pid, command } of await kernelProcesses()) {
      const mounts = (await readFile(`/proc/${pid}/mountinfo`, "utf8")).trim().split("\n");
      const targets = mounts.map((line) => line.split(" ")[4] ?? "");
      const isGofer = command.startsWith("runsc-gofer");
      // What serves files has those of the sandbox, the kernel itself has an empty root.
      const expected = isGofer ? ["/", "/run/sandbox-mcp", "/tmp"] : ["/"];
      expect([
        command.split(" ")[0],
        targets.toSorted((one, other) => (one < other ? -1 : 1)),
      ]).toEqual([command.split(" ")[0], expected]);
    }
  });

  test("R4 no namespace of its kernel but that of pids is the machine's", async () => {
    for (const { pid } of await kernelProcesses()) {
      for (const kind of OWN_NAMESPACES) {
        const [link, own] = await Promise.all(
          [pid, "self"].map(async (one) => readlink(`/proc/${one}/ns/${kind}`)),
        );
        expect([kind, link]).not.toEqual([kind, own]);
      }
    }
  });

  test("R4 processes of its kernel have no rights, after fifty programs", async () => {
    for (let count = 0; count < PROGRAMS; count += 1) await runInside(container, "true", "user");
    await expectPosture();
  });

  test("R4 processes of its kernel have no rights, after a pause", async () => {
    await container.pause();
    await container.resume();
    await expectPosture();
  });

  async function kernelProcesses(): Promise<readonly ProcessPosture[]> {
    const all = await posturesOf(container.id);
    // The relay is the host's, which reads nothing of the sandbox but frames.
    return all.filter(({ command }) => !command.includes("sentry-relay"));
  }

  async function expectPosture(): Promise<void> {
    const sleeping = runInside(container, "sleep 600", "user");
    await expect.poll(async () => (await runInside(container, "pgrep sleep")).stdout).not.toBe("");
    const processes = await kernelProcesses();
    await runInside(container, "pkill sleep");
    await sleeping;
    const names = new Set(processes.map(({ command }) => command.split(" ")[0]));
    expect(names).toContain("runsc-gofer");
    expect(names).toContain("runsc-sandbox");
    const idMap = `0 ${idBase} 65536`;
    const powerful = BigInt(`0x${capabilityMask(POWERFUL)}`);
    for (const one of processes) {
      expect(one).toMatchObject({ uidMap: idMap, gidMap: idMap, noNewPrivileges: "1" });
      expect(one.users.every((id) => id >= idBase && id < idBase + 65_536)).toBe(true);
      expect(one.filters.every((filter) => filter.startsWith("2 "))).toBe(true);
      expect(BigInt(`0x${one.effective}`) & powerful).toBe(0n);
      expect(BigInt(`0x${one.bounding}`) & powerful).toBe(0n);
      expect(one.ambient).toBe("0".repeat(16));
    }
  }

  async function readLimit(tree: string, name: string): Promise<number> {
    const path = join("/sys/fs/cgroup", tree, "sandbox-mcp", container.id, name);
    return Number(await readFile(path, "utf8"));
  }
}
