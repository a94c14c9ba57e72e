/** The Connect services on node:http. The library decodes; what it leaves open is decided here. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { Code, ConnectError, createConnectRouter, createContextValues } from "@connectrpc/connect";
import {
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import {
  createAsyncIterable,
  encodeEnvelope,
  type UniversalHandler,
  type UniversalServerResponse,
} from "@connectrpc/connect/protocol";
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import { Filesystem } from "../gen/filesystem/filesystem_pb.ts";
import { Process } from "../gen/process/process_pb.ts";
import { callOriginKey, translateErrors, type CallOrigin } from "./call.ts";
import { drainRequest, sendStatus } from "./exchange.ts";
import { filesystemOperations } from "./filesystem/index.ts";
import { cutForOldClients } from "./filesystem/old-clients.ts";
import { withNumericSizes } from "./numeric-sizes.ts";
import { createFrameSink, frameSinkKey } from "./process/frame-sink.ts";
import { processOperations } from "./process/index.ts";
import { readRpcBody } from "./rpc-body.ts";
import { logCalls } from "./rpc-log.ts";

export interface RpcServer {
  /** Whether a path belongs to a method of a service. */
  has(path: string): boolean;
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    call: { readonly path: string; readonly origin: CallOrigin },
  ): Promise<void>;
}

/** What a peer may make us hold per message; a header that announces more allocates nothing. */
const MAX_READ_BYTES = 4_194_304;
/** A listing at its limit of entries fits, unless its paths are very long. */
const MAX_WRITE_BYTES = 16_777_216;
/**
 * A timer of the platform holds 2,147,483,647, and some add a little; above that it fires at once.
 * A longer deadline is as good as this one, 24 days.
 */
const MAX_TIMEOUT_MS = 2_147_000_000;

const TIMEOUT_HEADER = "connect-timeout-ms";
const UNARY_TYPES = /^application\/(?:json|proto)(?:; ?charset=utf-8)?$/i;
const STREAM_TYPES = /^application\/connect\+(?:json|proto)(?:; ?charset=utf-8)?$/i;
const BINARY_TYPES = /proto/i;
const ACCEPTED_UNARY = "application/json, application/proto";
const ACCEPTED_STREAM = "application/connect+json, application/connect+proto";
const END_STREAM_FLAG = 2;

/** The two services of the daemon. */
export function createRpcServer(): RpcServer {
  const router = createConnectRouter({
    grpc: false,
    grpcWeb: false,
    requireConnectProtocolHeader: true,
    readMaxBytes: MAX_READ_BYTES,
    writeMaxBytes: MAX_WRITE_BYTES,
    acceptCompression: [],
    // Two bytes of an unknown field would become an object; nobody would ever read it.
    binaryOptions: { readUnknownFields: false },
    interceptors: [logCalls, translateErrors, cutForOldClients],
  });
  router.service(Filesystem, filesystemOperations);
  router.service(Process, processOperations);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  return {
    has: (path) => handlers.has(path),
    async handle(request, response, { path, origin }) {
      const handler = handlers.get(path);
      if (handler === undefined || !isWellFormed(handler, request, response)) return;
      prepareHeaders(request);
      const codec = BINARY_TYPES.test(request.headers["content-type"] ?? "") ? "binary" : "json";
      const values = createContextValues()
        .set(callOriginKey, origin)
        .set(frameSinkKey, createFrameSink(response, codec));
      const universal = universalRequestFromNodeRequest(request, response, undefined, values);
      const isUnary = handler.method.methodKind === "unary";
      const body = readRpcBody(request, { isUnary, maxBytes: MAX_READ_BYTES });
      response.once("finish", () => drainRequest({ request, response }));
      const reply = await withNumericSizes(handler, await handler({ ...universal, body }));
      await universalResponseToNodeResponse(reply, response).catch(ignoreLostClient);
    },
  };
}

/** Answers what is no call of this method at all. */
function isWellFormed(
  handler: UniversalHandler,
  request: IncomingMessage,
  response: ServerResponse,
): boolean {
  if (request.method !== "POST") {
    sendStatus(response, 405, { allow: "POST" });
    return false;
  }
  const isUnary = handler.method.methodKind === "unary";
  const types = isUnary ? UNARY_TYPES : STREAM_TYPES;
  if (types.test(request.headers["content-type"] ?? "")) return true;
  sendStatus(response, 415, { "accept-post": isUnary ? ACCEPTED_UNARY : ACCEPTED_STREAM });
  return false;
}

/**
 * Takes out what could make the library fail: a Host that is no host, a timer's overflow, and a
 * length for which it would answer before the client has sent all.
 */
function prepareHeaders(request: IncomingMessage): void {
  request.headers.host = "localhost";
  delete request.headers["content-length"];
  const timeout = request.headers[TIMEOUT_HEADER];
  if (typeof timeout === "string" && /^[0-9]{10}$/.test(timeout)) {
    request.headers[TIMEOUT_HEADER] = String(Math.min(Number(timeout), MAX_TIMEOUT_MS));
  }
}

/** A reply that cannot be written has nobody left to be told; the call's signal has fired. */
function ignoreLostClient(error: unknown): void {
  if (!(error instanceof ConnectError)) throw error;
}

/** Refuses a call before its message is read, in the form that its content type asks for. */
export async function sendRpcRefusal(
  request: IncomingMessage,
  response: ServerResponse,
  message: string,
): Promise<void> {
  const error = errorToJson(new ConnectError(message, Code.Unauthenticated), undefined);
  const type = request.headers["content-type"] ?? "";
  const isStream = STREAM_TYPES.test(type);
  const json = Buffer.from(JSON.stringify(isStream ? { error } : error));
  const header = new Headers({ "content-type": isStream ? type : "application/json" });
  const reply: UniversalServerResponse = {
    status: isStream ? 200 : 401,
    header,
    body: createAsyncIterable([isStream ? encodeEnvelope(END_STREAM_FLAG, json) : json]),
  };
  await universalResponseToNodeResponse(reply, response).catch(ignoreLostClient);
}
