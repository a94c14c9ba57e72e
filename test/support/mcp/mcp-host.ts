/** A host: the independent v1 client, connected to our server within one process. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { createMcpServer } from "../../../src/mcp/server.ts";
import type { McpState } from "../../../src/mcp/state.ts";
import type { Tool } from "../../../src/mcp/tool.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";

export interface McpHost extends AsyncDisposable {
  readonly client: Client;
}

/** Connects a v1 client to a new server over the shared state. */
export async function startMcpHost(
  state: McpState,
  tools: readonly Tool[] = TOOLS,
): Promise<McpHost> {
  const client = new Client({ name: "test-host", version: "1.0.0" });
  const server = createMcpServer({
    state,
    tools,
    version: "0.0.0",
    era: "legacy",
    transport: "stdio",
    isLasting: true,
    principal: "test",
  });
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await server.connect(theirs);
  await client.connect(ours);
  return {
    client,
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
}
