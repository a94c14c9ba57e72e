/**
 * What an operator adds to the Pods of sandboxes: placement, labels, requests, a runtime class. A
 * field that could weaken the isolation of a sandbox is refused, not ignored.
 */

import { SandboxError } from "../../common/errors.ts";
import { faultsOf, z } from "../../common/schema.ts";
import { CONTAINER_NAME } from "../api/objects.ts";

/** A number is as good as its text. */
const quantity = z
  .union([z.number(), z.string()])
  .transform(String)
  .pipe(z.string().regex(/^[0-9]+(?:\.[0-9]+)?(?:m|[kKMGT]i?)?$/, "expected a quantity"));
const quantities = z.record(z.enum(["cpu", "memory", "ephemeral-storage"]), quantity);

/** Kubernetes checks the values of fields that are passed as they are. */
const passed = z.unknown();
const labels = z
  .record(z.string(), z.string())
  .refine(
    (entries) => !Object.keys(entries).some((key) => key.startsWith("sandbox-mcp.io/")),
    "labels of sandbox-mcp.io/ are set by the service",
  );

const podTemplateSchema = z.strictObject({
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
 * The template that a file holds.
 * @throws SandboxError failed_precondition for a field that it may not set, or of another type.
 */
export function toPodTemplate(value: unknown, name: string): PodTemplate {
  const parsed = podTemplateSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const message = `pod template ${name}: ${faultsOf(parsed.error)}`;
  throw new SandboxError("failed_precondition", message, {
    hint: "docs/kubernetes.md lists the fields that a template may set",
  });
}
