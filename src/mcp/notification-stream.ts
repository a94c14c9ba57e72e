/**
 * The stream of a session on which its host hears of changes. A host whose network broke opens a new
 * one, and the connection of the old one may look open here for a quarter of an hour.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/server";
import type { Clock } from "../common/clock.ts";
import type { Session } from "./sessions.ts";

/** A younger one stays, so that two hosts of one session do not end each other's again and again. */
const MIN_AGE_MS = 60_000;

/** Ends the stream of the session where this request opens another; the library refuses a second one. */
export function replaceStream(
  session: Session,
  opening: {
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
    readonly clock: Clock;
  },
): void {
  const { request, response, clock } = opening;
  if (!opensStream(request)) return;
  const nowMs = clock.elapsed();
  const { stream: before } = session;
  if (before !== undefined && nowMs - before.openedAtMs < MIN_AGE_MS) return;
  session.transport.closeStandaloneSSEStream();
  // Its host may be gone, and would take no end.
  before?.response.destroy();
  session.stream = { response, openedAtMs: nowMs };
  response.once("close", () => {
    if (session.stream?.response === response) delete session.stream;
  });
}

/** Any other request the library refuses, or it sends replies again: that must end no stream. */
function opensStream({ method, headers }: IncomingMessage): boolean {
  const { accept = "", "last-event-id": last = "", "mcp-protocol-version": version } = headers;
  const isKnown = version === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(String(version));
  return method === "GET" && last === "" && isKnown && accept.includes("text/event-stream");
}
