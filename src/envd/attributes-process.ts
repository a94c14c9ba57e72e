/**
 * The process that reads and writes extended attributes: it answers requests in order, ends by itself
 * when none came for a while, and tells every caller that waits when it ends otherwise.
 */

import { spawn, type ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { SandboxError } from "../common/errors.ts";
import { DEFAULT_PATH, type Command } from "./bundled-program.ts";
import { helperFault, type HelperStreams } from "./helper-fault.ts";

/** A file system that does not answer must not hold every caller. */
const REPLY_MS = 10_000;
/** Requests that wait; each belongs to a call or a watch, which are bounded themselves. */
const MAX_WAITING = 2048;
const LENGTH_BYTES = 4;

/** The process ended before it answered a request that another one may answer. */
export class HelperDied extends SandboxError {
  constructor() {
    super("unavailable", "the reader of file attributes ended");
  }
}

/** One process that answers requests in order. */
export class AttributesProcess {
  hasEnded = false;
  readonly #idleMs: number;
  readonly #child: ChildProcess;
  readonly #input: Writable | undefined;
  readonly #waiting: PromiseWithResolvers<Buffer>[] = [];
  /** The one timer: of the reply to the first request, or of the end where none waits. */
  #timer: NodeJS.Timeout | undefined;
  #parts: Buffer[] = [];
  #bytes = 0;

  constructor([file, ...before]: Command, idleMs: number) {
    this.#idleMs = idleMs;
    const child = spawn(file, [...before, process.arch], {
      cwd: "/",
      env: { PATH: DEFAULT_PATH, LC_ALL: "C" },
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#child = child;
    // Whatever breaks ends it, and its end is told to all who wait.
    child.on("error", (error) => this.#end(helperFault("reader of file attributes", error)));
    child.on("exit", () => this.#end());
    const { stdin, stdout }: HelperStreams = child;
    this.#input = stdin;
    if (stdout !== undefined) this.#readReplies(stdout);
    for (const source of [stdin, stdout]) source?.on("error", () => this.#end());
  }

  /** @throws HelperDied, SandboxError unavailable, deadline_exceeded, internal when it cannot start */
  async ask(request: Buffer): Promise<Buffer> {
    if (this.#waiting.length >= MAX_WAITING) {
      throw new SandboxError("unavailable", "too many requests for metadata");
    }
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32BE(request.length);
    const answer = Promise.withResolvers<Buffer>();
    this.#waiting.push(answer);
    if (this.#waiting.length === 1) this.#setTimer();
    this.#input?.write(Buffer.concat([length, request]));
    return answer.promise;
  }

  /** Called whenever another request is the first one, or none waits any more. */
  #setTimer(): void {
    clearTimeout(this.#timer);
    this.#timer =
      this.#waiting.length > 0
        ? setTimeout(() => this.#giveUp(), REPLY_MS)
        : setTimeout(() => this.#end(), this.#idleMs).unref();
  }

  /** The first request is what it is silent about; those behind it are another helper's. */
  #giveUp(): void {
    const message = "the reader of file attributes does not answer";
    this.#waiting.shift()?.reject(new SandboxError("deadline_exceeded", message));
    this.#end();
  }

  #readReplies(output: Readable): void {
    output.on("data", (chunk: Buffer) => {
      this.#parts.push(chunk);
      this.#bytes += chunk.length;
      for (let reply = this.#next(); reply !== undefined; reply = this.#next()) {
        this.#waiting.shift()?.resolve(reply);
        this.#setTimer();
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

  /** Ends it for good; who still waits asks another one, but where none can be started. */
  #end(fault?: SandboxError): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    clearTimeout(this.#timer);
    this.#child.kill("SIGKILL");
    for (const { reject } of this.#waiting.splice(0)) reject(fault ?? new HelperDied());
  }
}
