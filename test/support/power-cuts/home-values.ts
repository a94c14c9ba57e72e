/** What a home holds on its disk, as values that can be compared: read by the product's own code, without a service. */

import { execFile } from "node:child_process";
import { createHash, type Hash } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { lstat, readdir, readlink, realpath } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { causeCode } from "../../../src/common/errors.ts";
import { isThere } from "../../../src/common/files.ts";
import { readRecord } from "../../../src/engine/oci/container-record.ts";
import {
  hasVolumeDisk,
  listVolumeDisks,
  volumeContent,
} from "../../../src/engine/storage/volume-disk.ts";
import { layerFolders } from "../../../src/sandboxes/builds/layer-folders.ts";
import type { BuildRecord, Store } from "../../../src/store/store.ts";
import type { Value } from "./ledger.ts";

const run = promisify(execFile);
const CHUNK_BYTES = 1024 ** 2;
const ZEROS = Buffer.alloc(CHUNK_BYTES);
const MODE_BITS = 0o7777;

/** The home, and its database. */
export interface OpenedHome {
  readonly path: string;
  readonly store: Store;
  /** What was read of builds, by their folders: none changes while a home is compared. */
  readonly trees?: Map<string, string>;
}

type Reader = (home: OpenedHome, ...parts: string[]) => Promise<Value> | Value;

/** The first word of a name, and how what it names is read; names have blanks between their words. */
const READERS = {
  volume: readVolume,
  file: async ({ path }, volumeId = "", file = "") =>
    readFileValue(join(volumeContent(path, volumeId), file)),
  upload: async ({ path }, team = "", hash = "") => {
    const name = createHash("sha256")
      .update(JSON.stringify([team, hash]))
      .digest("hex");
    return readFileValue(join(path, "uploads", name));
  },
  named: async (home, template = "", tag = "default") => {
    const build = taggedBuild(home, template, tag);
    return build && readBuild(home, build);
  },
  tag: (home, template = "", tag = "") => taggedBuild(home, template, tag)?.buildId,
  public: ({ store }, template = "") =>
    store.templates.getByName(template)?.isPublic === true ? "true" : undefined,
  paused: readPaused,
  key: ({ store }, name = "") => store.keys.all().find((key) => key.name === name)?.mask,
} as const satisfies Readonly<Record<string, Reader>>;

/** Undefined for what is not there. */
export async function readValue(home: OpenedHome, name: string): Promise<Value> {
  const [kind = "", ...parts] = name.split(" ");
  const reader: Reader | undefined = Object.entries(READERS).find(([key]) => key === kind)?.[1];
  if (reader === undefined) throw new Error(`nothing reads ${name}`);
  return reader(home, ...parts);
}

/** All that a build is made of, but the template that every home has. Several tags may name one. */
export async function readBuild({ path, trees }: OpenedHome, build: BuildRecord): Promise<string> {
  const folders = ownFolders(build);
  const known = trees?.get(folders.join());
  if (known !== undefined) return known;
  const hash = createHash("sha256");
  for (const folder of folders) await hashTree(hash, join(path, "layers", folder), "");
  const value = hash.digest("hex");
  trees?.set(folders.join(), value);
  return value;
}

/** Names in the folder of layers. */
function ownFolders(build: BuildRecord): readonly string[] {
  return layerFolders(build).filter((folder) => !folder.startsWith("base-"));
}

function taggedBuild({ store }: OpenedHome, template: string, tag: string) {
  const found = store.templates.getByName(template);
  const build = found && store.builds.tagged(found.templateId, tag);
  return build?.status === "ready" ? build : undefined;
}

async function readVolume({ path, store }: OpenedHome, volumeId = ""): Promise<Value> {
  const row = store.volumes.get(volumeId);
  const isMade = await hasVolumeDisk(path, volumeId);
  if (isMade === (row !== undefined)) return row?.name;
  return isMade ? "a disk without a row" : "a row without a disk";
}

