/** MCP over Streamable HTTP for both eras: one request at a time, or a session per older host. */

import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
  toNodeHandler,
  toWebRequest,
} from "@modelcontextprotocol/node";
import {
  createMcpHandler,
  INVALID_PARAMS,
  isInitializeRequest,
  isLegacyRequest,
  type McpHttpHandler,
} from "@modelcontextprotocol/server";
import { createInFlight, IN_FLIGHT_TEXT, type HeldBytes } from "../../common/concurrency.ts";
import { SandboxError } from "../../common/errors.ts";
import { readBodyInTurns, sendJson } from "../../common/http.ts";
import { parseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import { createStartLimiter, type StartLimiter } from "../../common/start-limiter.ts";
import { hasBatches } from "../messages/batch.ts";
import { findId } from "../messages/message-id.ts";
import {
  INVALID_REQUEST,
  PARSE_ERROR,
  Refusal,
  toMessage,
  withoutMark,
} from "../messages/message.ts";
import { createMcpServer, type ServerExtension } from "../server.ts";
import type { McpState } from "../state.ts";
import type { Tool } from "../tool.ts";
import { deliverInTurns } from "./deliver-in-turns.ts";
import { endWhenRevoked, endWhenStalled } from "./end-reply.ts";
import { answerFailure, refusesMethod, RETRY_AFTER_S, sendRpcError } from "./http-refusals.ts";
import { hold, repeatsId } from "./open-requests.ts";
import { createSessions, replaceStream, type Session, type Sessions } from "./sessions.ts";

export interface McpHttpOptions {
  readonly state: McpState;
  readonly tools: readonly Tool[];
  readonly version: string;
  /** The team of a bearer token; undefined for an unknown one. */
  authenticate(token: string): Promise<string | undefined>;
  /** `legacy` answers no probe for the newer era: every request is one of the older era. */
  readonly protocol?: "auto" | "legacy";
  /** Fixtures of a conformance run, which checks no token. */
  readonly conformance?: ServerExtension | undefined;
}

/** The `/mcp` endpoint of a listener, which has checked the Host already. */
export interface McpHttp extends AsyncDisposable {
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Calls that wait are answered with what there is: the service is about to end. */
  leave(): void;
}

/** As on stdio: three million characters of file content, most of them of three or four bytes. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
/**
 * Messages of a team that begin in one turn of the event loop: a list of all tools takes milliseconds,
 * and a crowd of them would hold up the other teams.
 */
const MESSAGES_PER_TURN = 2;
/** Keeps proxies from ending a silent stream. */
const KEEP_ALIVE_MS = 15_000;
/** Some clients send a key in the header that the control API takes, `X-API-Key`. */
const NO_KEY = {
  error: "invalid_token",
  error_description: "send the header Authorization: Bearer with an API key of this service",
} as const;

/** Starts the endpoint; its end closes every session. */
export function startMcpHttp(options: McpHttpOptions): McpHttp {
  const { state, tools, version, conformance: extension } = options;
  const sessions = createSessions(state);
  const checkOrigin = localhostOriginValidation();
  const modern = createMcpHandler(
    ({ authInfo }) => {
      const principal = authInfo?.clientId ?? "http";
      const shared = { state, tools, version, principal, extension, transport: "http" } as const;
      return createMcpServer({ ...shared, era: "modern", isLasting: false });
    },
    {
      legacy: "reject",
      // A call whose question the client cannot answer is refused with a status, which a stream
      // that is open cannot carry any more; the tools in normal use ask nothing.
      responseMode: extension === undefined ? "sse" : "auto",
      keepAliveMs: KEEP_ALIVE_MS,
    },
  );
  const stopTelling = tellModern(modern, state);
  const begin = createStartLimiter(MESSAGES_PER_TURN);
  const legacy = createLegacy({ ...options, begin }, sessions);
  const inFlight = createInFlight();

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    using held = inFlight.open();
    if (!checkOrigin(request, response)) return;
    const ask = () => authenticate(request, options);
    const principal = await ask();
    if (principal === undefined) {
      const headers = { "www-authenticate": "Bearer" };
      return sendJson(response, 401, { body: NO_KEY, headers });
    }
    if (refusesMethod(request, response)) return;
    response.setHeader("x-accel-buffering", "no");
    endWhenStalled(response, state.clock);
    endWhenRevoked(response, state.clock, async () => (await ask()) === principal);
    const read = request.method === "POST" ? await readJson(request, held) : { body: undefined };
    if ("refusal" in read) return sendJson(response, read.status, { body: read.refusal.reply });
    await begin();
    const { body } = read;
    const message = body === undefined || Array.isArray(body) ? undefined : toMessage(body);
    if (message instanceof Refusal) return sendJson(response, 400, { body: message.reply });
    const auth = { token: "", clientId: principal, scopes: [] };
    // A server's requests have both, which Node's type for clients as well does not say.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const node = Object.assign(request, { auth }) as ServerRequest;
    const isOlder = options.protocol === "legacy";
    if (isOlder || (await isLegacyRequest(await toWebRequest(node, body), body))) {
      return await legacy({ request, response, principal, body });
    }
    return await toNodeHandler(modern)(node, response, body);
  }

  return {
    async handle(request, response) {
      try {
        await serve(request, response);
      } catch (error) {
        answerFailure(error, response, state);
      }
    },
    leave: () => state.leaving.abort(),
    async [Symbol.asyncDispose]() {
      stopTelling();
      await sessions[Symbol.asyncDispose]();
      await modern.close();
    },
  };
}

/** The bearer token that a request carries. */
export function bearerOf({ headers }: IncomingMessage): string | undefined {
  return /^bearer +([^\s]{1,512})$/i.exec(headers.authorization ?? "")?.[1];
}

