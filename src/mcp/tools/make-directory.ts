/** Tool: makes a directory. */

import { hasErrorCode } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { textReply } from "../replies/respond.ts";
import { IDEMPOTENT, defineTool } from "../tool.ts";

export const makeDirectory = defineTool({
  name: "make_directory",
  title: "Make a directory",
  description:
    "Makes a directory in the sandbox, with missing parents. An existing directory is " +
    "not an error. Not needed before write_file, which makes parents itself.",
  toolset: "all",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    path: pathInput("Directory, absolute or relative to the user's home."),
    user: userInput(),
  }),
  annotations: IDEMPOTENT,
  async handler({ sandbox_id: sandboxId, path, user }, context) {
    const sandbox = await context.attach(sandboxId);
    const options = { signal: context.signal, user };
    const making = withHints(sandbox.filesystem.makeDir(path, options), {
      invalid_argument: `Something that is no directory stands at ${quoteName(path)} or above it.`,
    });
    const outcome = await making.then(
      () => "made",
      (error: unknown) => {
        if (hasErrorCode(error, "already_exists")) return "was there";
        throw error;
      },
    );
    return textReply([`${outcome}: ${quoteName(path)}`, expiryFact(context, sandboxId)]);
  },
});
