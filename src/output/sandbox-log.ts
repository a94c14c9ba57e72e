/** The log of one sandbox: the output of its processes as one text, in memory and in a spool. */

import type { OutputStream } from "../client/process.ts";
import type { Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import { removeTree } from "../common/remove-tree.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { readPieces } from "../spool/reader.ts";
import type { Spools, TakenSpool } from "../spool/spools.ts";
import type { SpoolLimits } from "../spool/writer-files.ts";
import type { SpoolWriter } from "../spool/writer.ts";
import { joinTexts, textOfSpool, type LogText } from "./log-text.ts";
import { ByteRing } from "./output-buffer.ts";
import { toNote, withoutNotes } from "./quote.ts";
import { formatBytes, incompleteTail } from "./text.ts";

const MIB = 1024 * 1024;
/** Output beyond this within one write interval is dropped, with a mark. */
const LOG_BYTES = 256 * 1024;
/** The first and the newest part on the disk; whole outputs are kept per process. */
const LOG_LIMITS: SpoolLimits = { fileBytes: MIB, headBytes: MIB, tailBytes: 7 * MIB };
/** Between two writes: bounds the disk traffic of a flood, and what a killed server loses. */
const WRITE_INTERVAL_MS = 200;
const LOG_NAME = "log";

export interface LogOptions {
  readonly clock: Clock;
  readonly spools: Spools;
  readonly log: Logger;
}

export class SandboxLog {
  readonly sandboxId: string;
  changedAtMs: number;
  /** Undefined while the sandbox lives. */
  endedAtMs: number | undefined;
  readonly #options: LogOptions;
  readonly #ring = new ByteRing(LOG_BYTES);
  /** By source: the bytes of an incomplete character at the end of its output. */
  readonly #held = new Map<string, Buffer>();
  /** Process and stream of the last output; another source begins with a line that names it. */
  #source = "";
  /** Undefined until the first write. */
  #spool: Promise<SpoolWriter | undefined> | undefined;
  /** The position in the ring up to which all is written, or dropped with a mark. */
  #written = 0;
  #writing = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(sandboxId: string, options: LogOptions) {
    this.sandboxId = sandboxId;
    this.#options = options;
    this.changedAtMs = options.clock.now();
  }

  /** How much of the log is in memory. */
  get sizeBytes(): number {
    return this.#ring.end - this.#ring.start;
  }

  /** Appends output of a process; returns whether the log grew. */
  output(processId: string, chunk: { stream: OutputStream; bytes: Uint8Array }): boolean {
    const source = `${processId} ${chunk.stream}`;
    const held = this.#held.get(source);
    const bytes = held === undefined ? chunk.bytes : Buffer.concat([held, chunk.bytes]);
    // Output of another source can arrive between the bytes of a character.
    const open = incompleteTail(bytes);
    if (open > 0) this.#held.set(source, Buffer.from(bytes.subarray(bytes.length - open)));
    else if (held !== undefined) this.#held.delete(source);
    if (bytes.length === open) return false;
    if (this.#source !== source) this.#ring.append(toNote(source));
    this.#source = source;
    this.#ring.append(withoutNotes(bytes.subarray(0, bytes.length - open)));
    this.#changed();
    return true;
  }

  /** Appends a line about a process. */
  note(processId: string, event: string): void {
    this.#source = "";
    this.#ring.append(toNote(`${processId} ${quoteUntrusted(event)}`));
    this.#changed();
  }

  /** Drops the incomplete characters of a process that ended. */
  finish(processId: string): void {
    this.#held.delete(`${processId} stdout`);
    this.#held.delete(`${processId} stderr`);
  }

  /** The text of the log; undefined while nothing was appended. */
  async text(): Promise<LogText | undefined> {
    const ring = this.#ring;
    if (ring.end === 0) return undefined;
    await this.write();
    const spool = await this.#spool;
    if (spool !== undefined && spool.failure === undefined) {
      await spool.flush();
      return textOfSpool(spool.place.folder);
    }
    return {
      end: ring.end,
      read: async (from, maxBytes) => {
        const start = Math.min(Math.max(from, ring.start), ring.end);
        return { start, bytes: ring.slice(start, Math.min(ring.end, start + maxBytes)) };
      },
    };
  }

  /** Writes what is not on the disk yet. Never rejects. */
  write(): Promise<void> {
    const attempt = async () => {
      try {
        await this.#writeNext();
      } catch (error) {
        this.#options.log.debug({ op: "log.write", sandboxId: this.sandboxId, err: error });
      }
    };
    this.#writing = this.#writing.then(attempt);
    return this.#writing;
  }

  /** Writes the rest and releases the spool; without an end another server can take it over. */
  async close(endedAtMs: number | undefined): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.write();
    const spool = await this.#spool;
    await spool?.close(endedAtMs === undefined ? undefined : { endedAtMs });
  }

  #changed(): void {
    this.changedAtMs = this.#options.clock.now();
    // `write` never rejects.
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.write();
    }, WRITE_INTERVAL_MS).unref();
  }

  async #writeNext(): Promise<void> {
    const ring = this.#ring;
    if (this.#written === ring.end) return;
    this.#spool ??= this.#openSpool();
    const spool = await this.#spool;
    const from = Math.max(this.#written, ring.start);
    const dropped = from - this.#written;
    const bytes = ring.slice(from, ring.end);
    this.#written = ring.end;
    if (dropped > 0) await spool?.append("note", toNote(droppedText(dropped)));
    await spool?.append("stdout", bytes);
  }

  /** What dead servers left of this log, as one spool, or a new one. */
  async #openSpool(): Promise<SpoolWriter | undefined> {
    const { spools } = this.#options;
    const key = { sandboxId: this.sandboxId, name: LOG_NAME };
    let opened: SpoolWriter | undefined;
    for (const { place, ending, isLive } of await spools.findAll(key)) {
      if (ending !== undefined || isLive) continue;
      const taken = await spools.takeOver(place, LOG_LIMITS);
      if (opened === undefined) opened = taken?.writer;
      else if (taken !== undefined) await absorb(taken, opened);
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

/**
 * The log of a sandbox in which this server started nothing: that of each server that did, those
 * that ended first. Undefined when there is none.
 */
export async function findStoredLog(
  sandboxId: string,
  { clock, spools }: LogOptions,
  retentionMs: number,
): Promise<LogText | undefined> {
  const found = (await spools.findAll({ sandboxId, name: LOG_NAME })).filter(({ ending }) => {
    const endedAtMs = Number(ending?.["endedAtMs"] ?? clock.now());
    return clock.now() - endedAtMs <= retentionMs;
  });
  const ordered = [
    ...found.filter(({ isLive }) => !isLive),
    ...found.filter(({ isLive }) => isLive),
  ];
  const texts = await Promise.all(ordered.map(({ place }) => textOfSpool(place.folder)));
  return texts.length === 0 ? undefined : joinTexts(texts);
}

function droppedText(bytes: number): string {
  return `[… ${formatBytes(bytes)} dropped here; get_process_output reads one process whole …]`;
}
