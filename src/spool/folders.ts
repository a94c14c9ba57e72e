/** The folder of spools: `<sandbox>/<name>.<time>.<owner>/<position>`, `<owner>.sock`. */

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isCode, SandboxError } from "../common/errors.ts";
import { ifThere } from "../common/files.ts";
import { z } from "../common/schema.ts";

/** The file that says how a spool ended; absent while it is written, or when its owner died. */
export const END_FILE = "end.json";
/** The empty file that says that output from before the spool is missing. */
export const LATE_FILE = "late";

const POSITION_DIGITS = 16;
const SEGMENT_PATTERN = /^[0-9]{16}$/;
const HEAD_PATTERN = /^head-([0-9]{16})$/;
const SPOOL_PATTERN = /^([a-z0-9_]{1,32})\.([0-9]{1,15})\.([0-9a-f]{16})$/;
const SANDBOX_PATTERN = /^[a-z0-9]{1,64}$/;

/** What the name of a spool's folder says. */
export interface SpoolName {
  /** `p_<pid>` for the output of a process, `log` for the log of the sandbox. */
  readonly name: string;
  /** Unix milliseconds; of two spools of one name the later one counts. */
  readonly createdAtMs: number;
  readonly owner: string;
}

export interface SpoolLocation extends SpoolName {
  readonly sandboxId: string;
  readonly folder: string;
}

/** The folder of a sandbox's spools. @throws SandboxError invalid_argument for a malformed id. */
export function sandboxFolder(root: string, sandboxId: string): string {
  if (SANDBOX_PATTERN.test(sandboxId)) return join(root, sandboxId);
  throw new SandboxError("invalid_argument", "sandbox id is malformed");
}

/** The folder of a spool of this name. @throws SandboxError invalid_argument for a malformed name. */
export function locationOf(root: string, sandboxId: string, spool: SpoolName): SpoolLocation {
  const base = `${spool.name}.${spool.createdAtMs}.${spool.owner}`;
  if (!SPOOL_PATTERN.test(base)) {
    throw new SandboxError("invalid_argument", "name of a spool is malformed");
  }
  return { ...spool, sandboxId, folder: join(sandboxFolder(root, sandboxId), base) };
}

/** The spools of a sandbox, the newest first. */
export async function listSpools(root: string, sandboxId: string): Promise<SpoolLocation[]> {
  const folder = sandboxFolder(root, sandboxId);
  return (await listFolder(folder))
    .flatMap((base) => {
      const [, name, time, owner] = SPOOL_PATTERN.exec(base) ?? [];
      if (name === undefined || owner === undefined) return [];
      return [{ name, createdAtMs: Number(time), owner, sandboxId, folder: join(folder, base) }];
    })
    .toSorted((left, right) => right.createdAtMs - left.createdAtMs);
}

/** Every sandbox with spools. */
export async function listSandboxes(root: string): Promise<string[]> {
  return (await listFolder(root)).filter((name) => SANDBOX_PATTERN.test(name));
}

/** The file whose first byte has this position. */
export function segmentName(position: number): string {
  return String(position).padStart(POSITION_DIGITS, "0");
}

/** The name of the empty file that marks the end of the first part, where a gap follows. */
export function headName(end: number): string {
  return `head-${segmentName(end)}`;
}

/** What the names in the folder of a spool say. */
export interface Layout {
  /** The positions at which the files begin, in order. */
  readonly starts: readonly number[];
  /** What is no longer kept; empty when everything is. */
  readonly gap: { readonly start: number; readonly end: number };
}

export async function readLayout(folder: string): Promise<Layout> {
  const names = await listFolder(folder);
  const starts = names
    .filter((name) => SEGMENT_PATTERN.test(name))
    .map(Number)
    .toSorted((left, right) => left - right);
  const head = names.map((name) => HEAD_PATTERN.exec(name)?.[1]).find((end) => end !== undefined);
  const start = Number(head ?? 0);
  const end = head === undefined ? 0 : (starts.find((first) => first >= start) ?? start);
  return { starts, gap: { start, end } };
}

/** The names in a folder; none when it is gone. */
export async function listFolder(path: string): Promise<string[]> {
  return (await ifThere(readdir(path), "ENOTDIR")) ?? [];
}

/** How a spool ended: the time, and what its owner wrote about it. */
const endingSchema = z.looseObject({ endedAtMs: z.number() });

export interface Entry {
  readonly place: SpoolLocation;
  readonly bytes: number;
  /** Undefined while it is written, or when its owner died. */
  readonly endedAtMs: number | undefined;
  readonly changedAtMs: number;
}

/** Looks at all spools; each one that ended is read once, for nothing changes in it any more. */
export function createSurvey(root: string): () => Promise<Entry[]> {
  let ended = new Map<string, Entry>();
  return async () => {
    const entries: Entry[] = [];
    for (const sandboxId of await listSandboxes(root)) {
      for (const place of await listSpools(root, sandboxId)) {
        entries.push(ended.get(place.folder) ?? (await readEntry(place)));
      }
    }
    const unchanging = entries.filter(({ endedAtMs }) => endedAtMs !== undefined);
    ended = new Map(unchanging.map((entry) => [entry.place.folder, entry]));
    return entries;
  };
}

async function readEntry(place: SpoolLocation): Promise<Entry> {
  // First: what is there with an end is there whole.
  const ending = await readEnding(place);
  let bytes = 0;
  // An owner touches the folder while it lives.
  const { mtimeMs } = await statOf(place.folder);
  let changedAtMs = Math.max(place.createdAtMs, mtimeMs);
  for (const name of await listFolder(place.folder)) {
    const facts = await statOf(join(place.folder, name));
    bytes += facts.size;
    changedAtMs = Math.max(changedAtMs, facts.mtimeMs);
  }
  return { place, bytes, endedAtMs: ending?.endedAtMs, changedAtMs };
}

/** How a spool ended; undefined while it is written, or when its owner died. */
export async function readEnding(
  place: SpoolLocation,
): Promise<z.infer<typeof endingSchema> | undefined> {
  try {
    const text = await readFile(join(place.folder, END_FILE), "utf8");
    return endingSchema.safeParse(JSON.parse(text)).data;
  } catch (error) {
    if (isCode(error, "ENOENT") || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

async function statOf(path: string): Promise<{ readonly size: number; readonly mtimeMs: number }> {
  return (await ifThere(stat(path))) ?? { size: 0, mtimeMs: 0 };
}
