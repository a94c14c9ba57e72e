/** The log of one sandbox on the disk. What the disk did not take is tried again by the caller. */

import type { Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import { removeTree } from "../common/remove-tree.ts";
import { measureSpool, readPieces } from "../spool/reader.ts";
import type { FoundSpool, Spools, TakenSpool } from "../spool/spools.ts";
import type { SpoolLimits } from "../spool/writer-files.ts";
import type { SpoolWriter } from "../spool/writer.ts";
import { joinTexts, textOfBytes, textOfSpool, type LogText } from "./log-text.ts";
import { toNote } from "./quote.ts";
import { formatBytes } from "./text.ts";

const MIB = 1024 * 1024;
/** The first and the newest part; whole outputs are kept per process. */
const LOG_LIMITS: SpoolLimits = { fileBytes: MIB, headBytes: MIB, tailBytes: 7 * MIB };
/** The shortest time between a failure of the disk and the next attempt. */
const RETRY_MS = 5_000;
const LOG_NAME = "log";
/** How often a log is read that is on its way to another server. */
const MAX_LOOKS = 3;

export interface LogOptions {
  readonly clock: Clock;
  readonly spools: Spools;
  readonly log: Logger;
}

export class LogSpool {
  readonly #sandboxId: string;
  readonly #options: LogOptions;
  #writer: SpoolWriter | undefined;
  #isFailed = false;
  #retryAtMs = Number.NEGATIVE_INFINITY;

  constructor(sandboxId: string, options: LogOptions) {
    this.#sandboxId = sandboxId;
    this.#options = options;
  }

  /** How much of the log is on the disk. */
  get sizeBytes(): number {
    if (this.#writer === undefined) return 0;
    const { end, gap } = this.#writer;
    return end - (gap.end - gap.start);
  }

  /**
   * Writes a note and text behind it. Resolves with how many bytes the log has more than before,
   * which is less than 0 when it lost some; undefined where nothing is kept on the disk.
   */
  async write(note: Buffer, bytes: Buffer): Promise<number | undefined> {
    const { clock, log } = this.#options;
    if (clock.elapsed() < this.#retryAtMs) return 0;
    if (this.#writer === undefined || this.#isFailed) {
      // An attempt that rejects is none until the time is over.
      this.#retryAtMs = clock.elapsed() + RETRY_MS;
      this.#writer = await this.#open();
      this.#isFailed = false;
    }
    const writer = this.#writer;
    if (writer === undefined) return undefined;
    this.#retryAtMs = Number.NEGATIVE_INFINITY;
    const start = writer.end;
    if (note.length > 0) await writer.append("note", note);
    await writer.append("stdout", bytes);
    await writer.flush();
    if (writer.failure === undefined) return writer.end - start;
    this.#isFailed = true;
    this.#retryAtMs = clock.elapsed() + RETRY_MS;
    log.warn({ op: "log.write", sandboxId: this.#sandboxId, err: writer.failure.error });
    return (await measureSpool(writer.place.folder)).end - start;
  }

  /** What is on the disk; undefined when nothing was ever written. */
  async text(): Promise<LogText | undefined> {
    return this.#writer && textOfSpool(this.#writer.place.folder);
  }

  /** Releases the spool; without an end another server can take it over. */
  async close(endedAtMs: number | undefined, unwrittenBytes: number): Promise<void> {
    const writer = this.#writer;
    if (writer === undefined) return;
    if (unwrittenBytes === 0 && !this.#isFailed) {
      await writer.close(endedAtMs === undefined ? undefined : { endedAtMs });
      return;
    }
    const { end } = await measureSpool(writer.place.folder);
    const totalBytes = end + unwrittenBytes;
    await writer.close({ endedAtMs: endedAtMs ?? this.#options.clock.now(), totalBytes });
  }

  /** What this server and those that are gone left of this log, as one spool, or a new one. */
  async #open(): Promise<SpoolWriter | undefined> {
    const { spools } = this.#options;
    const key = { sandboxId: this.#sandboxId, name: LOG_NAME };
    let opened: SpoolWriter | undefined;
    for (const found of await spools.findAll(key)) {
      if (found.isLive && !found.isOwn) continue;
      const taken = await spools.takeOver(found.place, LOG_LIMITS);
      if (taken === undefined) continue;
      if (opened === undefined) opened = taken.writer;
      else await absorb(taken, opened);
      const lostBytes = missingBytes(found, taken.extent.end);
      if (lostBytes > 0) await opened.append("note", toNote(unwrittenText(lostBytes)));
    }
    return opened ?? spools.create(key, LOG_LIMITS);
  }
}

/** Moves the text of one spool to the end of another. */
async function absorb({ writer, extent }: TakenSpool, target: SpoolWriter): Promise<void> {
  const { folder } = writer.place;
  for (let at = 0; at < extent.end;) {
    const pieces = await readPieces(folder, at, MIB);
    for (const { stream, bytes } of pieces) await target.append(stream, bytes);
    const last = pieces.at(-1);
    at = last === undefined ? extent.end : last.start + last.bytes.length;
  }
  await target.flush();
  await writer.close(undefined);
  // A target that failed has nothing of it.
  if (target.failure === undefined) await removeTree(folder);
}

export interface StoredLogView<T> {
  readonly retentionMs: number;
  /** May be called again, and must have read what it needs when it resolves. */
  readonly show: (text: LogText) => Promise<T>;
}

/**
 * What is shown of the log of a sandbox in which this server started nothing: that of each server
 * that did, those that ended first. Undefined when there is none.
 */
export async function showStoredLog<T>(
  sandboxId: string,
  options: LogOptions,
  { retentionMs, show }: StoredLogView<T>,
): Promise<T | undefined> {
  let found = await findKept(sandboxId, options, retentionMs);
  for (let look = 1; found.length > 0; look += 1) {
    const shown = await show(joinTexts((await Promise.all(found.map(readWhole))).flat()));
    const now = await findKept(sandboxId, options, retentionMs);
    // Another server can have taken some of it over meanwhile, which moves the files.
    if (look === MAX_LOOKS || haveSameFolders(found, now)) return shown;
    found = now;
  }
  return undefined;
}

/** Those that ended first. */
async function findKept(
  sandboxId: string,
  { clock, spools }: LogOptions,
  retentionMs: number,
): Promise<readonly FoundSpool[]> {
  const found = (await spools.findAll({ sandboxId, name: LOG_NAME })).filter(({ ending }) => {
    const endedAtMs = Number(ending?.["endedAtMs"] ?? clock.now());
    return clock.now() - endedAtMs <= retentionMs;
  });
  return [...found.filter(({ isLive }) => !isLive), ...found.filter(({ isLive }) => isLive)];
}

function haveSameFolders(left: readonly FoundSpool[], right: readonly FoundSpool[]): boolean {
  const folders = new Set(right.map(({ place }) => place.folder));
  return left.length === right.length && left.every(({ place }) => folders.has(place.folder));
}

/** How many logs of a sandbox other servers have, which are not in that of this server. */
export async function countOtherLogs(sandboxId: string, { spools }: LogOptions): Promise<number> {
  const found = await spools.findAll({ sandboxId, name: LOG_NAME });
  return found.filter(({ isOwn }) => !isOwn).length;
}

/** The text of a spool, and a note about what its server could not write. */
async function readWhole(found: FoundSpool): Promise<LogText[]> {
  const text = await textOfSpool(found.place.folder);
  const lostBytes = missingBytes(found, text.end);
  return lostBytes > 0 ? [text, textOfBytes(toNote(unwrittenText(lostBytes)))] : [text];
}

function missingBytes({ ending }: FoundSpool, end: number): number {
  const totalBytes = Number(ending?.["totalBytes"] ?? end);
  return Number.isSafeInteger(totalBytes) ? Math.max(0, totalBytes - end) : 0;
}

function unwrittenText(bytes: number): string {
  return `[… ${formatBytes(bytes)} could not be written to the disk and are lost …]`;
}
