/**
 * What sandboxes left on this machine, as one comparable value: what carries the mark of a home,
 * and what carries nobody's. Another user of the machine, with homes of its own, changes neither.
 *
 * The marks of a home are paths below it: in mounts, backing files, claims and arguments, as the
 * working directory or root of a process. A container's cgroup and a router's link carry a number
 * or an id whose claim is a link to a folder of the home. The engine takes the claim before it
 * makes either and gives it back after their removal: one without any claim is left over.
 */

import { readdir, readFile, readlink, stat } from "node:fs/promises";
import { basename, join } from "node:path";

const CLAIMS = "/run/sandbox-mcp/ids";
const ROUTERS = "/run/sandbox-mcp/routers";
const LINKS = "/sys/class/net";
/** Containers, sockets and half-made layers lie at most this deep below a home. */
const MAX_DEPTH = 5;
/** Their contents are kept on purpose. */
const KEPT_FOLDERS = new Set(["daemon", "layers"]);

export interface Census {
  readonly processes: readonly string[];
  readonly networks: readonly string[];
  readonly mounts: readonly string[];
  readonly loopDevices: readonly string[];
  /** Also those that nobody claims. */
  readonly cgroups: readonly string[];
  readonly idClaims: readonly string[];
  /** Numbers and namespaces of routers, and their links in this namespace; also unclaimed ones. */
  readonly routers: readonly string[];
  readonly folders: readonly string[];
  readonly sockets: readonly string[];
}

/**
 * Counts what is there now; equal counts before and after mean that nothing was left. Without a
 * home, or a folder of homes, it counts what nobody claims: what a home that is gone must equal.
 */
export async function takeCensus(home?: string): Promise<Census> {
  const cgroups = await listCgroups(home);
  const processes = home === undefined ? [] : await listProcesses(home, cgroups);
  const files = home === undefined ? [] : await walk(home, MAX_DEPTH);
  const routers = await listRouters(home);
  return {
    processes: processes.map(({ name }) => name).toSorted(),
    networks: [...new Set(processes.map(({ network }) => network))].toSorted(),
    mounts: home === undefined ? [] : await listMounts(home, routers),
    loopDevices: home === undefined ? [] : await listLoopDevices(home),
    cgroups,
    idClaims: (await readClaims(CLAIMS)).map(([, owner]) => owner).filter(isOf(home)),
    routers,
    folders: files.filter(({ kind }) => kind === "folder").map(({ path }) => path),
    sockets: files.filter(({ kind }) => kind === "socket").map(({ path }) => path),
  };
}

/** What carries the mark of a folder, and nobody else's: what may be taken away with it. */
export interface Marked {
  /** Each begins with its number. */
  readonly processes: readonly string[];
  readonly containers: readonly { readonly id: string; readonly directory: string }[];
  /** Bottom first. */
  readonly mounts: readonly string[];
  /** The files behind them. */
  readonly loopDevices: readonly string[];
}

/** What belongs to a folder of homes now. */
export async function findMarked(folder: string): Promise<Marked> {
  const owners = (await readClaims(CLAIMS)).map(([, owner]) => owner).filter(isOf(folder));
  const containers = owners.map((directory) => ({ id: idOf(directory), directory }));
  const ids = containers.map(({ id }) => id);
  return {
    processes: (await listProcesses(folder, ids)).map(({ name }) => name),
    containers,
    mounts: await listMounts(folder, []),
    loopDevices: await listLoopDevices(folder),
  };
}

/** The new entries, for a message. */
export function leftOver(before: Census, after: Census): readonly string[] {
  const known = new Set(Object.values(before).flat());
  return Object.values(after)
    .flat()
    .filter((entry: string) => !known.has(entry));
}

interface FoundProcess {
  readonly name: string;
  readonly network: string;
}

async function listProcesses(home: string, cgroups: readonly string[]): Promise<FoundProcess[]> {
  const containers = new Set(cgroups.map((path) => basename(path)));
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map(async (pid) => describeProcess(pid, home, containers)));
  return found.filter((entry) => entry !== undefined);
}

async function describeProcess(
  pid: string,
  home: string,
  containers: ReadonlySet<string>,
): Promise<FoundProcess | undefined> {
  if (Number(pid) === process.pid) return undefined;
  const words = (await readText(`/proc/${pid}/cmdline`)).split("\0");
  const command = words.join(" ").trim();
  // What has ended but was not reaped by its new parent yet has no command and nothing else.
  if (command === "") return undefined;
  const cgroup = await readText(`/proc/${pid}/cgroup`);
  const inside = [...cgroup.matchAll(/\/sandbox-mcp\/([a-z0-9]+)/g)].map(([, id]) => id ?? "");
  const places = await Promise.all(
    ["cwd", "root"].map(async (link) => readLinkText(`/proc/${pid}/${link}`)),
  );
  const isMarked =
    inside.some((id) => containers.has(id)) ||
    places.some(isOf(home)) ||
    words.some((word) => mentions(word, home));
  if (!isMarked) return undefined;
  return { name: `${pid} ${command}`, network: await readLinkText(`/proc/${pid}/ns/net`) };
}

