/** Tool: the service's log of a sandbox. */

import { z } from "../../common/schema.ts";
import { cutText, oneLine, sliceText } from "../../common/untrusted-text.ts";
import type { LogsBody } from "../../wire/control.ts";
import { expiryFact } from "../expiry.ts";
import { sandboxIdInput } from "../inputs.ts";
import type { QuotedPart } from "../quote.ts";
import { textReply } from "../respond.ts";
import { defineTool } from "../tool.ts";

type LogEntryBody = LogsBody["logEntries"][number];

const LEVELS = ["debug", "info", "warn", "error"] as const;
const MAX_RECORDS = 1_000;
const MAX_RECORD_CHARACTERS = 1_000;
/** Of a record that is read alone. */
const MAX_SINGLE_CHARACTERS = 30_000;

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
    "Returns the service's log of a sandbox: its start and end, and calls to it, oldest first. " +
    "Works after the sandbox was killed, too. The log contains no output of programs: for that " +
    "use get_process_output. Continue with the next since_ms from the reply.",
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
    const page = pageOf(logEntries, limit);
    const lowest = LEVELS.indexOf(level);
    const shown = page.entries.filter((entry) => levelOf(entry.level) >= lowest);
    const parts = shown.flatMap((entry) => formatEntry(entry, limit));
    return textReply(
      [
        `${shown.length} records`,
        page.isFull ? "there may be more" : undefined,
        page.nextMs === undefined ? undefined : `next since_ms: ${page.nextMs}`,
        expiryFact(context, sandboxId),
      ],
      shown.length === 0 ? [] : [{ name: "log", parts }],
    );
  },
});

interface Page {
  readonly entries: readonly LogEntryBody[];
  readonly isFull: boolean;
  /** Where the next page begins, in Unix milliseconds. */
  readonly nextMs: number | undefined;
}

/**
 * The records of one call. A full page may end amid records of one millisecond, which the next
 * page can only begin with: then all of them are left to it.
 */
function pageOf(all: readonly LogEntryBody[], limit: number): Page {
  const last = all.at(-1);
  if (last === undefined) return { entries: [], isFull: false, nextMs: undefined };
  const isFull = all.length >= limit;
  const lastMs = Date.parse(last.timestamp);
  const earlier = all.filter((entry) => Date.parse(entry.timestamp) !== lastMs);
  if (isFull && earlier.length > 0) return { entries: earlier, isFull, nextMs: lastMs };
  return { entries: all, isFull, nextMs: lastMs + 1 };
}

/** A level of a name that we do not know counts as info. */
function levelOf(name: string): number {
  const index = LEVELS.findIndex((level) => level === name);
  return index === -1 ? LEVELS.indexOf("info") : index;
}

function formatEntry(entry: LogEntryBody, limit: number): QuotedPart[] {
  const fields = Object.entries(entry.fields)
    .filter(([name]) => !ALWAYS_EQUAL.has(name))
    .map(([name, value]) => ` ${name}=${value}`);
  const line = oneLine(`${entry.timestamp} ${entry.level} ${entry.message}${fields.join("")}`);
  if (limit === 1) return [cutText(line, MAX_SINGLE_CHARACTERS)];
  const omitted = line.length - MAX_RECORD_CHARACTERS;
  if (omitted <= 0) return [line];
  const way = `since_ms=${Date.parse(entry.timestamp)}, limit=1 returns more of it`;
  const note = `[… ${omitted} characters omitted; ${way}]`;
  return [sliceText(line, MAX_RECORD_CHARACTERS), { note }];
}
