/** The fields of Kubernetes objects that are read, and the labels by which they are found. */

import { z } from "../../common/schema.ts";

/** Everything that this program makes has it. */
export const MANAGED = "app.kubernetes.io/managed-by";
export const MANAGER = "sandbox-mcp";
/** What an object is: `sandbox`, `pool` or `front`. */
export const PART = "sandbox-mcp.io/part";

export function partLabels(part: string) {
  return { [MANAGED]: MANAGER, [PART]: part };
}

/** What a list or a watch of the objects of one part selects. */
export function partSelector(part: string): string {
  return `${MANAGED}=${MANAGER},${PART}=${part}`;
}

const metadataSchema = z.object({
  name: z.string(),
  uid: z.string(),
  resourceVersion: z.string(),
  creationTimestamp: z.string().optional(),
  deletionTimestamp: z.string().optional(),
  deletionGracePeriodSeconds: z.number().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
});

/** Of a PersistentVolumeClaim, whose state is of no interest: its Pods wait for it. */
export const claimSchema = z.object({ metadata: metadataSchema });

export const configMapSchema = z.object({
  metadata: metadataSchema,
  data: z.record(z.string(), z.string()).optional(),
});

/** That of a sandbox: a webhook of the cluster may add others to its Pod, in any place. */
export const CONTAINER_NAME = "sandbox";

const containerStatusSchema = z.object({
  name: z.string().optional(),
  ready: z.boolean().optional(),
  imageID: z.string().optional(),
  state: z
    .object({
      waiting: z
        .object({ reason: z.string().optional(), message: z.string().optional() })
        .optional(),
      terminated: z.object({ reason: z.string().optional() }).optional(),
    })
    .optional(),
});

export const podSchema = z.object({
  metadata: metadataSchema,
  spec: z
    .object({
      hostUsers: z.boolean().optional(),
      runtimeClassName: z.string().optional(),
      nodeName: z.string().optional(),
      containers: z
        .array(z.object({ name: z.string().optional(), image: z.string().optional() }))
        .optional(),
    })
    .optional(),
  status: z
    .object({
      phase: z.string().optional(),
      reason: z.string().optional(),
      message: z.string().optional(),
      podIP: z.string().optional(),
      containerStatuses: z.array(containerStatusSchema).optional(),
      conditions: z
        .array(
          z.object({
            type: z.string(),
            status: z.string(),
            reason: z.string().optional(),
            message: z.string().optional(),
          }),
        )
        .optional(),
    })
    .optional(),
});

export type Pod = z.infer<typeof podSchema>;

export const leaseSchema = z.object({
  metadata: metadataSchema,
  spec: z
    .object({
      holderIdentity: z.string().optional(),
      leaseDurationSeconds: z.number().optional(),
      renewTime: z.string().optional(),
    })
    .optional(),
});

export type Lease = z.infer<typeof leaseSchema>;

/** The address of a Pod whose sandbox runs, and that is not being removed. */
export function addressOf(pod: Pod): string | undefined {
  const { status } = pod;
  return status?.phase === "Running" && endOf(pod) === undefined ? status.podIP : undefined;
}

/** The image of its sandbox as it was named, and as the node has it. */
export function imageOf({ spec }: Pod): string | undefined {
  return spec?.containers?.find(({ name }) => name === CONTAINER_NAME)?.image;
}

export function imageIdOf(pod: Pod): string | undefined {
  return statusOf(pod)?.imageID;
}

function statusOf({ status }: Pod): z.infer<typeof containerStatusSchema> | undefined {
  return status?.containerStatuses?.find(({ name }) => name === CONTAINER_NAME);
}

/** Why a Pod will never run again; undefined while it may. */
export function endOf(pod: Pod): string | undefined {
  const { metadata, status } = pod;
  // Containers beside that of the sandbox may outlive it.
  const terminated = statusOf(pod)?.state?.terminated;
  if (terminated !== undefined || status?.phase === "Failed" || status?.phase === "Succeeded") {
    return status?.reason ?? terminated?.reason ?? "its Pod ended";
  }
  return metadata.deletionTimestamp === undefined ? undefined : "its Pod was deleted";
}

/** Reasons for which a kubelet waits and that do not pass while a client waits for a create. */
const HOPELESS: ReadonlySet<string> = new Set([
  "ErrImageNeverPull",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
  "ImagePullBackOff",
]);

/** What keeps a Pod from starting, where it does not pass by itself. */
export function startFaultOf(pod: Pod): string | undefined {
  const { reason, message = "" } = statusOf(pod)?.state?.waiting ?? {};
  if (reason !== undefined && HOPELESS.has(reason)) return `${reason}: ${message.slice(0, 200)}`;
  return endOf(pod);
}

/** What a Pod that does not run yet waits for, as far as the cluster says. */
export function waitOf(pod: Pod): string | undefined {
  if (pod.metadata.deletionTimestamp !== undefined) return "its last Pod is still being removed";
  const scheduling = schedulingFaultOf(pod);
  if (scheduling !== undefined) return scheduling;
  const { reason, message } = statusOf(pod)?.state?.waiting ?? {};
  return message === undefined ? reason : `${reason}: ${message.slice(0, 200)}`;
}

/** What the scheduler says of a Pod that has no node. */
function schedulingFaultOf({ status }: Pod): string | undefined {
  const condition = status?.conditions?.find(({ type }) => type === "PodScheduled");
  return condition?.status === "False" ? condition.message?.slice(0, 200) : undefined;
}
