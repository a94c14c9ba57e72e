/**
 * The newest replies of each session, for a host whose connection broke: it names the last event that
 * it has (`Last-Event-ID`) and gets the reply that came after it, or an error in place of one that is
 * no longer kept: official clients would wait for it until their time limit. Progress is not kept.
 */

import { isJSONRPCErrorResponse, isJSONRPCResultResponse } from "@modelcontextprotocol/server";
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";

/** Of one session; its newest reply is kept, whatever its size. */
const MAX_CHARACTERS = 1024 * 1024;
const MAX_REPLIES = 32;
/** Of all sessions: most are never ended by their hosts, and broken connections come back soon. */
const MAX_CHARACTERS_OF_ALL = 16 * MAX_CHARACTERS;
/** Replies of one session of which is known that they are no longer kept. */
const MAX_LOST = 256;
/** An error repeats the id of its request, which a host may make as long as a body. */
const MAX_LOST_ID_CHARACTERS = 256;
const LOST_CODE = -32_000;
const LOST_TEXT =
  "the connection broke, and the reply is no longer kept: look before you repeat a call that changes something";

interface SentReply {
  readonly number: number;
  readonly id: string;
  readonly streamId: string;
  readonly message: JSONRPCMessage;
}

interface KeptReply extends SentReply {
  readonly characters: number;
  readonly shelf: SessionShelf;
}

/** Replies, oldest first. */
interface Shelf {
  readonly replies: Set<KeptReply>;
  characters: number;
}

interface SessionShelf extends Shelf {
  /** Errors in place of replies that are older than all that are kept. */
  readonly lost: Set<SentReply>;
}

/** The replies of one session. */
export interface SessionReplies extends EventStore {
  /** The session is over: no host asks for them. */
  forget(): void;
}

export interface KeptReplies {
  open(): SessionReplies;
}

/** Keeps nothing yet. */
export function createKeptReplies(): KeptReplies {
  const all = newShelf();

  function drop(reply: KeptReply): void {
    for (const shelf of [all, reply.shelf]) {
      shelf.replies.delete(reply);
      shelf.characters -= reply.characters;
    }
  }

  function lose(reply: KeptReply): void {
    drop(reply);
    const { number, id, streamId, message, shelf } = reply;
    if (!("id" in message) || message.id === undefined) return;
    if (String(message.id).length > MAX_LOST_ID_CHARACTERS) return;
    const error = { code: LOST_CODE, message: LOST_TEXT };
    const told = { jsonrpc: "2.0", id: message.id, error } as const;
    shelf.lost.add({ number, id, streamId, message: told });
    const [oldest] = shelf.lost;
    if (shelf.lost.size > MAX_LOST && oldest !== undefined) shelf.lost.delete(oldest);
  }

  function keep(reply: KeptReply): void {
    const own = reply.shelf;
    for (const shelf of [all, own]) {
      shelf.replies.add(reply);
      shelf.characters += reply.characters;
    }
    for (const oldest of own.replies) {
      const { size } = own.replies;
      if (size <= MAX_REPLIES && (size === 1 || own.characters <= MAX_CHARACTERS)) break;
      lose(oldest);
    }
    for (const oldest of all.replies) {
      if (all.replies.size === 1 || all.characters <= MAX_CHARACTERS_OF_ALL) break;
      lose(oldest);
    }
  }

  return { open: () => openReplies(keep, drop) };
}

function newShelf(): Shelf {
  return { replies: new Set(), characters: 0 };
}

function openReplies(
  keep: (reply: KeptReply) => void,
  drop: (reply: KeptReply) => void,
): SessionReplies {
  const shelf: SessionShelf = { ...newShelf(), lost: new Set() };
  let number = 0;
  let isOver = false;
  return {
    async storeEvent(streamId, message) {
      number += 1;
      const id = `${number}:${streamId}`;
      const isReply = isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message);
      if (isReply && !isOver) {
        keep({ number, id, streamId, message, characters: JSON.stringify(message).length, shelf });
      }
      return id;
    },
    // Without a check of the id before it, the stream of a network that is gone is no conflict.
    async replayEventsAfter(lastEventId, { send }) {
      const mark = lastEventId.indexOf(":");
      const last = Number(lastEventId.slice(0, mark));
      const streamId = lastEventId.slice(mark + 1);
      const missed = [...shelf.lost, ...shelf.replies].filter(
        (reply) => reply.streamId === streamId && reply.number > last,
      );
      for (const { id, message } of missed) await send(id, message);
      return streamId;
    },
    forget() {
      isOver = true;
      for (const reply of shelf.replies) drop(reply);
      shelf.lost.clear();
    },
  };
}
