/**
 * Connections of HTTP clients to a host, by whichever of its addresses answers first. With TLS, that of the
 * host itself, they lead through the proxy of this machine.
 */

import dns from "node:dns";
import type { Socket } from "node:net";
import { buildConnector } from "undici";
import { causeCode, errorText, SandboxError } from "../common/errors.ts";
import { isExcepted, type OutboundProxy } from "../common/outbound-proxy.ts";
import { dialFirst } from "../common/sockets.ts";
import { quoteWords } from "../common/untrusted-text.ts";
import { dialByProxy } from "./proxy-connection.ts";

/** For its name and its addresses together; the handshake of TLS has as long again. */
const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 60_000;
const HTTP_PORT = 80;
const HTTPS_PORT = 443;

type Target = Parameters<buildConnector.connector>[0];

type Dial = (host: string, port: number) => Promise<Socket>;

export function hostConnector(proxy?: OutboundProxy): buildConnector.connector {
  const secure = buildConnector({ allowH2: false, timeout: CONNECT_TIMEOUT_MS });
  return (target, callback) => {
    const isSecure = target.protocol === "https:";
    const port = Number(target.port) || (isSecure ? HTTPS_PORT : HTTP_PORT);
    const isDirect =
      !isSecure || proxy === undefined || isExcepted(proxy.except, target.hostname, port);
    const dial: Dial = isDirect ? dialHost : async (host) => dialByProxy(proxy.url, host, port);
    void connect(dial(target.hostname, port), { target, ...(isSecure && { secure }) }, callback);
  };
}

/** Never rejects. */
async function connect(
  dialled: Promise<Socket>,
  { target, secure }: { readonly target: Target; readonly secure?: buildConnector.connector },
  callback: buildConnector.Callback,
): Promise<void> {
  const socket = await dialled.catch(toError);
  if (socket instanceof Error) return callback(socket, null);
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
  // An error closes it, which its user is told.
  socket.on("error", () => undefined);
  if (secure === undefined) return callback(null, socket);
  secure({ ...target, httpSocket: socket }, (...[error, secured]) => {
    if (error === null) callback(null, secured);
    else callback(explainTls(error, target.hostname), null);
  });
}

/** Of a certificate that is not accepted. */
const CERTIFICATE_CODE =
  /^(?:CERT_|ERR_TLS_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|HOSTNAME_)/;
const CERTIFICATE_HINT =
  "The certificate of the sandbox service must be valid now, name this host, and be signed by an " +
  "authority that Node or the file of NODE_EXTRA_CA_CERTS trusts. No tool call repairs this; tell the user.";
/** Of a server that speaks something else, or no version in common. */
const PROTOCOL_CODE = /^(?:EPROTO|ERR_SSL_)/;
const PROTOCOL_HINT =
  "The address of the sandbox service begins with https, and what answers there speaks no TLS that " +
  "this server knows. No tool call repairs this; tell the user.";

/** Another failure of the connection stays as it is. */
function explainTls(error: Error, host: string): Error {
  const code = causeCode(error) ?? "";
  const isProtocol = PROTOCOL_CODE.test(code);
  if (!isProtocol && !CERTIFICATE_CODE.test(code)) return error;
  // In the words of OpenSSL or, of a certificate for other hosts, with names of the certificate.
  const reason = "reason" in error ? String(error.reason) : errorText(error);
  const message = `TLS with ${host}: ${quoteWords(reason)}`;
  const hint = isProtocol ? PROTOCOL_HINT : CERTIFICATE_HINT;
  return new SandboxError("failed_precondition", message, { cause: error, hint });
}

async function dialHost(host: string, port: number): Promise<Socket> {
  const limit = new AbortController();
  const expired = Promise.withResolvers<never>();
  const expire = () => {
    const error = new Error(`connect ETIMEDOUT ${host}:${port}`);
    limit.abort(error);
    expired.reject(Object.assign(error, { code: "ETIMEDOUT" }));
  };
  const timer = setTimeout(expire, CONNECT_TIMEOUT_MS);
  try {
    const addresses = await Promise.race([addressesOf(host), expired.promise]);
    return await dialFirst({ addresses, port, signal: limit.signal });
  } finally {
    clearTimeout(timer);
  }
}

/** By the function that Node's own connections use, so that a program that replaces it is heard here. */
async function addressesOf(host: string): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>();
  dns.lookup(host, { all: true }, (error, found) => {
    if (error === null) resolve(found.map(({ address }) => address));
    else reject(error);
  });
  return promise;
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
