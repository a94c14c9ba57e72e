/** Headers that belong to one connection and not to the request or reply on it (RFC 9110, 7.6.1). */

/** Names in lower case; those that a `Connection` header names come on top. */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
