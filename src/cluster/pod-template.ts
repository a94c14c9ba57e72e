/**
 * What an operator adds to the Pods of sandboxes: placement, labels, requests, a runtime class. A
 * field that could weaken the isolation of a sandbox is refused, not ignored.
 */

import { SandboxError } from "../common/errors.ts";
import { faultsOf, z } from "../common/schema.ts";

/** The container that an entry of `spec.containers` must name. */
export const CONTAINER_NAME = "sandbox";

const quantities = z.record(
  z.enum(["cpu", "memory", "ephemeral-storage"]),
  z.string().regex(/^[0-9]+(?:\.[0-9]+)?(?:m|[kKMGT]i?)?$/, "expected a quantity"),
);

/** Kubernetes checks the values of fields that are passed as they are. */
const passed = z.unknown();
const labels = z
  .record(z.string(), z.string())
  .refine(
    (entries) => !Object.keys(entries).some((key) => key.startsWith("sandbox-mcp.io/")),
    "labels of sandbox-mcp.io/ are set by the service",
  );

export const podTemplateSchema = z.strictObject({
  apiVersion: z.literal("v1").optional(),
  kind: z.enum(["Pod", "PodTemplate"]).optional(),
  metadata: z
    .strictObject({
      labels: labels.optional(),
      annotations: z.record(z.string(), z.string()).optional(),
    })
    .optional(),
  spec: z
    .strictObject({
      affinity: passed.optional(),
      containers: z
        .array(
          z.strictObject({
            name: z.literal(CONTAINER_NAME),
            resources: z
              .strictObject({
                requests: z.partialRecord(quantities.keyType, quantities.valueType).optional(),
              })
              .optional(),
          }),
        )
        .max(1)
        .optional(),
      dnsConfig: passed.optional(),
      dnsPolicy: z.enum(["Default", "ClusterFirst", "None"]).optional(),
      imagePullSecrets: z.array(z.strictObject({ name: z.string() })).optional(),
      nodeSelector: z.record(z.string(), z.string()).optional(),
      priorityClassName: z.string().optional(),
      runtimeClassName: z.string().optional(),
      schedulerName: z.string().optional(),
      tolerations: z.array(passed).optional(),
      topologySpreadConstraints: z.array(passed).optional(),
    })
    .optional(),
});

export type PodTemplate = z.infer<typeof podTemplateSchema>;

/**
 * The template of a file in JSON.
 * @throws SandboxError failed_precondition for any other text, or for a field that it may not set.
 */
export function parsePodTemplate(text: string, name: string): PodTemplate {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new SandboxError("failed_precondition", `pod template ${name} is no JSON`, {
      cause: error,
      hint: "convert YAML by `kubectl create --dry-run=client -o json -f FILE`",
    });
  }
  const parsed = podTemplateSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const message = `pod template ${name}: ${faultsOf(parsed.error)}`;
  throw new SandboxError("failed_precondition", message, {
    hint: "docs/kubernetes.md lists the fields that a template may set",
  });
}
