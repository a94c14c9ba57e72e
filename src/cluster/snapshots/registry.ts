/** Requests to a registry of images, with the two logins that registries ask for. Replies are bounded. */

import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { readBounded } from "../../common/http.ts";
import { parseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";

const IDLE_TIMEOUT_MS = 60_000;
const MAX_REDIRECTS = 4;
const MAX_TRIES = 4;
const RETRY_MS = 200;
const MAX_TOKEN_BYTES = 64 * 1024;
/** A manifest or a configuration; the largest that registries take. */
const MAX_DOCUMENT_BYTES = 4 * 1024 * 1024;
const FIRST_REDIRECT = 300;
const FIRST_REFUSED = 400;
const FIRST_BROKEN = 500;

export interface RegistryCredentials {
  readonly username: string;
  readonly password: string;
}

export interface RegistryPlace {
  /** `http(s)://host[:port]` */
  readonly origin: string;
  readonly repository: string;
  readonly credentials: RegistryCredentials | undefined;
}

export interface RegistryCall {
  readonly method: "GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** Below `/v2/REPOSITORY/`, or what a registry answered as location. */
  readonly path: string | URL;
  readonly headers?: OutgoingHttpHeaders;
  /** A stream is sent once: a login must have been made before. */
  readonly body?: Buffer | Readable;
  /** Statuses beyond those of success that the caller handles. */
  readonly handled?: readonly number[];
}

export interface Registry {
  readonly place: RegistryPlace;
  /** The head of the reply; the caller reads or destroys its body. @throws SandboxError */
  open(call: RegistryCall): Promise<IncomingMessage>;
  /** With its whole body. */
  send(call: RegistryCall): Promise<RegistryReply>;
  /** Where a reply leads. */
  locate(reply: { readonly headers: IncomingMessage["headers"] }): URL;
}

export interface RegistryReply {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

const tokenSchema = z
  .object({ token: z.string().optional(), access_token: z.string().optional() })
  .transform((reply) => reply.token ?? reply.access_token);

export function createRegistry(place: RegistryPlace, signal: AbortSignal): Registry {
  const { origin, repository, credentials } = place;
  const base = new URL(`${origin}/v2/${repository}/`);
  let login: string | undefined;

  async function once(call: RegistryCall, url: URL): Promise<IncomingMessage> {
    // A login is for the registry alone, never for where it leads.
    const isOwn = url.origin === base.origin;
    const headers = {
      ...call.headers,
      ...(login !== undefined && isOwn && { authorization: login }),
    };
    return exchange(url, { ...call, headers }, signal);
  }

  async function withLogin(call: RegistryCall, url: URL): Promise<IncomingMessage> {
    const reply = await once(call, url);
    const isOwn = url.origin === base.origin;
    if (reply.statusCode !== 401 || !isOwn || isStream(call.body)) return reply;
    reply.resume();
    login = await findLogin(reply.headers["www-authenticate"] ?? "", {
      credentials,
      repository,
      isPlain: base.protocol === "http:",
      signal,
    });
    return once(call, url);
  }

  async function follow(call: RegistryCall): Promise<IncomingMessage> {
    let url = toUrl(call.path, base);
    for (let count = 0; count < MAX_REDIRECTS; count += 1) {
      const reply = await withLogin(call, url);
      const status = reply.statusCode ?? 0;
      const isRedirect = [301, 302, 303, 307, 308].includes(status);
      if (call.method !== "GET" || !isRedirect) return reply;
      reply.resume();
      url = stayInTls(toUrl(reply.headers.location ?? "", url), url);
    }
    throw new SandboxError("unavailable", "the registry redirects without end");
  }

  async function open(call: RegistryCall): Promise<IncomingMessage> {
    for (let tried = 1; ; tried += 1) {
      const isLast = tried >= MAX_TRIES || isStream(call.body);
      const outcome = await follow(call).catch((error: unknown) => {
        if (isLast || signal.aborted) throw toSandboxError(error, "registry");
        return undefined;
      });
      const status = outcome?.statusCode ?? FIRST_BROKEN;
      if (outcome !== undefined && (isLast || status < FIRST_BROKEN)) {
        if (isGood(call, status) || call.handled?.includes(status) === true) return outcome;
        throw await refusal(outcome, call);
      }
      outcome?.resume();
      await delay(RETRY_MS * tried, undefined, { signal });
    }
  }

  return {
    place,
    open,
    async send(call) {
      const reply = await open(call);
      const body = await readBounded(reply, MAX_DOCUMENT_BYTES, "registry");
      return { status: reply.statusCode ?? 0, headers: reply.headers, body };
    },
    locate: ({ headers }) => stayInTls(toUrl(headers.location ?? "", base), base),
  };
}

/** A blob that is there may be kept elsewhere. What is sent to a page that redirects is nowhere. */
function isGood({ method }: RegistryCall, status: number): boolean {
  return status < (method === "HEAD" ? FIRST_REFUSED : FIRST_REDIRECT);
}

function isStream(body: RegistryCall["body"]): body is Readable {
  return body !== undefined && !Buffer.isBuffer(body);
}

function toUrl(path: string | URL, base: URL): URL {
  const url = URL.parse(String(path), base.href);
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new SandboxError("unavailable", "the registry leads to no address");
}

/** The files of a sandbox do not leave TLS. */
function stayInTls(url: URL, from: URL): URL {
  if (url.protocol === "https:" || from.protocol === "http:") return url;
  throw new SandboxError("unavailable", "the registry leads out of TLS");
}

async function exchange(url: URL, call: RegistryCall, signal: AbortSignal) {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  const { method, headers = {}, body } = call;
  const length = Buffer.isBuffer(body) || method === "POST" ? { "content-length": 0 } : {};
  const sized = Buffer.isBuffer(body) ? { "content-length": body.length } : length;
  const outgoing = send(url, { method, headers: { ...sized, ...headers }, signal });
  outgoing.setTimeout(IDLE_TIMEOUT_MS, () =>
    outgoing.destroy(new SandboxError("unavailable", "the registry does not answer")),
  );
  outgoing.once("response", resolve);
  outgoing.on("error", reject);
  // One that switches protocols unasked ends the connection without an error.
  outgoing.once("close", () =>
    reject(new SandboxError("unavailable", "the registry closed the connection")),
  );
  if (isStream(body)) pipeline(body, outgoing, { signal }).catch(reject);
  else outgoing.end(body);
  return promise;
}

/** What a registry says is told to operators alone: it may quote a login. */
async function refusal(reply: IncomingMessage, { method }: RegistryCall): Promise<SandboxError> {
  reply.resume();
  const status = reply.statusCode ?? 0;
  const message = `the registry answered ${method} with ${status}`;
  if (status === 401 || status === 403) {
    return new SandboxError("unavailable", `${message}: its login is missing or wrong`);
  }
  return new SandboxError(status === 404 ? "not_found" : "unavailable", message);
}

interface LoginFacts {
  readonly credentials: RegistryCredentials | undefined;
  readonly repository: string;
  /** Whether the registry itself is without TLS. */
  readonly isPlain: boolean;
  readonly signal: AbortSignal;
}

/** The header for what a registry asks. */
async function findLogin(challenge: string, facts: LoginFacts): Promise<string | undefined> {
  const { credentials, repository, isPlain, signal } = facts;
  const basic = credentials && `Basic ${toBase64(credentials)}`;
  if (!/^bearer /i.test(challenge)) return basic;
  const field = (name: string) => new RegExp(`${name}="([^"]{1,2048})"`, "i").exec(challenge)?.[1];
  const url = URL.parse(field("realm") ?? "");
  // A password does not leave TLS.
  if (url?.protocol !== "https:" && !(isPlain && url?.protocol === "http:")) return basic;
  const service = field("service");
  if (service !== undefined) url.searchParams.set("service", service);
  url.searchParams.set("scope", `repository:${repository}:pull,push,delete`);
  const headers = basic === undefined ? {} : { authorization: basic };
  const reply = await exchange(url, { method: "GET", path: url, headers }, signal);
  const body = await readBounded(reply, MAX_TOKEN_BYTES, "registry login");
  if (reply.statusCode !== 200) {
    throw new SandboxError("unavailable", `the login of the registry answered ${reply.statusCode}`);
  }
  const token = tokenSchema.safeParse(parseJson(body)).data;
  return token === undefined ? basic : `Bearer ${token}`;
}

function toBase64({ username, password }: RegistryCredentials): string {
  return Buffer.from(`${username}:${password}`, "utf8").toString("base64");
}
