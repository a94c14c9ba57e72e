/** Tool: facts about one path. */

import { z } from "../../common/schema.ts";
import { pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { pathHints, withHints } from "../replies/error-hints.ts";
import { sandboxExpiryField } from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

export const statPath = defineTool({
  name: "stat_path",
  title: "Describe a path",
  description:
    "Returns type, size, mode, owner and time of one path in the sandbox. Of a symbolic link the " +
    "type is the target's (symlink if broken), the rest its own. Use it to check whether a path " +
    "exists; for the content of a directory use list_directory.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    path: pathInput("Path in the sandbox, absolute or relative to the user's home."),
    user: userInput(),
  }),
  output: z.object({
    path: z.string(),
    type: z.enum(["file", "directory", "symlink", "other"]),
    size: z.number(),
    permissions: z.string(),
    owner: z.string(),
    group: z.string(),
    modified_at: z.string().optional(),
    symlink_target: z.string().optional(),
    sandbox_expires_at: z.string().optional(),
  }),
  annotations: READ_ONLY,
  async handler({ sandbox_id: sandboxId, path, user }, context) {
    const sandbox = await context.attach(sandboxId);
    const looking = sandbox.filesystem.stat(path, { signal: context.signal, user });
    const entry = await withHints(looking, pathHints(path, context.suggest));
    const { modifiedAt, symlinkTarget } = entry;
    return recordReply({
      path: entry.path,
      type: entry.type,
      size: entry.sizeBytes,
      permissions: entry.permissions,
      owner: entry.owner,
      group: entry.group,
      ...(modifiedAt !== undefined && { modified_at: modifiedAt.toISOString() }),
      ...(symlinkTarget !== undefined && { symlink_target: symlinkTarget }),
      ...sandboxExpiryField(context, sandboxId),
    });
  },
});
