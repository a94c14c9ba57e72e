/** Tool: replaces an exact string in a file. */

import type { Sandbox } from "../../client/envd.ts";
import { SandboxError } from "../../common/errors.ts";
import { throwIfCanceled } from "../../common/or-canceled.ts";
import { z } from "../../common/schema.ts";
import { unexpectedReply } from "../../common/unexpected-reply.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { encodingGuess, guessEncoding } from "../files/file-text.ts";
import { replaceText } from "../files/replace-text.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { pathHints, withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { textReply } from "../replies/respond.ts";
import { DESTRUCTIVE, defineTool, type ToolContext } from "../tool.ts";

/** The file is read and written whole. */
const MAX_FILE_BYTES = 5_000_000;
const MAX_STRING_CHARACTERS = 1_000_000;
const MAX_LINES_TOLD = 10;
/** Each other server makes one change at a time, and may be the faster one many times in a row. */
const MAX_ATTEMPTS = 30;
/** Hosts give up after a minute; a slow service gets no further attempt so late. */
const MAX_EDITING_MS = 25_000;

const input = z.strictObject({
  sandbox_id: sandboxIdInput(),
  path: pathInput("File in the sandbox, absolute or relative to the user's home."),
  old_string: z.string().min(1).max(MAX_STRING_CHARACTERS).describe("Text to replace, exactly."),
  new_string: z.string().max(MAX_STRING_CHARACTERS).describe("Text to put in its place."),
  replace_all: z.boolean().default(false).describe("Replace every occurrence, not a single one."),
  user: userInput(),
});

type Params = z.output<typeof input>;

export const editFile = defineTool({
  name: "edit_file",
  title: "Edit a file",
  description:
    "Replaces old_string by new_string in a text file of the sandbox. The string must occur " +
    "exactly once, including white space, unless replace_all is set; add surrounding lines to " +
    "make it unique. Line ends match whatever the file has, and are kept. Use it for small changes; to write a whole file use write_file. There is " +
    "no lock: a change that a program makes at the same moment is lost.",
  toolset: "core",
  input,
  annotations: DESTRUCTIVE,
  async handler(params, context) {
    const sandbox = await context.attach(params.sandbox_id);
    // Hosts make several calls at once; two of them may name one file by different paths.
    const edit = await context.state.edits.run(sandbox.id, async () =>
      writeEdit(sandbox, params, context),
    );
    return textReply([
      `replaced ${edit.count} of ${edit.count} occurrences in ${quoteName(params.path)}`,
      `lines: ${formatLines(edit.lines)}`,
      edit.fact,
      expiryFact(context, params.sandbox_id),
    ]);
  },
});

/** Again for a file that another server, or a program, has changed since it was read. */
async function writeEdit(sandbox: Sandbox, params: Params, context: ToolContext) {
  const { signal } = context;
  const late = context.waitLimit(MAX_EDITING_MS);
  for (let attempt = 0; attempt === 0 || (attempt < MAX_ATTEMPTS && !late.aborted); attempt += 1) {
    throwIfCanceled(signal);
    const before = await readBytes(sandbox, params, context);
    const edit = replaceText(toText(before, params, context), params);
    checkCount(edit.count, params);
    const { path, user } = await placeOf(sandbox, params, context);
    const change = { before, after: Buffer.from(edit.after, "utf8") };
    if (await sandbox.files.replace(path, change, { signal, user })) return edit;
  }
  // At its end the server gives up its waits, so that their calls are answered.
  if (context.state.leaving.signal.aborted) {
    const message = `this server ends, and ${quoteName(params.path)} was not edited: it had changed meanwhile`;
    throw new SandboxError("unavailable", message, { hint: "Call again." });
  }
  const message = `${quoteName(params.path)} changes all the time, and was not edited`;
  const hint = "Call again when the program or the other client that writes the file has ended.";
  throw new SandboxError("failed_precondition", message, { hint });
}

/** A write gives the file to its user: that is the owner, if the owner has a name. */
async function placeOf({ filesystem }: Sandbox, { path, user }: Params, { signal }: ToolContext) {
  const named = await filesystem.stat(path, { signal, user });
  const { symlinkTarget = "" } = named;
  const file =
    symlinkTarget === "" ? named : await filesystem.stat(symlinkTarget, { signal, user });
  return /^[0-9]*$/.test(file.owner) ? { path, user } : { path: file.path, user: file.owner };
}

async function readBytes(sandbox: Sandbox, params: Params, context: ToolContext): Promise<Buffer> {
  const { path, user } = params;
  const range = { offset: 0, limit: MAX_FILE_BYTES + 1 };
  const reading = sandbox.files.read(path, range, { signal: context.signal, user });
  const { bytes, sizeBytes = 0 } = await withHints(reading, pathHints(path, context.suggest));
  if (bytes.length > MAX_FILE_BYTES) {
    const hint = context.suggest("run_process", "Use sed with run_process.");
    const message = `${quoteName(path)} is larger than ${MAX_FILE_BYTES} bytes`;
    throw new SandboxError("invalid_argument", message, { hint });
  }
  if (bytes.length < sizeBytes) {
    const subject = `read ${quoteName(path)}`;
    throw unexpectedReply(`it has ${bytes.length} of ${sizeBytes} bytes`, { subject });
  }
  return bytes;
}

function toText(bytes: Buffer, { path }: Params, context: ToolContext): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    const encoding = guessEncoding({ bytes, offset: 0, isCut: false });
    const guess = encoding === undefined ? "it is binary" : encodingGuess(encoding);
    const message = `${quoteName(path)} is not UTF-8 text: ${guess}`;
    const hint = context.suggest("run_process", "Convert it with iconv by run_process first.");
    throw new SandboxError("invalid_argument", message, { cause: error, hint });
  }
}

function checkCount(count: number, params: Params): void {
  if (count === 0) {
    const hint = "Read it again: white space counts.";
    throw new SandboxError("not_found", `old_string does not occur in ${quoteName(params.path)}`, {
      hint,
    });
  }
  if (count > 1 && !params.replace_all) {
    const message = `old_string occurs ${count} times in ${quoteName(params.path)}`;
    const hint = "Add surrounding lines or set replace_all.";
    throw new SandboxError("failed_precondition", message, { hint });
  }
}

/** Where the new text begins, in lines of the new file. */
function formatLines(lines: readonly number[]): string {
  const more = lines.length - MAX_LINES_TOLD;
  return lines.slice(0, MAX_LINES_TOLD).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
