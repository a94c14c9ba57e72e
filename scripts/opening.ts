/** Prints what the stdio server answers to the opening of a host; `npm run generate` keeps it. */

import packageJson from "../package.json" with { type: "json" };
import { createService } from "../src/client/service.ts";
import { createLog } from "../src/common/log.ts";
import { startMcpState } from "../src/mcp/state.ts";
import { TOOLS } from "../src/mcp/tools/index.ts";
import { recordAnswers } from "./record-opening.ts";

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "generate", version: "1" },
  },
};

interface Listed {
  readonly name: string;
}

await using service = createService({ url: "http://127.0.0.1:9", apiKey: "none" });
await using state = startMcpState({
  service: () => service,
  log: createLog({ level: "error", file: undefined }),
  onExit: () => "leave",
});
const server = { state, tools: TOOLS, version: packageJson.version };
const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };
const [shaken = "", listed = ""] = await recordAnswers(server, [INITIALIZE, list]);
const { protocolVersion: _revision, ...initialize } = JSON.parse(shaken).result;
const core = new Set(TOOLS.filter((tool) => tool.toolset === "core").map((tool) => tool.name));
const tools = JSON.parse(listed).result.tools.map((tool: Listed) => ({
  isCore: core.has(tool.name),
  listed: tool,
}));
process.stdout.write(`${JSON.stringify({ initialize, tools }, undefined, 2)}\n`);
