/** One plain HTTP request with everything its handler needs, and the replies they share. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { SandboxError, type ErrorCode } from "../common/errors.ts";
import { toWireText } from "../common/file-names.ts";
import { sendJson } from "../common/http.ts";
import { CONNECT_STATUS } from "../wire/status.ts";
import type { Daemon } from "./daemon.ts";
import { requireUser, type User } from "./user.ts";

export interface Exchange {
  readonly daemon: Daemon;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** The user of the Basic header, already looked up; undefined without one. */
  readonly namedUser: User | undefined;
  /** Joins the lines of this request in the log. */
  readonly operationId: string;
  /** Fires when the client is gone. */
  readonly signal: AbortSignal;
}

export type Handler = (exchange: Exchange) => Promise<void>;

/** On plain routes the only thing that runs out is the disk. */
const PLAIN_STATUS = {
  ...CONNECT_STATUS,
  resource_exhausted: 507,
} as const satisfies Record<ErrorCode, number>;

/** The status and text of a failure; what we did not foresee is told without its details. */
export function toFault(error: unknown): { readonly status: number; readonly message: string } {
  if (!(error instanceof SandboxError)) return { status: 500, message: "internal error" };
  return { status: PLAIN_STATUS[error.code], message: toWireText(error.message) };
}

/** Sends the error body of plain routes: its `code` is the status. */
export function sendFault(response: ServerResponse, status: number, message: string): void {
  sendJson(response, status, { body: { code: status, message } });
}

/** An empty reply. */
export function sendStatus(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent || response.destroyed) return;
  const length = status === 204 ? {} : { "content-length": "0" };
  response.writeHead(status, { ...length, ...headers });
  response.end();
}

/**
 * A query parameter; undefined when it is absent.
 * @throws SandboxError invalid_argument when it is given twice: two readers could pick differently.
 */
export function queryValue(query: URLSearchParams, name: string): string | undefined {
  const [value, second] = query.getAll(name);
  if (second === undefined) return value;
  throw new SandboxError("invalid_argument", `query parameter ${name} is given more than once`);
}

/**
 * The user of a file request: the one it names, else the Basic user, else the default one.
 * @throws SandboxError invalid_argument, unauthenticated
 */
export async function fileUser(exchange: Exchange, username: string | undefined): Promise<User> {
  if (username === undefined && exchange.namedUser !== undefined) return exchange.namedUser;
  const { accounts, settings } = exchange.daemon;
  return requireUser(await accounts.read(), username ?? settings.current.defaultUser);
}

/** What is left of a body that no handler wants any more is read up to here, then the line is cut. */
const MAX_DRAINED_BYTES = 8_388_608;

/**
 * Makes sure that a reply sent before the end of the request's body arrives: reads on for a
 * while, since a client that is still sending may not look at replies yet.
 */
export function drainRequest({ request, response }: Pick<Exchange, "request" | "response">): void {
  if (request.readableEnded || request.destroyed) return;
  let left = MAX_DRAINED_BYTES;
  request.on("data", (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) request.destroy();
  });
  request.on("error", () => response.destroy());
  request.resume();
}
