/** Fixtures: tools that tell something while they run. */

import { setTimeout as delay } from "node:timers/promises";
import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import { textResult } from "./samples.ts";

/** The suite wants to see messages come one by one. */
const STEP_MS = 50;

export function registerFlowTools(server: McpServer): void {
  server.registerTool(
    "test_tool_with_progress",
    { description: "Tells progress." },
    async (ctx) => {
      for (const progress of [0, 50, 100]) {
        if (progress > 0) await delay(STEP_MS, undefined, { signal: ctx.mcpReq.signal });
        await tellProgress(ctx, progress);
      }
      return textResult("Tool with progress executed successfully");
    },
  );
  server.registerTool(
    "test_tool_with_logging",
    { description: "Logs three times." },
    async (ctx) => {
      const lines = ["Tool execution started", "Tool processing data", "Tool execution completed"];
      for (const [index, line] of lines.entries()) {
        if (index > 0) await delay(STEP_MS, undefined, { signal: ctx.mcpReq.signal });
        await log(ctx, line);
      }
      return textResult("Tool with logging executed successfully");
    },
  );
  server.registerTool("test_logging_tool", { description: "Logs once." }, async (ctx) => {
    await log(ctx, "logged where the caller asked for it");
    return textResult("Logged");
  });
}

async function tellProgress(ctx: ServerContext, progress: number): Promise<void> {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  const params = { progressToken, progress, total: 100 };
  await ctx.mcpReq.notify({ method: "notifications/progress", params });
}

async function log(ctx: ServerContext, line: string): Promise<void> {
  // Deprecated in the newer era, and still asked for by both sets of requirements.
  // oxlint-disable-next-line typescript/no-deprecated
  await ctx.mcpReq.log("info", line);
}
