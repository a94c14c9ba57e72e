/** A search in the files of a sandbox: ripgrep where it is installed, else grep; never a shell. */

import type { Sandbox } from "../../client/envd.ts";
import { SandboxError } from "../../common/errors.ts";
import { countUnsafe, quoteWords } from "../../common/untrusted-text.ts";
import {
  argumentsOf,
  grepFilters,
  grepPattern,
  lineEnds,
  type Means,
  type SearchTerms,
} from "./search-arguments.ts";
import {
  createGrepReader,
  createNameReader,
  createRipgrepReader,
  RECORD_END,
  type FoundLine,
} from "./search-output.ts";
import { grepPaths } from "./search-paths.ts";
import { runProgram, type Run } from "./search-run.ts";

export interface SearchRequest extends SearchTerms {
  readonly sandbox: Sandbox;
  readonly user: string | undefined;
  /** Ends the search; what was found until then is the result. */
  readonly deadline: AbortSignal;
}

export interface SearchResult {
  readonly program: Means["program"];
  readonly lines: readonly FoundLine[];
  readonly matches: number;
  /** Why the search ended before its end; undefined for a whole one. */
  readonly stopped: "limit" | "size" | "output" | "time" | "end" | undefined;
  /** Files that match and have no text; undefined where they were not counted. */
  readonly binaryFiles: number | undefined;
  readonly unreadable: number;
}

/** What one search keeps of what its program prints. */
const MAX_KEPT_BYTES = 40_000;
const NOT_FOUND_STATUS = 127;
const ERROR_STATUS = 2;
/** With matches, without any, and with paths that it could not read: else it did not search all. */
const ENDS: ReadonlySet<number> = new Set([0, 1, ERROR_STATUS]);

/**
 * Searches.
 * @throws SandboxError invalid_argument for a faulty pattern, failed_precondition without a program
 */
export async function searchFiles(request: SearchRequest): Promise<SearchResult> {
  const found = await search(request, { program: "ripgrep", paths: [request.path] });
  const result =
    found ?? (await search(request, { program: "grep", paths: await grepPaths(request) }));
  if (result !== undefined) return result;
  throw new SandboxError("failed_precondition", "the sandbox has neither ripgrep nor grep");
}

async function search(request: SearchRequest, means: Means): Promise<SearchResult | undefined> {
  const { program, paths } = means;
  const kept = createKept(request);
  const read = program === "ripgrep" ? createRipgrepReader(kept) : createGrepReader(kept);
  const run = await runProgram(request, argumentsOf(request, means), {
    take: read,
    isFull: () => kept.isFull(),
  });
  if (run.status === NOT_FOUND_STATUS) return undefined;
  if (run.stopped !== undefined && program === "ripgrep") read(RECORD_END);
  // What grep prints has no end of a file, nor has the last file of a run that was stopped.
  if (program === "grep" || run.stopped !== undefined) kept.fileEnd(false);
  if (run.status === ERROR_STATUS && kept.lines.length === 0) await checkPattern(request, program);
  const stopped = kept.isFull() ? kept.reason() : stopOf(run);
  if (stopped === undefined && !isOwnOutput(run, means, kept)) return undefined;
  const isWhole = stopped === undefined;
  if (!isWhole) dropLead(kept.lines, request.context);
  const binaryFiles = program === "ripgrep" ? kept.binaryFiles() : undefined;
  return {
    program,
    lines: kept.lines,
    matches: kept.matches(),
    stopped,
    binaryFiles:
      binaryFiles ??
      (isWhole ? await countBinary(request, { paths, lines: kept.lines }) : undefined),
    unreadable: run.complaints,
  };
}

/** One that was killed, as for lack of memory, has not searched all. */
function stopOf({ stopped, status = -1 }: Run): SearchResult["stopped"] {
  return stopped ?? (ENDS.has(status) ? undefined : "end");
}

/** Whether the program is what its name says: any other one finds nothing in whatever it prints. */
function isOwnOutput({ status }: Run, { program }: Means, kept: Kept): boolean {
  if (program === "ripgrep") return kept.hasSummary();
  return status !== 0 || kept.lines.length > 0;
}

/** Takes away the context before a match that is not shown. */
function dropLead(lines: FoundLine[], context: number): void {
  const match = lines.findLast(({ isMatch }) => isMatch);
  const last = (match?.line ?? 0) + context;
  const isShown = ({ path, line = 0 }: FoundLine) => path === match?.path && line <= last;
  lines.splice(lines.findLastIndex((line) => isShown(line)) + 1);
}

