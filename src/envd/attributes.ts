/**
 * Metadata of files, kept in their extended attributes. The helper that reads and writes them is
 * started when it is needed and ends when it was not for a while.
 */

import { spawn, type ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { getSystemErrorName } from "node:util";
import { SandboxError } from "../common/errors.ts";
import { helperArguments } from "./attributes-helper.ts";
import { DEFAULT_PATH, type Command } from "./carried.ts";

export type Metadata = Readonly<Record<string, string>>;

export interface Attributes {
  /**
   * The metadata of each path, in order, links followed; empty where it cannot be read.
   * @throws SandboxError internal when the helper failed, resource_exhausted for too much of it,
   * unavailable for too many requests at one time
   */
  read(paths: readonly string[]): Promise<readonly Metadata[]>;
  /**
   * Makes a set the whole metadata of a file; returns what is stored then.
   * @throws the system's error, or what `read` throws
   */
  replace(path: string, metadata: ReadonlyMap<string, string>): Promise<Metadata>;
}

/** A helper that nobody asked for this long ends; to start another costs some 5 ms. */
const IDLE_MS = 30_000;
/** A file system that does not answer must not hold everybody. */
const REPLY_MS = 10_000;
/** The paths of one request in bytes: a folder of a few thousand files. */
const MAX_REQUEST_BYTES = 524_288;
/** Requests that wait; each belongs to a call or a watch, which are bounded themselves. */
const MAX_WAITING = 2048;
const LENGTH_BYTES = 4;
/** The kernel's number for an argument that is too long; the helper's for a reply that is. */
const E2BIG = 7;

/** Reads and writes attributes by a perl; its process ends with this one. */
export function createAttributes(perl: Command): Attributes {
  let current: Helper | undefined;
  let idle: NodeJS.Timeout | undefined;

  function end(): void {
    current?.end();
    current = undefined;
  }

  async function ask(letter: "r" | "w", fields: readonly string[]): Promise<Buffer> {
    clearTimeout(idle);
    if (current === undefined || current.hasEnded) current = new Helper(perl);
    const helper = current;
    try {
      return await helper.ask(Buffer.from(letter + fields.map((field) => `${field}\0`).join("")));
    } finally {
      if (helper === current && !helper.isBusy) idle = setTimeout(end, IDLE_MS).unref();
    }
  }

  return {
    async read(paths) {
      const found: Metadata[] = [];
      for (const batch of inBatches(paths)) {
        const reply = parseReply(await ask("r", batch));
        if (reply.errno !== 0) throw replyFault(reply.errno);
        found.push(...reply.sets);
      }
      return found;
    },
    async replace(path, metadata) {
      const reply = parseReply(await ask("w", [path, ...[...metadata].flat()]));
      if (reply.errno !== 0) throw replyFault(reply.errno);
      return reply.sets[0] ?? {};
    },
  };
}

function inBatches(paths: readonly string[]): string[][] {
  const batches: string[][] = [];
  let room = 0;
  for (const path of paths) {
    room -= Buffer.byteLength(path) + 1;
    if (room < 0) {
      batches.push([]);
      room = MAX_REQUEST_BYTES;
    }
    batches.at(-1)?.push(path);
  }
  return batches;
}

function replyFault(errno: number): Error {
  if (errno === E2BIG) return new SandboxError("resource_exhausted", "too much metadata");
  const code = getSystemErrorName(-errno);
  return Object.assign(new Error(code), { code });
}

interface Reply {
  readonly errno: number;
  readonly sets: readonly Metadata[];
}

function parseReply(bytes: Buffer): Reply {
  let offset = 0;
  const number = () => {
    const value = bytes.readUInt32BE(offset);
    offset += LENGTH_BYTES;
    return value;
  };
  const text = () => {
    const end = offset + LENGTH_BYTES + bytes.readUInt32BE(offset);
    const value = decode(bytes.subarray(offset + LENGTH_BYTES, end));
    offset = end;
    return value;
  };
  const errno = number();
  const sets: Metadata[] = [];
  while (offset < bytes.length) {
    const entries: [string, string][] = [];
    for (let left = number(); left > 0; left -= 1) {
      const [name, value] = [text(), text()];
      if (name !== undefined && value !== undefined) entries.push([name, value]);
    }
    sets.push(Object.fromEntries(entries));
  }
  return { errno, sets };
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Undefined for what is no text: programs of the sandbox may store anything. */
function decode(bytes: Buffer): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

/** One process that answers requests in order. */
class Helper {
  hasEnded = false;
  readonly #child: ChildProcess;
  readonly #input: Writable;
  readonly #waiting: PromiseWithResolvers<Buffer>[] = [];
  #timer: NodeJS.Timeout | undefined;
  #parts: Buffer[] = [];
  #bytes = 0;

  constructor([file, ...before]: Command) {
    const child = spawn(file, [...before, ...helperArguments()], {
      cwd: "/",
      env: { PATH: DEFAULT_PATH, LC_ALL: "C" },
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#child = child;
    this.#input = child.stdin;
    this.#readReplies(child.stdout);
    // Whatever breaks ends it, and its end is told to all who wait.
    for (const source of [child, child.stdin, child.stdout]) {
      source.on("error", () => this.#fail());
    }
    child.on("exit", () => this.#fail());
  }

  get isBusy(): boolean {
    return this.#waiting.length > 0;
  }

  async ask(request: Buffer): Promise<Buffer> {
    if (this.#waiting.length >= MAX_WAITING) {
      throw new SandboxError("unavailable", "too many requests for metadata");
    }
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32BE(request.length);
    const answer = Promise.withResolvers<Buffer>();
    this.#waiting.push(answer);
    if (this.#waiting.length === 1) this.#watch();
    this.#input.write(Buffer.concat([length, request]));
    return answer.promise;
  }

  /** Ends it; who still waits gets an error. */
  end(): void {
    this.#fail();
  }

  #watch(): void {
    clearTimeout(this.#timer);
    if (this.isBusy) this.#timer = setTimeout(() => this.#fail(), REPLY_MS);
  }

  #readReplies(output: Readable): void {
    output.on("data", (chunk: Buffer) => {
      this.#parts.push(chunk);
      this.#bytes += chunk.length;
      for (let reply = this.#next(); reply !== undefined; reply = this.#next()) {
        this.#waiting.shift()?.resolve(reply);
        this.#watch();
      }
    });
  }

  /** The next whole reply, taken off what has come. */
  #next(): Buffer | undefined {
    if (this.#bytes < LENGTH_BYTES) return undefined;
    const [first] = this.#parts;
    const head = first === undefined || first.length < LENGTH_BYTES ? this.#join() : first;
    const end = LENGTH_BYTES + head.readUInt32BE(0);
    if (this.#bytes < end) return undefined;
    const whole = this.#join();
    this.#parts = [whole.subarray(end)];
    this.#bytes -= end;
    return whole.subarray(LENGTH_BYTES, end);
  }

  #join(): Buffer {
    const whole = Buffer.concat(this.#parts, this.#bytes);
    this.#parts = [whole];
    return whole;
  }

  #fail(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    clearTimeout(this.#timer);
    this.#child.kill("SIGKILL");
    for (const { reject } of this.#waiting.splice(0)) {
      reject(new SandboxError("internal", "the reader of file attributes ended"));
    }
  }
}
