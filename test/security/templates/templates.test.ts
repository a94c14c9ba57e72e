/**
 * R3, E01 to E04, E12, E15 and E20: root file systems and volumes that were made to lead the
 * runtime out. Nothing outside of them changes, and nearly all are refused before a runtime starts.
 */

import { execFile, spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Container, Layer } from "../../../src/engine/engine.ts";
import { buildHost } from "../../../src/engine/templates/host.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { endChild } from "../../support/end-child.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { attackLayers, type AttackLayers } from "../../support/hostile/attack-layer.ts";
import { makeCanary, type Canary } from "../../support/hostile/attack-range.ts";
import { startWeakHost } from "../../support/hostile/weak-runtime.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { attackedRuntimes, hasOwnKernel, IS_WHOLE_RUN } from "../../support/runtimes.ts";

const run = promisify(execFile);
const REFUSAL_LIMIT_MS = 1_000;
/** Folders that a runtime mounts into, or that programs of the host's kind look into. */
const FOLDERS = "dev etc home mnt proc root run sys tmp usr var".split(" ");
const FLIPPED_CREATES = IS_WHOLE_RUN ? 200 : 12;
const BUILD_TIMEOUT_MS = 600_000;

type Making = (root: string, name: string, decoy: string) => Promise<unknown>;

/** Ways to make something else of a folder; the decoy lies outside. */
const HOSTILE: Readonly<Record<string, Making>> = {
  "an absolute link": async (root, name, decoy) => symlink(decoy, join(root, name)),
  "a relative link": async (root, name, decoy) =>
    symlink(`../../../../../../..${decoy}`, join(root, name)),
  "a chain of links": async (root, name, decoy) => {
    await symlink(decoy, join(root, "last"));
    await symlink("last", join(root, "middle"));
    await symlink("middle", join(root, name));
  },
  "a link to itself": async (root, name) => symlink(name, join(root, name)),
  "a file": async (root, name) => writeFile(join(root, name), ""),
  "a pipe": async (root, name) => run("mkfifo", [join(root, name)]),
  "a device": async (root, name) => run("mknod", [join(root, name), "c", "1", "1"]),
};
const HOSTILE_ROOTS = Object.keys(HOSTILE).flatMap((kind) =>
  FOLDERS.map((name) => ({ kind, name })),
);

/** Root file systems that are unusual and harm nobody. */
const BENIGN: Readonly<Record<string, (root: string, decoy: string) => Promise<unknown>>> = {
  "programs of all folders in /usr": async (root) => {
    for (const name of ["bin", "sbin", "lib", "lib64"]) {
      await mkdir(join(root, "usr", name), { recursive: true });
      await symlink(`usr/${name}`, join(root, name));
    }
  },
  "no folder at all": async () => undefined,
  "every folder, empty": async (root) => {
    for (const name of FOLDERS) await mkdir(join(root, name));
  },
  "a link elsewhere that leads nowhere": async (root) => symlink("/nowhere", join(root, "opt")),
  "folders that only root may enter": async (root) => {
    for (const name of FOLDERS) await mkdir(join(root, name), { mode: 0o700 });
  },
  "a name of 255 bytes and one with a line break": async (root) => {
    await writeFile(join(root, "x".repeat(255)), "");
    await writeFile(join(root, "a\nb"), "");
  },
};

