/** Tool: lists a directory. */

import type { Entry } from "../../client/filesystem.ts";
import { z } from "../../common/schema.ts";
import { cutText, quoteName } from "../../common/untrusted-text.ts";
import { listTree, type ListDirectory } from "../files/list-tree.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { pathHints, withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { fittingLines } from "../replies/reply-size.ts";
import { textReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool, type Suggest } from "../tool.ts";

const MAX_DEPTH = 10;
const MAX_ENTRIES = 1_000;
const MAX_OFFSET = 1_000_000;
/** Below the patience of hosts, where one call for the whole tree has failed. */
const MAX_LISTING_MS = 20_000;

export const listDirectory = defineTool({
  name: "list_directory",
  title: "List a directory",
  description:
    "Lists a directory of the sandbox: type, size, time and path of each entry, parents before " +
    "children. Use depth to see a tree. Returns at most limit entries and the offset to go on " +
    "with. To find files by content, use search_files; by name, run find with run_process.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    path: pathInput("Directory, absolute or relative to the user's home.").default("."),
    depth: z.int().min(1).max(MAX_DEPTH).default(1).describe("Levels below the directory."),
    offset: z.int().min(0).max(MAX_OFFSET).default(0).describe("Entries to skip."),
    limit: z.int().min(1).max(MAX_ENTRIES).default(200).describe("Most entries to return."),
    user: userInput(),
  }),
  annotations: READ_ONLY,
  async handler({ sandbox_id: sandboxId, path, depth, offset, limit, user }, context) {
    const sandbox = await context.attach(sandboxId);
    const options = { signal: context.signal, user };
    const list: ListDirectory = (from, levels) => sandbox.filesystem.listDir(from, levels, options);
    const listing = listTree(list, path, { depth, deadline: context.waitLimit(MAX_LISTING_MS) });
    const { entries, unreadable, skipped, large, isCut } = await withHints(listing, {
      ...pathHints(path, context.suggest),
      invalid_argument: context.suggest("read_file", "For a file use read_file."),
      resource_exhausted: tooManyHint(context.suggest),
    });
    const lines = entries.slice(offset, offset + limit).map((entry) => formatEntry(entry));
    const shown = fittingLines(lines);
    const rest = entries.length - offset - shown.length;
    const facts = [
      `${entries.length} entries`,
      rest > 0 ? `${rest} more: offset=${offset + shown.length}` : undefined,
      isCut ? "deeper entries are missing: list a directory further down" : undefined,
      unreadableFact(unreadable),
      largeFact(large),
      skipped.length > 0
        ? `not entered: ${skipped.join(", ")}; list each by its own path`
        : undefined,
      expiryFact(context, sandboxId),
    ];
    const parts = [shown.join("\n")];
    return textReply(facts, shown.length === 0 ? [] : [{ name: "entries", parts }]);
  },
});

/** What helps where the directory alone has more than one call returns. */
function tooManyHint(suggest: Suggest): string {
  const list = suggest("run_process", " Run ls -A with run_process");
  const page = suggest("get_process_output", ": get_process_output pages through its names");
  return `No listing of this directory is that long.${list && `${list}${page}.`}`;
}

const MAX_NAMES_TOLD = 20;

function unreadableFact(paths: readonly string[]): string | undefined {
  if (paths.length === 0) return undefined;
  return `${paths.length} directories could not be read: ${namesOf(paths)}`;
}

function largeFact(paths: readonly string[]): string | undefined {
  if (paths.length === 0) return undefined;
  return `too large to be shown with all that is below: ${namesOf(paths)}; list each by its own path`;
}

function namesOf(paths: readonly string[]): string {
  const names = paths.slice(0, MAX_NAMES_TOLD).map((path) => quoteName(path));
  const more = paths.length - names.length;
  return `${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** `stat_path` returns all of it. */
const MAX_TARGET_CHARACTERS = 512;
const LETTERS = { file: "-", directory: "d", symlink: "l", other: "?" } as const satisfies Record<
  Entry["type"],
  string
>;

function formatEntry(entry: Entry): string {
  const time = entry.modifiedAt?.toISOString().slice(0, 19) ?? "-";
  const path = `${quoteName(entry.path)}${targetOf(entry)}`;
  return `${LETTERS[entry.type]} ${entry.sizeBytes} ${time}Z ${path}`;
}

function targetOf({ type, symlinkTarget }: Entry): string {
  if (symlinkTarget !== undefined) {
    return ` -> ${quoteName(cutText(symlinkTarget, MAX_TARGET_CHARACTERS))}`;
  }
  return type === "symlink" ? " (broken link)" : "";
}
