/** JSON-RPC lines to and from a program, without any SDK; every line of stdout must be one. */

import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

const REPLY_LIMIT_MS = 60_000;
const PROTOCOL = "2025-11-25";

export interface RawStdio {
  /** Lines of stdout that were no JSON-RPC message. */
  readonly strays: readonly string[];
  notify(method: string, params?: object): void;
  /** Sends a request and resolves with its result; rejects with its error as JSON. */
  request(method: string, params?: object): Promise<Readonly<Record<string, unknown>>>;
  /** The 2025-11-25 handshake. */
  initialize(): Promise<void>;
}

interface Message {
  readonly jsonrpc?: string;
  readonly id?: number;
  readonly result?: Record<string, unknown>;
  readonly error?: object;
}

export function openRawStdio(
  input: Writable,
  output: Readable,
  limitMs: number = REPLY_LIMIT_MS,
): RawStdio {
  const strays: string[] = [];
  const waiting = new Map<number, PromiseWithResolvers<Readonly<Record<string, unknown>>>>();
  let nextId = 1;
  createInterface({ input: output }).on("line", (line) => {
    const message = parse(line);
    if (message?.jsonrpc !== "2.0") {
      strays.push(line);
      return;
    }
    const pending = message.id === undefined ? undefined : waiting.get(message.id);
    if (message.result !== undefined) pending?.resolve(message.result);
    else if (message.error !== undefined) pending?.reject(new Error(JSON.stringify(message.error)));
  });
  const send = (message: object): void => {
    input.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  };
  const request: RawStdio["request"] = async (method, params = {}) => {
    const id = nextId;
    nextId += 1;
    const pending = Promise.withResolvers<Readonly<Record<string, unknown>>>();
    waiting.set(id, pending);
    const timer = setTimeout(() => pending.reject(new Error(`no reply to ${method}`)), limitMs);
    send({ id, method, params });
    try {
      return await pending.promise;
    } finally {
      clearTimeout(timer);
      waiting.delete(id);
    }
  };
  const notify: RawStdio["notify"] = (method, params = {}) => send({ method, params });
  return {
    strays,
    notify,
    request,
    async initialize() {
      const clientInfo = { name: "raw", version: "1" };
      await request("initialize", { protocolVersion: PROTOCOL, capabilities: {}, clientInfo });
      notify("notifications/initialized");
    },
  };
}

function parse(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    // A line that is no JSON is exactly what the caller wants to hear of.
    return undefined;
  }
}
