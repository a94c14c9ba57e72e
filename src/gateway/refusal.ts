/** Why the gateway does not pass a request on: the wire's bodies for programs, a page for a person. */

import type { ServerResponse, IncomingHttpHeaders } from "node:http";
import { hidePaths } from "../common/errors.ts";
import { discardRest, sendJson } from "../common/http.ts";
import type { Shortage } from "../common/shortage.ts";
import type { SandboxAddress } from "../wire/address.ts";
import { MESSAGES, tooManyConnections } from "../wire/messages.ts";
import { retryHeaders } from "../wire/retry.ts";

const CHANGING_STATUS = 409;
const CHANGING_RETRY_S = 1;

export interface Refusal {
  readonly status: 400 | 401 | 403 | 404 | 409 | 429 | 502 | 503 | 504;
  readonly body: Readonly<Record<string, string | number>>;
  readonly retryAfterSeconds?: number;
}

export function sendRefusal(response: ServerResponse, refusal: Refusal): void {
  const { status, body, retryAfterSeconds } = refusal;
  discardRest(response.req);
  const headers = {
    vary: "Accept, User-Agent, Sec-Fetch-Mode",
    ...retryHeaders(status, retryAfterSeconds),
  };
  if (response.headersSent || response.destroyed || !wantsErrorPage(response.req.headers)) {
    sendJson(response, status, { body, headers });
    return;
  }
  const page = Buffer.from(toErrorPage(body));
  response.writeHead(status, {
    ...headers,
    "content-type": "text/html; charset=utf-8",
    "content-length": page.length,
    "content-security-policy": "default-src 'none'",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(page);
}

export function notRunning(sandboxId: string): Refusal {
  return refuse(502, { sandboxId, message: MESSAGES.sandboxUnreachable });
}

/** It is tried again, so that a later request may be passed on. */
export function notAdopted(sandboxId: string, message: string): Refusal {
  return refuse(503, { sandboxId, message: hidePaths(message) });
}

/** The message says whether nothing listens there, or what listens gives no reply. */
export function noReply({ sandboxId, port }: SandboxAddress, message: string): Refusal {
  return refuse(502, { sandboxId, message, port });
}

/** Whether something listens on the port is not known. */
export function outOfResources(address: SandboxAddress, shortage: Shortage): Refusal {
  return refuse(503, { ...address, message: `${shortage.message} (${shortage.hint})` });
}

/** The daemon was silent for too long, or for longer than the call's own time limit. */
export function silent({ sandboxId, port }: SandboxAddress): Refusal {
  return refuse(504, { sandboxId, message: MESSAGES.daemonSilent, port });
}

export function reserved(path: string): Refusal {
  return refuse(404, { message: MESSAGES.reservedPath, path });
}

export function trafficToken(sandboxId: string, given: string | undefined): Refusal {
  const message = given === undefined ? MESSAGES.trafficTokenMissing : MESSAGES.trafficTokenWrong;
  return refuse(403, { sandboxId, message });
}

export function cannotWake(sandboxId: string, status: 403 | 409 | 429, message: string): Refusal {
  const refusal = refuse(status, { sandboxId, message });
  // The change of state ends soon.
  return status === CHANGING_STATUS ? { ...refusal, retryAfterSeconds: CHANGING_RETRY_S } : refusal;
}

export function crowded(sandboxId: string, limit: number): Refusal {
  return refuse(429, { sandboxId, message: tooManyConnections(limit), connectionLimit: limit });
}

export function tooManyWrong(retryAfterSeconds: number): Refusal {
  const message = "too many wrong signatures from this address";
  return { ...refuse(429, { message }), retryAfterSeconds };
}

/** It cannot be taken out without changing what was asked for. */
export function secretInTarget(): Refusal {
  return refuse(400, { message: "the request's target holds a key or token of this service" });
}

export function unattributed(message: string): Refusal {
  return refuse(400, { message });
}

export function badSignature(message: string): Refusal {
  return refuse(401, { message });
}

function refuse(
  status: Refusal["status"],
  body: Readonly<Record<string, string | number>>,
): Refusal {
  return { status, body: { ...body, code: status } };
}

const BROWSER_PATTERN = /^Mozilla\/5\.0 \(/;
const SCRIPT_MODES: ReadonlySet<string> = new Set(["cors", "no-cors", "same-origin", "websocket"]);

/** Whether a browser has asked for something to show. */
export function wantsErrorPage(headers: IncomingHttpHeaders): boolean {
  const { "sec-fetch-mode": mode = "" } = headers;
  if (!BROWSER_PATTERN.test(headers["user-agent"] ?? "")) return false;
  const { accept = "" } = headers;
  if (accept.includes("json") && !accept.includes("text/html")) return false;
  if (mode === "navigate") return true;
  return !SCRIPT_MODES.has(mode) && headers["x-requested-with"] === undefined;
}

/** Titles of pages; other messages have their status as the title. */
const TITLES: Readonly<Record<string, string>> = {
  [MESSAGES.sandboxUnreachable]: "Sandbox Not Found",
  [MESSAGES.portClosed]: "Closed Port",
  [MESSAGES.trafficTokenMissing]: "Missing Traffic Access Token",
  [MESSAGES.trafficTokenWrong]: "Invalid Traffic Access Token",
};

/**
 * The page; nothing in it is loaded or run. It begins with its first element and ends with its last,
 * as the pages of the public service do.
 */
export function toErrorPage(body: Refusal["body"]): string {
  const { code = "", message = "", sandboxId, port } = body;
  const title = escape(TITLES[message] ?? String(code));
  const isClosed = message === MESSAGES.portClosed;
  const text = isClosed ? `There is no service running on port ${port}.` : String(message);
  const details = [
    ...(sandboxId === undefined ? [] : [`Sandbox: ${sandboxId}`]),
    ...(port === undefined ? [] : [`Port: ${port}`]),
  ];
  return [
    '<html lang="en">',
    `<head><meta charset="utf-8"><title>${title}</title></head>`,
    `<body><h1>${title}</h1>`,
    ...[text, ...details].map((line) => `<p>${escape(line)}</p>`),
    "</body>",
    "</html>",
  ].join("\n");
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? "");
}
