/**
 * R4: what the kernel says about a container's processes is what its configuration asked for, at
 * the start, after fifty programs, and after a pause.
 */

import { readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readKernelFile } from "../../src/common/files.ts";
import { z } from "../../src/common/schema.ts";
import type { Container } from "../../src/engine/engine.ts";
import { parseMounts } from "../../src/engine/host/mount-table.ts";
import { createBundle } from "../../src/engine/oci/bundle.ts";
import { readRecord, type ContainerRecord } from "../../src/engine/oci/container-record.ts";
import { hasOptionLimit } from "../../src/engine/oci/option-memory.ts";
import { baseLayers } from "../support/base-layer.ts";
import { cgroupPlaces } from "../support/engine/cgroup-places.ts";
import { openLimits } from "../support/engine/container-limits.ts";
import { startOciHost, type OciHost } from "../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../support/engine/run-inside.ts";
import { capabilityMask, posturesOf, type ProcessPosture } from "../support/hostile/posture.ts";
import { attackedRuntimes, hasOwnKernel } from "../support/runtimes.ts";
import { describeSentryPosture } from "./posture-sentry.ts";

const PROGRAMS = 50;
const LIMITS = { memoryMb: 128, cpus: 0.5, diskMb: 64, pids: 64 };
const BYTES_PER_MB = 1024 * 1024;
const DEVICES = ["null", "zero", "full", "tty", "random", "urandom"].map((name) => `/dev/${name}`);
/** What Node, the daemon and the relays that wait for programs have open. */
const DAEMON_KINDS = ["/dev/null", "socket", "pipe", "anon_inode:[eventfd]", "carrier"].concat(
  "anon_inode:[eventpoll]",
);

const configSchema = z.object({
  process: z.object({
    capabilities: z.object({ bounding: z.array(z.string()) }),
    noNewPrivileges: z.boolean(),
    oomScoreAdj: z.number(),
  }),
  mounts: z.array(z.object({ destination: z.string(), options: z.array(z.string()) })),
  linux: z.object({
    namespaces: z.array(z.object({ type: z.string() })),
    uidMappings: z.array(
      z.object({ containerID: z.number(), hostID: z.number(), size: z.number() }),
    ),
    maskedPaths: z.array(z.string()),
    readonlyPaths: z.array(z.string()),
    resources: z.object({
      memory: z.object({ limit: z.number() }),
      cpu: z.object({ quota: z.number() }),
      pids: z.object({ limit: z.number() }),
    }),
  }),
});

describe.each(attackedRuntimes())("on %s", (runtime) => {
  if (hasOwnKernel(runtime)) describeSentryPosture(runtime);
  else describePosture(runtime);
});

