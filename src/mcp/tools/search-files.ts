/** Tool: searches the content of files. */

import type { Entry } from "../../client/filesystem.ts";
import { anySignal } from "../../common/any-signal.ts";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { oneLine, quoteName } from "../../common/untrusted-text.ts";
import { timeLimit } from "../../output/capture.ts";
import type { QuotedPart } from "../../output/quote.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { pathHints, processLimitHint, withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { textReply } from "../replies/respond.ts";
import { searchFiles, type SearchResult } from "../search/search-files.ts";
import type { FoundLine } from "../search/search-output.ts";
import { skippedBy } from "../search/search-paths.ts";
import { MAX_STREAM_BYTES } from "../search/search-run.ts";
import { READ_ONLY, defineTool, type ToolContext } from "../tool.ts";

const MAX_PATTERN_CHARACTERS = 1_000;
/** Below the patience of hosts, with the time for a second program. */
const SEARCH_SECONDS = 20;
const INSTALL_OR_RUN =
  "Install ripgrep in the sandbox with its package manager, or search with run_process.";

export const searchFilesTool = defineTool({
  name: "search_files",
  title: "Search files",
  description:
    "Finds lines that match a regular expression in a file or in all files below a directory, and " +
    "returns them by file with line numbers. Prefer it to grep in run_process. Hidden and ignored " +
    "files are searched, .git and node_modules only if path is in them; binary files are " +
    `counted, not shown. A search ends after ${SEARCH_SECONDS} s.`,
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    pattern: z
      .string()
      .min(1)
      .max(MAX_PATTERN_CHARACTERS)
      .describe("Regular expression within one line; (?i) first ignores case."),
    path: pathInput("File or directory to search; default: the user's home.").optional(),
    glob: z
      .string()
      .max(256)
      .regex(/^[^/!][^/]*$/)
      .optional()
      .describe("Only files with such a name: *.py or *.{ts,tsx}; no slash."),
    limit: z.int().min(1).max(1_000).default(100).describe("Most matching lines to return."),
    context: z.int().min(0).max(10).default(0).describe("Lines to show around each match."),
    user: userInput(),
  }),
  annotations: READ_ONLY,
  async handler(params, context) {
    const { sandbox_id: sandboxId, path = ".", pattern, glob, limit, user } = params;
    const sandbox = await context.attach(sandboxId);
    const looking = sandbox.filesystem.stat(path, { signal: context.signal, user });
    const entry = await withHints(looking, pathHints(path, context.suggest));
    requireSearchable(entry, context);
    const deadline = anySignal([
      context.signal,
      timeLimit(context.clock, SEARCH_SECONDS * 1_000, context.signal),
    ]);
    const request = { sandbox, pattern, path: entry.path, limit, user, deadline };
    // A path that names a file is the whole choice.
    const filter = { glob: entry.type === "file" ? undefined : glob, context: params.context };
    const result = await withHints(searchFiles({ ...request, ...filter }), {
      failed_precondition: context.suggest("run_process", INSTALL_OR_RUN),
      resource_exhausted: processLimitHint(context.suggest),
    });
    context.signal.throwIfAborted();
    const skipped = skippedBy(entry.path);
    const files = new Set(result.lines.map((line) => line.path)).size;
    const facts = [
      `${result.matches} matching lines in ${files} files below ${quoteName(entry.path)}`,
      stopFact(result, limit),
      binaryFact(result),
      result.unreadable > 0 ? `${result.unreadable} paths could not be read` : undefined,
      skipped.length > 0 ? `not searched: ${skipped.join(", ")}` : undefined,
      expiryFact(context, sandboxId),
    ];
    const parts = partsOf(result.lines);
    return textReply(facts, parts.length === 0 ? [] : [{ name: "matches", parts }]);
  },
});

/** A pipe or device may never end. */
function requireSearchable({ type, path, symlinkTarget }: Entry, { suggest }: ToolContext): void {
  if (type === "symlink" && symlinkTarget === undefined) {
    const hint = suggest("list_directory", "Call list_directory to see what is there.");
    const message = `${quoteName(path)} is a link that leads nowhere`;
    throw new SandboxError("invalid_argument", message, { hint });
  }
  if (type !== "other") return;
  const message = `${quoteName(path)} is neither a file nor a directory`;
  const hint = suggest("run_process", "Read a pipe or device with run_process.");
  throw new SandboxError("invalid_argument", message, { hint });
}

function binaryFact({ binaryFiles }: SearchResult): string | undefined {
  if (binaryFiles === undefined) return "binary files were not counted";
  return binaryFiles === 0 ? undefined : `${binaryFiles} binary files match, not shown`;
}

function stopFact({ stopped }: SearchResult, limit: number): string | undefined {
  switch (stopped) {
    case undefined:
      return undefined;
    case "limit":
      return `there are more: the search ended at limit=${limit}`;
    case "size":
      return "there are more: the search ended where the reply was full; narrow path, glob or pattern";
    case "output":
      return `not complete: the search ended after ${MAX_STREAM_BYTES / 2 ** 20} MiB of matching lines, of which some are very long; narrow path, glob or pattern`;
    case "time":
      return `not complete: the search ended after ${SEARCH_SECONDS} s; narrow path or glob`;
    case "end":
      return "not complete: the search program was killed, perhaps for lack of memory, or failed; narrow path or glob";
    default:
      return stopped satisfies never;
  }
}

/** Lines by file: a number and a colon before a match, a number and a dash before its context. */
function partsOf(lines: readonly FoundLine[]): QuotedPart[] {
  const parts: QuotedPart[] = [];
  let text = "";
  let before: FoundLine | undefined;
  for (const found of lines) {
    const { path, line, isMatch } = found;
    if (before?.path !== path) text += `file: ${quoteName(path)}\n`;
    else if (line !== undefined && line > (before.line ?? line) + 1) text += "...\n";
    if (line === undefined) {
      parts.push(text, { note: TOO_LONG });
      text = "";
    } else text += `${line}${isMatch ? ":" : "-"} ${oneLine(found.text)}\n`;
    before = found;
  }
  return [...parts, text].filter((part) => part !== "");
}

const TOO_LONG = "[… a matching line of about 1 MB or more is not shown …]";
