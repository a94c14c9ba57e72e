/** POST /files: one file as the whole body, or many as parts of a form. */

import type { IncomingMessage } from "node:http";
import { SandboxError, errorText } from "../../common/errors.ts";
import { toWirePath } from "../../common/file-names.ts";
import { sendJson } from "../../common/http.ts";
import type { FileRecord } from "../../wire/files.ts";
import { IF_CONTENT_HEADER } from "../../wire/headers.ts";
import { pathFor } from "../call.ts";
import { fileUser, type Exchange } from "../exchange.ts";
import { baseName } from "../path.ts";
import type { User } from "../user.ts";
import { parseParameterized } from "./disposition.ts";
import { readFileQuery, type FileQuery } from "./file-query.ts";
import { readMetadata } from "./metadata.ts";
import { readParts, type Part } from "./multipart.ts";
import { openRequestBody, type RequestBody } from "./request-body.ts";
import { writeTarget, type WriteTarget } from "./write-target.ts";

const RAW_TYPE = "application/octet-stream";
const FILE_FIELD = "file";
const HASH_PATTERN = /^[0-9a-f]{64}$/;

/**
 * @throws SandboxError unauthenticated, invalid_argument, failed_precondition, resource_exhausted,
 * internal
 */
export async function upload(exchange: Exchange): Promise<void> {
  const query = readFileQuery(exchange, "write");
  if (query === undefined) return;
  using body = openRequestBody(exchange);
  const user = await fileUser(exchange, query.username);
  const metadata = readMetadata(exchange.request);
  const job: UploadJob = { exchange, query, body, user, metadata };
  const records = await store(job);
  sendJson(exchange.response, 200, { body: records });
}

interface UploadJob {
  readonly exchange: Exchange;
  readonly query: FileQuery;
  readonly body: RequestBody;
  readonly user: User;
  /** The same for every file of the request. */
  readonly metadata: ReadonlyMap<string, string>;
}

async function store(job: UploadJob): Promise<FileRecord[]> {
  const type = job.exchange.request.headers["content-type"] ?? "";
  const { value, parameters } = parseParameterized(type);
  if (value === RAW_TYPE) return [await storeRaw(job)];
  if (value.startsWith("multipart/")) return storeParts(job, parameters.get("boundary"));
  const expected = `expected multipart/form-data or ${RAW_TYPE}`;
  throw new SandboxError("invalid_argument", `unsupported content type: ${type}, ${expected}`);
}

async function storeRaw(job: UploadJob): Promise<FileRecord> {
  const { path } = job.query;
  if (path === undefined || path === "") {
    const message = "path query parameter is required for raw body upload";
    throw new SandboxError("invalid_argument", message);
  }
  const contentHash = readContentHash(job.exchange.request);
  return storeFile(job, { path: await resolveTarget(job, path), contentHash }, job.body.chunks);
}

async function storeParts(job: UploadJob, boundary: string | undefined): Promise<FileRecord[]> {
  if (boundary === undefined || boundary === "") {
    const reason = "no multipart boundary param in Content-Type";
    throw new SandboxError("internal", `error parsing multipart form: ${reason}`);
  }
  // Ignored, it would let a client lose what it wanted to keep.
  if (IF_CONTENT_HEADER in job.exchange.request.headers) {
    const message = `${IF_CONTENT_HEADER} needs one raw body, not a form`;
    throw new SandboxError("invalid_argument", message);
  }
  // By their paths as the wire tells them, in the order of the form.
  const records = new Map<string, FileRecord>();
  for await (const part of readParts(job.body.chunks, boundary)) {
    const name = targetName(part, job.query.path);
    if (name === undefined) continue;
    const path = await resolveTarget(job, name);
    const wirePath = toWirePath(path);
    if (records.has(wirePath)) throw repetition(wirePath, [...records.keys()]);
    const target = { path, contentHash: undefined };
    records.set(wirePath, await storeFile(job, target, part.body));
  }
  return [...records.values()];
}

/** The path that a part asks for; undefined for parts that are no files. */
function targetName(part: Part, path: string | undefined): string | undefined {
  const { parameters } = parseParameterized(part.headers.get("content-disposition") ?? "");
  if (parameters.get("name") !== FILE_FIELD) return undefined;
  const name = path ?? parameters.get("filename");
  if (name !== undefined && name !== "") return name;
  const reason = "filename not found in Content-Disposition header";
  throw new SandboxError(
    "invalid_argument",
    `error getting multipart custom part file name: ${reason}`,
  );
}

async function resolveTarget({ exchange, user }: UploadJob, path: string): Promise<string> {
  try {
    return await pathFor(exchange.daemon, user, path);
  } catch (error) {
    const message = `error resolving path: ${errorText(error)}`;
    throw new SandboxError("invalid_argument", message, { cause: error });
  }
}

function repetition(path: string, stored: readonly string[]): SandboxError {
  const others = stored.filter((other) => other !== path);
  const also =
    others.length > 1 ? `, also the following files were uploaded: ${others.join(", ")}` : "";
  const message = `you cannot upload multiple files to the same path '${path}' in one upload request, only the first specified file was uploaded${also}`;
  return new SandboxError("invalid_argument", message);
}

/** @throws SandboxError invalid_argument when it is none */
function readContentHash({ headers }: IncomingMessage): string | undefined {
  const value = headers[IF_CONTENT_HEADER];
  if (value === undefined || (typeof value === "string" && HASH_PATTERN.test(value))) return value;
  throw new SandboxError("invalid_argument", `${IF_CONTENT_HEADER} is no SHA-256 in hex`);
}

async function storeFile(
  job: UploadJob,
  wanted: Pick<WriteTarget, "path" | "contentHash">,
  chunks: AsyncIterator<Buffer>,
): Promise<FileRecord> {
  const { user, metadata, exchange } = job;
  const { log } = exchange.daemon;
  const { path } = wanted;
  const target = { ...wanted, user, metadata, announced: job.body.length };
  const stored = await writeTarget(target, chunks, exchange.daemon);
  log.write("debug", "File processing", {
    logger: "envd",
    event_type: "file_processing",
    operation_id: exchange.operationId,
    path: toWirePath(path),
  });
  const hasMetadata = Object.keys(stored).length > 0;
  return {
    path: toWirePath(path),
    name: toWirePath(baseName(path)),
    type: "file",
    ...(hasMetadata && { metadata: stored }),
  };
}
