/** What a template gives its sandboxes and no image has: an image that is exported has it in a label. */

import { SandboxError } from "../../common/errors.ts";
import { tryParseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { templateSetupSchema } from "../../store/build-records.ts";
import type { BuildRecord } from "../../store/store.ts";
import { buildRequestSchema } from "../../wire/template-builds.ts";
import { faultOfTexts } from "../template-builds/build-request.ts";

const LABEL = "sandbox-mcp.setup";
/** An image that names this one is one that names none. */
const TOP = "/";

const command = z
  .string()
  .default("")
  .superRefine((text, context) => {
    const fault = faultOfTexts([text]);
    if (fault !== undefined) context.addIssue({ code: "custom", message: fault });
  });

/** Within the bounds of a build; a later version may write more than this one reads. */
const labelSchema = z.object({
  startCommand: command,
  readyCommand: command,
  cpus: buildRequestSchema.shape.cpuCount,
  memoryMb: buildRequestSchema.shape.memoryMB,
  isolation: templateSetupSchema.shape.isolation,
  workdir: z.literal(TOP).optional(),
});

type LabeledSetup = z.infer<typeof labelSchema>;

interface Label {
  readonly name: string;
  readonly value: string;
}

/** The labels of an image with the setup of a build in the place of that of an earlier export. */
export function withSetupLabel(
  labels: readonly Label[],
  { setup, defaultWorkdir }: Pick<BuildRecord, "setup" | "defaultWorkdir">,
): Label[] {
  const { startCommand = "", readyCommand = "", cpus, memoryMb, isolation } = setup ?? {};
  const workdir = defaultWorkdir === TOP ? TOP : undefined;
  const own = { startCommand, readyCommand, cpus, memoryMb, isolation, workdir };
  const others = labels.filter(({ name }) => name !== LABEL);
  const isEmpty = Object.values(own).every((value) => value === undefined || value === "");
  // First, because an import keeps so many labels and no more.
  return isEmpty ? others : [{ name: LABEL, value: JSON.stringify(own) }, ...others];
}

/**
 * What the label says; no commands where there is none, as in archives of other programs.
 * @throws SandboxError failed_precondition for one that is not as this program writes it
 */
export function readSetupLabel(labels: readonly Label[]): LabeledSetup {
  const text = labels.find(({ name }) => name === LABEL)?.value ?? "{}";
  const result = labelSchema.safeParse(tryParseJson(text));
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const where = quoteUntrusted(issue?.path.join(".") ?? "");
  throw new SandboxError(
    "failed_precondition",
    `the image is not valid: its label ${LABEL}: ${where} ${issue?.message ?? ""}`,
  );
}