type ServerRequest = IncomingMessage & { method: string; url: string };

/** Changes of logs for hosts of the newer era, which listen on streams of their own. */
function tellModern(modern: McpHttpHandler, state: McpState): () => void {
  return state.logs.observe({
    updated: (uri) => modern.notify.resourceUpdated(uri),
    listChanged: () => modern.notify.resourcesChanged(),
  });
}

async function authenticate(
  request: IncomingMessage,
  options: McpHttpOptions,
): Promise<string | undefined> {
  if (options.conformance !== undefined) return "conformance";
  const token = bearerOf(request);
  return token === undefined ? undefined : options.authenticate(token);
}

/** One team per endpoint: its bodies count against one limit. */
const OWN = "own";

type ReadBody = { readonly body: unknown } | { readonly status: number; readonly refusal: Refusal };

async function readJson(request: IncomingMessage, held: HeldBytes): Promise<ReadBody> {
  const bytes = await readBodyInTurns(request, MAX_BODY_BYTES, (length) => {
    if (!held.add(OWN, length)) throw new SandboxError("unavailable", IN_FLIGHT_TEXT);
  });
  try {
    return { body: parseJson(withoutMark(bytes)) };
  } catch (error) {
    if (error instanceof SyntaxError) {
      return { status: 400, refusal: new Refusal(PARSE_ERROR, "Parse error") };
    }
    if (!(error instanceof SandboxError)) throw error;
    const status = error.code === "resource_exhausted" ? 413 : 400;
    return { status, refusal: new Refusal(INVALID_REQUEST, error.message, findId(bytes)) };
  }
}

const methodSchema = z.looseObject({ method: z.string() });

interface LegacyRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly principal: string;
  readonly body: unknown;
}

type LegacyOptions = McpHttpOptions & { readonly begin: StartLimiter };

/** Hosts of the older era: one server and one transport for each session. */
function createLegacy(options: LegacyOptions, sessions: Sessions) {
  const { state } = options;

  return async ({ request, response, principal, body }: LegacyRequest): Promise<void> => {
    const id = request.headers["mcp-session-id"];
    const known = typeof id === "string" ? sessions.find(id) : undefined;
    if (id !== undefined && known?.principal !== principal) {
      return sendRpcError(response, 404, { code: -32_001, text: "Session not found", body });
    }
    const isOpening = methodSchema.safeParse(body).data?.method === "initialize";
    if (known === undefined && !isOpening) {
      return sendRpcError(response, 400, { code: -32_000, text: "Missing session", body });
    }
    if (isOpening && known === undefined && !isInitializeRequest(body)) {
      const text = "Invalid params: initialize needs protocolVersion, capabilities and clientInfo";
      return sendRpcError(response, 400, { code: INVALID_PARAMS, text, body });
    }
    if (known !== undefined && isOpening) {
      const text = "Invalid Request: Server already initialized";
      return sendRpcError(response, 400, { code: INVALID_REQUEST, text, body });
    }
    if (Array.isArray(body) && !hasBatches(known?.revision)) {
      const text = `Invalid Request: protocol revision ${known?.revision ?? "unknown"} has no batches`;
      return sendRpcError(response, 400, { code: INVALID_REQUEST, text });
    }
    if (known !== undefined && repeatsId(known, body)) {
      const text = "Invalid Request: another request with this id has no reply yet";
      return sendRpcError(response, 400, { code: INVALID_REQUEST, text, body });
    }
    if (known === undefined && !sessions.admit()) {
      response.setHeader("retry-after", String(RETRY_AFTER_S));
      return sendRpcError(response, 503, { code: -32_000, text: "Too many sessions", body });
    }
    const session = known ?? (await openSession(options, sessions, principal));
    const settle = hold(session, { response, body, clock: state.clock });
    try {
      // A host that left while it waited must not take the place of its next stream.
      if (!(await replaceStream(session, { request, response, clock: state.clock }))) return;
      await session.transport.handleRequest(request, response, body);
    } finally {
      settle();
    }
    const isOpen = sessions.has(session);
    // A refused handshake leaves a server without a session.
    if (known === undefined && !isOpen) await session.transport.close();
  };
}

/** A server and a transport of its own, which is a session once the handshake is accepted. */
async function openSession(
  options: LegacyOptions,
  sessions: Sessions,
  principal: string,
): Promise<Session> {
  const { state, tools, version, conformance: extension } = options;
  const shared = { state, tools, version, principal, extension, transport: "http" } as const;
  const server = createMcpServer({ ...shared, era: "legacy", isLasting: true });
  const replies = sessions.replies.open();
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    eventStore: replies,
    onsessioninitialized: (id) => sessions.add(id, session),
    onsessionclosed: (id) => sessions.remove(id),
  });
  const usedAtMs = state.clock.elapsed();
  const session: Session = { principal, transport, usedAtMs, openRequests: 0, openIds: new Map() };
  const send = transport.send.bind(transport);
  Object.assign(transport, {
    setProtocolVersion(revision: string) {
      session.revision = revision;
    },
    send(...[message, sending]: Parameters<typeof send>) {
      // In a batch a request is over before its response is closed.
      if (!("method" in message) && message.id !== undefined) session.openIds.delete(message.id);
      return send(message, sending);
    },
  });
  Object.assign(transport, { onclose: () => replies.forget() });
  await server.connect(transport);
  const deliver = transport.onmessage;
  type Given = Parameters<NonNullable<typeof deliver>>;
  const give = (...[message, extra]: Given) => deliver?.(message, extra);
  Object.assign(transport, { onmessage: deliverInTurns(session, options.begin, give) });
  return session;
}
