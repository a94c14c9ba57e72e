/** The listeners of a service, each spoken to by an ordinary client, one connection for each request. */

import { request as requestHttp, type ClientRequest, type IncomingMessage } from "node:http";
import { connect as connectHttp2, type ClientHttp2Session } from "node:http2";
import { request as requestHttps } from "node:https";

export interface ListenerCall {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Asks for another protocol; HTTP/2 has none. */
  readonly isUpgrade?: boolean;
  /** For a reply that may never come, or never end: it is given up soon. */
  readonly mayBeSilent?: boolean;
}

/** What the client saw: a status, silence until it gave up, or no reply at all. */
export type CallOutcome =
  | { readonly status: number; readonly isWhole: boolean }
  | "silent"
  | "cut"
  /** The listener itself sent what its client cannot read. */
  | "unreadable";

export interface TestListener {
  readonly name: string;
  readonly hasUpgrades: boolean;
  call(wanted: ListenerCall): Promise<CallOutcome>;
}

export interface ListenersOptions {
  readonly socketPath: string;
  /** Undefined where no listener speaks plain HTTP over TCP. */
  readonly plainPort: number | undefined;
  readonly tlsPort: number;
  readonly authority: string;
  readonly host: string;
}

/** How long a client waits. */
const SILENCE_MS = 300;
const LIMIT_MS = 20_000;
const BODY = "a body";

/** The four listeners; disposing closes what is shared between calls. */
export function openListeners(
  options: ListenersOptions,
): { readonly listeners: readonly TestListener[] } & Disposable {
  const { socketPath, plainPort, tlsPort, authority: ca, host } = options;
  const tls = { ca, servername: host, agent: false as const };
  let session: ClientHttp2Session | undefined;
  const openSession = (): ClientHttp2Session => {
    if (session !== undefined && !session.closed && !session.destroyed) return session;
    session = connectHttp2(`https://127.0.0.1:${tlsPort}`, {
      ca,
      servername: host,
      // What a client takes is not what is tested here.
      maxHeaderListPairs: 10_000,
    });
    // What breaks it is seen by the calls on it.
    session.on("error", () => undefined);
    return session;
  };
  const listeners: readonly TestListener[] = [
    {
      name: "unix",
      hasUpgrades: true,
      call: over((more) => requestHttp({ socketPath, agent: false, ...more })),
    },
    {
      name: "TCP",
      hasUpgrades: true,
      call: over((more) => requestHttp({ port: plainPort, agent: false, ...more })),
    },
    {
      name: "TLS",
      hasUpgrades: true,
      call: over((more) => requestHttps({ host: "127.0.0.1", port: tlsPort, ...tls, ...more })),
    },
    { name: "HTTP/2", hasUpgrades: false, call: (wanted) => callHttp2(openSession(), wanted) },
  ];
  const there = listeners.filter(({ name }) => name !== "TCP" || plainPort !== undefined);
  return { listeners: there, [Symbol.dispose]: () => session?.destroy() };
}

type Open = (options: object) => ClientRequest;

function over(open: Open): (wanted: ListenerCall) => Promise<CallOutcome> {
  return (wanted) => callOnce(open, wanted);
}

async function callOnce(
  open: Open,
  { method, path, headers, isUpgrade = false, mayBeSilent = false }: ListenerCall,
): Promise<CallOutcome> {
  const { promise, resolve } = Promise.withResolvers<CallOutcome>();
  const upgrade = isUpgrade ? { connection: "Upgrade", upgrade: "websocket" } : {};
  const call = open({ method, path, headers: { ...headers, ...upgrade } });
  const limitMs = mayBeSilent ? SILENCE_MS : LIMIT_MS;
  const timer = setTimeout(() => resolve("silent"), limitMs);
  call.on("error", (error) => {
    const isParsing = "code" in error && String(error.code).startsWith("HPE_");
    resolve(isParsing ? "unreadable" : "cut");
  });
  call.on("response", (reply) => {
    clearTimeout(timer);
    void finish(reply, limitMs).then(resolve);
  });
  call.on("upgrade", (reply) => resolve({ status: reply.statusCode ?? 0, isWhole: true }));
  call.end(method === "POST" ? BODY : undefined);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    call.destroy();
  }
}

async function finish(reply: IncomingMessage, limitMs: number): Promise<CallOutcome> {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  // What breaks a body off closes it too.
  reply.on("error", () => undefined).once("close", resolve);
  reply.resume();
  const timer = setTimeout(() => reply.destroy(), limitMs);
  await closed;
  clearTimeout(timer);
  return { status: reply.statusCode ?? 0, isWhole: reply.complete };
}

async function callHttp2(session: ClientHttp2Session, wanted: ListenerCall): Promise<CallOutcome> {
  const { method, path, headers } = wanted;
  const { host = "localhost", ...others } = headers;
  const { promise, resolve } = Promise.withResolvers<void>();
  let status: number | undefined;
  let isEnded = false;
  const stream = session.request({
    ...others,
    ":method": method,
    ":path": path,
    ":authority": host,
  });
  const timer = setTimeout(resolve, wanted.mayBeSilent === true ? SILENCE_MS : LIMIT_MS);
  stream.on("response", (reply) => (status = Number(reply[":status"])));
  stream.on("error", () => undefined);
  stream.once("end", () => (isEnded = true));
  stream.once("close", resolve);
  stream.resume();
  if (method === "POST") stream.end(BODY);
  else stream.end();
  await promise;
  clearTimeout(timer);
  const wasOpen = !stream.closed;
  stream.destroy();
  if (status !== undefined) return { status, isWhole: isEnded };
  return wasOpen && !session.destroyed ? "silent" : "cut";
}
