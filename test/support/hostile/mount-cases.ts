/**
 * Mounts that try to lead each other elsewhere: up to three volumes at places of a sandbox, with
 * links in the volumes and in the root file system that lead to where nothing may be mounted.
 */

import { posix } from "node:path";
import type { Random } from "../random.ts";

/** On each of these, and below it, nothing of a user's may lie. */
export const FORBIDDEN: readonly string[] = [
  "/bin",
  "/dev",
  "/etc",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/proc",
  "/run",
  "/sbin",
  "/sys",
  "/usr",
];

/** Where an attack wants its volume to be. */
const TARGETS: readonly string[] = [
  "/run/sandbox-mcp",
  "/run/sandbox-mcp/lib",
  "/run",
  "/proc",
  "/proc/self",
  "/dev",
  "/dev/shm",
  "/dev/pts",
  "/sys",
  "/sys/fs",
  "/etc",
  "/etc/ssl",
  "/usr",
  "/usr/bin",
  "/bin",
  "/",
];

/** What people ask for; all of it works. */
export const ORDINARY: readonly string[] = [
  "/data",
  "/workspace",
  "/mnt",
  "/mnt/deep/data",
  "/opt/tools",
  "/srv/www",
  "/home/user",
  "/home/user/project",
  "/home/user/.cache/pip",
  "/media/disk",
  "/root/work",
  "/tmp/scratch",
  "/var/lib/service",
  "/a name with blanks",
  "/data/ünïcode",
  "/data/100%2Fdone",
];

export interface Link {
  readonly name: string;
  readonly target: string;
}

/** Ways to write a link at the top of a folder that leads to a path of the sandbox. */
const WRITINGS: readonly ((target: string, index: number) => readonly Link[])[] = [
  (target, index) => [{ name: `link${index}`, target }],
  (target, index) => [{ name: `link${index}`, target: `../../../../../..${target}` }],
  (target, index) => [
    { name: `last${index}`, target },
    { name: `middle${index}`, target: `last${index}` },
    { name: `link${index}`, target: `./middle${index}` },
  ],
  (target, index) => [{ name: `link${index}`, target: `${target}/.` }],
];

/** For each target one link in each way of writing; {@link linkNames} are the names that lead there. */
export function hostileLinks(): readonly Link[] {
  return TARGETS.flatMap((target, at) =>
    WRITINGS.flatMap((write, way) => write(target, at * WRITINGS.length + way)),
  );
}

const LINK_NAMES = TARGETS.flatMap((_target, at) =>
  WRITINGS.map((_write, way) => `link${at * WRITINGS.length + way}`),
);

/** Where the root file system of the cases has the links. */
export const LINKED_FOLDER = "/opt/linked";
/** A folder of the template with the links, which a program inside has renamed to this name. */
export const MOVED_FOLDER = "/opt/moved";

/** Paths that are spelled so that a careless look takes them for another one. */
const SPELLINGS: readonly ((path: string) => string)[] = [
  (path) => `/${path}`,
  (path) => `${path}/`,
  (path) => `${path}//`,
  (path) => path.replaceAll("/", "//"),
  (path) => `/data/..${path}`,
  (path) => `/.${path}`,
  (path) => `${path}/.`,
  (path) => `${path}/../${posix.basename(path)}`,
  (path) => `${path}\0`,
  (path) => `${path}\n`,
  (path) => `${path}\uD800`,
  (path) => path.slice(1),
];

/** One to three paths for volumes. */
export function mountCase(random: Random): readonly string[] {
  const first = random.pick(ORDINARY);
  const link = random.pick(LINK_NAMES);
  const kinds: readonly (() => readonly string[])[] = [
    // The first is seen before the second: a link in it leads the second on.
    () => [first, `${first}/${link}`],
    () => [`${first}/${link}`, first],
    () => [first, `${first}/${link}/sandbox-mcp`],
    () => [`${LINKED_FOLDER}/${link}`],
    () => [`${MOVED_FOLDER}/${link}`],
    () => [`${MOVED_FOLDER}/${link}/below`, first],
    () => [random.pick(TARGETS)],
    () => [first, random.pick(FORBIDDEN)],
    () => [first, `${random.pick(FORBIDDEN)}/${link}`],
    () => [random.pick(SPELLINGS)(random.pick(TARGETS))],
    () => [random.pick(SPELLINGS)(first)],
    () => [first, random.pick(SPELLINGS)(first)],
    () => [first, random.pick(ORDINARY), random.pick(ORDINARY)],
    () => [first, `${first}/deeper`, `${first}/deeper/${link}`],
    () => [posix.dirname(first), first],
    () => ["/var/run", "/var/lock/x", first].slice(random.below(3)),
    () => [first],
    () => [first, random.pick(ORDINARY)],
  ];
  return random.pick(kinds)();
}
