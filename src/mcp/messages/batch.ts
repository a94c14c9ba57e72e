/** JSON-RPC batches: the replies to one batch leave together, as one array. */

import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import type { MessageId } from "./message-id.ts";

/** The only protocol revision with batches. */
const REVISION_WITH_BATCHES = "2025-03-26";

/** Messages of one batch; the SDK has the same limit over HTTP. */
export const MAX_BATCH_MESSAGES = 100;

export function hasBatches(revision: string | undefined): boolean {
  return revision === REVISION_WITH_BATCHES;
}

interface Batch {
  /** Ids of requests without a reply; an id can occur twice. */
  readonly pending: MessageId[];
  readonly replies: object[];
}

export interface Batches {
  /** Takes a batch: its messages that are valid, and the replies to the other ones. */
  open(messages: readonly JSONRPCMessage[], refusals: readonly object[]): void;
  /** Keeps a reply for its batch; false when it belongs to none. */
  take(reply: JSONRPCMessage): boolean;
  /** A request was cancelled and gets no reply. */
  cancel(id: MessageId): void;
}

/** No open batch; `send` gets the array of replies once it is complete. */
export function createBatches(send: (replies: readonly object[]) => void): Batches {
  const open = new Set<Batch>();

  function finish(batch: Batch): void {
    if (batch.pending.length > 0) return;
    open.delete(batch);
    if (batch.replies.length > 0) send(batch.replies);
  }

  function settle(id: MessageId, reply: object | undefined): boolean {
    for (const batch of open) {
      const index = batch.pending.indexOf(id);
      if (index === -1) continue;
      batch.pending.splice(index, 1);
      if (reply !== undefined) batch.replies.push(reply);
      finish(batch);
      return true;
    }
    return false;
  }

  return {
    open(messages, refusals) {
      const pending = messages.flatMap((each) =>
        "method" in each && "id" in each ? [each.id] : [],
      );
      const batch: Batch = { pending, replies: [...refusals] };
      open.add(batch);
      finish(batch);
    },
    take(reply) {
      if ("method" in reply || reply.id === undefined) return false;
      return settle(reply.id, reply);
    },
    cancel(id) {
      settle(id, undefined);
    },
  };
}
