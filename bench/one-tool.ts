/** A server with one tool that does nothing, on the SDK that ours uses: the floor of a call. */

import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "../src/common/schema.ts";

function createServer(): McpServer {
  const server = new McpServer({ name: "one-tool", version: "1.0.0" });
  const inputSchema = z.strictObject({ process_id: z.string() });
  server.registerTool("nothing", { description: "Does nothing.", inputSchema }, async () => ({
    content: [{ type: "text", text: "nothing" }],
  }));
  return server;
}

serveStdio(() => createServer());
