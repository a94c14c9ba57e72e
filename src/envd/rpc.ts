/** The Connect services on node:http. The library decodes; what it leaves open is decided here. */

import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { fromBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createConnectRouter, createContextValues } from "@connectrpc/connect";
import {
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { createAsyncIterable, type UniversalHandler } from "@connectrpc/connect/protocol";
import { errorText, hasErrorCode } from "../common/errors.ts";
import { Filesystem } from "../gen/filesystem/filesystem_pb.ts";
import { Process } from "../gen/process/process_pb.ts";
import { parseContentType, type ContentType } from "../rpc/content-type.ts";
import { ENVELOPE_HEAD_BYTES } from "../rpc/envelope.ts";
import { encodeError } from "../rpc/errors.ts";
import { createFrameSink, frameSinkKey } from "../rpc/frame-sink.ts";
import { createMessageReader } from "../rpc/message-reader.ts";
import {
  encodeNumericSizes,
  replySlotKey,
  withSlot,
  type ReplySlot,
} from "../rpc/numeric-sizes.ts";
import { callOriginKey, translateErrors, type CallOrigin } from "./call.ts";
import { drainRequest, sendStatus } from "./exchange.ts";
import { filesystemOperations } from "./filesystem/index.ts";
import { cutForOldClients } from "./filesystem/old-clients.ts";
import { processOperations } from "./process/index.ts";
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
/** What is left of a refused message is read up to this, then the line is cut. */
const MAX_DRAINED_BYTES = 8_388_608;
/**
 * A timer of the platform holds 2,147,483,647, and some add a little; above that it fires at once.
 * A longer deadline is as good as this one, 24 days.
 */
const MAX_TIMEOUT_MS = 2_147_000_000;

/** Two bytes of an unknown field would become an object; no code would ever read it. */
const BINARY_OPTIONS = { readUnknownFields: false };

const TIMEOUT_HEADER = "connect-timeout-ms";
const ACCEPTED_UNARY = "application/json, application/proto";
const ACCEPTED_STREAM = "application/connect+json, application/connect+proto";

/** The two services of the daemon. */
export function createRpcServer(): RpcServer {
  const router = createConnectRouter({
    grpc: false,
    grpcWeb: false,
    requireConnectProtocolHeader: true,
    readMaxBytes: MAX_READ_BYTES,
    writeMaxBytes: MAX_WRITE_BYTES,
    acceptCompression: [],
    binaryOptions: BINARY_OPTIONS,
    interceptors: [
      logCalls,
      translateErrors,
      encodeNumericSizes(MAX_WRITE_BYTES),
      cutForOldClients,
    ],
  });
  router.service(Filesystem, filesystemOperations);
  router.service(Process, processOperations);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  return {
    has: (path) => handlers.has(path),
    async handle(request, response, { path, origin }) {
      const handler = handlers.get(path);
      if (handler === undefined) return;
      const type = wellFormedType(handler, request, response);
      if (type === undefined) return;
      prepareHeaders(request);
      // A proxy that collects a reply would hold back the first message until the last.
      if (type.isStream) response.setHeader("x-accel-buffering", "no");
      const slot: ReplySlot = {};
      const values = createContextValues()
        .set(callOriginKey, origin)
        .set(replySlotKey, slot)
        .set(frameSinkKey, createFrameSink(response, type.isBinary ? "binary" : "json"));
      const universal = universalRequestFromNodeRequest(request, response, undefined, values);
      const body = readBody(request, type, handler.method.input);
      response.once("finish", () => drainRequest({ request, response }));
      const reply = withSlot(await handler({ ...universal, body }), slot);
      await universalResponseToNodeResponse(reply, response).catch(ignoreLostClient);
    },
  };
}

type MessageSchema = UniversalHandler["method"]["input"];

/** The content type of a call of this method; undefined, and answered, for anything else. */
function wellFormedType(
  handler: UniversalHandler,
  request: IncomingMessage,
  response: ServerResponse,
): ContentType | undefined {
  if (request.method !== "POST") {
    sendStatus(response, 405, { allow: "POST" });
    return undefined;
  }
  const type = parseContentType(request.headers["content-type"]);
  const isStream = handler.method.methodKind !== "unary";
  if (type?.isStream === isStream) return type;
  sendStatus(response, 415, { "accept-post": isStream ? ACCEPTED_STREAM : ACCEPTED_UNARY });
  return undefined;
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

/**
 * The messages of a request. Their use throws a ConnectError for one that is too long, for JSON that
 * is too deep or too rich, and for what is no message in binary; the connection stays whole, so that
 * a reply can be sent.
 */
async function* readBody(
  request: IncomingMessage,
  type: ContentType,
  schema: MessageSchema,
): AsyncGenerator<Uint8Array, void> {
  const reader = createMessageReader(type, { maxBytes: MAX_READ_BYTES });
  let fault: ConnectError | undefined;
  let left = MAX_DRAINED_BYTES;
  const chunks: AsyncIterable<Uint8Array> = request.iterator({ destroyOnReturn: false });
  for await (const chunk of chunks) {
    // A client that is still sending looks at no reply: the rest is read, but goes nowhere.
    if (fault !== undefined && (left -= chunk.length) < 0) break;
    if (fault !== undefined) continue;
    try {
      for (const bytes of reader.read(chunk)) yield requireMessage(bytes, type, schema);
    } catch (error) {
      fault = toFault(error);
    }
  }
  if (fault !== undefined) throw fault;
  const rest = reader.rest();
  if (rest !== undefined) yield type.isStream ? rest : requireMessage(rest, type, schema);
}

/**
 * The library calls its own what it cannot parse in binary, which would be a status of 500, and
 * makes other text of JSON in another encoding: the name of another file.
 */
function requireMessage(bytes: Uint8Array, type: ContentType, schema: MessageSchema): Uint8Array {
  if (type.isStream && bytes[0] !== 0) return bytes;
  const message = type.isStream ? bytes.subarray(ENVELOPE_HEAD_BYTES) : bytes;
  if (!type.isBinary) {
    if (isUtf8(message)) return bytes;
    throw new ConnectError("JSON is not in UTF-8", Code.InvalidArgument);
  }
  try {
    fromBinary(schema, message, BINARY_OPTIONS);
    return bytes;
  } catch (error) {
    const reason = `parse binary: ${errorText(error)}`;
    throw new ConnectError(reason, Code.InvalidArgument, undefined, undefined, error);
  }
}

function toFault(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  const isTooDeep = hasErrorCode(error, "invalid_argument");
  const code = isTooDeep ? Code.InvalidArgument : Code.ResourceExhausted;
  return new ConnectError(errorText(error), code, undefined, undefined, error);
}

/** A reply that cannot be written has no reader left to be told; the call's signal has fired. */
function ignoreLostClient(error: unknown): void {
  if (!(error instanceof ConnectError)) throw error;
}

/** Refuses a call before its message is read, in the form that its content type asks for. */
export async function sendRpcRefusal(
  request: IncomingMessage,
  response: ServerResponse,
  message: string,
): Promise<void> {
  const contentType = request.headers["content-type"] ?? "";
  const type = parseContentType(contentType);
  const body = encodeError(new ConnectError(message, Code.Unauthenticated), type);
  const isStream = type?.isStream ?? false;
  const header = new Headers({ "content-type": isStream ? contentType : "application/json" });
  const reply = { status: isStream ? 200 : 401, header, body: createAsyncIterable([body]) };
  await universalResponseToNodeResponse(reply, response).catch(ignoreLostClient);
}
