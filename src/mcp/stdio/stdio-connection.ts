/** One connection over stdin and stdout, with the MCP library. */

import type { Readable, Writable } from "node:stream";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createMcpServer } from "../server.ts";
import type { McpState } from "../state.ts";
import type { Tool } from "../tool.ts";
import type { HeardOpening } from "./opening.ts";
import { StdioTransport } from "./stdio-transport.ts";

export interface StdioServer {
  readonly state: McpState;
  readonly tools: readonly Tool[];
  readonly version: string;
}

export interface ConnectionOptions extends StdioServer {
  readonly protocol: "auto" | "legacy";
  readonly stdin: Readable;
  readonly stdout: Writable;
  /** What was answered without the library. */
  readonly heard: HeardOpening | undefined;
  onListed?(): void;
  /** All that was heard is with the library, and stdin is read again. */
  onHeard(): void;
  onClosed(): void;
}

export interface Connection {
  close(): Promise<void>;
}

export async function openConnection(options: ConnectionOptions): Promise<Connection> {
  const { state, tools, version, protocol } = options;
  const { stdin, stdout, heard } = options;
  const report = (error: Error): void => {
    state.log.debug({ op: "mcp.stdio", err: error }, "connection fault");
  };
  const create = (era: "legacy" | "modern") =>
    createMcpServer({
      state,
      tools,
      version,
      era,
      transport: "stdio",
      isLasting: true,
      principal: "stdio",
    });
  const transport = new StdioTransport({
    stdin,
    stdout,
    heard,
    onHeard: () => options.onHeard(),
    onClosed: () => options.onClosed(),
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
