/** Tool: the log records of the service about a sandbox. */

import { RECORD_LEVELS, toRecordLevel } from "../../common/log-level.ts";
import { z } from "../../common/schema.ts";
import { cutText, oneLine, sliceText } from "../../common/untrusted-text.ts";
import type { QuotedPart } from "../../output/quote.ts";
import { sandboxIdInput } from "../inputs.ts";
import { pageOfLogs, rankOf, timeOf, type LogEntryBody, type LogPage } from "../logs/log-page.ts";
import { onOptionalRoute } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { countFitting, squeezedShare } from "../replies/reply-size.ts";
import { textReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

const MAX_RECORDS = 1_000;
const MAX_RECORD_CHARACTERS = 1_000;
/** Of all records together where few are read, so that a long one can be read whole. */
const MAX_FEW_CHARACTERS = 30_000;

/** Fields that are left out: they identify the sandbox, or the transport of the record. */
const ALWAYS_EQUAL: ReadonlySet<string> = new Set([
  "category",
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
    const body = await onOptionalRoute(
      service.control.logs(sandboxId, query, signal),
      `The sandbox service keeps no logs.${output}`,
      () => service.control.get(sandboxId, signal),
    );
    const lowest = RECORD_LEVELS.indexOf(level);
    const isShown = (entry: LogEntryBody) =>
      RECORD_LEVELS.indexOf(toRecordLevel(entry.level)) >= lowest;
    const page = fittingPage(pageOfLogs(body, limit), limit, isShown);
    const shown = page.entries.filter((entry) => isShown(entry));
    const parts = shown.flatMap((entry) => formatEntry(entry, { page, limit }));
    return textReply(
      [
        `${shown.length} records`,
        page.isFull ? "there may be more" : undefined,
        cutFact(page, limit),
        page.squeezedTo === undefined
          ? undefined
          : `records are cut to ${page.squeezedTo} characters: a smaller limit shows more of each`,
        page.nextMs === undefined ? undefined : `next since_ms: ${page.nextMs}`,
        expiryFact(context, sandboxId),
      ],
      shown.length === 0 ? [] : [{ name: "log", parts }],
    );
  },
});

interface FittingPage extends LogPage {
  /** What is shown of each record where all of one millisecond exceed a reply. */
  readonly squeezedTo?: number;
}

/**
 * The page without the records that do not fit into a reply, which the next page has. No page can
 * begin within a millisecond: records of one that do not fit are all shown, each cut shorter.
 */
function fittingPage(
  page: LogPage,
  limit: number,
  isShown: (entry: LogEntryBody) => boolean,
): FittingPage {
  const { entries } = page;
  const texts = entries.map((entry) =>
    isShown(entry) ? sliceText(lineOf(entry), shareOf(limit)) : "",
  );
  const count = countFitting(texts);
  if (count === entries.length) return page;
  const cut = pageOfLogs({ logs: [], logEntries: entries.slice(0, count) }, count);
  if (cut.cutMs === undefined) return cut;
  const ofMs = entries.filter((entry) => timeOf(entry) === cut.cutMs);
  return {
    ...cut,
    entries: ofMs,
    isFull: page.isFull || ofMs.length < entries.length,
    cutMs: page.cutMs,
    squeezedTo: squeezedShare(ofMs.filter((entry) => isShown(entry)).length),
  };
}

/** What a full page of one millisecond cannot leave to the next page. */
function cutFact({ cutMs }: LogPage, limit: number): string | undefined {
  if (cutMs === undefined) return undefined;
  const rest = limit < MAX_RECORDS ? "need a larger limit" : "cannot be read";
  return `further records of millisecond ${cutMs} ${rest}`;
}

function formatEntry(
  entry: LogEntryBody,
  { page, limit }: { readonly page: FittingPage; readonly limit: number },
): QuotedPart[] {
  const line = lineOf(entry);
  if (page.squeezedTo !== undefined) return [cutText(line, page.squeezedTo)];
  const shownCharacters = shareOf(limit);
  if (line.length <= shownCharacters) return [line];
  const rank = rankOf(entry, page.entries);
  const hint = `since_ms=${timeOf(entry)}, limit=${rank} returns more of it`;
  const omitted = line.length - shownCharacters;
  const more = shareOf(rank) > shownCharacters ? `; ${hint}` : "";
  const note = `[… ${omitted} characters omitted${more}]`;
  return [sliceText(line, shownCharacters), { note }];
}

function lineOf({ timestamp, level, message, fields }: LogEntryBody): string {
  const others = Object.entries(fields)
    .filter(([name]) => !ALWAYS_EQUAL.has(name))
    .map(([name, value]) => ` ${name}=${value}`);
  return oneLine(`${timestamp} ${level} ${message}${others.join("")}`);
}

/** How much of each record is shown. */
function shareOf(limit: number): number {
  return Math.max(MAX_RECORD_CHARACTERS, Math.floor(MAX_FEW_CHARACTERS / limit));
}
