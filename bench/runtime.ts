/** The OCI runtime by itself, as an administrator would call it: the floor of what a container costs. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "../test/support/base-layer.ts";

const run = promisify(execFile);

/** Old crun refuses hosts with both kinds of cgroups: it gets to see one. */
const ONE_TREE = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"';
const RUNTIMES = ["crun", "runc"] as const;

export interface PlainRuntime extends AsyncDisposable {
  readonly name: string;
  /** Runs `true` in a new container to its end. */
  readonly runTrue: () => Promise<void>;
  /** Runs `true` in the container that stays. */
  readonly execTrue: () => Promise<void>;
  readonly pause: () => Promise<void>;
  readonly resume: () => Promise<void>;
}

/** The first runtime that runs here, with one container that stays until the end. */
export async function openRuntime(): Promise<PlainRuntime> {
  const faults: unknown[] = [];
  for (const name of RUNTIMES) {
    const folder = await mkdtemp(join(tmpdir(), "smcp-bench-"));
    try {
      return await open(name, folder);
    } catch (error) {
      faults.push(error);
      await rm(folder, { recursive: true, force: true });
    }
  }
  throw new AggregateError(faults, "no runtime runs a plain container here");
}

async function open(name: string, folder: string): Promise<PlainRuntime> {
  const call = async (...args: string[]) =>
    run("unshare", ["-m", "sh", "-c", ONE_TREE, "sh", name, "--root", join(folder, "s"), ...args]);
  const [short, long] = [join(folder, "short"), join(folder, "long")];
  await writeBundle(name, short, ["true"]);
  await writeBundle(name, long, ["sleep", "3600"]);
  let count = 0;
  const id = `bench-${process.pid}`;
  const runTrue = async () => {
    count += 1;
    await call("run", "--bundle", short, `${id}-${count}`);
  };
  await runTrue();
  // Its output would hold the pipes open for as long as it lives.
  await run("unshare", [
    "-m",
    "sh",
    "-c",
    `${ONE_TREE} >/dev/null 2>&1 </dev/null`,
    "sh",
    name,
    "--root",
    join(folder, "s"),
    "run",
    "--detach",
    "--bundle",
    long,
    id,
  ]);
  return {
    name,
    runTrue,
    execTrue: async () => void (await call("exec", id, "true")),
    pause: async () => void (await call("pause", id)),
    resume: async () => void (await call("resume", id)),
    async [Symbol.asyncDispose]() {
      await call("delete", "--force", id);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface PeerRuntime extends AsyncDisposable {
  /** Runs `true` in a new container to its end. */
  readonly runTrue: () => Promise<void>;
}

/** Another runtime at the same work, by the path or name of its program. */
export async function openPeerRuntime(
  program: string,
  flags: readonly string[] = [],
): Promise<PeerRuntime> {
  const folder = await mkdtemp(join(tmpdir(), "smcp-bench-"));
  const bundle = join(folder, "bundle");
  await writeBundle(program, bundle, ["true"]);
  const start = ["-m", "sh", "-c", ONE_TREE, "sh", program, ...flags, "--root", join(folder, "s")];
  let count = 0;
  return {
    async runTrue() {
      count += 1;
      await run("unshare", [...start, "run", "--bundle", bundle, `peer-${process.pid}-${count}`]);
    },
    [Symbol.asyncDispose]: async () => rm(folder, { recursive: true, force: true }),
  };
}

async function writeBundle(name: string, folder: string, args: readonly string[]): Promise<void> {
  await mkdir(folder);
  await run(name, ["spec"], { cwd: folder });
  const path = join(folder, "config.json");
  const config: unknown = JSON.parse(await readFile(path, "utf8"));
  const [layer] = await baseLayers();
  const initial: unknown = isObject(config) ? Reflect.get(config, "process") : undefined;
  if (!isObject(config) || !isObject(initial)) {
    throw new Error(`${name} spec wrote no configuration`);
  }
  const changed = {
    ...config,
    root: { path: layer?.root, readonly: true },
    process: { ...initial, terminal: false, args },
  };
  await writeFile(path, JSON.stringify(changed));
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
