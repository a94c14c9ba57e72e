/** The sessions of older hosts at one HTTP endpoint: at most a hundred; unused ones end. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { NodeStreamableHTTPServerTransport } from "@modelcontextprotocol/node";
import { SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/server";
import { everyInterval, type Clock } from "../../common/clock.ts";
import type { MessageId } from "../messages/message-id.ts";
import type { McpState } from "../state.ts";
import { createKeptReplies, type KeptReplies } from "./kept-replies.ts";

export interface OpenRequest {
  /** Its stream has replies to other requests, too. */
  readonly isInBatch: boolean;
  /** Whether the transport passed it on, so that it gets a reply unless it is cancelled. */
  isPassedOn: boolean;
  /** Whether the library has it; one of a batch waits for its turn before. */
  isDelivered: boolean;
}

/** An open stream on which a host hears of changes. */
interface NotificationStream {
  readonly response: ServerResponse;
  /** By the clock of durations. */
  readonly openedAtMs: number;
}

export interface Session {
  readonly principal: string;
  readonly transport: NodeStreamableHTTPServerTransport;
  /** By the clock of durations. */
  usedAtMs: number;
  /** Requests without a complete reply; a long call keeps its session alive. */
  openRequests: number;
  /** Requests without a reply, by their ids. */
  readonly openIds: Map<MessageId, OpenRequest>;
  /** Of the protocol; undefined before the handshake. */
  revision?: string;
  stream?: NotificationStream;
  /** Whether a request waits for the end of the stream. */
  isStreamAwaited?: boolean;
}

export interface Sessions extends AsyncDisposable {
  add(id: string, session: Session): void;
  find(id: string): Session | undefined;
  has(session: Session): boolean;
  remove(id: string): void;
  readonly replies: KeptReplies;
  /** Whether one more may be opened; at the limit, the one that is idle for longest ends for it. */
  admit(): boolean;
}

const MAX_SESSIONS = 100;
/** Hosts resume a session after a long pause, but most never end one. */
const MAX_IDLE_MS = 30 * 60_000;
/** A session that was used later is not ended for another one. */
const MIN_IDLE_MS = 60_000;
const SWEEP_MS = 60_000;

/** Starts with none; its end closes every session. */
export function createSessions({ clock, log }: Pick<McpState, "clock" | "log">): Sessions {
  const sessions = new Map<string, Session>();
  const stop = new AbortController();

  /** 0 beside a request without a complete reply. */
  const idleMsOf = ({ openRequests, usedAtMs }: Session) =>
    openRequests > 0 ? 0 : clock.elapsed() - usedAtMs;

  async function end([id, { transport }]: readonly [string, Session]): Promise<void> {
    sessions.delete(id);
    try {
      await transport.close();
    } catch (error) {
      // The other sessions are checked in any case.
      log.warn({ op: "mcp.session", err: error }, "session did not close");
    }
  }

  async function sweep(): Promise<void> {
    for await (const _ of everyInterval(clock, SWEEP_MS, stop.signal)) {
      for (const entry of sessions) {
        if (idleMsOf(entry[1]) > MAX_IDLE_MS) await end(entry);
      }
    }
  }

  const sweeping = sweep();
  return {
    add: (id, session) => void sessions.set(id, session),
    find: (id) => sessions.get(id),
    has: (session) => [...sessions.values()].includes(session),
    remove: (id) => void sessions.delete(id),
    replies: createKeptReplies(),
    admit() {
      if (sessions.size < MAX_SESSIONS) return true;
      const [longest] = [...sessions].toSorted(
        ([, one], [, other]) => idleMsOf(other) - idleMsOf(one),
      );
      if (longest === undefined || idleMsOf(longest[1]) < MIN_IDLE_MS) return false;
      void end(longest);
      return true;
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await sweeping;
      await Promise.all([...sessions.values()].map(({ transport }) => transport.close()));
    },
  };
}

/** A younger one stays, so that two hosts of one session do not end each other's again and again. */
const MIN_AGE_MS = 60_000;
/** The end of a stream that a host has dropped may arrive after the request for the next one. */
const DROP_MS = 2_000;

interface StreamOpening {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly clock: Clock;
}

/**
 * Ends the stream of the session where this request opens another; the library refuses a second one.
 * A host whose network broke opens a new one, and the connection of the old one may look open here for
 * a quarter of an hour. Where the old one stays, its end is waited for first. Returns false for a
 * stream whose host is gone.
 */
export async function replaceStream(session: Session, opening: StreamOpening): Promise<boolean> {
  const { request, response, clock } = opening;
  if (!opensStream(request)) return true;
  if (isYoung(session, clock)) await waitForDrop(session, opening);
  if (response.destroyed) return false;
  if (isYoung(session, clock)) return true;
  session.transport.closeStandaloneSSEStream();
  // Its host may be gone, and would take no end.
  session.stream?.response.destroy();
  session.stream = { response, openedAtMs: clock.elapsed() };
  response.once("close", () => {
    if (session.stream?.response === response) delete session.stream;
  });
  return true;
}

function isYoung({ stream }: Session, clock: Clock): boolean {
  return stream !== undefined && clock.elapsed() - stream.openedAtMs < MIN_AGE_MS;
}

/** Until the stream has ended, or the host of the next one is gone. Only one request waits. */
async function waitForDrop(session: Session, { response, clock }: StreamOpening): Promise<void> {
  if (session.isStreamAwaited === true) return;
  session.isStreamAwaited = true;
  const over = new AbortController();
  const end = () => over.abort();
  const responses = [response, session.stream?.response];
  for (const each of responses) each?.once("close", end);
  try {
    await clock.sleep(DROP_MS, over.signal);
  } catch (error) {
    if (!over.signal.aborted) throw error;
  } finally {
    for (const each of responses) each?.off("close", end);
    session.isStreamAwaited = false;
  }
}

/** Any other request the library refuses, or it sends replies again: that must end no stream. */
function opensStream({ method, headers }: IncomingMessage): boolean {
  const { accept = "", "last-event-id": last = "", "mcp-protocol-version": version } = headers;
  const isKnown = version === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(String(version));
  return method === "GET" && last === "" && isKnown && accept.includes("text/event-stream");
}
