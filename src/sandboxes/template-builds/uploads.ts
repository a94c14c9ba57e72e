/** Archives of COPY steps as clients sent them: bytes in files of their own, never opened here. */

import { createHmac, createSecretKey, randomBytes, timingSafeEqual } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SandboxError } from "../../common/errors.ts";
import { listFolder, syncFolder } from "../../common/files.ts";
import { sha256Hex } from "../../common/hash.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { step } from "../../common/steps.ts";
import { createTeamTurns } from "../../common/team-turns.ts";
import {
  type CopyLedger,
  requireDiskSpace,
  takeWhileSpaceLeft,
  toDiskFault,
} from "../disks/disk-space.ts";

/** Folder of the home. */
export const UPLOADS = "uploads";
/** Clients take up to an hour. */
const UPLOAD_LIFE_MS = 3_600_000;
const MAX_UPLOAD_BYTES = 4 * 1024 ** 3;
/** Of all teams; the oldest go first. */
const MAX_STORED_BYTES = 16 * 1024 ** 3;
/** An archive that no build asked for in this time is sent again. */
const KEEP_MS = 24 * 3_600_000;
/**
 * Of a team: each may take its hour, and the sizes are those of their content-length. A client sends
 * the archives of all COPY steps of a build at once: the others wait, each with its connection.
 */
const TURNS = { maxAtOnce: 16, maxSize: 8 * 1024 ** 3, maxWaiting: 512 } as const;
/** So many bytes of an upload are written between two looks at the free space of the disk. */
const SPACE_STEP_BYTES = 8 * 1024 ** 2;
const PART = ".part";
const TOKEN_PATTERN = /^([0-9]{1,15})\.([0-9a-f]{64})\.([0-9a-f]{64})\.([0-9a-f]{64})$/;
const LENGTH_PATTERN = /^[0-9]{1,15}$/;

interface UploadContent {
  readonly body: Readable;
  /** Fires when the client is gone. */
  readonly signal?: AbortSignal;
}

export interface Uploads {
  /** Path of the archive; undefined when there is none. */
  find(team: string, hash: string): Promise<string | undefined>;
  /** The last part of the address to which an archive is sent; it is the permission to do so. */
  sign(team: string, hash: string): string;
  /**
   * Takes an archive, in its turn; it is there whole or not at all.
   * @throws SandboxError permission_denied for a token that is none or too old, invalid_argument
   * unless exactly so many bytes come, resource_exhausted when they are, or too many uploads wait,
   * canceled when the client leaves before its turn.
   */
  receive(token: string, length: string | undefined, content: UploadContent): Promise<void>;
  /** Removes the archives that are kept no longer. */
  forgetOld(): Promise<void>;
}

export interface UploadsOptions {
  readonly directory: string;
  /** The instance: what it left half written is removed. */
  readonly owner: string;
  /** Known to this home alone. */
  readonly key: string;
  readonly copies: Pick<CopyLedger, "requireSpaceLeft">;
  /** Default: that the disk has its reserve. */
  readonly requireSpace?: () => Promise<void>;
  readonly now: () => number;
}

/** Removes what an earlier process left half written. */
export async function openUploads({
  directory,
  owner,
  key,
  copies,
  now,
  requireSpace = async () => requireDiskSpace(directory),
}: UploadsOptions): Promise<Uploads> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const tokens = createTokens(key, now);
  const turns = createTeamTurns(TURNS);
  const ending = `.${owner}${PART}`;
  for (const name of await readdir(directory)) {
    if (name.endsWith(ending)) await rm(join(directory, name), { force: true });
  }
  await removeOld(directory, { nowMs: now() });

  return {
    async find(team, hash) {
      const path = join(directory, nameOf(team, hash));
      try {
        const found = await stat(path);
        const at = new Date(now());
        await utimes(path, at, at);
        return found.isFile() ? path : undefined;
      } catch {
        return undefined;
      }
    },
    sign: (team, hash) => tokens.sign(team, hash),
    async receive(token, length, { body, signal }) {
      const { team, name } = tokens.read(token);
      const bytes = requireLength(length);
      const leave = await turns.enter({ team, size: bytes, ...(signal && { signal }) });
      // For one that is gone no archive is removed to make place.
      if (signal?.aborted) {
        leave?.();
        throw new SandboxError("canceled", "request ended before its body");
      }
      if (leave === undefined) {
        throw new SandboxError("resource_exhausted", "too many uploads at once", {
          retryAfterSeconds: 1,
        });
      }
      try {
        // First: those that are old may take the space that is wanted.
        await removeOld(directory, { nowMs: now(), wantedBytes: bytes });
        await requireSpace();
        const requireSpaceLeft = async () => copies.requireSpaceLeft(directory);
        await store({ directory, name, bytes, ending, requireSpaceLeft }, body);
      } catch (error) {
        throw await toDiskFault(error, directory);
      } finally {
        leave();
      }
    },
    async forgetOld() {
      await removeOld(directory, { nowMs: now() });
    },
  };
}

