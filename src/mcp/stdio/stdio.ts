/** MCP over stdin and stdout, for hosts of both protocol eras, until one of the ends is gone. */

import type { Readable, Writable } from "node:stream";
import { createOpening, type HeardOpening, type OpeningAnswers } from "./opening.ts";
import type { Connection, StdioServer } from "./stdio-connection.ts";

/** Why a connection is over. */
export type StdioEnd = "stdin closed" | "stdout closed" | "parent gone" | "stopped";

export interface StdioOptions {
  /** Loads and makes what answers calls; called once, and not for a host that asks for nothing. */
  open(): Promise<StdioServer>;
  /** Answers the opening of a host before `open`; absent: all messages wait for that. */
  readonly answers?: OpeningAnswers;
  /** `legacy` answers no probe for the newer era. */
  readonly protocol: "auto" | "legacy";
  readonly stdin: Readable;
  /** Carries JSON-RPC and nothing else. */
  readonly stdout: Writable;
  /** Ends the connection from inside. */
  readonly signal: AbortSignal;
  /** As `signal`, for what calls wait for and fail by: those that came are answered first. */
  readonly failed?: AbortSignal;
  /** The host has been sent a list of tools. */
  onListed?(): void;
  /** The current parent of this process; it changes when the host dies. */
  parentPid(): number;
}

const WATCHDOG_MS = 1_000;

/** Serves one host; resolves with the reason once the connection is over. */
export async function serveMcpStdio(options: StdioOptions): Promise<StdioEnd> {
  const { stdin, stdout, signal, failed } = options;
  const { promise: over, resolve: end, reject } = Promise.withResolvers<StdioEnd>();
  const link = startLink(options, { onClosed: () => end("stopped"), onFailed: reject });
  // The SDK reports the end of stdin only after the first message.
  const onStdin = () => link.afterHeard(() => end("stdin closed"));
  const onStdout = () => end("stdout closed");
  const onSignal = () => end("stopped");
  // The answers leave in this turn.
  const onFailed = () => link.afterHeard(() => setImmediate(onSignal));
  stdin.once("end", onStdin).once("close", onStdin).once("error", onStdin);
  stdout.once("close", onStdout).on("error", onStdout);
  signal.addEventListener("abort", onSignal, { once: true });
  if (signal.aborted) onSignal();
  failed?.addEventListener("abort", onFailed, { once: true });

  const parent = options.parentPid();
  // Besides watching, this timer keeps the process alive where stdin alone does not.
  const watchdog = setInterval(() => {
    if (options.parentPid() !== parent) end("parent gone");
  }, WATCHDOG_MS);

  try {
    return await over;
  } finally {
    clearInterval(watchdog);
    signal.removeEventListener("abort", onSignal);
    failed?.removeEventListener("abort", onFailed);
    stdin.off("end", onStdin).off("close", onStdin).off("error", onStdin);
    stdout.off("close", onStdout);
    // The error listener stays: a late write error must not end the process.
    await link.close();
  }
}

interface Link {
  /** Calls back at once, or when the library has all that the host sent before. */
  afterHeard(then: () => void): void;
  close(): Promise<void>;
}

interface LinkEvents {
  onClosed(): void;
  onFailed(error: unknown): void;
}

/** Reads what the host sends: first its opening, then all else by the library. */
function startLink(options: StdioOptions, events: LinkEvents): Link {
  const { stdin, stdout, answers } = options;
  const waiting: (() => void)[] = [];
  let isClosed = false;
  let isHandingOver = false;
  let connection: Promise<Connection | undefined> | undefined;

  function onHeard(): void {
    isHandingOver = false;
    // The end of stdin was never told in the same turn as the last message.
    for (const then of waiting) setImmediate(then);
  }

  async function connect(heard: HeardOpening | undefined): Promise<Connection | undefined> {
    const server = await options.open();
    const { openConnection } = await import("./stdio-connection.ts");
    if (isClosed) return undefined;
    return openConnection({
      ...options,
      ...server,
      heard,
      onHeard,
      onClosed: () => events.onClosed(),
    });
  }

  function handOver(heard?: HeardOpening): void {
    isHandingOver = true;
    connection = connect(heard);
    connection.catch((error: unknown) => events.onFailed(error));
  }

  const opening =
    answers &&
    createOpening({ answers, write: (line) => !stdout.destroyed && stdout.write(`${line}\n`) });
  const onData = (chunk: Buffer): void => {
    if (opening === undefined || opening.take(chunk)) return;
    stdin.off("data", onData).pause();
    if (opening.isListed) options.onListed?.();
    handOver(opening.heard());
  };
  if (opening === undefined) handOver();
  else stdin.on("data", onData);

  return {
    afterHeard(then) {
      if (isHandingOver) waiting.push(then);
      else then();
    },
    async close() {
      isClosed = true;
      stdin.off("data", onData);
      if (stdin.listenerCount("data") === 0) stdin.pause();
      const opened = await connection?.catch(() => undefined);
      await opened?.close();
    },
  };
}
