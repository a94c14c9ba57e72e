/**
 * What lies beside the image of a container's memory: what has to be the same where it is restored.
 * The image itself is the runtime's; it holds every secret that a program had.
 */

import type { KeyObject } from "node:crypto";
import { lstat, open, readdir, stat } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { sha256File } from "../../common/file-hash.ts";
import { readIfThere, readKernelFile, syncFolder, writeDurably } from "../../common/files.ts";
import { tryParseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import {
  findSeal,
  openText,
  sealSchema,
  sealText,
  subjectOf,
  type ImageSeal,
} from "./image-seal.ts";
import { NOTE_NAME } from "./remove-image.ts";

/** The folder of the runtime's files, beside it; of an encrypted image it has one file. */
export const MEMORY_IMAGE = "image";
export const SEALED_FILE = "sealed";
/** Runtimes write three. */
const MAX_FILES = 16;
const MAX_NOTE_BYTES = 64 * 1024;
const FILE_MODE = 0o600;
const DAMAGED = "its image is damaged or gone";

const noteSchema = z.object({
  /** 2 is encrypted: what does not know that must not read it. */
  version: z.literal([1, 2]),
  /** SHA-256 of the runtime's program: its version says nothing. */
  runtime: z.string(),
  architecture: z.string(),
  /** Abilities of the processor, as the kernel names them. */
  processor: z.array(z.string().max(64)).max(2_048),
  /** The release of the machine's kernel; told, and not compared. */
  kernel: z.string(),
  /** The name of the daemon's folder: its programs are mapped by the image. */
  daemon: z.string(),
  /** What connections to the daemon in the image begin with; encrypted as the image is. */
  secret: z.string(),
  /** Of an encrypted image, whose files have so many bytes at most. */
  seal: sealSchema.extend({ sizeBytes: z.int().positive() }).optional(),
});

export type MemoryNote = z.infer<typeof noteSchema>;
/** What is compared with the image. */
export type MemoryPlace = Omit<MemoryNote, "secret" | "seal" | "version">;

/** An image that can be restored here. */
export interface RestorableMemory {
  readonly secret: string;
  /** Of an encrypted one: its key, and how much memory its files take. */
  readonly sealed?: { readonly key: KeyObject; readonly sizeBytes: number } | undefined;
}

/** What an image made here needs. */
export async function readPlace(runtime: string, daemon: string): Promise<MemoryPlace> {
  return {
    runtime: await digestOf(runtime),
    architecture: process.arch,
    processor: readProcessor(readKernelFile("/proc/cpuinfo") ?? ""),
    kernel: release(),
    daemon,
  };
}

/** The abilities of the first processor in the text of `/proc/cpuinfo`. */
export function readProcessor(text: string): string[] {
  const [, words = ""] = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(text) ?? [];
  return words.split(" ").filter((word) => word !== "");
}

/**
 * Ends an image in its draft: one note, private files, all on disk; returns its size in bytes.
 * @throws SandboxError internal for anything but files, or more than `maxBytes`.
 */
export async function sealImage(
  folder: string,
  note: MemoryPlace & Pick<MemoryNote, "secret"> & { readonly taken?: TakenImage | undefined },
  maxBytes: number,
): Promise<number> {
  const image = join(folder, MEMORY_IMAGE);
  const names = await readdir(image);
  if (names.length > MAX_FILES) throw new SandboxError("internal", "too many files in an image");
  let sizeBytes = 0;
  for (const name of names) {
    const entry = await lstat(join(image, name));
    if (!entry.isFile()) throw new SandboxError("internal", "an image has something but files");
    sizeBytes += entry.size;
    await using file = await open(join(image, name), "r");
    await file.chmod(FILE_MODE);
    await file.sync();
  }
  if (sizeBytes > maxBytes) {
    throw new SandboxError("resource_exhausted", `memory image has ${sizeBytes} bytes`);
  }
  await writeDurably(join(folder, NOTE_NAME), JSON.stringify(toNote(note)), FILE_MODE);
  await syncFolder(image);
  return sizeBytes;
}

/**
 * What an image needs that can be restored here.
 * @throws SandboxError failed_precondition, sandbox_memory_not_restorable, when it cannot be.
 */
export async function requireRestorable(
  folder: string,
  here: MemoryPlace,
  home: string,
): Promise<RestorableMemory> {
  const note = await readNote(folder);
  const fault = note === undefined ? DAMAGED : findMismatch(note, here);
  if (note === undefined || fault !== undefined) throw notRestorable(fault ?? "");
  const known = await openNote(folder, note, home);
  if (typeof known === "string") throw notRestorable(known);
  return known;
}

/** What connections to the daemon in an image begin with; undefined where that cannot be read. */
export async function readImageSecret(folder: string, home: string): Promise<string | undefined> {
  const note = await readNote(folder);
  const known = note === undefined ? undefined : await openNote(folder, note, home);
  return typeof known === "object" ? known.secret : undefined;
}

/** Whether an image has its note; the removal of an image begins with that. */
export async function hasNote(folder: string): Promise<boolean> {
  return (await readNote(folder)) !== undefined;
}

/** A reason where its key is not at hand, or where it is not the image's note. */
async function openNote(
  folder: string,
  note: MemoryNote,
  home: string,
): Promise<RestorableMemory | string> {
  const { secret: kept, seal: facts, version: _version, ...place } = note;
  if (facts === undefined) return { secret: kept };
  const { sizeBytes } = facts;
  const seal = await findSeal({ home }, facts, subjectOf(folder));
  if (typeof seal === "string") return seal;
  const secret = openText(seal, kept, contextOf(place, sizeBytes));
  return secret === undefined ? DAMAGED : { secret, sealed: { key: seal.key, sizeBytes } };
}

/** What of a note must not change. */
function contextOf(place: MemoryPlace, sizeBytes: number): string {
  const { runtime, architecture, processor, kernel, daemon } = place;
  return JSON.stringify([runtime, architecture, processor, kernel, daemon, sizeBytes]);
}

async function readNote(folder: string): Promise<MemoryNote | undefined> {
  const text = (await readIfThere(join(folder, NOTE_NAME))) ?? "";
  if (text.length > MAX_NOTE_BYTES) return undefined;
  return noteSchema.safeParse(tryParseJson(text)).data;
}

/** An image that was encrypted while the runtime wrote it. */
export interface TakenImage {
  readonly seal: ImageSeal;
  readonly sizeBytes: number;
}

function toNote({
  taken,
  secret,
  ...place
}: MemoryPlace &
  Pick<MemoryNote, "secret"> & { readonly taken?: TakenImage | undefined }): MemoryNote {
  if (taken === undefined) return { version: 1, ...place, secret };
  const { seal, sizeBytes } = taken;
  const kept = sealText(seal, secret, contextOf(place, sizeBytes));
  return { version: 2, ...place, secret: kept, seal: { ...seal.facts, sizeBytes } };
}

/** Why an image cannot be restored here; undefined when it can. */
export function findMismatch(image: MemoryPlace, here: MemoryPlace): string | undefined {
  if (image.architecture !== here.architecture) return "it is of another processor architecture";
  const abilities = new Set(here.processor);
  const missing = image.processor.filter((name) => !abilities.has(name));
  if (missing.length > 0) {
    return `this processor lacks ${missing.slice(0, 3).join(", ")}`;
  }
  if (image.runtime !== here.runtime) return "this runsc is another version";
  if (image.daemon !== here.daemon) return "this service is another version";
  return undefined;
}

const FILES_ALONE = "create with memory: false, which starts new processes on its files";

/** The error of a restore that was ended: programs may have run, or its kernel hangs. */
export function notRestoredInTime(cause: SandboxError): SandboxError {
  const options = { cause, hint: FILES_ALONE };
  return new SandboxError(cause.code, "memory was not restored in time", options);
}

/** Of every error of a memory that does not come back. */
export const NOT_RESTORABLE = "sandbox_memory_not_restorable";

/** The error of a memory that does not come back, whatever the reason. */
export function notRestorable(reason: string, cause?: unknown): SandboxError {
  return new SandboxError("failed_precondition", `memory cannot be restored: ${reason}`, {
    cause,
    word: NOT_RESTORABLE,
    hint: FILES_ALONE,
  });
}

interface Digest {
  readonly key: string;
  readonly value: Promise<string>;
}
const digests = new Map<string, Digest>();

/** Read once: a runtime has tens of megabytes. */
async function digestOf(path: string): Promise<string> {
  const { dev, ino, size, mtimeMs } = await stat(path);
  const key = [dev, ino, size, mtimeMs].join(" ");
  const known = digests.get(path);
  if (known?.key === key) return known.value;
  const value = sha256File(path);
  digests.set(path, { key, value });
  value.catch(() => digests.delete(path));
  return value;
}
