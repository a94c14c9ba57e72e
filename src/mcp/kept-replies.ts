/**
 * The newest replies of a session, for a host whose connection broke: it names the last event that
 * it has (`Last-Event-ID`) and gets the reply that came after it. Progress is not kept.
 */

import { isJSONRPCErrorResponse, isJSONRPCResultResponse } from "@modelcontextprotocol/server";
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";

/** The newest reply is kept, whatever its size. */
const MAX_CHARACTERS = 1024 * 1024;
const MAX_REPLIES = 32;

interface KeptReply {
  readonly number: number;
  readonly id: string;
  readonly streamId: string;
  readonly message: JSONRPCMessage;
  readonly characters: number;
}

/** Keeps nothing yet. */
export function createKeptReplies(): EventStore {
  const kept: KeptReply[] = [];
  let characters = 0;
  let number = 0;

  function keep(reply: KeptReply): void {
    kept.push(reply);
    characters += reply.characters;
    while (kept.length > MAX_REPLIES || (kept.length > 1 && characters > MAX_CHARACTERS)) {
      characters -= kept.shift()?.characters ?? 0;
    }
  }

  return {
    async storeEvent(streamId, message) {
      number += 1;
      const id = `${number}:${streamId}`;
      if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) {
        keep({ number, id, streamId, message, characters: JSON.stringify(message).length });
      }
      return id;
    },
    // Without a check of the id before it, the stream of a network that is gone is no conflict.
    async replayEventsAfter(lastEventId, { send }) {
      const mark = lastEventId.indexOf(":");
      const last = Number(lastEventId.slice(0, mark));
      const streamId = lastEventId.slice(mark + 1);
      const missed = kept.filter((reply) => reply.streamId === streamId && reply.number > last);
      for (const { id, message } of missed) await send(id, message);
      return streamId;
    },
  };
}
