/** Tool: removes a file or a whole tree. */

import { posix } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { expiryFact } from "../replies/facts.ts";
import { textReply } from "../replies/respond.ts";
import { IDEMPOTENT_DESTRUCTIVE, defineTool } from "../tool.ts";

/** The root and whole home directories are refused. */
const REFUSED_PATTERN = /^\/(?:root|home(?:\/[^/]*)?)?$/;
/** Stand for the home of any user: that of root is a level higher. */
const SOME_HOMES = ["/home/user", "/root"] as const;

export const removePath = defineTool({
  name: "remove_path",
  title: "Remove a path",
  description:
    "Removes a file, a link or a whole directory tree from the sandbox, for good. A link is " +
    "removed, its target stays. A path that is not there is no error, and the reply is the " +
    "same. The root and the home directories are refused.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    path: pathInput("Path in the sandbox, absolute or relative to the user's home."),
    user: userInput(),
  }),
  annotations: IDEMPOTENT_DESTRUCTIVE,
  async handler({ sandbox_id: sandboxId, path, user }, context) {
    if (SOME_HOMES.some((home) => REFUSED_PATTERN.test(absolutePath(path, home)))) {
      const hint = "Give a path below it.";
      throw new SandboxError("invalid_argument", `${quoteName(path)} is not removed as a whole`, {
        hint,
      });
    }
    const sandbox = await context.attach(sandboxId);
    await sandbox.filesystem.remove(path, { signal: context.signal, user });
    return textReply([
      `removed, or was absent: ${quoteName(path)}`,
      expiryFact(context, sandboxId),
    ]);
  },
});

/** The normalized path, so that a refused one cannot be written in another way. */
function absolutePath(path: string, home: string): string {
  const below = path.replace(/^~(?=\/|$)/, ".");
  const absolute = path.startsWith("/") ? path : `${home}/${below}`;
  return posix.normalize(absolute).replace(/(?<=.)\/+$/, "");
}
