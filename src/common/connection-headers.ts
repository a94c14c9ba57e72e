/**
 * Headers of one connection (RFC 9110, 7.6.1): the fixed hop-by-hop names, and those that a
 * `Connection` header lists. A sender must not list a header by which the request is framed, routed
 * or admitted: the next server would read another request than the one that was checked.
 */

/** What a gateway says of the client, in lower case: set only by the gateway. */
export const FORWARDING_HEADERS: readonly string[] = [
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-proto",
  "x-real-ip",
];

/** Names in lower case, each with what depends on it. */
const END_TO_END: readonly string[] = [
  // Where the body ends, and whether it comes: the rest would be read as the next request.
  "content-length",
  "transfer-encoding",
  "trailer",
  "expect",
  // What the body is.
  "content-type",
  "content-encoding",
  "content-range",
  "range",
  // Which service is meant, and from which site.
  "host",
  "origin",
  // Who asks.
  "authorization",
  "cookie",
  ...FORWARDING_HEADERS,
];

/** Everything that cannot stand in a header name parts two of them: no reader finds more names. */
const SEPARATOR_PATTERN = /[^!#$%&'*+.^_`|~0-9a-z-]+/;

/** The names in every `Connection` header of a message, in lower case. */
export function connectionOptions(values: readonly string[] = []): ReadonlySet<string> {
  const names = values.flatMap((value) => value.toLowerCase().split(SEPARATOR_PATTERN));
  return new Set(names.filter((name) => name !== ""));
}

/** The first name that no `Connection` header may have, with those that a service adds. */
export function findForbiddenOption(
  values: readonly string[] | undefined,
  added: readonly string[] = [],
): string | undefined {
  if (values === undefined) return undefined;
  const named = connectionOptions(values);
  return [...END_TO_END, ...added].find((name) => named.has(name));
}

/** Names in lower case; those that a `Connection` header names come on top. */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "expect",
  // It belongs to an offer of HTTP/2, whether a Connection header names it or not.
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * What an `Upgrade` header asks for, without HTTP/2: RFC 9113 (3.1) has withdrawn that offer, which
 * clients such as curl and Java's still add to plain requests. It is ignored as RFC 9110 (7.8) lets a
 * server do: the request stays one of HTTP/1.1. Empty where nothing else is asked for.
 */
export function wantedProtocols(upgrade = ""): string {
  const protocols = upgrade.split(",").map((protocol) => protocol.trim());
  return protocols.filter((name) => name !== "" && name.toLowerCase() !== "h2c").join(", ");
}