describe.each(attackedRuntimes())("on %s", (runtime) => {
  let host: OciHost;
  let canary: Canary;

  beforeAll(async () => {
    host = await startOciHost(runtime);
    canary = await makeCanary();
    await host.engine.probe();
  });

  afterAll(async () => {
    await canary[Symbol.asyncDispose]();
    await host[Symbol.asyncDispose]();
  });

  /** A new tree below the home, which goes with it. */
  const newTree = async (): Promise<string> => {
    const root = await mkdtemp(join(host.home, "tree-"));
    await chmod(root, 0o755);
    return root;
  };

  test("E01 a /dev that leads to a folder of the host is refused, the folder untouched", async () => {
    const before = await canary.fingerprint();
    const root = await newTree();
    await symlink(canary.decoy, join(root, "dev"));
    const refused = host.create({ layers: [{ root }] });
    await expect(refused).rejects.toMatchObject({ code: "invalid_argument" });
    expect(await canary.fingerprint()).toBe(before);
  });

  // A kernel of its own makes its devices in memory, and follows links in the sandbox alone.
  const follows = !hasOwnKernel(runtime);

  test.runIf(follows)("E01 control: without that look the runtime changes the folder", async () => {
    await using decoy = await makeCanary();
    expect(await namesPlanted(runtime, decoy, `ln -s ${decoy.decoy} rootfs/dev`)).toContain("fd");
  });

  test.for(follows ? Object.keys(LINKS) : [])("E02 control: so it does with %s", async (kind) => {
    await using decoy = await makeCanary();
    const make = LINKS[kind]?.(decoy.decoy) ?? "";
    expect(await namesPlanted(runtime, decoy, make)).toContain("fd");
  });

  test.for(HOSTILE_ROOTS)("E02 R3 $kind for /$name is refused", async ({ kind, name }) => {
    const before = await canary.fingerprint();
    const root = await newTree();
    await HOSTILE[kind]?.(root, name, canary.decoy);
    const startedMs = performance.now();
    // Above a good layer and below an empty one: what the merged tree shows is what counts.
    const layers = [...(await baseLayers()), { root }, { root: await newTree() }];
    const refused = host.create({ layers });
    await expect(refused).rejects.toMatchObject({ code: "invalid_argument" });
    expect(performance.now() - startedMs).toBeLessThan(REFUSAL_LIMIT_MS);
    expect(await canary.fingerprint()).toBe(before);
  });

  test.for(Object.keys(BENIGN))("R3 benign: %s", async (name) => {
    const before = await canary.fingerprint();
    const root = await newTree();
    await BENIGN[name]?.(root, canary.decoy);
    await using container = await host.create({ layers: [{ root }] });
    await initDaemon(container);
    expect(await canary.fingerprint()).toBe(before);
  });

  test("E03 a linked /dev/null does not unmask anything", async () => {
    await using layers = await attackLayers();
    const before = await canary.fingerprint();
    await mkdir(join(layers.root, "dev"));
    await symlink("/proc/sys/kernel/core_pattern", join(layers.root, "dev/null"));
    await using container = await startWith(host, layers);
    expect(await runInside(container, LOOK)).toEqual({
      exitCode: 0,
      stdout: "1:3\n",
      stderr: "",
    });
    expect(await canary.fingerprint()).toBe(before);
  });

  test("E04 linked consoles and terminals are not followed", async () => {
    await using layers = await attackLayers();
    const before = await canary.fingerprint();
    await mkdir(join(layers.root, "dev"));
    for (const name of ["console", "ptmx", "pts", "shm", "mqueue", "fd"]) {
      await symlink(canary.decoy, join(layers.root, "dev", name));
    }
    await using container = await startWith(host, layers);
    const { stdout } = await runInside(container, "cd /dev; readlink console pts shm mqueue ptmx");
    expect(stdout).toBe("pts/ptmx\n");
    expect(await canary.fingerprint()).toBe(before);
  });

  test.runIf(follows)(
    "E03 E04 control: without a /dev of its own the template's links stay",
    async () => {
      await using weak = await startWeakHost(runtime, {
        config: NO_DEV_NO_USERS,
        stage: `${OPEN_DEVICES}; ${OWN_DEV}; if [ -d rootfs/etc ]; then rm -f rootfs/dev/null
        ln -s /proc/uptime rootfs/dev/null; ln -sf /decoy rootfs/dev/console; fi`,
      });
      await using container = await weak.create({ layers: await baseLayers() });
      await initDaemon(container);
      const links = await runInside(container, "readlink /dev/null /dev/console");
      expect(links.stdout).toBe("/proc/uptime\n/decoy\n");
      // One of the runtimes even mounts the link's target where the masked file was.
      const masked = await runInside(container, "head -c 20 /proc/interrupts");
      expect(masked.stdout).toMatch(runtime === "runc" ? /^\d+\.\d+ \d/ : /^$/);
    },
  );

  test("E12 devices that a template brings do not open", async () => {
    await using layers = await attackLayers();
    const nodes = ["b 8 0", "b 252 0", "c 1 1", "c 10 200", "c 5 1"];
    for (const [index, node] of nodes.entries()) {
      const path = join(layers.root, `node${index}`);
      await run("mknod", ["-m", "666", path, ...node.split(" ")]);
    }
    await using container = await startWith(host, layers);
    const command = "for n in /node*; do head -c 1 $n >/dev/null && echo open; done; true";
    expect((await runInside(container, command)).stdout).toBe("");
    expect((await runInside(container, command, "user")).stdout).toBe("");
  });

  test("E15 a volume that flips to a link shows no folder of the host", async () => {
    const parent = await newTree();
    const [source, trap] = [join(parent, "volume"), join(parent, "trap")];
    await mkdir(source);
    await writeFile(join(source, "own"), "");
    await symlink(canary.path, trap);
    const before = await canary.fingerprint();
    const flipper = spawn("perl", ["-e", FLIP, source, trap], { stdio: "ignore" });
    const seen = new Set<string>();
    try {
      for (let count = 0; count < FLIPPED_CREATES; count += 1) {
        seen.add(await lookAt(host, source));
      }
    } finally {
      await endChild(flipper);
    }
    expect(seen.difference(new Set(["own\n", "refused"]))).toEqual(new Set());
    expect(await canary.fingerprint()).toBe(before);
  });

  test("E20 no program or library of a sandbox is the host's own file", async () => {
    const own = await inodesOf((await baseLayers()).map(({ root }) => root));
    const hosts = await inodesOf(["/"]);
    expect(own.size).toBeGreaterThan(100);
    expect(own.intersection(hosts)).toEqual(new Set());
    expect((await inodesOf([join(host.home, "daemon")], "")).intersection(hosts)).toEqual(
      new Set(),
    );
  });
});

