/** Lists a folder of a volume. Folders are opened by their names in open folders: none is a link. */

import { opendir, type FileHandle } from "node:fs/promises";
import { isCode, SandboxError } from "../../common/errors.ts";
import { fromSystemBytes } from "../../common/file-names.ts";
import { toEntry, type VolumeEntry } from "./volume-entry.ts";
import { openFolderIn, pathIn, type Place } from "./volume-paths.ts";

/** Of one reply; a part of a list would be taken for the whole. */
const MAX_ENTRIES = 20_000;
/** Of their paths and of what links lead to: deep directories make paths longer than any system's. */
const MAX_TEXT_CHARACTERS = 8 * 1024 ** 2;
/** Entries that vanish, and folders that become something else, while they are listed. */
const GONE: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);

/**
 * The entries of a folder in the order of their names, each followed by what is in it.
 * @throws SandboxError invalid_argument for more than 20,000, or for longer paths than a reply holds
 */
export async function listVolumeFolder(place: Place, depth: number): Promise<VolumeEntry[]> {
  const found: Found = { entries: [], characters: 0 };
  const name = place.name === "" ? "." : place.name;
  await using folder = await openFolderIn(place.folder, name);
  await collect({ folder, path: place.path === "/" ? "" : place.path, depth }, found);
  return found.entries;
}

interface Found {
  readonly entries: VolumeEntry[];
  characters: number;
}

interface Level {
  readonly folder: FileHandle;
  readonly path: string;
  readonly depth: number;
}

async function collect({ folder, path, depth }: Level, found: Found): Promise<void> {
  for (const name of await readNames(folder, MAX_ENTRIES - found.entries.length)) {
    const place = { name, path: `${path}/${name}`, systemPath: pathIn(folder, name) };
    const entry = await unlessGone(toEntry(place));
    if (entry === undefined) continue;
    if (found.entries.length >= MAX_ENTRIES) throw tooMany();
    found.characters += entry.path.length + (entry.target?.length ?? 0);
    if (found.characters > MAX_TEXT_CHARACTERS) throw tooLong();
    found.entries.push(entry);
    if (entry.type !== "directory" || depth <= 1) continue;
    const below = await unlessGone(openFolderIn(folder, name));
    if (below === undefined) continue;
    await using opened = below;
    await collect({ folder: opened, path: place.path, depth: depth - 1 }, found);
  }
}

async function readNames(folder: FileHandle, limit: number): Promise<string[]> {
  const names: string[] = [];
  const listing = await opendir(pathIn(folder, "."), { encoding: "latin1", bufferSize: 256 });
  for await (const { name } of listing) {
    if (names.length >= limit) throw tooMany();
    names.push(fromSystemBytes(Buffer.from(name, "latin1")));
  }
  return names.toSorted();
}

async function unlessGone<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isCode(error, ...GONE)) return undefined;
    throw error;
  }
}

function tooMany(): SandboxError {
  return new SandboxError("invalid_argument", `directory has more than ${MAX_ENTRIES} entries`);
}

function tooLong(): SandboxError {
  const message = `paths below the directory have more than ${MAX_TEXT_CHARACTERS} characters`;
  return new SandboxError("invalid_argument", message);
}
