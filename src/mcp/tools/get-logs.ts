/** Tool: the log records of the service about a sandbox. */

import { RECORD_LEVELS } from "../../common/log-level.ts";
import { z } from "../../common/schema.ts";
import { cutText, oneLine, sliceText } from "../../common/untrusted-text.ts";
import type { QuotedPart } from "../../output/quote.ts";
import type { LogsBody } from "../../wire/control.ts";
import { onOptionalRoute } from "../error-hints.ts";
import { expiryFact } from "../facts.ts";
import { sandboxIdInput } from "../inputs.ts";
import { textReply } from "../respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

type LogEntryBody = LogsBody["logEntries"][number];

const MAX_RECORDS = 1_000;
const MAX_RECORD_CHARACTERS = 1_000;
/** For a single record. */
const MAX_SINGLE_CHARACTERS = 30_000;

/** Fields that are left out: they identify the sandbox, or the transport of the record. */
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
    min_level: z.enum(RECORD_LEVELS).default("info").describe("Lowest level to return."),
  }),
  annotations: READ_ONLY,
  async handler({ sandbox_id: sandboxId, since_ms: start, limit, min_level: level }, context) {
    const query = { limit, ...(start !== undefined && { start }) };
    const { service, signal, suggest } = context;
    const output = suggest("get_process_output", " get_process_output has what programs wrote.");
    const { logEntries } = await onOptionalRoute(
      service.control.logs(sandboxId, query, signal),
      `The sandbox service keeps no logs.${output}`,
      () => service.control.get(sandboxId, signal),
    );
    const page = pageOf(logEntries, limit);
    const lowest = RECORD_LEVELS.indexOf(level);
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
 * The records of one call. Pages begin at a millisecond: where a full page ends within one, its
 * records are left to the next page.
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

/** An unknown level counts as info. */
function levelOf(name: string): number {
  const index = RECORD_LEVELS.findIndex((level) => level === name);
  return index === -1 ? RECORD_LEVELS.indexOf("info") : index;
}

function formatEntry(entry: LogEntryBody, limit: number): QuotedPart[] {
  const fields = Object.entries(entry.fields)
    .filter(([name]) => !ALWAYS_EQUAL.has(name))
    .map(([name, value]) => ` ${name}=${value}`);
  const line = oneLine(`${entry.timestamp} ${entry.level} ${entry.message}${fields.join("")}`);
  if (limit === 1) return [cutText(line, MAX_SINGLE_CHARACTERS)];
  const omitted = line.length - MAX_RECORD_CHARACTERS;
  if (omitted <= 0) return [line];
  const hint = `since_ms=${Date.parse(entry.timestamp)}, limit=1 returns more of it`;
  const note = `[… ${omitted} characters omitted; ${hint}]`;
  return [sliceText(line, MAX_RECORD_CHARACTERS), { note }];
}
