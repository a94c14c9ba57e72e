/** `doctor --engine kubernetes`: what the cluster can do, and the remedy for what is missing. */

import { findCluster } from "../../cluster/api/address.ts";
import { createClusterApi } from "../../cluster/api/api.ts";
import { probeCluster } from "../../cluster/probe/probe.ts";
import type { Config } from "../../config.ts";
import type { EngineReport } from "../../engine/engine.ts";
import { readPodTemplate } from "../serve/pod-template-file.ts";

/** @throws SandboxError failed_precondition when it is not known where the cluster is. */
export async function probeConfiguredCluster(config: Config): Promise<EngineReport> {
  using api = createClusterApi(await findCluster(config.cluster));
  return await probeCluster({
    api,
    images: config.cluster.images,
    podTemplate: await readPodTemplate(config),
    limits: config.limits,
    requireLevel: config.requireIsolation,
    snapshots: config.cluster.snapshots,
    volumes: config.cluster.volumes && { ...config.cluster.volumes, sizeMb: config.volumeMb },
  });
}
