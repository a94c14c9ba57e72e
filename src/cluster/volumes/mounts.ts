/** Volumes of a sandbox: which ones a create means, and what its Pod gets of them. */

import type { MountRequest } from "../../sandboxes/volumes/volume-rules.ts";
import { placeMounts, refuseMissing } from "../../sandboxes/volumes/volume-rules.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { MAX_MOUNTS } from "../../wire/bounds.ts";
import type { ClusterContext } from "../context.ts";
import type { PodMount } from "../pods/pod-spec.ts";
import { claimName, isThere, readClaim } from "./records.ts";

type Mounts = SandboxRecord["volumeMounts"];

/**
 * Links of images that lead to what is reserved. A runtime follows links: what is mounted there would
 * hide the files of the daemon.
 */
const LINKED = /^\/var\/(?:run|lock)(?:\/|$)/;

/** The volumes that a create asks for. @throws SandboxError invalid_argument with every fault of the list. */
export async function resolveMounts(
  context: Pick<ClusterContext, "api" | "volumes">,
  team: string,
  requests: readonly MountRequest[],
): Promise<Mounts> {
  const { api, volumes } = context;
  const found = new Map<string, string>();
  for (const { name } of requests.slice(0, MAX_MOUNTS)) {
    const claim = claimName(team, name);
    const known = volumes?.items.get(claim);
    const stored = isThere(known) ? known : await readClaim(api, claim);
    if (isThere(stored)) found.set(name, stored.metadata.uid);
  }
  return placeMounts(requests, {
    find: (name) => found.get(name),
    faultOf: (path) => (LINKED.test(path) ? `path '${path}' is reserved` : undefined),
  });
}

/**
 * What the Pod of a record gets. Its record must be written: from then on no volume of it is removed.
 * @throws SandboxError invalid_argument when one was removed since
 */
export async function findClaims(
  { api }: Pick<ClusterContext, "api">,
  { team, volumeMounts }: Pick<SandboxRecord, "team" | "volumeMounts">,
): Promise<readonly PodMount[]> {
  const there = new Set<string>();
  for (const { name } of volumeMounts) {
    const stored = await readClaim(api, claimName(team, name));
    if (isThere(stored)) there.add(stored.metadata.uid);
  }
  refuseMissing(volumeMounts, (volumeId) => there.has(volumeId));
  return volumeMounts.map(({ name, path }) => ({
    path,
    volume: { persistentVolumeClaim: { claimName: claimName(team, name) } },
  }));
}
