/** Tool: creates or replaces a file. */

import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { decodeContent, pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { textReply } from "../replies/respond.ts";
import { IDEMPOTENT_DESTRUCTIVE, defineTool } from "../tool.ts";

const MAX_CONTENT_CHARACTERS = 3_000_000;

export const writeFile = defineTool({
  name: "write_file",
  title: "Write a file",
  description:
    "Creates a file in the sandbox, with its parent directories, or replaces a whole file; an " +
    "existing file keeps its mode. The content appears at once. It cannot append: for that, or " +
    "for another mode, use run_process. Larger files can be written in parts and joined with compose_files.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    path: pathInput("File in the sandbox, absolute or relative to the user's home."),
    content: z.string().max(MAX_CONTENT_CHARACTERS).describe("The whole content."),
    encoding: z.enum(["utf8", "base64"]).default("utf8").describe("How content is written."),
    user: userInput(),
  }),
  annotations: IDEMPOTENT_DESTRUCTIVE,
  async handler(params, context) {
    const { sandbox_id: sandboxId, path, content, encoding, user } = params;
    const bytes = decodeContent("content", content, encoding);
    const sandbox = await context.attach(sandboxId);
    const options = { signal: context.signal, user };
    const record = await withHints(sandbox.files.write(path, bytes, options), {
      invalid_argument: "Give the whole path of a file.",
    });
    const facts = [
      `wrote ${bytes.length} bytes to ${quoteName(record.path)}`,
      expiryFact(context, sandboxId),
    ];
    return textReply(facts);
  },
});
