/** An independent MCP client (SDK version 1) on the stdio of the built program. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import type { Progress } from "@modelcontextprotocol/sdk/types.js";
import { OFFLINE, PROGRAM } from "../program.ts";
import { toReply, type ToolReply } from "./tool-reply.ts";

export interface TestClient extends AsyncDisposable {
  readonly client: Client;
  readonly pid: number;
  /** Calls a tool; `onProgress` sees each progress notification as it comes. */
  call(
    name: string,
    input: Readonly<Record<string, unknown>>,
    options?: { readonly onProgress?: (progress: Progress) => void; readonly signal?: AbortSignal },
  ): Promise<ToolReply>;
}

/** Starts `sandbox-mcp stdio` with these flags and completes the handshake. */
export async function startMcpClient(
  flags: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  program: readonly [string, ...string[]] = [process.execPath, PROGRAM],
): Promise<TestClient> {
  const [command, ...words] = program;
  const transport = new StdioClientTransport({
    command,
    args: [...words, "stdio", ...flags],
    env: {
      PATH: process.env["PATH"] ?? "",
      ...OFFLINE,
      SANDBOX_MCP_LOG_LEVEL: "warn",
      ...environment,
    },
    stderr: "inherit",
  });
  const client = new Client({ name: "test-client", version: "1.0.0" });
  await client.connect(transport);
  return {
    client,
    pid: transport.pid ?? 0,
    async call(name, input, options = {}) {
      const result = await client.callTool({ name, arguments: { ...input } }, undefined, {
        timeout: 120_000,
        ...(options.onProgress && { onprogress: options.onProgress }),
        ...(options.signal && { signal: options.signal }),
      });
      return toReply(result);
    },
    async [Symbol.asyncDispose]() {
      await client.close();
    },
  };
}
