/** Which headers pass: never those of one connection, never a credential of the platform. */

import type { IncomingMessage } from "node:http";
import { connectionOptions } from "../common/connection-options.ts";
import { HOP_BY_HOP } from "../common/hop-by-hop.ts";
import type { Endpoint } from "../sandboxes/run.ts";
import {
  ACCESS_TOKEN_HEADER,
  API_KEY_HEADER,
  ENVD_PORT,
  TRAFFIC_TOKEN_HEADER,
} from "../wire/headers.ts";

/** Said by us, or by nobody. */
const FORWARDING: ReadonlySet<string> = new Set([
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-proto",
  "x-real-ip",
]);

/** Without it a body would be read as the next message, whatever a `Connection` header says. */
const LENGTH = "content-length";

const KEY_SHAPE = /e2b_[0-9a-f]{40}/gi;

export interface Passage {
  readonly endpoint: Endpoint;
  readonly port: number;
  /** Whether a text is a key of this service. */
  readonly isPlatformKey: (text: string) => boolean;
}

/** The headers for the service inside, as a flat list of names and values. */
export function toUpstreamHeaders(request: IncomingMessage, passage: Passage): string[] {
  const { endpoint, port } = passage;
  const named = connectionOptions(request.headersDistinct["connection"]);
  const headers: string[] = [];
  for (const [name, value] of pairs(request.rawHeaders)) {
    const key = name.toLowerCase();
    if (key === "host" || HOP_BY_HOP.has(key) || FORWARDING.has(key)) continue;
    if (named.has(key) && key !== LENGTH) continue;
    if (isCredential(key, value, passage)) continue;
    headers.push(name, value);
  }
  const { host = "localhost" } = request.headers;
  if (port === ENVD_PORT) headers.push("host", host);
  else headers.push(...forwardingHeaders(request, host, { endpoint, port }));
  // Node has taken the chunks apart and makes new ones.
  if (request.headers["transfer-encoding"] !== undefined) {
    headers.push("transfer-encoding", "chunked");
  }
  return headers;
}

function forwardingHeaders(
  request: IncomingMessage,
  host: string,
  { endpoint, port }: { readonly endpoint: Endpoint; readonly port: number },
): string[] {
  const masked = endpoint.maskedHost?.replaceAll("${PORT}", String(port));
  const { remoteAddress } = request.socket;
  return [
    "host",
    masked ?? host,
    "x-forwarded-host",
    host,
    "x-forwarded-proto",
    // Only connections with TLS have the property.
    "encrypted" in request.socket ? "https" : "http",
    ...(remoteAddress === undefined ? [] : ["x-forwarded-for", remoteAddress]),
  ];
}

/** What opens the platform is not for the service inside; what is its own stays. */
function isCredential(key: string, value: string, passage: Passage): boolean {
  if (key === TRAFFIC_TOKEN_HEADER) return true;
  if (key === ACCESS_TOKEN_HEADER) return passage.port !== ENVD_PORT;
  if (key === API_KEY_HEADER && passage.isPlatformKey(value)) return true;
  return secretsIn(value, passage) || secretsIn(decodedBasic(value), passage);
}

function secretsIn(text: string, { endpoint, isPlatformKey }: Passage): boolean {
  const tokens = [endpoint.accessToken, endpoint.trafficToken];
  if (tokens.some((token) => token !== undefined && text.includes(token))) return true;
  return (text.match(KEY_SHAPE) ?? []).some((candidate) => isPlatformKey(candidate));
}

function decodedBasic(value: string): string {
  const [, encoded] = /^basic\s+([a-z0-9+/=_-]+)$/i.exec(value) ?? [];
  return encoded === undefined ? "" : Buffer.from(encoded, "base64").toString("latin1");
}

export interface ReplyRules {
  /** The host that the client asked for. */
  readonly host: string;
  /** Whether pages of any site may read the reply: only where the host is the sandbox's own. */
  readonly keepsCors: boolean;
}

/** The headers for the client, as a flat list. */
export function toClientHeaders(reply: IncomingMessage, rules: ReplyRules): string[] {
  const named = connectionOptions(reply.headersDistinct["connection"]);
  const headers: string[] = [];
  for (const [name, value] of pairs(reply.rawHeaders)) {
    const key = name.toLowerCase();
    if (HOP_BY_HOP.has(key) || (named.has(key) && key !== LENGTH)) continue;
    if (!rules.keepsCors && key.startsWith("access-control-")) continue;
    headers.push(name, key === "set-cookie" ? withoutForeignDomain(value, rules.host) : value);
  }
  return headers;
}

/** What may stand in the status line for a client; a service inside may send anything. */
export function toClientPhrase(reply: IncomingMessage): string {
  return (reply.statusMessage ?? "").replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, "");
}

/** A sandbox may set cookies for its own host, not for the sites beside it. */
function withoutForeignDomain(cookie: string, host: string): string {
  const own = host.replace(/:[0-9]*$/, "").toLowerCase();
  return cookie
    .split(";")
    .filter((part) => {
      const [name = "", domain = ""] = part.split("=", 2).map((text) => text.trim().toLowerCase());
      return name !== "domain" || domain.replace(/^\./, "") === own;
    })
    .join(";");
}

function* pairs(rawHeaders: readonly string[]): Generator<readonly [string, string]> {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    yield [rawHeaders[index] ?? "", rawHeaders[index + 1] ?? ""];
  }
}
