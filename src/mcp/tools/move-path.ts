/** Tool: moves or renames a file or a tree. */

import { posix } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { hinted, pathHints, withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { textReply } from "../replies/respond.ts";
import { DESTRUCTIVE, defineTool, type ToolContext } from "../tool.ts";

export const movePath = defineTool({
  name: "move_path",
  title: "Move a path",
  description:
    "Moves or renames a file, link or directory tree within the sandbox, making missing parents " +
    "of the destination. An existing file at the destination is replaced without confirmation; " +
    "an existing directory is an error: name the full new path, not the directory to move into.",
  toolset: "all",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    source: pathInput("What to move, absolute or relative to the user's home."),
    destination: pathInput("Its full new path."),
    user: userInput(),
  }),
  annotations: DESTRUCTIVE,
  async handler({ sandbox_id: sandboxId, source, destination, user }, context) {
    const sandbox = await context.attach(sandboxId);
    const options = { signal: context.signal, user };
    const hints = pathHints(source, context.suggest);
    try {
      await withHints(sandbox.filesystem.move(source, destination, options), hints);
    } catch (error) {
      // Without a source it makes no difference what stands at the destination.
      if (!(error instanceof SandboxError) || error.code === "not_found") throw error;
      if (!(await isDirectory({ sandboxId, destination, user }, context))) throw error;
      const message = `${quoteName(destination)} is a directory`;
      const full = posix.join(destination, posix.basename(source));
      const refusal = new SandboxError("invalid_argument", message, { cause: error });
      throw hinted(refusal, `Give the full target, e.g. ${quoteName(full)}.`);
    }
    return textReply([
      `moved: ${quoteName(source)} -> ${quoteName(destination)}`,
      expiryFact(context, sandboxId),
    ]);
  },
});

interface Target {
  readonly sandboxId: string;
  readonly destination: string;
  readonly user: string | undefined;
}

/** Whether the destination is a directory, for which the wire has no code. */
async function isDirectory(target: Target, context: ToolContext): Promise<boolean> {
  const { signal } = context;
  const sandbox = await context.attach(target.sandboxId);
  const looking = sandbox.filesystem.stat(target.destination, { signal, user: target.user });
  // The move has failed already; this call only refines its error.
  return looking.then(
    (entry) => entry.type === "directory",
    () => false,
  );
}
