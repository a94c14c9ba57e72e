/** MCP over stdin and stdout, for hosts of both protocol eras, until one of the ends is gone. */

import type { Readable, Writable } from "node:stream";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createMcpServer } from "./server.ts";
import type { McpState } from "./state.ts";
import { StdioTransport } from "./stdio-transport.ts";
import type { Tool } from "./tool.ts";

/** Why a connection is over. */
export type StdioEnd = "stdin closed" | "stdout closed" | "parent gone" | "stopped";

export interface StdioOptions {
  readonly state: McpState;
  readonly tools: readonly Tool[];
  readonly version: string;
  /** `legacy` answers no probe for the newer era. */
  readonly protocol: "auto" | "legacy";
  readonly stdin: Readable;
  /** Carries JSON-RPC and nothing else. */
  readonly stdout: Writable;
  /** Ends the connection from inside. */
  readonly signal: AbortSignal;
  /** The host has been sent a list of tools. */
  onListed?(): void;
  /** The current parent of this process; it changes when the host dies. */
  parentPid(): number;
}

const WATCHDOG_MS = 1_000;

/** Serves one host; resolves with the reason once the connection is over. */
export async function serveMcpStdio(options: StdioOptions): Promise<StdioEnd> {
  const { stdin, stdout, signal } = options;
  const { promise: over, resolve: end } = Promise.withResolvers<StdioEnd>();
  // The SDK reports the end of stdin only after the first message.
  const onStdin = () => end("stdin closed");
  const onStdout = () => end("stdout closed");
  const onSignal = () => end("stopped");
  stdin.once("end", onStdin).once("close", onStdin).once("error", onStdin);
  stdout.once("close", onStdout).on("error", onStdout);
  signal.addEventListener("abort", onSignal, { once: true });
  if (signal.aborted) onSignal();

  const parent = options.parentPid();
  // Besides watching, this timer keeps the process alive where stdin alone does not.
  const watchdog = setInterval(() => {
    if (options.parentPid() !== parent) end("parent gone");
  }, WATCHDOG_MS);

  const connection = await connect(options, () => end("stopped"));
  try {
    return await over;
  } finally {
    clearInterval(watchdog);
    signal.removeEventListener("abort", onSignal);
    stdin.off("end", onStdin).off("close", onStdin).off("error", onStdin);
    stdout.off("close", onStdout);
    // The error listener stays: a late write error must not end the process.
    await connection.close();
  }
}

interface Connection {
  close(): Promise<void>;
}

async function connect(options: StdioOptions, onClosed: () => void): Promise<Connection> {
  const { state, tools, version, protocol, stdin, stdout } = options;
  const report = (error: Error): void => {
    state.log.debug({ op: "mcp.stdio", err: error }, "connection fault");
  };
  const create = (era: "legacy" | "modern") =>
    createMcpServer({ state, tools, version, era, isLasting: true, principal: "stdio" });
  const transport = new StdioTransport({
    stdin,
    stdout,
    onClosed,
    onSent(message) {
      if ("result" in message && "tools" in message.result) options.onListed?.();
    },
  });
  if (protocol === "auto") {
    return serveStdio(({ era }) => create(era), { transport, onerror: report });
  }
  const server = create("legacy");
  // The SDK calls this field and knows no listeners.
  // oxlint-disable-next-line unicorn/prefer-add-event-listener
  server.server.onerror = report;
  await server.connect(transport);
  return server;
}
