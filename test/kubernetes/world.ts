/** What the stages of a run work with, and how they report. */

import { setTimeout as delay } from "node:timers/promises";
import type { ClusterApi } from "../../src/cluster/api/api.ts";
import { z } from "../../src/common/schema.ts";
import type { Cluster } from "./cluster/cluster.ts";
import type { Front } from "./cluster/front.ts";
import { REGISTRY } from "./cluster/node-config.ts";
import type { Program } from "./cluster/process.ts";

/** Of the images of snapshots, in the registry of the tests. */
export const SNAPSHOTS = `http://${REGISTRY}/snapshots`;

/** What a front of a stage has that others have not. */
export interface Given {
  readonly template?: string;
  readonly pool?: number;
  readonly hasSnapshots?: boolean;
  /** More of its command line. */
  readonly flags?: readonly string[];
}

export interface World {
  readonly cluster: Cluster;
  /** As administrator, in the namespace of the sandboxes. */
  readonly admin: ClusterApi;
  readonly fronts: readonly Front[];
  /** Of the balancer before the fronts. */
  readonly url: string;
  readonly apiKey: string;
  readonly directory: string;
  /** Of the service that made the image: it has the template. */
  readonly home: string;
  /** Directories of the built programs and of the service account, a file, and an image. */
  readonly bin: string;
  readonly account: string;
  readonly template: string;
  readonly image: string;
  /** The archive of the image. */
  readonly archive: string;
  readonly registry: Program;
  startFront(name: string, environment: Readonly<Record<string, string>>, given?: Given): Front;
  check(name: string, work: () => Promise<string | void>): Promise<void>;
}

const POLL_MS = 200;

/** Repeats until it does not throw; then its last fault counts. */
export async function eventually<T>(attempt: () => Promise<T>, limitMs = 30_000): Promise<T> {
  const endMs = performance.now() + limitMs;
  while (performance.now() < endMs) {
    try {
      return await attempt();
    } catch {
      await delay(POLL_MS);
    }
  }
  return attempt();
}

const listSchema = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), deletionTimestamp: z.string().optional() }),
    }),
  ),
});

/** Names of all objects of a kind that this program has made, apart from those of a part. */
export async function namesOf(admin: ClusterApi, kind: string, part: string): Promise<string[]> {
  const labelSelector = `app.kubernetes.io/managed-by=sandbox-mcp,sandbox-mcp.io/part=${part}`;
  const reply = await admin.call({ method: "GET", path: kind, query: { labelSelector } });
  return listSchema.parse(reply).items.map(({ metadata }) => metadata.name);
}

/** @throws Error unless there are no records, and no Pods but those of the pool. */
export async function expectNothing(admin: ClusterApi): Promise<void> {
  const records = await namesOf(admin, "configmaps", "sandbox");
  const pods = await namesOf(admin, "pods", "sandbox");
  if (records.length + pods.length === 0) return;
  throw new Error(`left: records ${records.join(" ")}; Pods ${pods.join(" ")}`);
}
