/** The configuration of a container with a kernel of its own, pinned. */

import { expect, test } from "vitest";
import {
  createSentryBundle,
  type SentryBundleOptions,
} from "../../../src/engine/gvisor/sentry-bundle.ts";

const OPTIONS: SentryBundleOptions = {
  id: "abc",
  hostname: "sandbox",
  limits: { memoryMb: 512, cpus: 1.5, diskMb: 1024, pids: 200 },
  idBase: 0x200000,
  rootPath: "/stage/rootfs",
  daemonPath: "/stage/daemon",
  cgroupPath: "/sandbox-mcp/abc",
  host: { architecture: "x64", hasSwapLimit: true },
  networkPath: "/home/c/runtime/network",
  secret: "5ec4e7",
  hasTmp: true,
  binds: [{ source: "/volumes/v", path: "/data" }],
};

test("has its own ids, a network that is there already, and no filter of ours", () => {
  const ids = [{ containerID: 0, hostID: 0x200000, size: 65_536 }];
  const bundle = createSentryBundle(OPTIONS);
  expect(bundle).toMatchObject({
    hostname: "sandbox",
    root: { path: "/stage/rootfs", readonly: false },
    linux: {
      namespaces: [
        { type: "pid" },
        { type: "mount" },
        { type: "ipc" },
        { type: "uts" },
        { type: "user" },
        { type: "network", path: "/home/c/runtime/network" },
      ],
      uidMappings: ids,
      gidMappings: ids,
      cgroupsPath: "/sandbox-mcp/abc",
    },
  });
  expect(bundle).not.toMatchObject({ linux: { seccomp: expect.anything() } });
});

test("what others write to as well is mounted again, without a cache of its names", () => {
  const own = ["rbind", "rw", "nosuid", "nodev"];
  const shared = [...own, "dcache=0"];
  const { mounts } = createSentryBundle(OPTIONS);
  const sources = mounts.filter(({ destination }) => ["/tmp", "/data"].includes(destination));
  expect(sources).toEqual([
    { destination: "/tmp", type: "bind", source: "/stage/rootfs/tmp", options: own },
    { destination: "/data", type: "bind", source: "/stage/rootfs/data", options: shared },
  ]);
  const without = createSentryBundle({ ...OPTIONS, hasTmp: false, binds: [] });
  expect(JSON.stringify(without)).not.toContain("/stage/rootfs/");
});

test("a trial has one more program, which becomes that of each container", () => {
  const command = createSentryBundle(OPTIONS).process.args;
  const { args } = createSentryBundle({ ...OPTIONS, isTrial: true }).process;
  const at = command.indexOf("/run/sandbox-mcp.secret") + 1;
  expect(args.slice(0, at)).toEqual(command.slice(0, at));
  expect(args.slice(at + 4, at + 8)).toEqual([
    "/run/sandbox-mcp/abilities.pl",
    process.arch,
    "/abilities",
    "/set-id",
  ]);
  expect(args.slice(at + 8)).toEqual(command.slice(at));
});

test("the first program alone may mount, and its kernel has no right for it on the machine", () => {
  const { bounding, effective, permitted, inheritable } =
    createSentryBundle(OPTIONS).process.capabilities;
  expect(bounding).not.toContain("CAP_SYS_ADMIN");
  expect([effective, permitted, inheritable]).toEqual([
    [...bounding, "CAP_SYS_ADMIN"],
    [...bounding, "CAP_SYS_ADMIN"],
    [],
  ]);
});

test("the secret is in the environment of the first program, and in no argument", () => {
  const { process } = createSentryBundle(OPTIONS);
  expect(process.env).toContain("DAEMON_SECRET=5ec4e7");
  expect(process.args.join(" ")).not.toContain("5ec4e7");
  expect(process.args.slice(4, 8)).toEqual([
    "/run/sandbox-mcp/listen-inside.pl",
    expect.stringMatching(/^(?:x64|arm64)$/),
    "3",
    "4",
  ]);
  expect(process.rlimits).toEqual([{ type: "RLIMIT_NPROC", hard: 200, soft: 200 }]);
});