/** What is in the file on the disk of a sandbox that a start after the cut finds again as paused. */
async function readPaused({ path, store }: OpenedHome, sandboxId = ""): Promise<Value> {
  const row = store.sandboxes.get(sandboxId);
  if (row?.state !== "paused" && row?.state !== "running") return undefined;
  const directory = join(path, "instances/serve/s", sandboxId);
  const record = await readRecord(directory);
  if (record?.isHalted !== true || record.unsyncedSince !== undefined) return undefined;
  const image = await realpath(join(directory, "disk.img"));
  // The file, not the image: its last unmount may come after the pause and write its superblock.
  const words = ["-R", "cat /root/home/user/marker.txt", image];
  const { stdout } = await run("debugfs", words, { maxBuffer: CHUNK_BYTES });
  // A fork has nothing of its own here before it writes: its value is not that of another one all the same.
  return createHash("sha256").update(sandboxId).update(stdout).digest("hex");
}

async function readFileValue(path: string): Promise<Value> {
  try {
    const entry = await lstat(path);
    const mode = (entry.mode & MODE_BITS).toString(8);
    if (entry.isDirectory()) return `folder ${mode}`;
    return `${mode} ${hashFile(createHash("sha256"), path).digest("hex")}`;
  } catch (error) {
    if (causeCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Names, modes, owners, sizes, links and contents. */
async function hashTree(hash: Hash, root: string, below: string): Promise<void> {
  const path = join(root, below);
  const { mode, uid, gid, size, rdev } = await lstat(path);
  const isFile = (mode & 0o170000) === 0o100000;
  const isFolder = (mode & 0o170000) === 0o040000;
  hash.update(JSON.stringify([below, mode, uid, gid, isFolder ? 0 : size, rdev]));
  if (isFile) hashFile(hash, path);
  else if (isFolder) {
    for (const name of (await readdir(path)).toSorted())
      await hashTree(hash, root, join(below, name));
  } else if ((mode & 0o170000) === 0o120000) hash.update(await readlink(path));
}

/** What is only zeros counts alike whether it was written or not. */
function hashFile(hash: Hash, path: string): Hash {
  const file = openSync(path, "r");
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    for (let at = 0; ;) {
      const length = readSync(file, chunk, 0, CHUNK_BYTES, at);
      if (length === 0) return hash;
      const bytes = chunk.subarray(0, length);
      if (!bytes.equals(ZEROS.subarray(0, length))) hash.update(`${at} `).update(bytes);
      at += length;
    }
  } finally {
    closeSync(file);
  }
}

/** The bytes of a file that was uploaded, as its value. */
export function fileValue(mode: number, bytes: Buffer): Value {
  const isEmpty = bytes.equals(ZEROS.subarray(0, bytes.length));
  const hash = createHash("sha256");
  if (!isEmpty) hash.update("0 ").update(bytes);
  return `${mode.toString(8)} ${hash.digest("hex")}`;
}

/** What is half there, once a start has cleaned up. */
export async function findHalves(home: OpenedHome): Promise<readonly string[]> {
  const { path, store } = home;
  const builds = store.builds.all();
  const named = new Set(builds.flatMap(ownFolders).map((folder) => basename(folder)));
  const faults: string[] = [];
  for (const build of builds) {
    if (build.status !== "ready") faults.push(`build ${build.buildId} is ${build.status}`);
    for (const folder of ownFolders(build)) {
      if (!(await isThere(join(path, "layers", folder)))) faults.push(`no ${folder} of a build`);
    }
  }
  for (const place of ["layers", "store/snapshots"]) {
    const names = (await listFolder(join(path, place))).filter((name) => !name.startsWith("base-"));
    const lost = names.filter((name) => !named.has(name));
    faults.push(...lost.map((name) => `${place}/${name} of no build`));
  }
  const volumes = new Set(store.volumes.all().map(({ volumeId }) => volumeId));
  for (const name of await listVolumeDisks(path)) {
    if (!volumes.has(name)) faults.push(`volume-disks/${name} of no row`);
  }
  return faults;
}

async function listFolder(path: string): Promise<string[]> {
  return readdir(path).catch((error: unknown) => {
    if (causeCode(error) === "ENOENT") return [];
    throw error;
  });
}
