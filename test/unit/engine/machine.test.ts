/** What is read from the machine: mounts, cgroup trees, libraries, accounts. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseLibraries } from "../../../src/engine/daemon/daemon.ts";
import { parseMounts } from "../../../src/engine/host/mount-table.ts";
import { isHybrid, locateCgroups, missingControllers } from "../../../src/engine/oci/cgroups.ts";
import { failureRemedy } from "../../../src/engine/oci/failure-remedy.ts";
import { cgroupTrees, rightsOf } from "../../../src/engine/oci/probe-cache.ts";
import { checkOpenFiles, checkRoot, checkSystem } from "../../../src/engine/oci/requirements.ts";
import { createAccounts, groupId } from "../../../src/engine/templates/settings.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

describe("the mount table", () => {
  test("names with spaces are read back", () => {
    const text =
      "36 35 98:0 /a\\040b /mnt/x\\134y rw,noatime shared:1 - ext4 /dev/loop0 rw,errors=continue\n";
    expect(parseMounts(text)).toEqual([
      {
        root: "/a b",
        target: "/mnt/x\\y",
        type: "ext4",
        source: "/dev/loop0",
        options: ["rw", "errors=continue"],
      },
    ]);
  });

  test("a line that is none is skipped", () => {
    expect(parseMounts("\n")).toEqual([]);
  });
});

const LEGACY = "25 24 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
const UNIFIED = "26 24 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

describe("cgroup trees", () => {
  test.for([
    { name: "hybrid", lines: [LEGACY, UNIFIED], unified: "/sys/fs/cgroup/unified", mixed: true },
    { name: "version 1", lines: [LEGACY], unified: undefined, mixed: false },
    { name: "version 2", lines: [UNIFIED], unified: "/sys/fs/cgroup/unified", mixed: false },
  ])("a $name host is told apart", ({ lines, unified, mixed }) => {
    const trees = locateCgroups(parseMounts(lines.join("\n")));
    const legacy = lines.includes(LEGACY)
      ? [{ controllers: ["memory"], path: "/sys/fs/cgroup/memory" }]
      : [];
    expect(trees).toEqual({ unified, legacy });
    expect(isHybrid({ ...trees, hasSwapLimit: true })).toBe(mixed);
  });
});

test("the functions for files that Yarn puts in the place of Node's are no base for sandboxes", () => {
  expect(checkSystem(process.versions)).toMatchObject({ outcome: "ok" });
  expect(checkSystem({ ...process.versions, pnp: "3" })).toEqual({
    name: "system",
    outcome: "missing",
    detail: `linux ${process.arch} with the Plug'n'Play of Yarn`,
    remedy:
      "start the program with npx, or install it with `nodeLinker: node-modules` in .yarnrc.yml",
  });
});

const RIGHTS =
  "in a container, start that with --privileged; in a systemd unit, leave out CapabilityBoundingSet, ProtectKernelTunables and ProtectControlGroups";

const tree = (path: string, controller: string) =>
  `25 24 0:22 / ${path} rw,relatime - cgroup cgroup rw,${controller}\n`;

test.for([
  { has: "memory pids", of: "cpu cpuset", lacks: [] },
  { has: "pids", of: "cpuset cpu io", lacks: ["memory"] },
  { has: "memory,pids", of: "", lacks: ["cpu"] },
])("controllers of version 1 $has and of version 2 $of lack $lacks", async ({ has, of, lacks }) => {
  await using folder = await makeTempFolder();
  await writeFile(join(folder.path, "cgroup.controllers"), `${of}\n`);
  const legacy = [{ controllers: has.split(/[ ,]/), path: "/sys/fs/cgroup/one" }];
  const host = { unified: folder.path, legacy, hasSwapLimit: false };
  expect(missingControllers(host)).toEqual(lacks);
});

test.for([
  { has: "memory,pids,cpu", lacks: ["freezer"] },
  { has: "memory,pids,cpu,freezer", lacks: [] },
])("version 1 alone with $has lacks $lacks, by which a sandbox is ended", ({ has, lacks }) => {
  const legacy = [{ controllers: has.split(","), path: "/sys/fs/cgroup/one" }];
  expect(missingControllers({ unified: undefined, legacy, hasSwapLimit: false })).toEqual(lacks);
});

describe("what a remembered probe depends on", () => {
  test("trees that take orders count, by place and controllers, in any order of mounting", () => {
    const all = [tree("/tmp", "memory"), tree("/var/tmp", "pids"), tree("/nonexistent", "cpu")];
    const found = ["cgroup /tmp rw memory", "cgroup /var/tmp rw pids"];
    expect(cgroupTrees(all.join(""))).toEqual(found);
    expect(cgroupTrees(all.toReversed().join(""))).toEqual(found);
    expect(cgroupTrees("26 24 0:23 / /tmp rw - tmpfs tmpfs rw\n")).toEqual([]);
  });

  test("rights count, and nothing that differs between two processes with the same ones", () => {
    const own = [
      "CapEff:\t1",
      "CapBnd:\t1",
      "NoNewPrivs:\t0",
      "Seccomp:\t2",
      "Seccomp_filters:\t1",
    ];
    const others = ["Name:\tCapEff:", "Pid:\t7", "CapPrm:\t2", "SigBlk:\t0", "Threads:\t11"];
    expect(rightsOf([...others, ...own, ...others, ""].join("\n"))).toEqual(own);
  });
});

describe("the rights of root", () => {
  test.for([
    { of: "a machine", rights: "000001ffffffffff", outcome: "ok" },
    { of: "a container of Docker", rights: "00000000a80425fb", outcome: "missing" },
    { of: "a hardened unit", rights: "000001ffffffffff", gains: "1", outcome: "warning" },
  ])("of $of: $outcome", ({ rights, gains = "0", outcome }) => {
    const own = `CapPrm:\t000001ffffffffff\nCapEff:\t${rights}\nNoNewPrivs:\t${gains}\n`;
    const found = checkRoot(`Name:\tnode\n${own}`);
    expect(found).toMatchObject({ name: "root", outcome });
  });
});

test("rights that root lacks and sandboxes are made with are named", () => {
  // Of SETPCAP, SYS_CHROOT and SYS_PTRACE nothing; SYS_TIME is not needed.
  const found = checkRoot("CapEff:\t000001fffdf3feff\nNoNewPrivs:\t0\n");
  expect(found).toEqual({
    name: "root",
    outcome: "missing",
    detail: "user id 0 without CAP_SETPCAP, CAP_SYS_CHROOT, CAP_SYS_PTRACE",
    remedy: RIGHTS,
  });
});

test("rights without which sandboxes start, and copies of their files fail, are named", () => {
  const found = checkRoot("CapEff:\t000001ff7ffffff7\nNoNewPrivs:\t1\n");
  expect(found).toEqual({
    name: "root",
    outcome: "warning",
    detail:
      "user id 0 without CAP_FOWNER, CAP_SETFCAP: snapshots and builds of templates fail; " +
      "with no_new_privs: sudo and su do not work in sandboxes",
    remedy: `${RIGHTS}; start this program without no_new_privs, as NoNewPrivileges of systemd sets it`,
  });
});

describe("what helps where no runtime works", () => {
  test.for([
    {
      said: "crun 1.8.1: runtime failed: launcher: mount namespace: Operation not permitted",
      remedy: /--privileged/,
    },
    {
      said: 'runc 1.1.5: runtime failed: "unable to create session key: operation not permitted"',
      remedy: /--privileged/,
    },
    {
      said: "crun 1.8.1: runtime failed: launcher: open_tree /home: Function not implemented",
      remedy: /--privileged/,
    },
    {
      said: 'crun: runtime failed: "open /proc/sys/net/ipv4/port: Read-only file system"',
      remedy: /--privileged/,
    },
    { said: "launcher: mount_setattr /home/x/daemon: Invalid argument", remedy: /--home/ },
    { said: "crun: the service cannot start any more processes", remedy: /ulimit -u/ },
    { said: "runtime failed: exit status 1", remedy: /^try another runtime: / },
  ])("$said", ({ said, remedy }) => {
    expect(failureRemedy(said, "6.1.0-18-amd64")).toMatch(remedy);
  });

  test.for(["5.10.0-21-amd64", "5.4.0-216-generic", "4.18.0", "5.18"])("on Linux %s", (kernel) => {
    const said = "launcher: mount_setattr /home/x/daemon: Function not implemented";
    expect(failureRemedy(said, kernel)).toBe(`use Linux 5.19 or newer, this is ${kernel}`);
  });
});

describe("the limit on open files", () => {
  test.for([
    { hard: "255", outcome: "missing" },
    { hard: "256", outcome: "ok" },
    { hard: "unlimited", outcome: "ok" },
  ])("of $hard: $outcome", ({ hard, outcome }) => {
    const check = checkOpenFiles(
      `Max open files            64        ${hard}         files     \n`,
    );
    expect(check).toMatchObject({ name: "open files", outcome, detail: `at most ${hard}` });
  });
});

describe("the libraries of a program", () => {
  test("the kernel's own is left out and the loader is told apart", () => {
    const text = `\tlinux-vdso.so.1 (0x00007ffd)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f)
`;
    expect(parseLibraries(text)).toEqual({
      libraries: ["/lib/x86_64-linux-gnu/libc.so.6"],
      loader: "/lib64/ld-linux-x86-64.so.2",
    });
  });

  test("a static program has no loader", () => {
    expect(() => parseLibraries("\tstatically linked\n")).toThrow("not linked");
  });
});

describe("the accounts of a template", () => {
  const accounts = createAccounts({
    passwd: [
      "root:secret:0:0:root:/root:/bin/bash",
      "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin",
      "ada:x:1001:1001:Ada:/home/ada:/bin/bash",
      "user:x:500:500::/srv:/bin/false",
      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
      "",
    ].join("\n"),
    group: "root:x:0:\nsudo:x:27:ada\nshadow:x:42:\nada:x:1001:\n",
  });

  test("people, members and passwords go, the sandbox's user comes", () => {
    expect(accounts).toEqual({
      passwd: `root:x:0:0:root:/root:/bin/bash
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
user:x:1000:1000::/home/user:/bin/bash
`,
      group: "root:x:0:\nsudo:x:27:user\nshadow:x:42:\nuser:x:1000:\n",
      shadow: `root:*:19000:0:99999:7:::
_apt:*:19000:0:99999:7:::
nobody:*:19000:0:99999:7:::
user:*:19000:0:99999:7:::
`,
      gshadow: "root:*::\nsudo:*::user\nshadow:*::\nuser:*::\n",
    });
  });

  test("a group's id is found by its name", () => {
    expect([groupId(accounts.group, "shadow"), groupId(accounts.group, "none")]).toEqual([42, 0]);
  });
});
