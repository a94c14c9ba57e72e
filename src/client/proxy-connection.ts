/** Connections to hosts with TLS by way of an HTTP proxy, which passes on what it cannot read. */

import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { SandboxError } from "../common/errors.ts";
import { limitInterimReplies, MAX_DAEMON_REPLIES } from "../common/interim-replies.ts";

/** A proxy may ask for the name of the host elsewhere. */
const TIMEOUT_MS = 20_000;

/** @throws SandboxError unavailable when the proxy refuses, and the error of the connection to it */
export async function dialByProxy(proxyUrl: string, host: string, port: number): Promise<Socket> {
  const proxy = parseProxy(proxyUrl);
  const send = proxy.protocol === "https:" ? httpsRequest : httpRequest;
  const target = `${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`;
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const call = send({
    agent: false,
    host: proxy.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: proxy.port || (proxy.protocol === "https:" ? 443 : 80),
    method: "CONNECT",
    path: target,
    headers: { host: target, ...loginOf(proxy) },
  });
  const late = Object.assign(new Error(`connect ETIMEDOUT ${proxy.host}`), { code: "ETIMEDOUT" });
  const timer = setTimeout(() => call.destroy(late), TIMEOUT_MS);
  limitInterimReplies(call, MAX_DAEMON_REPLIES);
  const refuse = ({ statusCode }: IncomingMessage, socket: { destroy(): unknown }) => {
    socket.destroy();
    reject(refusal(`answered ${statusCode} for ${target}`, proxy));
  };
  call.once("connect", (reply: IncomingMessage, socket: Socket, head: Buffer) => {
    if (!hasAccepted(reply)) return refuse(reply, socket);
    if (head.length > 0) socket.unshift(head);
    return resolve(socket);
  });
  call.once("response", (reply) => refuse(reply, reply));
  call.on("error", reject);
  call.once("close", () => reject(refusal(`closed the connection to ${target}`, proxy)));
  call.end();
  return promise.finally(() => clearTimeout(timer));
}

/** Any status of success opens the tunnel (RFC 9110, section 9.3.6), and has no body. */
function hasAccepted({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300;
}

/** @throws SandboxError unavailable */
function parseProxy(text: string): URL {
  const proxy = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`);
  if (proxy?.protocol === "http:" || proxy?.protocol === "https:") return proxy;
  throw new SandboxError("unavailable", "HTTPS_PROXY names no HTTP proxy", { hint: HINT });
}

function loginOf({ username, password }: URL): Record<string, string> {
  if (username === "" && password === "") return {};
  const login = Buffer.from(`${plain(username)}:${plain(password)}`, "utf8").toString("base64");
  return { "proxy-authorization": `Basic ${login}` };
}

/** A percent sign that escapes nothing is one. */
function plain(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const HINT =
  "HTTPS_PROXY and NO_PROXY of the MCP server decide this. No tool call repairs it; tell the user.";

function refusal(what: string, { host }: URL): SandboxError {
  return new SandboxError("unavailable", `the proxy ${host} ${what}`, { hint: HINT });
}