// It takes its time to make, and shows the same everywhere.
test.for(IS_WHOLE_RUN ? ["host"] : [])(
  "E20 control: the template %s has the host's own files",
  { timeout: BUILD_TIMEOUT_MS },
  async () => {
    await using host = await startOciHost("auto");
    const layers = await buildHost({
      directory: join(host.home, "layers", "host"),
      perlDirectory: PERL_DIRECTORY,
    });
    const trees = layers.flatMap(({ root, usr }) => [root, ...(usr === undefined ? [] : [usr])]);
    const own = await inodesOf(trees.map((tree) => tree.replace(/\/usr$/, "/")));
    expect(own.intersection(await inodesOf(["/"])).size).toBeGreaterThan(100);
  },
);

test("E15 control: a mount that follows links shows the host's folder", async () => {
  await using canary = await makeCanary();
  const script = `mkdir "$1/at"; ln -s "$1" "$1/link"; mount --bind "$1/link" "$1/at"; ls "$1/at"`;
  const { stdout } = await run("unshare", ["--mount", "sh", "-ec", script, "sh", canary.path]);
  expect(stdout).toContain("secret.txt");
});

/** As one who runs without user namespace and without a /dev of his own. */
const NO_DEV_NO_USERS = `config.mounts = config.mounts.filter((m) => !m.destination.startsWith("/dev"));
config.linux.namespaces = config.linux.namespaces.filter((n) => n.type !== "user");
delete config.linux.uidMappings; delete config.linux.gidMappings;`;

/** A root file system in which device nodes open: the runtime makes its devices there. */
const OPEN_DEVICES = "mount -o remount,bind,dev rootfs";

/** A /dev that is not the runtime's: a container without any is refused once it runs. */
const OWN_DEV = "mkdir -p rootfs/dev; mount -t tmpfs tmpfs rootfs/dev";

/** A kernel of its own has no such file. */
const LOOK = "stat -c %t:%T /dev/null; [ ! -e /proc/interrupts ] || cat /proc/interrupts";

/** Shell lines that make a link of a missing `rootfs/dev`, by what kind of link it is. */
const LINKS: Readonly<Record<string, (decoy: string) => string>> = {
  "a relative link": (decoy) => `ln -s ../../../../../../..${decoy} rootfs/dev`,
  "a chain of links": (decoy) =>
    `ln -s ${decoy} rootfs/last; ln -s last rootfs/middle; ln -s middle rootfs/dev`,
};

/** What a runtime leaves in a folder of the host that a template's /dev leads to. */
async function namesPlanted(runtime: string, decoy: Canary, make: string): Promise<string[]> {
  await using weak = await startWeakHost(runtime, {
    config: NO_DEV_NO_USERS,
    stage: `${OPEN_DEVICES}; if [ -d rootfs/etc ]; then rm -rf rootfs/dev; ${make}
        else ${OWN_DEV}; fi`,
  });
  const before = await decoy.fingerprint();
  const made = await weak.create({ layers: await baseLayers() }).catch(() => undefined);
  await made?.[Symbol.asyncDispose]();
  expect(await decoy.fingerprint()).not.toBe(before);
  return await readdir(decoy.decoy);
}

/** Swaps two names without end: RENAME_EXCHANGE of renameat2. */
const FLIP = `my %number = ("x86_64" => 316, "aarch64" => 276);
chomp(my $machine = qx(uname -m));
while (1) { syscall($number{$machine}, -100, $ARGV[0], -100, $ARGV[1], 2); select undef, undef, undef, 0.0005 }`;

async function startWith(host: OciHost, layers: AttackLayers): Promise<Container> {
  const container = await host.create({ layers: layers.list });
  await initDaemon(container);
  return container;
}

async function lookAt(host: OciHost, source: string): Promise<string> {
  const binds = [{ source, path: "/srv/volume" }];
  const layers: readonly Layer[] = await baseLayers();
  const container = await host.create({ layers, binds }).catch(() => undefined);
  if (container === undefined) return "refused";
  await initDaemon(container);
  const { stdout } = await runInside(container, "ls /srv/volume");
  await container[Symbol.asyncDispose]();
  return stdout;
}

/** Device and inode of every program and library below the roots, links left out. */
async function inodesOf(roots: readonly string[], below = "usr"): Promise<Set<string>> {
  const found = new Set<string>();
  for (const root of roots) {
    const folders =
      below === "" ? [""] : ["bin", "sbin", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"];
    for (const folder of folders) {
      const path = join(root, below, folder);
      const entries = await readdir(path, { withFileTypes: true, recursive: below === "" }).catch(
        () => [],
      );
      for (const entry of entries.filter((one) => one.isFile())) {
        const { dev, ino } = await stat(join(entry.parentPath, entry.name));
        found.add(`${dev}:${ino}`);
      }
    }
  }
  return found;
}
