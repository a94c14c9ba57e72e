/**
 * Everything on this machine that sandboxes of a home could leave behind, as one comparable value.
 * Without a home it counts those of the whole machine, of loop devices those of all tests.
 */

import { readdir, readFile, readlink, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const CLAIMS = "/run/sandbox-mcp/ids";
const ROUTERS = "/run/sandbox-mcp/routers";
/** Containers, sockets and half-made layers lie at most this deep below a home. */
const MAX_DEPTH = 5;
/** Their contents are kept on purpose. */
const KEPT_FOLDERS = new Set(["daemon", "layers"]);

export interface Census {
  readonly processes: readonly string[];
  readonly networks: readonly string[];
  readonly mounts: readonly string[];
  readonly loopDevices: readonly string[];
  readonly cgroups: readonly string[];
  readonly idClaims: readonly string[];
  /** Numbers and namespaces of routers, and their links in this namespace. */
  readonly routers: readonly string[];
  readonly folders: readonly string[];
  readonly sockets: readonly string[];
}

export interface CensusScope {
  /** Only mounts, loop devices, claims and files below it, and processes that name it. */
  readonly home?: string;
  /** Only cgroups of containers whose id begins so, and processes in them. */
  readonly idPrefix?: string;
}

/** Counts what is there now; equal counts before and after mean that nothing was left. */
export async function takeCensus(scope: CensusScope = {}): Promise<Census> {
  const processes = await listProcesses(scope);
  const files = scope.home === undefined ? [] : await walk(scope.home, MAX_DEPTH);
  return {
    processes: processes.map(({ name }) => name).toSorted(),
    networks: [...new Set(processes.map(({ network }) => network))].toSorted(),
    mounts: await listMounts(scope.home),
    loopDevices: await listLoopDevices(scope.home),
    cgroups: await listCgroups(scope.idPrefix ?? ""),
    idClaims: await listClaims(scope.home ?? "/"),
    routers: await listRouters(scope.home ?? "/"),
    folders: files.filter(({ kind }) => kind === "folder").map(({ path }) => path),
    sockets: files.filter(({ kind }) => kind === "socket").map(({ path }) => path),
  };
}

async function listProcesses(
  scope: CensusScope,
): Promise<{ readonly name: string; readonly network: string }[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map(async (pid) => describeProcess(pid, scope)));
  return found.filter((entry) => entry !== undefined);
}

async function describeProcess(pid: string, scope: CensusScope) {
  if (Number(pid) === process.pid) return undefined;
  const cgroup = await readText(`/proc/${pid}/cgroup`);
  const command = (await readText(`/proc/${pid}/cmdline`)).replaceAll("\0", " ").trim();
  const isInside = cgroup.includes(`/sandbox-mcp/${scope.idPrefix ?? ""}`);
  // What has ended but was not reaped by its new parent yet has no command and nothing else.
  if (command === "") return undefined;
  const namesHome = scope.home !== undefined && command.includes(scope.home);
  if (!isInside && !namesHome) return undefined;
  const network = await readlink(`/proc/${pid}/ns/net`).catch(() => "");
  return { name: `${pid} ${command}`, network };
}

async function listMounts(home: string | undefined): Promise<string[]> {
  const text = await readFile("/proc/self/mountinfo", "utf8");
  const lines = text.split("\n").filter((line) => line !== "");
  const slots = await claimedBy(ROUTERS, home ?? "/");
  // A router's network namespace is bound to a file that is not below the home.
  const routers = slots.map((slot) => ` ${join(ROUTERS, slot)}.net `);
  const ours = (line: string) =>
    home === undefined || [` ${home}/`, ...routers].some((path) => line.includes(path));
  return lines.filter((line) => ours(line)).map((line) => line.split(" ")[4] ?? "");
}

async function listLoopDevices(home: string | undefined): Promise<string[]> {
  const devices = (await readdir("/sys/block")).filter((name) => name.startsWith("loop"));
  const backings = await Promise.all(
    devices.map(async (name) => (await readText(`/sys/block/${name}/loop/backing_file`)).trim()),
  );
  // Every home of a test lies below the directory for temporary files.
  return backings.filter((path) => path.startsWith(home ?? tmpdir())).toSorted();
}

async function listCgroups(idPrefix: string): Promise<string[]> {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  const trees = mounts
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(" ")[4]);
  const names = await Promise.all(
    trees.map(async (tree) => {
      const parent = join(tree ?? "", "sandbox-mcp");
      return (await list(parent)).map((name) => join(parent, name));
    }),
  );
  const containers: string[] = [];
  for (const path of names.flat()) {
    // Beside containers, a parent has control files.
    if (basename(path).startsWith(idPrefix) && (await isFolder(path))) containers.push(path);
  }
  return containers.toSorted();
}

async function listRouters(home: string): Promise<string[]> {
  const links = (await list("/sys/class/net")).filter((name) => name.startsWith("sbm"));
  return [...(await claimedBy(ROUTERS, home)), ...links].toSorted();
}

async function listClaims(home: string): Promise<string[]> {
  const slots = await claimedBy(CLAIMS, home);
  return Promise.all(slots.map(async (slot) => readlink(join(CLAIMS, slot)).catch(() => slot)));
}

/**
 * Names of claims, which are links to what they are for, that are for something of a home. What is
 * no link counts for the whole machine alone.
 */
async function claimedBy(directory: string, home: string): Promise<string[]> {
  const names = await list(directory);
  const owners = await Promise.all(
    names.map(async (name) => readlink(join(directory, name)).catch(() => "/")),
  );
  return names.filter((_name, index) => owners[index]?.startsWith(home)).toSorted();
}

interface Entry {
  readonly path: string;
  readonly kind: "folder" | "socket" | "other";
}

async function walk(directory: string, depth: number): Promise<Entry[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  const found: Entry[] = [];
  for (const entry of entries) {
    const path = join(directory, entry.name);
    const kind = entry.isDirectory() ? "folder" : entry.isSocket() ? "socket" : "other";
    found.push({ path, kind });
    if (kind !== "folder" || depth === 1 || KEPT_FOLDERS.has(entry.name)) continue;
    found.push(...(await walk(path, depth - 1)));
  }
  return found.toSorted((left, right) => left.path.localeCompare(right.path));
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

async function list(directory: string): Promise<string[]> {
  return readdir(directory).catch(() => []);
}

/** A process or device may end while it is looked at. */
async function readText(path: string): Promise<string> {
  return readFile(path, "utf8").catch(() => "");
}
