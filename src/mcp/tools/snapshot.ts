/** Tool: saves the state of a running sandbox as a template for new ones. */

import type { Control } from "../../client/control.ts";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { makeOrAbandon } from "../abandoned.ts";
import { refuseBuiltInName } from "../built-in-names.ts";
import { sandboxIdInput } from "../inputs.ts";
import { onOptionalRoute, requireRunning } from "../replies/error-hints.ts";
import { sandboxExpiryField, processesField } from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { ADDITIVE, defineTool, type Suggest, type ToolContext } from "../tool.ts";

export const snapshot = defineTool({
  name: "snapshot",
  title: "Snapshot a sandbox",
  description:
    "Saves the state of a running sandbox and returns a snapshot_id, from which create_sandbox " +
    "starts any number of new sandboxes. All files come along; the reply states if running " +
    "processes do, as with isolation gvisor, else start programs again. Environment, metadata " +
    "and network come from the new call. The sandbox itself runs on. A name that exists gets a " +
    "new version.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    name: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe("Name to find it by: alias or alias:tag, of a-z, 0-9, - and _."),
  }),
  output: z.object({
    snapshot_id: z.string(),
    names: z.array(z.string()),
    processes: z.string().optional(),
    next: z.string(),
    sandbox_expires_at: z.string().optional(),
  }),
  annotations: ADDITIVE,
  async handler({ sandbox_id: sandboxId, name }, context) {
    const { signal, suggest } = context;
    const { control } = context.service;
    if (name !== undefined) {
      refuseBuiltInName(name);
      await refuseTemplateName(name, context);
    }
    const keep = suggest("download_url", " Keep files: pack them by tar, then use download_url.");
    const body = await onOptionalRoute(
      name === undefined
        ? makeOrAbandon(unnamed(sandboxId, control), context)
        : control.snapshot(sandboxId, name, signal),
      `The sandbox service cannot snapshot.${keep}`,
      () => requireRunning(sandboxId, context),
    );
    return recordReply({
      snapshot_id: body.snapshotID,
      names: body.names,
      ...processesField(body),
      next: nextStep(body.snapshotID, suggest),
      ...sandboxExpiryField(context, sandboxId),
    });
  },
});

/**
 * The snapshot would become the newest version of that template, from which all clients start.
 * @throws SandboxError invalid_argument
 */
async function refuseTemplateName(
  name: string,
  { service: { control }, signal }: Pick<ToolContext, "service" | "signal">,
): Promise<void> {
  const reference = name.split(":", 1)[0] ?? name;
  // A service that does not answer this may take the name all the same.
  const isTaken = await control.resolveReference(reference, signal).then(
    () => true,
    () => false,
  );
  if (!isTaken) return;
  const filter = { name: reference, limit: 1 };
  const earlier = await control.snapshots(filter, signal).catch(() => undefined);
  if (earlier?.snapshots.length !== 0) return;
  throw new SandboxError("invalid_argument", `${quoteName(reference)} is a template`, {
    hint: "Choose another name: its versions are made by build_template.",
  });
}

type Taken = Awaited<ReturnType<Control["snapshot"]>>;

/** A caller that cancels never learns its id. One with a name is found by it, or a version of others. */
function unnamed(sandboxId: string, control: Control) {
  return {
    make: (signal: AbortSignal) => control.snapshot(sandboxId, undefined, signal),
    remove: ({ snapshotID }: Taken, signal: AbortSignal) =>
      control.deleteTemplate(snapshotID, signal),
  };
}

function nextStep(snapshotId: string, suggest: Suggest): string {
  const create = `create_sandbox(template=${JSON.stringify(snapshotId)}) starts a sandbox from it`;
  return suggest("create_sandbox", create) || "a sandbox can be started from it";
}