/** The permissions to send an archive. */
function createTokens(key: string, now: () => number) {
  const secret = createSecretKey(Buffer.from(key, "hex"));
  const seal = (text: string) => createHmac("sha256", secret).update(text).digest();
  return {
    sign(team: string, hash: string): string {
      const text = `${now() + UPLOAD_LIFE_MS}.${digest([team])}.${nameOf(team, hash)}`;
      return `${text}.${seal(text).toString("hex")}`;
    },
    /** @throws SandboxError permission_denied for one that is none or too old. */
    read(token: string): { readonly team: string; readonly name: string } {
      const [, atMs = "", team = "", name = "", mark = ""] = TOKEN_PATTERN.exec(token) ?? [];
      const expected = seal(`${atMs}.${team}.${name}`);
      const given = Buffer.from(mark, "hex");
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
        throw new SandboxError("permission_denied", "this address takes no upload");
      }
      if (Number(atMs) >= now()) return { team, name };
      throw new SandboxError("permission_denied", "the time of this upload is over");
    },
  };
}

function nameOf(team: string, hash: string): string {
  return digest([team, hash]);
}

function digest(parts: readonly string[]): string {
  return sha256Hex(JSON.stringify(parts));
}

function requireLength(length: string | undefined): number {
  if (length === undefined || !LENGTH_PATTERN.test(length)) {
    throw new SandboxError("invalid_argument", "an upload needs its exact content-length");
  }
  if (Number(length) <= MAX_UPLOAD_BYTES) return Number(length);
  throw new SandboxError("resource_exhausted", `an upload has at most ${MAX_UPLOAD_BYTES} bytes`);
}

interface Target {
  readonly directory: string;
  readonly name: string;
  readonly bytes: number;
  /** Of the name while it is written. */
  readonly ending: string;
  /** Images were promised space for what programs have written: an upload must not take that. */
  requireSpaceLeft(): Promise<void>;
}

async function store(target: Target, body: Readable): Promise<void> {
  const { directory, name, bytes, ending } = target;
  const part = join(directory, `${name}.${randomBytes(8).toString("hex")}${ending}`);
  try {
    // Opened before anything can fail: it would be there after its removal.
    const file = (await open(part, "wx", 0o600)).createWriteStream({ flush: true });
    const whileSpaceLeft = (chunks: AsyncIterable<Buffer>) =>
      takeWhileSpaceLeft(chunks, SPACE_STEP_BYTES, target.requireSpaceLeft.bind(target));
    await pipeline(body, whileSpaceLeft, file, { signal: signalAfter(UPLOAD_LIFE_MS) });
    if (file.bytesWritten !== bytes) {
      throw new SandboxError(
        "invalid_argument",
        `${file.bytesWritten} bytes came of the ${bytes} of the content-length`,
      );
    }
    await step("upload.written");
    await rename(part, join(directory, name));
    await syncFolder(directory);
    await step("upload.kept");
  } finally {
    await rm(part, { force: true });
  }
}

/**
 * On a full disk: removes the archives that no build can want any more. A client asks for those of a
 * build after it has requested the build. Returns whether there were any.
 */
export async function removeIdle(
  directory: string,
  nowMs: number,
  hasOpenBuilds: boolean,
): Promise<boolean> {
  const keepMs = hasOpenBuilds ? UPLOAD_LIFE_MS : 0;
  return (await removeOld(directory, { nowMs, keepMs })) > 0;
}

interface Removal {
  readonly nowMs: number;
  readonly wantedBytes?: number;
  readonly keepMs?: number;
}

/**
 * Makes place for so many bytes; also what is half written and old. Returns how many archives were
 * older than they are kept.
 */
async function removeOld(
  directory: string,
  { nowMs, wantedBytes = 0, keepMs = KEEP_MS }: Removal,
): Promise<number> {
  let old = 0;
  const files: { readonly path: string; readonly bytes: number; readonly atMs: number }[] = [];
  for (const name of await listFolder(directory)) {
    const path = join(directory, name);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) continue;
    const isPart = name.endsWith(PART);
    // By the distance in time: the clock may have been set back.
    if (Math.abs(nowMs - found.mtimeMs) > (isPart ? UPLOAD_LIFE_MS : keepMs)) {
      await rm(path, { force: true });
      old += 1;
      // One that is being written is not taken from its client: it ends with its hour.
    } else if (!isPart) files.push({ path, bytes: found.size, atMs: found.mtimeMs });
  }
  let total = wantedBytes + files.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of files.toSorted((left, right) => left.atMs - right.atMs)) {
    if (total <= MAX_STORED_BYTES) break;
    await rm(path, { force: true });
    total -= bytes;
  }
  return old;
}
