/**
 * Pods that were started before a client asked for them. A front claims one by adding the record of a
 * sandbox under its name: of several fronts that do so, one succeeds.
 */

import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { newSandboxId } from "../../wire/address.ts";
import { BASELINE_WORD } from "../../wire/pod-listener.ts";
import { isConflict } from "../api/api.ts";
import { removeObject } from "../api/object-calls.ts";
import { addressOf, endOf, PART, podSchema, startFaultOf, type Pod } from "../api/objects.ts";
import type { ClusterContext } from "../context.ts";
import { shapeOf, SHAPE, toPod, toReference, type PodOwner, type PodPlan } from "./pod-spec.ts";

/** Pods that start at once: more would keep creates waiting. */
const MAX_STARTING = 4;
/** A Pod that this front has tried is left alone for so long: by then the record that claims it is seen. */
const TRIED_MS = 30_000;

type PoolContext = Pick<
  ClusterContext,
  | "api"
  | "records"
  | "pods"
  | "pool"
  | "images"
  | "limits"
  | "cluster"
  | "podTemplate"
  | "snapshots"
  | "log"
>;

/** What a Pod of a template is like. */
export function toPlan(
  context: Pick<PoolContext, "limits" | "cluster" | "podTemplate" | "snapshots">,
  image: string,
): PodPlan {
  const { limits, cluster, podTemplate, snapshots } = context;
  const { passPublicKey } = cluster;
  const plan = { image, limits, passPublicKey, template: podTemplate };
  return snapshots === undefined ? plan : { ...plan, words: [BASELINE_WORD] };
}

/**
 * The oldest one of this shape that runs and that no record claims: the daemon of a younger one may still
 * start. It is another one each time, so that creates at once take different ones.
 */
export function findWarm(
  { pods, records, tried }: Pick<ClusterContext, "pods" | "records" | "tried">,
  shape: string,
): Pod | undefined {
  const nowMs = performance.now();
  for (const [name, atMs] of tried) if (nowMs - atMs > TRIED_MS) tried.delete(name);
  const [pod] = [...pods.items.values()]
    .filter((one) => isFree(one, records.items) && one.metadata.labels?.[SHAPE] === shape)
    .filter((one) => addressOf(one) !== undefined && !tried.has(one.metadata.name))
    .toSorted((left, right) => ageOf(left).localeCompare(ageOf(right)));
  if (pod !== undefined) tried.set(pod.metadata.name, nowMs);
  return pod;
}

function ageOf({ metadata }: Pod): string {
  return metadata.creationTimestamp ?? "";
}

function isFree({ metadata }: Pod, records: ReadonlyMap<string, unknown>): boolean {
  return metadata.labels?.[PART] === "pool" && !records.has(metadata.name);
}

/**
 * Makes a pooled Pod that of a sandbox, so that it goes with its record.
 * @throws SandboxError unavailable for one that is being removed: a sandbox has had it, and programs of
 * that may still run in it
 */
export async function adoptPod(
  { api, pods }: Pick<PoolContext, "api" | "pods">,
  owner: PodOwner,
): Promise<void> {
  const { name } = owner;
  const metadata = {
    // Of the Pod that was seen alone, where another one has its name by now.
    uid: pods.items.get(name)?.metadata.uid,
    labels: { [PART]: "sandbox" },
    ownerReferences: [toReference(owner)],
  };
  let reply: unknown;
  try {
    reply = await api.call({ method: "PATCH", path: `pods/${name}`, body: { metadata } });
  } catch (error) {
    // No watch told of its end, as after the state of a cluster was restored from a backup.
    if (hasErrorCode(error, "not_found")) pods.drop(name);
    throw error;
  }
  const pod = podSchema.parse(reply);
  pods.apply(pod);
  if (addressOf(pod) !== undefined) return;
  throw new SandboxError("unavailable", "the pooled Pod is being removed");
}

/** After a pooled Pod that ended by itself, so that a broken image does not make Pods without end. */
const REST_MS = 30_000;

/** What each look of the leader does: removes what is of no use, and starts what is missing. */
export function createPoolFiller(context: PoolContext): () => Promise<void> {
  /** By shape: Pods that end at once keep none of other templates waiting. */
  const restsUntilMs = new Map<string, number>();
  return async () => {
    const { pods, records } = context;
    const free = [...pods.items.values()].filter((pod) => isFree(pod, records.items));
    const nowMs = performance.now();
    for (const [shape, untilMs] of restsUntilMs) if (untilMs <= nowMs) restsUntilMs.delete(shape);
    for (const pod of free) {
      const hasEnded = endOf(pod) !== undefined && pod.metadata.deletionTimestamp === undefined;
      if (hasEnded) restsUntilMs.set(pod.metadata.labels?.[SHAPE] ?? "", nowMs + REST_MS);
    }
    await fillPool(context, free, (shape) => restsUntilMs.has(shape));
  };
}

async function fillPool(
  context: PoolContext,
  free: readonly Pod[],
  isResting: (shape: string) => boolean,
): Promise<void> {
  const { api, pods, pool, images, log } = context;
  const wanted = new Map<string, { plan: PodPlan; size: number }>();
  for (const { template, size } of pool) {
    const plan = toPlan(context, images.find(template).image);
    const shape = shapeOf(plan);
    // Templates of one image have their Pods in common.
    wanted.set(shape, { plan, size: size + (wanted.get(shape)?.size ?? 0) });
  }
  const kept = new Map<string, number>();
  /** Pods without an address, those that do not start included. */
  const unready = new Map<string, number>();
  let starting = 0;
  for (const pod of free) {
    const shape = pod.metadata.labels?.[SHAPE] ?? "";
    const count = kept.get(shape) ?? 0;
    if (endOf(pod) === undefined && count < (wanted.get(shape)?.size ?? 0)) {
      kept.set(shape, count + 1);
      if (addressOf(pod) !== undefined) continue;
      unready.set(shape, (unready.get(shape) ?? 0) + 1);
      // One that waits for an image that is not there keeps no other template's from starting.
      if (startFaultOf(pod) === undefined) starting += 1;
    } else if (pod.metadata.deletionTimestamp === undefined) {
      // One that is being claimed has changed: it stays.
      const { name, resourceVersion } = pod.metadata;
      await removeObject(api, `pods/${name}`, { preconditions: { resourceVersion } }).catch(
        (error: unknown) => {
          if (!isConflict(error)) throw error;
        },
      );
    }
  }
  const faults: unknown[] = [];
  for (const [shape, { plan, size }] of wanted) {
    if (isResting(shape)) continue;
    const missing = size - (kept.get(shape) ?? 0);
    // Pods that do not start on one node do not keep those of other nodes out of the pool.
    const left = MAX_STARTING - (unready.get(shape) ?? 0);
    const amount = Math.min(missing, left, MAX_STARTING - starting);
    try {
      for (let count = 0; count < amount; count += 1) {
        const name = newSandboxId();
        const body = toPod(plan, name, "pool");
        pods.apply(podSchema.parse(await api.call({ method: "POST", path: "pods", body })));
        starting += 1;
        log.debug({ op: "pool.fill", sandboxId: name }, "pooled Pod was made");
      }
    } catch (error) {
      // Pods of one template may be refused, as by a quota or an admission webhook: they start nothing.
      faults.push(error);
    }
  }
  if (faults.length > 0) throw new AggregateError(faults, "pooled Pods were not made");
}
