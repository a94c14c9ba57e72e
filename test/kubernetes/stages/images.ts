/** What the stages about snapshots, forks and pauses ask of fronts, registry and cluster. */

import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, expectNothing, namesOf, SNAPSHOTS, type World } from "../world.ts";
import { clientOf } from "./faults.ts";

export const SETTLE_MS = 60_000;
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const idSchema = z.object({ sandboxID: z.string() });
const tagsSchema = z.object({ tags: z.array(z.string()).nullish() });
const podSchema = z.object({
  spec: z.object({ nodeName: z.string(), containers: z.array(z.object({ image: z.string() })) }),
  status: z.object({ containerStatuses: z.array(z.object({ imageID: z.string() })) }),
});

/** The reply of a control route. */
export async function send(
  { url, apiKey }: Pick<World, "url" | "apiKey">,
  call: `${string} ${string}`,
  body?: object,
) {
  const [method = "", path = ""] = call.split(" ");
  const reply = await fetch(url + path, {
    method,
    headers: { "x-api-key": apiKey, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  const parsed: unknown = text === "" ? undefined : JSON.parse(text);
  return { status: reply.status, body: parsed, text };
}

/** The same for a call that succeeds. @throws Error */
export async function request(
  world: Pick<World, "url" | "apiKey">,
  call: `${string} ${string}`,
  body?: object,
): Promise<unknown> {
  const reply = await send(world, call, body);
  if (reply.status >= 200 && reply.status < 300) return reply.body;
  throw new Error(`${call}: ${reply.status} ${reply.text}`);
}

export async function takeSnapshot(
  world: Pick<World, "url" | "apiKey">,
  sandboxId: string,
  name?: string,
) {
  const body = await request(world, `POST /sandboxes/${sandboxId}/snapshots`, {
    ...(name !== undefined && { name }),
  });
  return z.object({ snapshotID: z.string() }).parse(body).snapshotID;
}

export async function createFrom(world: Pick<World, "url" | "apiKey">, template: string) {
  return Sandbox.create(template, {
    ...clientOf(world.url, world.apiKey),
    timeoutMs: 600_000,
  });
}

/** Node and images of the Pod of a sandbox, as its specification and its kubelet name them. */
export async function imageOf({ admin }: World, sandboxId: string) {
  const pod = podSchema.parse(await admin.call({ method: "GET", path: `pods/${sandboxId}` }));
  const [container] = pod.spec.containers;
  const [status] = pod.status.containerStatuses;
  return {
    node: pod.spec.nodeName,
    image: container?.image ?? "",
    imageId: status?.imageID ?? "",
  };
}

/** Tags of images of snapshots that the registry has. */
export async function tagsOfSnapshots(): Promise<string[]> {
  const [origin = "", repository = ""] = SNAPSHOTS.split(/(?<=:[0-9]+)\//);
  const reply = await fetch(`${origin}/v2/${repository}/tags/list`);
  if (reply.status === 404) return [];
  const tags = tagsSchema.parse(await reply.json()).tags ?? [];
  const found: string[] = [];
  for (const tag of tags) {
    const url = `${origin}/v2/${repository}/manifests/${tag}`;
    if ((await fetch(url, { method: "HEAD", headers: { accept: MANIFEST } })).ok) found.push(tag);
  }
  return found.toSorted();
}

/** Sandboxes that a list shows, running and paused. */
export async function listAll(world: World): Promise<string[]> {
  const body = await request(world, "GET /v2/sandboxes?state=running,paused&limit=100");
  return z
    .array(idSchema)
    .parse(body)
    .map(({ sandboxID }) => sandboxID)
    .toSorted();
}

/** @throws Error unless each record of an image has its image, and no image is without a record. */
export async function expectImagesSettled({ admin }: World): Promise<string[]> {
  const records = (await namesOf(admin, "configmaps", "snapshot")).toSorted();
  const tags = await tagsOfSnapshots();
  if (records.join() !== tags.join()) {
    throw new Error(`records ${records.join(" ")}; images ${tags.join(" ")}`);
  }
  return records;
}

/** Ends all sandboxes, removes all snapshots, and waits until records, Pods and images are gone. */
export async function cleanUp(world: World): Promise<void> {
  for (const id of await listAll(world)) await send(world, `DELETE /sandboxes/${id}`);
  await eventually(() => expectNothing(world.admin), SETTLE_MS);
  const body = await request(world, "GET /snapshots?limit=100");
  for (const { snapshotID } of z.array(z.object({ snapshotID: z.string() })).parse(body)) {
    const [name = ""] = snapshotID.split(":");
    await request(world, `DELETE /templates/${encodeURIComponent(name.split("/").at(-1) ?? "")}`);
  }
  await eventually(async () => {
    const left = await expectImagesSettled(world);
    if (left.length > 0) throw new Error(`left: ${left.join(" ")}`);
  }, SETTLE_MS);
}

export async function timed<T>(work: () => Promise<T>): Promise<{ value: T; ms: number }> {
  const beganMs = performance.now();
  return { value: await work(), ms: Math.round(performance.now() - beganMs) };
}

/** Least, median and most. */
export function spread(durations: readonly number[]): string {
  const sorted = durations.map((ms) => Math.round(ms)).toSorted((left, right) => left - right);
  return `${sorted[0]}, ${sorted[Math.floor(sorted.length / 2)]}, ${sorted.at(-1)} ms`;
}

const WAVE = 20;

/** The work for all, some of them at once. */
export async function inWaves<T, R>(
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += WAVE) {
    results.push(
      ...(await Promise.all(items.slice(at, at + WAVE).map(async (item) => work(item)))),
    );
  }
  return results;
}
