/** The help text: commands, flags, and how a host is told about the server. */

import packageJson from "../../package.json" with { type: "json" };
import { describeFlags } from "../config.ts";
import { COMMANDS } from "./index.ts";

export const VERSION: string = packageJson.version;

export function helpText(): string {
  const commands = COMMANDS.map(({ usage, summary }) => `  ${usage.padEnd(34)} ${summary}`);
  return [
    "sandbox-mcp: isolated computers for AI agents, as MCP tools",
    "",
    "Add it to a host:",
    "  claude mcp add sandbox -- npx -y sandbox-mcp",
    '  or {"mcpServers":{"sandbox":{"command":"npx","args":["-y","sandbox-mcp"]}}}',
    "",
    "Usage: sandbox-mcp [COMMAND] [FLAGS]",
    ...commands,
    "  Without a command: stdio when stdin is no terminal, else this text.",
    "",
    "Flags (the README names the environment variable of each):",
    ...describeFlags(),
  ].join("\n");
}
