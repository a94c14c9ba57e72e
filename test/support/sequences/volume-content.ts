/** Calls for the content of a volume, beside others that may remove the volume meanwhile. */

import type { VolumeModel, Content } from "./volume-model.ts";
import { ask, SequenceFault, type SequenceWorld } from "./world.ts";

export interface ContentCall {
  readonly method: "GET" | "PUT" | "DELETE" | "POST" | "PATCH";
  readonly kind: "file" | "path" | "dir";
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: string | ReadableStream<Uint8Array>;
}

interface Asking {
  /** Name of the client. */
  readonly by: string;
  readonly volume: VolumeModel;
  /** Besides 404. */
  readonly statuses: readonly number[];
}

interface ContentAnswer {
  readonly status: number;
  readonly text: string;
  /** The volume itself was not there. */
  readonly isGone: boolean;
}

/** Undefined when nobody knows what became of it. @throws SequenceFault */
export async function askContent(
  world: SequenceWorld,
  { by, volume, statuses }: Asking,
  call: ContentCall,
): Promise<ContentAnswer | undefined> {
  const { moments, home } = world;
  const beganAt = moments.next();
  const { method, kind, path, query = {}, body } = call;
  const search = new URLSearchParams({ path, ...query }).toString();
  const words = `${by} ${method} ${kind} v${volume.slot} ${volume.id} ${search}`;
  const answer = await ask(world, { words, statuses: [...statuses, 404] }, async () => {
    const url = `${home.client().apiUrl}/volumecontent/${volume.id}/${kind}?${search}`;
    const headers = { authorization: `Bearer ${volume.token}` };
    const streamed = { ...(body !== undefined && { body, duplex: "half" as const }) };
    const reply = await fetch(url, { method, headers, ...streamed }).catch(() => undefined);
    const text = await reply?.text().catch(() => undefined);
    return reply === undefined || text === undefined
      ? undefined
      : { status: reply.status, body: text };
  });
  if (answer === undefined) return undefined;
  const isGone = answer.status === 404 && String(answer.body).includes("olume");
  if (volume.goneAt < beganAt && !isGone)
    throw new SequenceFault(`${words} of a removed volume: ${JSON.stringify(answer)}`);
  if (isGone && !volume.mayBeGone())
    throw new SequenceFault(`${words} finds no volume, which nobody removed`);
  return { status: answer.status, text: String(answer.body), isGone };
}

/** @throws SequenceFault when no order of the changes leads to it. */
export function checkContent(
  volume: VolumeModel,
  { path, beganAt }: { readonly path: string; readonly beganAt: number },
  found: Content,
): void {
  const possible = volume.files.get(path)?.possible(beganAt) ?? new Set();
  if (possible.has(found)) return;
  const shown = [...possible].map((content) => content?.slice(0, 20) ?? "nothing");
  throw new SequenceFault(
    `${path} of ${volume.id} is ${found?.slice(0, 60) ?? "nothing"}, not ${shown.join(" or ")}`,
  );
}

/** The second half comes after the wait. */
export function inTwoParts(text: string, wait: () => Promise<void>): ReadableStream<Uint8Array> {
  const bytes = Buffer.from(text);
  const half = Math.ceil(bytes.length / 2);
  return ReadableStream.from(
    (async function* parts() {
      yield new Uint8Array(bytes.subarray(0, half));
      await wait();
      yield new Uint8Array(bytes.subarray(half));
    })(),
  );
}
