/** The Pod of a sandbox: everything that isolates it is set here and nowhere else. */

import { sha256Hex } from "../../common/hash.ts";
import { podInitCommand } from "../../engine/daemon/daemon-command.ts";
import type { ContainerLimits } from "../../engine/engine.ts";
import { VOLUME_OWNER_ID } from "../../sandboxes/volumes/volume-disks.ts";
import { CONTAINER_NAME, partLabels } from "../api/objects.ts";
import type { PodTemplate } from "./pod-template.ts";

/** What root inside may do, bounded by the user namespace; all of it is in the level `baseline`. */
const CAPABILITIES = [
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
] as const;

/** The daemon ends its processes at once; files of a killed sandbox are of no use. */
const GRACE_SECONDS = 1;
/** A sandbox of a silent node is given up after this, not after the five minutes of Kubernetes. */
const NODE_GRACE_SECONDS = 60;
/** A processor of a sandbox is idle most of the time: this share of it is reserved. */
const CPU_REQUEST_MILLI = 100;

/** The hash of all that shapes a Pod; a pooled Pod of another hash is not used. */
export const SHAPE = "sandbox-mcp.io/shape";

/** Where a Pod has a volume, and what that is as a volume of its description, without its name. */
export interface PodMount {
  readonly path: string;
  readonly volume: object;
}

export interface PodPlan {
  readonly image: string;
  readonly limits: ContainerLimits;
  readonly passPublicKey: string;
  readonly template: PodTemplate;
  /** Words for the daemon's command, where snapshots are offered. */
  readonly words?: readonly string[];
  /** Claims of volumes, and where they are seen. */
  readonly mounts?: readonly PodMount[];
}

export interface PodOwner {
  readonly name: string;
  readonly uid: string;
  /** Of a sandbox alone, such as those by which NetworkPolicies select its Pod. */
  readonly podLabels?: Readonly<Record<string, string>>;
}

/** The object to create: of the record of a sandbox, or one without a sandbox. */
export function toPod(plan: PodPlan, name: string, owner: PodOwner | "pool" | "probe"): unknown {
  const { template, mounts = [] } = plan;
  const { containers: _containers, tolerations = [], ...given } = template.spec ?? {};
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      labels: {
        ...template.metadata?.labels,
        ...partLabels(typeof owner === "string" ? owner : "sandbox"),
        [SHAPE]: shapeOf(plan),
        ...(typeof owner !== "string" && owner.podLabels),
      },
      ...(template.metadata?.annotations && { annotations: template.metadata.annotations }),
      ...(typeof owner !== "string" && { ownerReferences: [toReference(owner)] }),
    },
    spec: {
      dnsPolicy: "Default",
      ...given,
      hostUsers: false,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      restartPolicy: "Never",
      terminationGracePeriodSeconds: GRACE_SECONDS,
      securityContext: {
        seccompProfile: { type: "RuntimeDefault" },
        // The default user may write to them, as on one machine.
        ...(mounts.length > 0 && {
          fsGroup: VOLUME_OWNER_ID,
          fsGroupChangePolicy: "OnRootMismatch",
        }),
      },
      tolerations: [...tolerations, ...NODE_TOLERATIONS],
      containers: [toContainer(plan, name)],
      ...(mounts.length > 0 && {
        volumes: mounts.map(({ volume }, index) => ({ ...volume, name: mountName(index) })),
      }),
    },
  };
}

function mountName(index: number): string {
  return `volume-${index}`;
}

/** A Pod belongs to the record of its sandbox: it goes with it. */
export function toReference({ name, uid }: PodOwner) {
  return { apiVersion: "v1", kind: "ConfigMap", name, uid, controller: true };
}

const NODE_TOLERATIONS = ["not-ready", "unreachable"].map((state) => ({
  key: `node.kubernetes.io/${state}`,
  operator: "Exists",
  effect: "NoExecute",
  tolerationSeconds: NODE_GRACE_SECONDS,
}));

function toContainer(plan: PodPlan, name: string) {
  const { image, limits, passPublicKey, template, words, mounts = [] } = plan;
  const { memoryMb, cpus, diskMb } = limits;
  const [given] = template.spec?.containers ?? [];
  const bounds = {
    cpu: String(cpus),
    memory: `${memoryMb}Mi`,
    "ephemeral-storage": `${diskMb}Mi`,
  };
  return {
    name: CONTAINER_NAME,
    image,
    imagePullPolicy: "IfNotPresent",
    command: podInitCommand({ podName: name, passPublicKey, ...(words && { words }) }),
    resources: {
      limits: bounds,
      requests: { ...bounds, cpu: `${cpus * CPU_REQUEST_MILLI}m`, ...given?.resources?.requests },
    },
    securityContext: {
      privileged: false,
      runAsUser: 0,
      capabilities: { drop: ["ALL"], add: CAPABILITIES },
    },
    ...(mounts.length > 0 && {
      volumeMounts: mounts.map(({ path }, index) => ({ name: mountName(index), mountPath: path })),
    }),
  };
}

/** The same for Pods that differ in nothing but their name. */
export function shapeOf(plan: PodPlan): string {
  return sha256Hex(JSON.stringify(plan)).slice(0, 16);
}
