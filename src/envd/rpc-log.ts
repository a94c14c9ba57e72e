/** One line per call in the daemon's log: what was called, on what, and how it went. */

import {
  Code,
  ConnectError,
  type Interceptor,
  type StreamResponse,
  type UnaryRequest,
  type UnaryResponse,
  type StreamRequest,
} from "@connectrpc/connect";
import { callOriginKey } from "./call.ts";
import type { LogFields, LogLevel } from "./log.ts";

type Write = (level: LogLevel, message: string, fields: LogFields) => void;

/** Requests of the filesystem are told by these of their fields; nothing else is ever logged. */
const LOGGED_FIELDS = ["path", "source", "destination", "watcherId"] as const;

/** Logs unary calls once, streams at their start and end. */
export const logCalls: Interceptor = (next) => async (request) => {
  const log = request.contextValues.get(callOriginKey)?.daemon.log;
  if (log === undefined) return next(request);
  const service = request.service.name;
  const base = {
    logger: service.toLowerCase(),
    method: `POST /${request.service.typeName}/${request.method.name}`,
    operation_id: log.nextOperation(),
  };
  const name = `${service} ${request.method.localName}`;
  const write: Write = (level, message, fields) =>
    log.write(level, message, { ...base, ...fields });
  if (request.stream) return logStream({ name, kind: kindOf(request), write }, next, request);
  try {
    const response = await next(request);
    write("info", name, detailsOf(request));
    return response;
  } catch (error) {
    write("error", name, { ...detailsOf(request), ...faultOf(error) });
    throw error;
  }
};

interface StreamLog {
  readonly name: string;
  readonly kind: string;
  readonly write: Write;
}

async function logStream(
  { name, kind, write }: StreamLog,
  next: (request: StreamRequest) => Promise<StreamResponse | UnaryResponse>,
  request: StreamRequest,
): Promise<StreamResponse | UnaryResponse> {
  const end = (error?: unknown) =>
    error === undefined
      ? write("debug", `${name} (${kind} stream end)`, {})
      : write("error", `${name} (${kind} stream end)`, faultOf(error));
  write("debug", `${name} (${kind} stream start)`, {});
  try {
    const response = await next(request);
    return response.stream ? { ...response, message: logged(response.message, end) } : response;
  } catch (error) {
    end(error);
    throw error;
  }
}

async function* logged<T>(
  messages: AsyncIterable<T>,
  end: (error?: unknown) => void,
): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    end(error);
    throw error;
  }
  end();
}

function kindOf(request: StreamRequest): string {
  return request.method.methodKind === "client_streaming" ? "client" : "server";
}

function detailsOf(request: UnaryRequest): LogFields {
  const message: Readonly<Record<string, unknown>> = { ...request.message };
  const entries = LOGGED_FIELDS.map((field) => [field, message[field]] as const);
  return Object.fromEntries(entries.filter(([, value]) => typeof value === "string"));
}

function faultOf(error: unknown): LogFields {
  const fault = ConnectError.from(error, Code.Internal);
  return { error: fault.rawMessage, error_code: fault.code };
}
