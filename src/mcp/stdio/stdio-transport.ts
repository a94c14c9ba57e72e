/**
 * The stdio transport of the server. Unlike the SDK's, it answers what is no valid message and
 * skips a message above the limit, so that a faulty message neither ends a session nor stays
 * without an answer.
 */

import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import { errorText, SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import { createBatches, hasBatches, MAX_BATCH_MESSAGES } from "../messages/batch.ts";
import { findId, idOf, type MessageId } from "../messages/message-id.ts";
import { createLineReader } from "../messages/message-lines.ts";
import {
  INVALID_REQUEST,
  PARSE_ERROR,
  Refusal,
  toMessage,
  withoutMark,
} from "../messages/message.ts";
import type { HeardOpening } from "./opening.ts";

export interface StdioTransportOptions {
  readonly stdin: Readable;
  readonly stdout: Writable;
  /** What the host sent before, part of it answered. */
  readonly heard?: HeardOpening | undefined;
  /** All of that is delivered, and stdin is read. */
  onHeard(): void;
  /** A message left for the host. */
  onSent(message: JSONRPCMessage): void;
  onClosed(): void;
}

/** Three megabytes of file content, with space for escapes and base64. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/**
 * Above it no request is read. Less would stop a host that writes a large message before it reads;
 * a reply of the largest size that a host asks for alone is no reason to stop.
 */
const MAX_UNSENT_BYTES = 8 * 1024 * 1024;
/** So many requests without a reply, and no further one is read: each reply may be a large one. */
const MAX_OPEN_REQUESTS = 1_024;

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #options: StdioTransportOptions;
  readonly #batches = createBatches((replies) => this.#refuse(replies));
  readonly #read = createLineReader(MAX_MESSAGE_BYTES, {
    line: (bytes) => this.#take(bytes),
    tooLong: (id) => {
      const text = `message exceeds ${MAX_MESSAGE_BYTES} bytes`;
      this.#refuse(new Refusal(INVALID_REQUEST, text, id).reply);
    },
  });
  readonly #onData = (chunk: Buffer): void => this.#read(chunk);
  #revision: string | undefined;
  #isClosed = false;
  /** Whether stdin waits until the host has taken answers. */
  #isHeldUp = false;
  /** Requests that were delivered and have no reply yet. */
  readonly #open = new Set<MessageId>();
  /** What came behind a cancellation that the library has not followed yet, in the same turn. */
  #behindCancellation: JSONRPCMessage[] | undefined;
  /** Drops the reply to a request of the opening, which the host has. */
  #drop: ((reply: JSONRPCMessage) => boolean) | undefined;

  constructor(options: StdioTransportOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    // The SDK may take messages only after this returned.
    void this.#hear();
  }

  /** Delivers the opening one message at a time, then all else. It cannot fail. */
  async #hear(): Promise<void> {
    const { stdin, heard } = this.#options;
    for (const line of heard?.answered ?? []) {
      const answered = this.#dropReply(line.id);
      this.#read(line.bytes);
      await answered;
    }
    if (!this.#isClosed) {
      stdin.on("data", this.#onData);
      if (heard !== undefined) {
        // Nothing comes in this turn; a reply that the host does not take pauses it again.
        stdin.resume();
        this.#read(heard.rest);
      }
    }
    this.#options.onHeard();
  }

  async #dropReply(id: MessageId | undefined): Promise<void> {
    if (id === undefined) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#drop = (reply) => {
      if ("method" in reply || reply.id !== id) return false;
      this.#drop = undefined;
      resolve();
      return true;
    };
    await promise;
  }

  setProtocolVersion = (revision: string): void => {
    this.#revision = revision;
  };

  /** Resolves when the host can take more. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#isClosed) throw new SandboxError("unavailable", "the connection is closed");
    if (this.#revision === "2024-11-05" && isListChange(message)) return;
    if (!("method" in message) && message.id !== undefined) this.#settle(message.id);
    if (this.#drop?.(message) === true) return;
    if (!this.#batches.take(message)) await this.#write(message);
    this.#options.onSent(message);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { stdin } = this.#options;
    stdin.off("data", this.#onData);
    if (stdin.listenerCount("data") === 0) stdin.pause();
    this.onclose?.();
    this.#options.onClosed();
  }

  #take(bytes: Buffer): void {
    if (this.#isClosed) return;
    const text = withoutMark(bytes);
    // A line feed between messages is no message.
    if (text.every((byte) => BLANKS.has(byte))) return;
    const value = parse(text);
    if (value instanceof Refusal) this.#refuse(value.reply);
    else if (Array.isArray(value)) this.#takeBatch(value);
    else this.#takeMessage(value);
  }

  #takeMessage(value: unknown): void {
    const message = toMessage(value);
    if (message instanceof Refusal) this.#refuse(message.reply);
    else if (message !== undefined) this.#deliver(message);
  }

  #takeBatch(values: readonly unknown[]): void {
    const fault = batchFault(values, this.#revision);
    if (fault !== undefined) {
      const ids = values.map((each) => idOf(each)).filter((id) => id !== undefined);
      // Without a batch there are no replies to one either: each id gets its own.
      for (const id of ids.length === 0 ? [undefined] : ids) {
        this.#refuse(new Refusal(INVALID_REQUEST, fault, id).reply);
      }
      return;
    }
    const results = values.map((value) => toBatchMessage(value));
    const messages = results.filter(
      (each): each is JSONRPCMessage => each !== undefined && !(each instanceof Refusal),
    );
    const refusals = results.flatMap((each) => (each instanceof Refusal ? [each.reply] : []));
    this.#batches.open(messages, refusals);
    for (const message of messages) this.#deliver(message);
  }

  #deliver(message: JSONRPCMessage): void {
    if (this.#behindCancellation !== undefined) {
      this.#behindCancellation.push(message);
      return;
    }
    if ("method" in message && "id" in message) this.#open.add(message.id);
    if (this.#open.size >= MAX_OPEN_REQUESTS) this.#options.stdin.pause();
    this.onmessage?.(message);
    if (!("method" in message) || message.method !== "notifications/cancelled") return;
    const cancelled = message.params?.["requestId"];
    if (typeof cancelled === "string" || typeof cancelled === "number") {
      this.#batches.cancel(cancelled);
      this.#settle(cancelled);
      this.#holdBehindCancellation();
    }
  }

  /**
   * The SDK looks a cancelled call up by its id in a microtask: a call that repeats the id would be
   * cancelled in its place.
   */
  #holdBehindCancellation(): void {
    const behind: JSONRPCMessage[] = [];
    this.#behindCancellation = behind;
    queueMicrotask(() => {
      this.#behindCancellation = undefined;
      if (this.#isClosed) return;
      for (const message of behind) this.#deliver(message);
    });
  }

  /** A request has its reply, or gets none. */
  #settle(id: MessageId): void {
    if (this.#open.delete(id) && this.#open.size === MAX_OPEN_REQUESTS - 1) this.#goOn();
  }

  #goOn(): void {
    const isFull = this.#open.size >= MAX_OPEN_REQUESTS;
    if (!this.#isClosed && !this.#isHeldUp && !isFull) this.#options.stdin.resume();
  }

  /** Answers without the SDK. A host that takes no answers is not read from meanwhile. */
  #refuse(reply: object): void {
    const { stdout } = this.#options;
    if (stdout.destroyed || stdout.write(`${JSON.stringify(reply)}\n`)) return;
    this.#holdUp();
  }

  /** Reads no more of stdin until the host has taken what is written. */
  #holdUp(): void {
    const { stdin, stdout } = this.#options;
    // One piece of stdin can have thousands of lines.
    if (this.#isHeldUp) return;
    this.#isHeldUp = true;
    stdin.pause();
    stdout.once("drain", () => {
      this.#isHeldUp = false;
      this.#goOn();
    });
  }

  async #write(message: JSONRPCMessage): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onWritten = (error: Error | null | undefined): void =>
      error ? reject(error) : resolve();
    const hasSpace = this.#options.stdout.write(`${JSON.stringify(message)}\n`, onWritten);
    if (this.#options.stdout.writableLength > MAX_UNSENT_BYTES) this.#holdUp();
    if (!hasSpace) return promise;
    // The connection ends by the error event of the stream.
    promise.catch(() => undefined);
    return undefined;
  }
}

