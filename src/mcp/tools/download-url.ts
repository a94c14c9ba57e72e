/** Tool: a link by which a human or another program can read a file. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import type { SandboxDetailBody } from "../../wire/control.ts";
import { MAX_TIMEOUT_SECONDS, pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { asleepNote } from "../replies/facts.ts";
import { OF_SESSION, recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

/** Our daemon takes no signature for another one; those of other services may. */
const SIGNED_USER = /^[a-z_][a-z0-9_-]{0,31}$/;
const OPEN = "Whoever has the link can read the file.";
const ODD_USER =
  "A service may take no link for a user of this name: leave user out and give an absolute path.";
const UNSIGNED =
  "The sandbox asks for no token, so expires_seconds does not count: the link works as long as the sandbox.";

export const downloadUrl = defineTool({
  name: "download_url",
  title: "Make a download link",
  description:
    "Makes a link to a file of the sandbox for a human or another program; anyone with the link " +
    "can read the file until the link expires or the sandbox ends. The call does not check that " +
    "the file exists. To read a file yourself use read_file.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    path: pathInput("File in the sandbox, absolute or relative to the user's home."),
    expires_seconds: z
      .int()
      .min(1)
      .max(MAX_TIMEOUT_SECONDS)
      .default(3_600)
      .describe("Lifetime of the link."),
    user: userInput(),
  }),
  output: z.object({ url: z.string(), expires_at: z.string(), note: z.string() }),
  annotations: { ...READ_ONLY, idempotentHint: false, openWorldHint: true },
  async handler({ sandbox_id: sandboxId, path, expires_seconds: seconds, user }, context) {
    const sandbox = await context.attach(sandboxId);
    // The sandbox may have ended or been paused since this server asked for its access.
    const detail = await context.service.control.get(sandbox.id, context.signal);
    const expiration = Math.floor(context.service.now() / 1_000) + seconds;
    const link = await context.service.downloadUrl(sandbox.id, { path, user, expiration });
    if (link === undefined) {
      const message = "the service of this sandbox has no address that others can reach";
      const hint = context.suggest("read_file", "Use read_file, with encoding=base64 for bytes.");
      throw new SandboxError("failed_precondition", message, { hint });
    }
    const notes = [
      OPEN,
      link.isOfSession ? OF_SESSION : undefined,
      link.isSigned ? undefined : UNSIGNED,
      link.isSigned && user !== undefined && !SIGNED_USER.test(user) ? ODD_USER : undefined,
      asleepNote(detail, context.suggest) ??
        (link.isSigned ? lifeNote(detail, expiration) : undefined),
    ];
    return recordReply({
      url: link.url,
      expires_at: link.isSigned ? new Date(expiration * 1_000).toISOString() : detail.endAt,
      note: notes.filter((note) => note !== undefined).join(" "),
    });
  },
});

/** A link that its sandbox does not outlive. */
function lifeNote(detail: SandboxDetailBody, expiration: number): string | undefined {
  const { state, endAt, lifecycle } = detail;
  const isWoken = lifecycle?.autoResume === true;
  if (state === "paused" || isWoken || !(Date.parse(endAt) < expiration * 1_000)) return undefined;
  const end = lifecycle?.onTimeout === "pause" ? "is paused" : "ends";
  return `The sandbox ${end} before that, at ${endAt}, and the link stops working then.`;
}