function describePosture(runtime: string): void {
  let host: OciHost;
  let container: Container;
  let record: ContainerRecord;
  let config: z.infer<typeof configSchema>;

  beforeAll(async () => {
    host = await startOciHost(runtime);
    container = await host.create({ layers: await baseLayers(), limits: LIMITS });
    await initDaemon(container);
    const directory = host.directoryOf(container.id);
    const found = await readRecord(directory);
    if (found === undefined) throw new Error("no record");
    record = found;
    config = configSchema.parse(JSON.parse(await readFile(join(directory, "config.json"), "utf8")));
  });

  afterAll(async () => host[Symbol.asyncDispose]());

  test("R4 the configuration on disk is what the generator makes", async () => {
    const text = await readFile(join(host.directoryOf(container.id), "config.json"), "utf8");
    const made = createBundle({
      id: container.id,
      hostname: "sandbox",
      limits: { ...LIMITS },
      idBase: record.idBase,
      rootPath: "/run/sandbox-mcp/rootfs",
      daemonPath: "/run/sandbox-mcp/daemon",
      usersPath: "/run/sandbox-mcp/users",
      cgroupPath: `/sandbox-mcp/${container.id}`,
      host: {
        architecture: process.arch,
        hasSwapLimit: text.includes('"swap"'),
        hasOptionLimit: hasOptionLimit(),
      },
    });
    expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(made)));
  });

  test("R4 processes are as they were asked for, at the start", async () => {
    await expectPosture();
  });

  test("R4 limits are those that were asked for", async () => {
    const { memory, cpu, pids } = config.linux.resources;
    const { folderOf, limits } = await openLimits(container.id);
    expect(await limits()).toEqual({
      memory: memory.limit,
      memoryAndSwap: memory.limit,
      cpuQuota: cpu.quota,
      pids: pids.limit,
    });
    expect(memory.limit).toBe(LIMITS.memoryMb * BYTES_PER_MB);
    // Newer kernels may count what sockets hold as memory alone.
    const buffers = readKernelFile(join(folderOf("memory"), "memory.kmem.tcp.limit_in_bytes"));
    expect(Number(buffers ?? memory.limit / 4)).toBe(memory.limit / 4);
    expect(await cgroupPlaces(record.pid)).toEqual(new Set([`/sandbox-mcp/${container.id}`]));
  });

  test("R4 mounts are those that were asked for, and none shows the host", async () => {
    const mounts = parseMounts(await readFile(`/proc/${record.pid}/mountinfo`, "utf8"));
    const targets = mounts.map(({ target }) => target).toSorted();
    const asked = config.mounts.map(({ destination }) => destination);
    const { maskedPaths, readonlyPaths } = config.linux;
    // A path that this kernel does not have is not covered.
    const covered = [...maskedPaths, ...readonlyPaths].filter((path) => targets.includes(path));
    expect(targets).toEqual(["/", ...asked, ...DEVICES, ...covered].toSorted());
    const shown = mounts.filter(
      ({ type }) => !/^(overlay|proc|tmpfs|devpts|mqueue|sysfs)$/.test(type),
    );
    const sources = shown.map(({ target, root }) => [target, root] as const);
    for (const [target, root] of sources) {
      const isOurs = root.startsWith(join(host.home, "daemon")) && target === "/run/sandbox-mcp";
      const isDevice = DEVICES.includes(`/dev${root}`);
      expect([target, isOurs || isDevice]).toEqual([target, true]);
    }
    const text = await readFile(`/proc/${record.pid}/mountinfo`, "utf8");
    const optionsOf = (target: string) =>
      text
        .split("\n")
        .map((line) => line.split(" "))
        .find((fields) => fields[4] === target)?.[5]
        ?.split(",") ?? [];
    for (const { destination, options } of config.mounts) {
      const flags = options.filter((option) => /^(ro|nosuid|nodev|noexec)$/.test(option));
      expect([destination, optionsOf(destination)]).toEqual([
        destination,
        expect.arrayContaining(flags),
      ]);
    }
    for (const path of readonlyPaths.filter((one) => targets.includes(one))) {
      expect([path, optionsOf(path)]).toEqual([path, expect.arrayContaining(["ro"])]);
    }
    expect(optionsOf("/")).toContain("nodev");
    // Nothing that is mounted later goes either way.
    expect(text).not.toMatch(/ shared:/);
  });

  test("R4 no namespace is that of the host or of another container", async () => {
    await using other = await host.create();
    const second = await readRecord(host.directoryOf(other.id));
    for (const { type } of config.linux.namespaces) {
      const kind = { mount: "mnt", network: "net" }[type] ?? type;
      const links = [record.pid, second?.pid, "self"].map(async (pid) =>
        readlink(`/proc/${pid}/ns/${kind}`),
      );
      expect([kind, new Set(await Promise.all(links)).size]).toEqual([kind, 3]);
    }
  });

  test("R4 processes are as they were asked for, after fifty programs", async () => {
    for (let count = 0; count < PROGRAMS; count += 1) await runInside(container, "true", "user");
    await expectPosture();
  });

  test("R4 processes are as they were asked for, after a pause", async () => {
    await container.pause();
    await container.resume();
    await expectPosture();
  });

  async function expectPosture(): Promise<void> {
    const sleeping = runInside(container, "sleep 600", "user");
    const processes = await expect
      .poll(async () => posturesOf(container.id), { timeout: 10_000 })
      .toSatisfy((all: readonly ProcessPosture[]) => all.some(isProgram))
      .then(async () => posturesOf(container.id));
    await runInside(container, "pkill sleep");
    await sleeping;
    const bounding = capabilityMask(config.process.capabilities.bounding);
    const [map] = config.linux.uidMappings;
    const idMap = `${map?.containerID} ${map?.hostID} ${map?.size}`;
    const common = {
      uidMap: idMap,
      gidMap: idMap,
      bounding,
      ambient: "0".repeat(16),
      noNewPrivileges: config.process.noNewPrivileges ? "1" : "0",
      filters: ["2 1"],
      coreLimit: expect.stringMatching(/^1\s+1$/),
      oomScore: config.process.oomScoreAdj,
    };
    const first = processes.find(({ command }) => command.includes("/run/sandbox-mcp/sh"));
    const daemon = processes.find(({ command }) => isDaemon(command));
    const spawner = processes.find(({ command }) => command.includes("/spawner.pl"));
    const program = processes.find(isProgram);
    expect(first).toMatchObject({ ...common, effective: bounding });
    expect(daemon).toMatchObject({ ...common, effective: bounding });
    expect(spawner).toMatchObject({ ...common, effective: bounding });
    expect(program).toMatchObject({ ...common, effective: "0".repeat(16) });
    expect(Object.keys(program?.descriptors ?? {})).toEqual(["0", "1", "2"]);
    const kinds = new Set(Object.values(daemon?.descriptors ?? {}));
    expect(kinds.difference(new Set(DAEMON_KINDS))).toEqual(new Set());
    expect(processes.every(({ filters }) => filters.join() === "2 1")).toBe(true);
  }
}

function isProgram({ command }: ProcessPosture): boolean {
  return command === "sleep 600";
}

function isDaemon(command: string): boolean {
  return command.includes("/run/sandbox-mcp/node") && command.endsWith("/daemon.compiled");
}