/** Blank, tab and carriage return. */
const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d]);

function parse(bytes: Buffer): unknown {
  try {
    return parseJson(bytes);
  } catch (error) {
    if (error instanceof SyntaxError) return new Refusal(PARSE_ERROR, "Parse error");
    return new Refusal(INVALID_REQUEST, errorText(error), findId(bytes));
  }
}

/** Why an array is no batch; undefined when it is one. */
function batchFault(values: readonly unknown[], revision: string | undefined): string | undefined {
  if (!hasBatches(revision)) {
    return `Invalid request: protocol revision ${revision ?? "unknown"} has no batches`;
  }
  if (values.length === 0) return "Invalid request: the batch is empty";
  return values.length > MAX_BATCH_MESSAGES
    ? `Invalid request: a batch has at most ${MAX_BATCH_MESSAGES} messages`
    : undefined;
}

function toBatchMessage(value: unknown): JSONRPCMessage | Refusal | undefined {
  const message = toMessage(value);
  const isHandshake =
    message !== undefined &&
    !(message instanceof Refusal) &&
    "method" in message &&
    message.method === "initialize";
  if (!isHandshake) return message;
  return new Refusal(INVALID_REQUEST, "Invalid request: initialize in a batch", idOf(value));
}

/**
 * The only notification that a host of 2024 gets unasked. The Python SDK before 1.6 delivers no
 * answer while the host has not read a notification, and most hosts read none: they would hang.
 */
function isListChange(message: JSONRPCMessage): boolean {
  return "method" in message && message.method === "notifications/resources/list_changed";
}
