/** A Pod as a sandbox has it, on trial: whether it is scheduled, its image pulled and its daemon reached. */

import { setTimeout as delay } from "node:timers/promises";
import { errorText, hasErrorCode, SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import type { ContainerLimits, IsolationLevel } from "../../engine/engine.ts";
import { newSandboxId } from "../../wire/address.ts";
import type { ClusterApi } from "../api/api.ts";
import { removeObject } from "../api/object-calls.ts";
import { addressOf, podSchema, startFaultOf, waitOf, type Pod } from "../api/objects.ts";
import type { PodImage } from "../image-templates.ts";
import { createPodDialer, type PodDialer } from "../pods/dial.ts";
import { measureIsolation } from "../pods/isolation.ts";
import { toPod, type PodPlan } from "../pods/pod-spec.ts";
import type { PodTemplate } from "../pods/pod-template.ts";
import { openClusterSecrets } from "../seed.ts";

/** A node may pull the image first. */
const PROBE_TIMEOUT_MS = 120_000;
const POLL_MS = 250;
const DAEMON_MS = 15_000;

export interface PodTrialOptions {
  readonly api: ClusterApi;
  readonly images: readonly PodImage[];
  readonly podTemplate: PodTemplate;
  readonly limits: ContainerLimits;
  /** Port of the listener in Pods, in tests; undefined for that of the daemon. */
  readonly podPort?: number | undefined;
}

/** That of the first image. @throws SandboxError failed_precondition without one */
export async function planOf({
  api,
  images,
  podTemplate,
  limits,
}: PodTrialOptions): Promise<PodPlan> {
  const [first] = images;
  if (first === undefined) {
    throw new SandboxError("failed_precondition", "no image is named", {
      hint: "name one by --pod-images base=IMAGE",
    });
  }
  const { passPublicKey } = await openClusterSecrets(api);
  return { image: first.image, limits, passPublicKey, template: podTemplate };
}

export interface PodTrial {
  /** Mounted in the Pod. */
  readonly volume?: object;
  /** What else is asked of its daemon. */
  readonly look?: (dialer: PodDialer, signal: AbortSignal) => Promise<void>;
}

/** Returns the level that was measured in a Pod, of which nothing is left then. */
export async function tryPod(
  options: PodTrialOptions,
  { volume, look }: PodTrial,
): Promise<IsolationLevel> {
  const { api, podPort } = options;
  const plan = await planOf(options);
  const { passKey } = await openClusterSecrets(api);
  const name = newSandboxId();
  const signal = signalAfter(PROBE_TIMEOUT_MS);
  try {
    const made = await api.call({
      method: "POST",
      path: "pods",
      body: toPod(
        volume === undefined ? plan : { ...plan, mounts: [{ path: "/volume", volume }] },
        name,
        "probe",
      ),
    });
    const host = await awaitAddress(api, podSchema.parse(made), signal);
    const dialer = createPodDialer(
      { podName: name, host, passKey, ...(podPort !== undefined && { port: podPort }) },
      async () => undefined,
    );
    const level = await awaitLevel(() => measureIsolation(dialer, signal), signal);
    await look?.(dialer, signal);
    return level;
  } finally {
    await removeObject(api, `pods/${name}`);
  }
}

async function awaitAddress(api: ClusterApi, made: Pod, signal: AbortSignal): Promise<string> {
  const { name } = made.metadata;
  let pod = made;
  while (!signal.aborted) {
    const fault = startFaultOf(pod);
    if (fault !== undefined)
      throw new SandboxError("unavailable", `the Pod does not start: ${fault}`);
    const host = addressOf(pod);
    if (host !== undefined) return host;
    await delay(POLL_MS);
    pod = podSchema.parse(await api.call({ method: "GET", path: `pods/${name}` }));
  }
  const reason = waitOf(pod) ?? "its node says nothing";
  throw new SandboxError("deadline_exceeded", `the Pod did not run in time: ${reason}`);
}

/** The daemon needs a moment; from outside of the network of Pods it is never reached. */
async function awaitLevel(
  ask: () => Promise<IsolationLevel>,
  signal: AbortSignal,
): Promise<IsolationLevel> {
  const endMs = performance.now() + DAEMON_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (signal.aborted || !hasErrorCode(error, "unavailable") || performance.now() > endMs) {
        throw new SandboxError("unavailable", `its daemon is not reached: ${errorText(error)}`, {
          cause: error,
          hint: "run doctor in a Pod of the cluster, and check the image and the NetworkPolicy",
        });
      }
    }
    await delay(POLL_MS);
  }
}
