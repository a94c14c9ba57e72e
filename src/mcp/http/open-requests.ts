/** The requests of a session that have no reply yet, and the streams that wait for one. */

import type { ServerResponse } from "node:http";
import type { Clock } from "../../common/clock.ts";
import { z } from "../../common/schema.ts";
import { idOf, type MessageId } from "../messages/message-id.ts";
import type { OpenRequest, Session } from "./sessions.ts";

/**
 * Whether a request of this body has the id of one that has no reply yet. The library would give
 * the reply of the older one to the stream of the newer one, and the other stream would never end.
 */
export function repeatsId({ openIds }: Session, body: unknown): boolean {
  const ids = requestIdsOf(body);
  return new Set(ids).size < ids.length || ids.some((id) => openIds.has(id));
}

/**
 * Counts a request as open until its response is closed, which may be so already. Returns what is
 * called when the transport has passed on or refused the calls of the request.
 */
export function hold(
  session: Session,
  request: { readonly response: ServerResponse; readonly body: unknown; readonly clock: Clock },
): () => void {
  const { response, body, clock } = request;
  const ids = requestIdsOf(body);
  const isInBatch = Array.isArray(body);
  session.openRequests += 1;
  const opened = ids.map((id) => {
    const call: OpenRequest = { isInBatch, isPassedOn: false, isDelivered: false };
    session.openIds.set(id, call);
    return [id, call] as const;
  });
  const settle = (): void => {
    for (const [id, call] of opened) {
      // What was refused has no reply.
      if (!call.isPassedOn && session.openIds.get(id) === call) session.openIds.delete(id);
    }
  };
  const release = (): void => {
    session.openRequests -= 1;
    session.usedAtMs = clock.elapsed();
    // A call whose host has dropped the stream goes on, also one that is still to be passed on.
    if (response.writableEnded) settle();
  };
  if (response.closed) release();
  else response.once("close", release);
  return settle;
}

/** The transport passed a message on. Returns whether that is a request of a batch. */
export function notePassedOn(session: Session, message: unknown): boolean {
  const call = openCall(session, message);
  if (call !== undefined) call.isPassedOn = true;
  return call?.isInBatch === true;
}

/** The library has got a message of the session. */
export function noteDelivered(session: Session, message: unknown): void {
  const call = openCall(session, message);
  if (call !== undefined) call.isDelivered = true;
  const cancelled = cancelledSchema.safeParse(message).data?.params.requestId;
  const meant = cancelled === undefined ? undefined : session.openIds.get(cancelled);
  if (cancelled === undefined || meant === undefined) return;
  // The library looks for the call in a microtask, and so ends one behind it in a batch too; a call
  // that comes later goes on.
  let isFound = false;
  queueMicrotask(() => {
    isFound = meant.isDelivered;
  });
  setImmediate(() => {
    // It may have been answered since, and another call have its id. Closing never rejects.
    const isOpen = session.openIds.get(cancelled) === meant;
    if (isFound && isOpen) void closeCancelled(session, cancelled);
  });
}

function openCall({ openIds }: Session, message: unknown): OpenRequest | undefined {
  const id = isCall(message) ? idOf(message) : undefined;
  return id === undefined ? undefined : openIds.get(id);
}

function requestIdsOf(body: unknown): readonly MessageId[] {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  return messages.flatMap((message) => (isCall(message) ? (idOf(message) ?? []) : []));
}

/** Not the reply of a host, whose id is one of ours. */
function isCall(message: unknown): boolean {
  return typeof message === "object" && message !== null && "method" in message;
}

const cancelledSchema = z.looseObject({
  method: z.literal("notifications/cancelled"),
  params: z.looseObject({ requestId: z.union([z.string(), z.number()]) }),
});

/**
 * A request that was cancelled has no reply, so nothing else would end its stream. In a batch it
 * gets one, since the stream ends with the last reply.
 */
async function closeCancelled({ transport, openIds }: Session, id: MessageId): Promise<void> {
  if (openIds.get(id)?.isInBatch !== true) transport.closeSSEStream(id);
  const error = { code: -32_000, message: "Request cancelled" };
  // Without a stream the transport only forgets the id.
  await transport.send({ jsonrpc: "2.0", id, error }).catch(() => undefined);
}