type Kept = ReturnType<typeof createKept>;

/** The lines to be shown: of binary files none, and no more than the limits. */
function createKept({ limit }: SearchRequest) {
  const lines: FoundLine[] = [];
  let pending: FoundLine[] = [];
  let bytes = 0;
  let matches = 0;
  let binaryFiles = 0;
  let why: "limit" | "size" | undefined;
  let hasSummary = false;

  function flush(): void {
    for (const line of pending) {
      const named = line.path === lines.at(-1)?.path ? 8 : lengthOf(line.path);
      const size = lengthOf(line.text) + named;
      if (line.isMatch && matches >= limit) why ??= "limit";
      if (bytes + size > MAX_KEPT_BYTES) why ??= "size";
      if (why !== undefined) break;
      lines.push(line);
      bytes += size;
      if (line.isMatch) matches += 1;
    }
    pending = [];
  }

  return {
    lines,
    matches: () => matches,
    binaryFiles: () => binaryFiles,
    isFull: () => why !== undefined,
    reason: () => why,
    hasSummary: () => hasSummary,
    summary: () => void (hasSummary = true),
    found(line: FoundLine): void {
      if (pending[0] !== undefined && pending[0].path !== line.path) flush();
      // The rest of a file with more would not be shown; its end is still waited for.
      if (pending.length < MAX_PENDING_LINES) pending.push(line);
    },
    fileEnd(isBinary: boolean): void {
      if (isBinary) {
        binaryFiles += 1;
        pending = [];
      }
      flush();
    },
  };
}

/** With the escapes of a reply. */
function lengthOf(text: string): number {
  return text.length + MAX_ESCAPE_CHARACTERS * countUnsafe(text);
}

/** What an escape adds. */
const MAX_ESCAPE_CHARACTERS = 8;

/** The most lines of one file that can be within the limits of a reply. */
const MAX_PENDING_LINES = MAX_KEPT_BYTES / 8;

/** Tells a pattern that the program refuses from files that it cannot read, and a grep without `-P`. */
async function checkPattern(request: SearchRequest, program: Means["program"]): Promise<void> {
  const { status, stderr } = await tryPattern(request, program);
  if (status !== ERROR_STATUS) return;
  if (program === "grep") {
    const plain = await tryPattern({ ...request, pattern: "x" }, program);
    if (plain.status === ERROR_STATUS) throw new SandboxError("failed_precondition", LESSER_GREP);
  }
  // What follows names options of the program, which no caller can set.
  const reason =
    stderr
      .replace(/^(rg|grep): /, "")
      .split("\n\nConsider enabling")[0]
      ?.trim() ?? "";
  throw new SandboxError("invalid_argument", `${program} refused: ${quoteWords(reason)}`, {
    hint: "Correct pattern or glob; write \\ before characters that stand for themselves.",
  });
}

/** As that of busybox is, and a GNU grep without the library of Perl's expressions. */
const LESSER_GREP = "the sandbox has no ripgrep, and its grep lacks the option -P";

async function tryPattern(request: SearchRequest, program: Means["program"]): Promise<Run> {
  const { pattern, glob } = request;
  const globs = glob === undefined ? [] : ["--glob", glob];
  const ripgrep = ["rg", "--no-config", ...lineEnds(pattern), ...globs];
  const start = program === "ripgrep" ? ripgrep : ["grep", "-P"];
  const tried = program === "ripgrep" ? pattern : grepPattern(pattern);
  const args = [...start, "-e", tried, "--", "/dev/null"];
  return runProgram(request, args, { take: () => undefined, isFull: () => false });
}

/** How many files match besides those with text; grep tells it only by a second look. */
async function countBinary(
  request: SearchRequest,
  { paths, lines }: Pick<Means, "paths"> & { readonly lines: readonly FoundLine[] },
): Promise<number | undefined> {
  const known = new Set(lines.map(({ path }) => path));
  let count = 0;
  const take = createNameReader((name) => (count += known.has(name) ? 0 : 1));
  const pattern = grepPattern(request.pattern);
  const args = ["grep", "-rlZP", ...grepFilters(request), "-e", pattern, "--", ...paths];
  const run = await runProgram(request, args, { take, isFull: () => false });
  return stopOf(run) === undefined ? count : undefined;
}
