/** Tool: joins files in order. */

import { z } from "../../common/schema.ts";
import { expiryFact } from "../expiry.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { textReply } from "../respond.ts";
import { withHints } from "../steer.ts";
import { defineTool } from "../tool.ts";

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
  annotations: {
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: false,
    openWorldHint: false,
  },
  async handler({ sandbox_id: sandboxId, sources, destination, user }, context) {
    const sandbox = await context.attach(sandboxId);
    const composing = sandbox.files.compose(sources, destination, { signal: context.signal, user });
    const record = await withHints(composing, {
      not_found: "A source is missing; nothing was changed.",
      invalid_argument: "Sources must be files other than the destination; nothing was changed.",
    });
    return textReply([
      `joined ${sources.length} files into ${record.path}`,
      "the sources are deleted",
      expiryFact(context, sandboxId),
    ]);
  },
});
