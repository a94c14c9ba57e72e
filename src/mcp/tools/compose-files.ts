/** Tool: joins files in order. */

import type { CallOptions } from "../../client/access.ts";
import type { Sandbox } from "../../client/envd.ts";
import { createGate } from "../../common/concurrency.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { textReply } from "../replies/respond.ts";
import { DESTRUCTIVE, defineTool } from "../tool.ts";

const MAX_SOURCES = 100;

export const composeFiles = defineTool({
  name: "compose_files",
  title: "Compose files",
  description:
    "Joins files of the sandbox, in the given order, into one, and then deletes the sources. The " +
    "destination is replaced as a whole; if anything fails, nothing is changed. Use it to put " +
    "together a large file that was written in parts. A repeat fails, because the sources are " +
    "gone. To keep the sources, run cat with run_process.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    sources: z
      .array(pathInput("File to join."))
      .min(1)
      .max(MAX_SOURCES)
      .describe("Files to join, in order; they are deleted."),
    destination: pathInput("File to make; none of the sources."),
    user: userInput(),
  }),
  annotations: DESTRUCTIVE,
  async handler({ sandbox_id: sandboxId, sources, destination, user }, context) {
    const sandbox = await context.attach(sandboxId);
    const options = { signal: context.signal, user };
    const composing = sandbox.files.compose(sources, destination, options);
    const record = await withHints(named(composing, { sandbox, sources, options }), {
      invalid_argument: "Sources must be files other than the destination; nothing was changed.",
      unimplemented: context.suggest("run_process", "Join the files by cat with run_process."),
    });
    return textReply([
      `joined ${sources.length} files into ${quoteName(record.path)}`,
      await deletionFact({ sandbox, sources, options }),
      expiryFact(context, sandboxId),
    ]);
  },
});

const MAX_LOOKS = 8;
const MAX_NAMES_TOLD = 20;

/** A service tells no fault of a deletion, as of a file that is mounted or cannot change. */
async function deletionFact({ sandbox, sources, options }: Composition): Promise<string> {
  const gate = createGate(MAX_LOOKS);
  const look = async (source: string) => {
    try {
      await gate.run(() => sandbox.filesystem.stat(source, options));
      return true;
    } catch (error) {
      if (hasErrorCode(error, "not_found")) return false;
      throw error;
    }
  };
  let isThere: readonly boolean[];
  try {
    isThere = await Promise.all(sources.map((source) => look(source)));
  } catch {
    // The file is made all the same.
    return "whether the sources are deleted is not known";
  }
  const left = sources.filter((_, index) => isThere[index]);
  if (left.length === 0) return "the sources are deleted";
  const names = left.slice(0, MAX_NAMES_TOLD).map((source) => quoteName(source));
  const more = left.length - names.length;
  return `sources that are still there: ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

interface Composition {
  readonly sandbox: Sandbox;
  readonly sources: readonly string[];
  readonly options: CallOptions;
}

/** Adds the missing source to a refusal; without one, the service cannot compose. */
async function named<T>(composing: Promise<T>, composition: Composition): Promise<T> {
  try {
    return await composing;
  } catch (error) {
    if (!(error instanceof SandboxError) || !MISSING_CODES.has(error.code)) throw error;
    const missing = await findMissing(composition);
    if (missing === undefined) {
      throw new SandboxError("unimplemented", error.message, { cause: error });
    }
    const hint = "Nothing was changed.";
    throw new SandboxError("not_found", `source ${quoteName(missing)} is missing`, {
      cause: error,
      hint,
    });
  }
}

/** By the code alone, a missing route is not told from a missing source. */
const MISSING_CODES: ReadonlySet<string> = new Set(["not_found", "unimplemented"]);

async function findMissing({
  sandbox,
  sources,
  options,
}: Composition): Promise<string | undefined> {
  for (const source of sources) {
    try {
      await sandbox.filesystem.stat(source, options);
    } catch (error) {
      if (hasErrorCode(error, "not_found")) return source;
      throw error;
    }
  }
  return undefined;
}
