/** One line per call in the daemon's log: what was called, on what, and how it went. */

import { isMessage } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type Interceptor,
  type StreamResponse,
  type UnaryResponse,
  type StreamRequest,
} from "@connectrpc/connect";
import type { RecordLevel } from "../common/log-level.ts";
import { ProcessSelectorSchema } from "../gen/process/process_pb.ts";
import { callOriginKey } from "./call.ts";
import type { LogFields } from "./log.ts";

type Write = (level: RecordLevel, message: string, fields: LogFields) => void;

/** Requests are told by these of their fields; no input or variable is ever logged. */
const LOGGED_FIELDS = ["path", "source", "destination", "watcherId", "depth", "recursive", "tag"];

/** Logs unary calls once, streams at their start and end. */
export const logCalls: Interceptor = (next) => async (request) => {
  const origin = request.contextValues.get(callOriginKey);
  if (origin === undefined) return next(request);
  const { log } = origin.daemon;
  const service = request.service.name;
  const base = {
    logger: service.toLowerCase(),
    method: `POST /${request.service.typeName}/${request.method.name}`,
    operation_id: origin.operationId,
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
  const start = (details: LogFields) => write("debug", `${name} (${kind} stream start)`, details);
  // The one message of a server stream tells what it is about; the items of a client's do not.
  if (kind === "client") start({});
  const message = kind === "client" ? request.message : told(request.message, start);
  try {
    const response = await next({ ...request, message });
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
  let failure: unknown;
  try {
    yield* messages;
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    end(failure);
  }
}

function kindOf(request: StreamRequest): string {
  return request.method.methodKind === "client_streaming" ? "client" : "server";
}

/** Calls back with the details of the first message when it is read. */
async function* told<T extends object>(
  messages: AsyncIterable<T>,
  start: (details: LogFields) => void,
): AsyncGenerator<T> {
  let isFirst = true;
  for await (const message of messages) {
    if (isFirst) start(detailsOf({ message }));
    isFirst = false;
    yield message;
  }
}

function detailsOf({ message }: { readonly message: object }): LogFields {
  const fields: Readonly<Record<string, unknown>> = { ...message };
  const entries = LOGGED_FIELDS.map((name) => [name, fields[name]] as const);
  const scalars = entries.filter(([, value]) => SCALARS.has(typeof value));
  const details = { ...Object.fromEntries(scalars), ...selectorOf(fields["process"]) };
  return { ...details, request: details };
}

const SCALARS: ReadonlySet<string> = new Set(["string", "number", "boolean"]);

/** Which process a request is about, if it names one. */
function selectorOf(process: unknown): LogFields {
  if (!isMessage(process, ProcessSelectorSchema)) return {};
  const { selector } = process;
  return selector.case === undefined ? {} : { [selector.case]: selector.value };
}

function faultOf(error: unknown): LogFields {
  const fault = ConnectError.from(error, Code.Internal);
  return { error: fault.rawMessage, error_code: fault.code };
}
