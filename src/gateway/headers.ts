/** Which headers pass: never those of one connection, never a credential of the platform. */

import type { IncomingMessage } from "node:http";
import { connectionOptions, FORWARDING_HEADERS, HOP_BY_HOP } from "../common/connection-headers.ts";
import type { Endpoint } from "../sandboxes/run.ts";
import {
  ACCESS_TOKEN_HEADER,
  API_KEY_HEADER,
  ENVD_PORT,
  TRAFFIC_TOKEN_HEADER,
} from "../wire/headers.ts";
import {
  createSecretFinder,
  MIN_SEARCHED_CHARACTERS,
  type PlatformKeys,
  type SecretFinder,
} from "./secret-finder.ts";

/** Set only by the gateway. */
const FORWARDING: ReadonlySet<string> = new Set(FORWARDING_HEADERS);

/**
 * Without it a body would be read as the next message, whatever a `Connection` header says and even
 * if its digits are a configured key.
 */
const LENGTH = "content-length";

const COOKIE = "cookie";
const NO_CONTENT = 204;

export interface Passage {
  readonly endpoint: Endpoint;
  readonly port: number;
  readonly keys: PlatformKeys;
  /** Of the address that the client asked. */
  readonly scheme: "http" | "https";
}

/** Whether what cannot be taken out of a request holds a secret: its target, host or protocol. */
export function isSecretInTarget(
  { url = "", headers }: IncomingMessage,
  { endpoint, keys }: Omit<Passage, "scheme">,
): boolean {
  // A short key may be a word of any path: it would shut out more than it keeps in.
  const given = keys.given.filter((key) => key.length >= MIN_SEARCHED_CHARACTERS);
  const tokens = [endpoint.accessToken, endpoint.trafficToken];
  const finder = createSecretFinder({ ...keys, given }, tokens);
  return [url, headers.host ?? "", headers.upgrade ?? ""].some((text) => finder.holdsSecret(text));
}

/** The headers for the service inside, as a flat list of names and values. */
export function toUpstreamHeaders(request: IncomingMessage, passage: Passage): string[] {
  const { endpoint, port } = passage;
  const named = connectionOptions(request.headersDistinct["connection"]);
  const finder = createSecretFinder(passage.keys, [endpoint.accessToken, endpoint.trafficToken]);
  const { host = "localhost" } = request.headers;
  // First, and spelled as programs expect that compare the bytes of a request.
  const headers = port === ENVD_PORT ? ["Host", host] : forwardingHeaders(request, host, passage);
  for (const [name, value] of pairs(request.rawHeaders)) {
    const key = name.toLowerCase();
    if (key === "host" || HOP_BY_HOP.has(key) || FORWARDING.has(key)) continue;
    if (key === LENGTH) {
      headers.push(name, value);
      continue;
    }
    if (named.has(key)) continue;
    if (isCredential(key, value, passage) || finder.holdsSecret(name)) continue;
    if (isOwnToken(key, value, passage) || !finder.holdsSecret(value)) headers.push(name, value);
    else if (key === COOKIE) headers.push(...otherCookies(name, value, finder));
  }
  // Node has taken the chunks apart and makes new ones.
  if (request.headers["transfer-encoding"] !== undefined) {
    headers.push("transfer-encoding", "chunked");
  }
  return headers;
}

function forwardingHeaders(
  request: IncomingMessage,
  host: string,
  { endpoint, port, scheme }: Passage,
): string[] {
  const masked = endpoint.maskedHost?.replaceAll("${PORT}", String(port));
  const { remoteAddress } = request.socket;
  return [
    "Host",
    masked ?? host,
    "X-Forwarded-Host",
    host,
    "X-Forwarded-Proto",
    scheme,
    ...(remoteAddress === undefined ? [] : ["X-Forwarded-For", remoteAddress]),
  ];
}

/** What opens the platform is not for the service inside; what is its own stays. */
function isCredential(key: string, value: string, { port, keys, endpoint }: Passage): boolean {
  if (key === TRAFFIC_TOKEN_HEADER) return true;
  if (key === ACCESS_TOKEN_HEADER)
    return port !== ENVD_PORT && !endpoint.servicePorts.includes(port);
  return key === API_KEY_HEADER && keys.isKey(value);
}

/** The daemon and services of its template are told its token, in the one header for it. */
function isOwnToken(key: string, value: string, { endpoint }: Passage): boolean {
  return key === ACCESS_TOKEN_HEADER && value === endpoint.accessToken;
}

/** The header with the cookies that hold no secret; nothing where none is left. */
function otherCookies(name: string, value: string, finder: SecretFinder): string[] {
  const cookies = value.split(";").filter((cookie) => !finder.holdsSecret(cookie));
  const rest = cookies.join(";").trim();
  return rest === "" || finder.holdsSecret(rest) ? [] : [name, rest];
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
    // RFC 9110, 8.6: a client could wait for a body that never comes.
    if (key === LENGTH && reply.statusCode === NO_CONTENT) continue;
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
  // The first part is the cookie itself, whatever its name.
  const [pair = "", ...attributes] = cookie.split(";");
  const kept = attributes.filter((part) => {
    const [name = "", domain = ""] = part.split("=", 2).map((text) => text.trim().toLowerCase());
    return name !== "domain" || domain.replace(/^\./, "") === own;
  });
  return [pair, ...kept].join(";");
}

function* pairs(rawHeaders: readonly string[]): Generator<readonly [string, string]> {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    yield [rawHeaders[index] ?? "", rawHeaders[index + 1] ?? ""];
  }
}
