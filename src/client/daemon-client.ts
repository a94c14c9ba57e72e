/** A client of one daemon over connections that its host dials itself, as the service does. */

import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { Pool, request } from "undici";
import { createSystemClock } from "../common/clock.ts";
import { toSandboxError } from "../common/errors.ts";
import { readBounded } from "../common/http.ts";
import { MAX_DAEMON_REPLIES } from "../common/interim-replies.ts";
import { accessHeaders, type AccessSource, type CallOptions } from "./access.ts";
import type { Connected } from "./direct-connection.ts";
import { createEnvd, type Sandbox } from "./envd.ts";
import { daemonError } from "./http.ts";
import { interimLimit } from "./interim-limit.ts";

export interface DaemonClientOptions {
  readonly sandboxId: string;
  /** Undefined for a daemon that takes calls without a token. */
  readonly token: string | undefined;
  /** A connection to the daemon's public socket. */
  dial(signal: AbortSignal): Promise<Socket>;
}

/** What a host asks of a daemon as its clients do; disposal cuts every connection. */
export interface DaemonClient extends Pick<Sandbox, "process">, AsyncDisposable {
  /**
   * Writes a file of any size as it is read.
   * @throws SandboxError with the daemon's code.
   */
  sendFile(path: string, content: Readable, options: SendOptions): Promise<void>;
}

interface SendOptions extends Required<CallOptions> {
  /** Whether the content is compressed by gzip, and the file is not to be. */
  readonly isGzip: boolean;
}

/** A few streams and a call beside them. */
const MAX_CONNECTIONS = 16;
const MAX_REPLY_BYTES = 1024 * 1024;
const ORIGIN = "http://localhost";

/** Connections are dialled at the first call. */
export function openDaemonClient(options: DaemonClientOptions): DaemonClient {
  const { sandboxId, token } = options;
  const end = new AbortController();
  const pool = new Pool(ORIGIN, {
    connections: MAX_CONNECTIONS,
    allowH2: false,
    connect: (_target, callback) => void connect(options, end.signal, callback),
  });
  const dispatcher = pool.compose(interimLimit(MAX_DAEMON_REPLIES));
  const access = { token, domain: undefined, expiresAtMs: undefined, onTimeout: undefined };
  const source: AccessSource = {
    sandboxId,
    current: () => access,
    // The host knows the token; a refusal is final.
    refresh: async () => false,
    // Its host pauses none while it asks something of it.
    isRunning: async () => true,
  };
  const connection = { dispatcher, clock: createSystemClock() };
  const { process } = createEnvd({ connection, baseUrl: ORIGIN, source, isOwnDaemon: true });
  return {
    process,
    async sendFile(path, content, { user, signal, isGzip }) {
      const query = new URLSearchParams({ path, ...(user !== undefined && { username: user }) });
      const reply = await request(`${ORIGIN}/files?${query.toString()}`, {
        dispatcher,
        method: "POST",
        headers: {
          ...accessHeaders(source),
          "content-type": "application/octet-stream",
          ...(isGzip && { "content-encoding": "gzip" }),
        },
        body: content,
        signal,
        bodyTimeout: 0,
        headersTimeout: 0,
      });
      const { statusCode: status, headers } = reply;
      const body = await readBounded(reply.body, MAX_REPLY_BYTES, "send file");
      if (status >= 300) throw daemonError("send file", { status, headers, body });
    },
    async [Symbol.asyncDispose]() {
      end.abort();
      await pool.destroy();
    },
  };
}

/** Never rejects: both outcomes go to the callback. */
async function connect(
  options: DaemonClientOptions,
  signal: AbortSignal,
  callback: Connected,
): Promise<void> {
  let socket: Socket;
  try {
    socket = await options.dial(signal);
  } catch (error) {
    callback(toSandboxError(error, "daemon"), null);
    return;
  }
  callback(null, socket);
}
