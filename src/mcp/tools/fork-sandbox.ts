/** Tool: copies of a running sandbox. */

import { z } from "../../common/schema.ts";
import { cutText, oneLine } from "../../common/untrusted-text.ts";
import type { ForkResultBody } from "../../wire/control.ts";
import { makeSandboxes } from "../abandoned.ts";
import { MAX_TIMEOUT_SECONDS, sandboxIdInput } from "../inputs.ts";
import { onOptionalRoute, requireRunning } from "../replies/error-hints.ts";
import { processesField } from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { ADDITIVE, defineTool } from "../tool.ts";

const MAX_COPIES = 100;
const MAX_REASON_CHARACTERS = 300;

const NO_RESULT: ForkResultBody = {
  error: { code: 500, message: "the service did not answer for this copy" },
};

export const forkSandbox = defineTool({
  name: "fork_sandbox",
  title: "Fork a sandbox",
  description:
    "Makes copies of a running sandbox, each a sandbox of its own with its own expiry; the " +
    "source runs on. All files are copied; the reply states if running processes are too, as " +
    "with isolation gvisor. Use it to try several approaches from one state; to keep a state for " +
    "later use snapshot. Returns one line for each copy: its sandbox_id, or the reason for its " +
    "failure.",
  toolset: "all",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    count: z.int().min(1).max(MAX_COPIES).default(1).describe("Copies to make."),
    timeout_seconds: z
      .int()
      .min(1)
      .max(MAX_TIMEOUT_SECONDS)
      .default(300)
      .describe("Seconds until the timeout of each copy."),
  }),
  output: z.object({
    source: z.string(),
    copies: z.array(z.object({ sandbox_id: z.string().optional(), error: z.string().optional() })),
    processes: z.string().optional(),
    expires_at: z.string().optional(),
  }),
  annotations: ADDITIVE,
  async handler({ sandbox_id: sandboxId, count, timeout_seconds: timeout }, context) {
    const { service, suggest } = context;
    const nextStep = suggest("snapshot", " Use snapshot and create_sandbox for each copy.");
    const results = await onOptionalRoute(
      makeSandboxes(
        {
          make: (signal) => service.control.fork(sandboxId, { count, timeout }, signal),
          idsOf: (copies) => copies.flatMap(({ sandbox }) => sandbox?.sandboxID ?? []),
        },
        context,
      ),
      `The sandbox service cannot fork.${nextStep}`,
      () => requireRunning(sandboxId, context),
    );
    // One result for each copy: of a missing one nothing is known.
    const missing = Array.from({ length: count - results.length }, () => NO_RESULT);
    const [started] = results.flatMap(({ sandbox }) => sandbox ?? []);
    return recordReply({
      source: sandboxId,
      copies: [...results, ...missing].map(({ sandbox, error }) =>
        sandbox === undefined
          ? { error: cutText(oneLine(error?.message ?? "no reason given"), MAX_REASON_CHARACTERS) }
          : { sandbox_id: sandbox.sandboxID },
      ),
      ...(started !== undefined && {
        ...processesField(started),
        expires_at: new Date(service.now() + timeout * 1_000).toISOString(),
      }),
    });
  },
});