async function listMounts(home: string, routers: readonly string[]): Promise<string[]> {
  const text = await readFile("/proc/self/mountinfo", "utf8");
  const lines = text.split("\n").filter((line) => line !== "");
  // A router's network namespace is bound to a file that is not below the home.
  const namespaces = routers.map((name) => ` ${join(ROUTERS, name)} `);
  const isOurs = (line: string) => [` ${home}/`, ...namespaces].some((path) => line.includes(path));
  return lines.filter(isOurs).map((line) => line.split(" ")[4] ?? "");
}

async function listLoopDevices(home: string): Promise<string[]> {
  const devices = (await list("/sys/block")).filter((name) => name.startsWith("loop"));
  const backings = await Promise.all(
    devices.map(async (name) => (await readText(`/sys/block/${name}/loop/backing_file`)).trim()),
  );
  return backings.filter(isOf(home)).toSorted();
}

async function listCgroups(home: string | undefined): Promise<string[]> {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  const parents = mounts
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => join(line.split(" ")[4] ?? "", "sandbox-mcp"));
  return takeOwn(home, {
    list: async () => listAll(parents),
    claims: async () => (await readClaims(CLAIMS)).map(([, owner]) => [idOf(owner), owner]),
    keyOf: (path) => basename(path),
    // Beside containers, a parent has control files.
    isThere: isFolder,
  });
}

async function listRouters(home: string | undefined): Promise<string[]> {
  const paths = await takeOwn(home, {
    list: async () =>
      (await listAll([ROUTERS, LINKS])).filter((path) => /^(sbm)?\d+/.test(basename(path))),
    claims: async () => readClaims(ROUTERS),
    keyOf: (path) => /\d+/.exec(basename(path))?.[0] ?? "",
    isThere: async (path) => (await list(join(path, ".."))).includes(basename(path)),
  });
  return paths.map((path) => basename(path)).toSorted();
}

interface Claimed {
  list(): Promise<readonly string[]>;
  /** Keys with the paths of their owners. */
  claims(): Promise<readonly (readonly [string, string])[]>;
  keyOf(path: string): string;
  isThere(path: string): Promise<boolean>;
}

/**
 * Those whose claim is of the home, and those without a claim. What an end takes away between the
 * list and the look at the claims has gone before its claim.
 */
async function takeOwn(home: string | undefined, things: Claimed): Promise<string[]> {
  const found: string[] = [];
  const paths = await things.list();
  const owners = new Map(await things.claims());
  for (const path of paths) {
    const owner = owners.get(things.keyOf(path));
    if (owner === undefined ? await things.isThere(path) : isOf(home)(owner)) found.push(path);
  }
  return found.toSorted();
}

/** Names of claims with what they are for. */
async function readClaims(directory: string): Promise<(readonly [string, string])[]> {
  const names = (await list(directory)).filter((name) => /^\d+$/.test(name)).toSorted();
  const claims = await Promise.all(
    names.map(async (name) => [name, await readLinkText(join(directory, name))] as const),
  );
  return claims.filter(([, owner]) => owner !== "");
}

/** The container of a folder; a test's engine puts a word before it. */
function idOf(folder: string): string {
  return basename(folder).replace(/^c-/, "");
}

/** Whether a path is a home or below it; none is of no home. */
function isOf(home: string | undefined): (path: string) => boolean {
  return (path) => home !== undefined && (path === home || path.startsWith(`${home}/`));
}

/** Whether a word of a command line has the path of a home in it. */
function mentions(word: string, home: string): boolean {
  return word
    .split(home)
    .slice(1)
    .some((rest) => /^(?:$|[^\w.-])/.test(rest));
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

async function listAll(directories: readonly string[]): Promise<string[]> {
  const lists = directories.map(async (directory) =>
    (await list(directory)).map((name) => join(directory, name)),
  );
  return (await Promise.all(lists)).flat();
}

/** A process or device may end while it is looked at. */
async function readText(path: string): Promise<string> {
  return readFile(path, "utf8").catch(() => "");
}

async function readLinkText(path: string): Promise<string> {
  return readlink(path).catch(() => "");
}
