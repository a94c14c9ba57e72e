/** Tool: what the service noted about a sandbox. */

import { z } from "../../common/schema.ts";
import { sandboxIdInput } from "../inputs.ts";
import { textReply } from "../respond.ts";
import { oneLine } from "../text.ts";
import { defineTool } from "../tool.ts";

const LEVELS = ["debug", "info", "warn", "error"] as const;
const MAX_RECORDS = 1_000;
const MAX_RECORD_CHARACTERS = 1_000;

/** Fields that tell a caller nothing: they name the sandbox and the way of its records. */
const ALWAYS_EQUAL: ReadonlySet<string> = new Set([
  "envID",
  "instanceID",
  "sandboxID",
  "service",
  "source",
  "source_type",
  "teamID",
  "templateID",
  "timestamp",
  "traceID",
]);

export const getLogs = defineTool({
  name: "get_logs",
  title: "Get service logs",
  description:
    "Returns what the service noted about a sandbox: its start and end, and calls to it, oldest " +
    "first. Works after the sandbox was killed, too. It holds no output of programs: for that " +
    "use get_process_output. Go on with the next since_ms that the reply names.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    since_ms: z
      .int()
      .min(0)
      .max(Number.MAX_SAFE_INTEGER)
      .optional()
      .describe("Unix milliseconds of the first record; default: the oldest kept."),
    limit: z.int().min(1).max(MAX_RECORDS).default(100).describe("Most records to read."),
    min_level: z.enum(LEVELS).default("info").describe("Lowest level to return."),
  }),
  annotations: {
    readOnlyHint: true,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
  async handler({ sandbox_id: sandboxId, since_ms: start, limit, min_level: level }, context) {
    const query = { limit, ...(start !== undefined && { start }) };
    const { logEntries } = await context.service.control.logs(sandboxId, query, context.signal);
    const lowest = LEVELS.indexOf(level);
    const shown = logEntries.filter((entry) => levelOf(entry.level) >= lowest);
    const last = logEntries.at(-1);
    const nextMs = last === undefined ? undefined : Date.parse(last.timestamp) + 1;
    const text = shown.map((entry) => formatEntry(entry)).join("\n");
    return textReply(
      [`${shown.length} records`, nextMs === undefined ? undefined : `next since_ms: ${nextMs}`],
      shown.length === 0 ? [] : [{ name: "log", text }],
    );
  },
});

/** A level of a name that we do not know counts as info. */
function levelOf(name: string): number {
  const index = LEVELS.findIndex((level) => level === name);
  return index === -1 ? LEVELS.indexOf("info") : index;
}

function formatEntry(entry: {
  readonly timestamp: string;
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, string>>;
}): string {
  const fields = Object.entries(entry.fields)
    .filter(([name]) => !ALWAYS_EQUAL.has(name))
    .map(([name, value]) => ` ${name}=${value}`);
  const line = `${entry.timestamp} ${entry.level} ${entry.message}${fields.join("")}`;
  return oneLine(line).slice(0, MAX_RECORD_CHARACTERS);
}
