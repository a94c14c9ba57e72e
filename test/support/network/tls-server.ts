/** The product's TLS listener on its own, for tests of HTTP/2. */

import { createSilentLog } from "../../../src/common/log.ts";
import { createTlsServer, type TlsIdentity } from "../../../src/listener/tls.ts";

const MAX_HEADER_BYTES = 16_384;
const MINUTE_MS = 60_000;

interface Waits {
  /** For the first request of a connection, in milliseconds. */
  readonly firstMs: number;
  /** For each later one. */
  readonly laterMs: number;
}

/** It listens nowhere yet; its requests are of `node:http`, whatever clients speak. */
export function createTestTlsServer(
  identity: TlsIdentity,
  { firstMs, laterMs }: Waits = { firstMs: MINUTE_MS, laterMs: MINUTE_MS },
): ReturnType<typeof createTlsServer>["server"] {
  return createTlsServer({
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      requestTimeout: 0,
      headersTimeout: firstMs,
      keepAliveTimeout: laterMs,
    },
    identity,
    log: createSilentLog(),
  }).server;
}
