/**
 * What a cluster can do, asked and tried: its version, our rights, its quotas, the registry for
 * snapshots, and Pods as sandboxes and their volumes have them.
 */

import { hasErrorCode, SandboxError, toSandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import {
  ISOLATION_LEVELS,
  type EngineCheck,
  type EngineReport,
  type IsolationLevel,
} from "../../engine/engine.ts";
import { isForbidden, type ClusterApi } from "../api/api.ts";
import { KEYS_SECRET } from "../keys.ts";
import type { PodDialer } from "../pods/dial.ts";
import { toPod } from "../pods/pod-spec.ts";
import { proveEnforcement } from "../pods/prove-egress.ts";
import type { SnapshotSettings } from "../snapshots/image-place.ts";
import { tryRegistry } from "../snapshots/probe-registry.ts";
import { toClaimSpec, type VolumeSettings } from "../volumes/records.ts";
import { planOf, tryPod, type PodTrialOptions } from "./probe-pod.ts";
import { checkQuota } from "./probe-quota.ts";

const MIN_MINOR = 33;
/** Larger volumes may cost more than the trial is worth. */
const MAX_PROBE_MB = 1_024;

/** What a front does in its namespace; the Role of the chart names the same. */
export const RIGHTS: readonly {
  readonly group: string;
  readonly resource: string;
  readonly verbs: readonly string[];
  /** The only object of the kind; undefined for all. */
  readonly name?: string;
}[] = [
  { group: "", resource: "configmaps", verbs: verbs() },
  { group: "", resource: "pods", verbs: verbs() },
  { group: "", resource: "secrets", verbs: ["get", "create"] },
  { group: "", resource: "secrets", verbs: ["patch"], name: KEYS_SECRET },
  { group: "", resource: "resourcequotas", verbs: ["list"] },
  { group: "", resource: "persistentvolumeclaims", verbs: verbs() },
  { group: "coordination.k8s.io", resource: "leases", verbs: verbs() },
  { group: "networking.k8s.io", resource: "networkpolicies", verbs: ["create"] },
];

function verbs(): readonly string[] {
  return ["create", "delete", "get", "list", "patch", "watch"];
}

export interface ProbeOptions extends PodTrialOptions {
  readonly requireLevel: IsolationLevel;
  /** Undefined where volumes are not offered. */
  readonly volumes?: VolumeSettings | undefined;
  /** Undefined where snapshots are not offered. */
  readonly snapshots?: SnapshotSettings | undefined;
}

export async function probeCluster(options: ProbeOptions): Promise<EngineReport> {
  const { api, podTemplate, requireLevel, snapshots, volumes } = options;
  const checks: EngineCheck[] = [];
  const version = await attempt(checks, "API server", () => checkVersion(api));
  if (version === undefined) return { runtime: undefined, level: "none", isUsable: false, checks };
  await attempt(checks, "rights", () => checkRights(api));
  if (options.images.length > 0) {
    await attempt(checks, "quota", async () => {
      return checkQuota(api, toPod(await planOf(options), "none", "probe"));
    });
  }
  const { runtimeClassName } = podTemplate.spec ?? {};
  if (runtimeClassName !== undefined) {
    await attempt(checks, "runtime class", () => requireRuntimeClass(api, runtimeClassName));
  }
  let level: IsolationLevel = "none";
  const policies: EngineCheck[] = [];
  await attempt(checks, "probe Pod", async () => {
    level = await tryPod(options, {
      look: async (dialer, signal) => void policies.push(await checkPolicies(dialer, signal)),
    });
    const isEnough = ISOLATION_LEVELS.indexOf(level) >= ISOLATION_LEVELS.indexOf(requireLevel);
    if (isEnough) return level;
    throw new SandboxError("unavailable", `isolated as ${level}, not as ${requireLevel}`, {
      hint: "use nodes with containerd 2, runc 1.2 or newer and Linux 6.3 or newer",
    });
  });
  checks.push(...policies);
  if (snapshots !== undefined) {
    await attempt(checks, "registry of snapshots", () => tryRegistry(snapshots));
  }
  if (volumes !== undefined) {
    await attempt(checks, "volumes", async () => tryVolume(options, volumes));
  }
  const isUsable = checks.every(({ outcome }) => outcome !== "missing");
  return { runtime: version, level, isUsable, checks };
}

/** Adds what the check says, or why it failed. */
async function attempt(
  checks: EngineCheck[],
  name: string,
  work: () => Promise<string>,
): Promise<string | undefined> {
  try {
    const detail = await work();
    checks.push({ name, outcome: "ok", detail });
    return detail;
  } catch (error) {
    const { message, hint } = toSandboxError(error, name);
    const remedy = hint === undefined ? {} : { remedy: hint };
    checks.push({ name, outcome: "missing", detail: message, ...remedy });
    return undefined;
  }
}

const versionSchema = z.object({ gitVersion: z.string(), major: z.string(), minor: z.string() });

async function checkVersion(api: ClusterApi): Promise<string> {
  const { gitVersion, minor } = versionSchema.parse(await api.read("/version"));
  if (Number.parseInt(minor, 10) >= MIN_MINOR) return `Kubernetes ${gitVersion}`;
  throw new SandboxError("failed_precondition", `Kubernetes ${gitVersion} has no user namespaces`, {
    hint: `use Kubernetes 1.${MIN_MINOR} or newer`,
  });
}

const reviewSchema = z.object({ status: z.object({ allowed: z.boolean() }) });

async function checkRights(api: ClusterApi): Promise<string> {
  const missing: string[] = [];
  for (const { group, resource, verbs: wanted, name } of RIGHTS) {
    for (const verb of wanted) {
      const { namespace } = api;
      const resourceAttributes = { namespace, group, resource, verb, ...(name && { name }) };
      const body = {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        spec: { resourceAttributes },
      };
      const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
      const { status } = reviewSchema.parse(await api.call({ method: "POST", path, body }));
      if (!status.allowed) missing.push(`${verb} ${resource}`);
    }
  }
  if (missing.length === 0) return `the Role in namespace ${api.namespace} is complete`;
  throw new SandboxError("permission_denied", `not allowed: ${missing.join(", ")}`, {
    hint: "apply the Role of deploy/kubernetes/sandbox-mcp.yaml",
  });
}

/** A Pod with a volume of its own, whose claim Kubernetes makes and removes with it. */
async function tryVolume(options: ProbeOptions, volumes: VolumeSettings): Promise<string> {
  const { api } = options;
  const { storageClass, accessMode, sizeMb } = volumes;
  await requireClass(api, storageClass);
  const claim = toClaimSpec({ ...volumes, sizeMb: Math.min(sizeMb, MAX_PROBE_MB) });
  try {
    await tryPod(options, { volume: { ephemeral: { volumeClaimTemplate: { spec: claim } } } });
  } catch (error) {
    const { message } = toSandboxError(error, "volumes");
    throw new SandboxError("unavailable", `${storageClass} (${accessMode}): ${message}`, {
      cause: error,
      hint: "name a storage class that provides this access mode: kubectl get storageclass",
    });
  }
  return `storage class ${storageClass}, ${accessMode}, mounted in a Pod`;
}

async function requireClass(api: ClusterApi, name: string): Promise<void> {
  await requireThere(api, `/apis/storage.k8s.io/v1/storageclasses/${name}`, {
    message: `there is no storage class ${name}`,
    hint: "name one by --volume-class: kubectl get storageclass",
  });
}

async function requireRuntimeClass(api: ClusterApi, name: string): Promise<string> {
  const isRead = await requireThere(api, `/apis/node.k8s.io/v1/runtimeclasses/${name}`, {
    message: `there is no runtime class ${name}`,
    hint: "name one as runtimeClassName in --pod-template: kubectl get runtimeclass",
  });
  return isRead ? name : `${name}: not read, the probe Pod shows whether it is there`;
}

/** Without the right to read it, false: the Pod that waits for it shows that it is missing. */
async function requireThere(
  api: ClusterApi,
  path: string,
  fault: { readonly message: string; readonly hint: string },
): Promise<boolean> {
  try {
    await api.read(path);
    return true;
  } catch (error) {
    if (isForbidden(error)) return false;
    if (!hasErrorCode(error, "not_found")) throw error;
    throw new SandboxError("not_found", fault.message, { cause: error, hint: fault.hint });
  }
}

const POLICY_CHECK = "network policy";
const POLICY_REMEDY =
  "use a network plugin that enforces NetworkPolicy and the policies of the chart, with the networks of Pods and nodes in networkPolicy.denied";

/** The policies of the chart keep a Pod from the front that asks it. It never rejects. */
async function checkPolicies(
  dialer: Pick<PodDialer, "dialControl">,
  signal: AbortSignal,
): Promise<EngineCheck> {
  try {
    await proveEnforcement(dialer, signal);
    const detail = "the probe Pod does not reach the address from which it was asked";
    return { name: POLICY_CHECK, outcome: "ok", detail };
  } catch (error) {
    const warning = { name: POLICY_CHECK, outcome: "warning" } as const;
    if (!hasErrorCode(error, "unimplemented")) {
      const detail = `not shown: ${toSandboxError(error, POLICY_CHECK).message}`;
      return { ...warning, detail, remedy: "use an image of this version: docs/kubernetes.md" };
    }
    const detail =
      "the probe Pod reaches the address from which it was asked: so may sandboxes, and the rest of the network of the cluster";
    return { ...warning, detail, remedy: POLICY_REMEDY };
  }
}
