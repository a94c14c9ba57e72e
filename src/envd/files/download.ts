/** GET and HEAD /files: the content of one file; whole, in part, or gzipped on the way. */

import { constants, type Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { constants as zlibConstants, createGzip, gzipSync } from "node:zlib";
import { causeCode, errorText, isCode, SandboxError } from "../../common/errors.ts";
import { toWirePath } from "../../common/file-names.ts";
import { pathFor } from "../call.ts";
import { fileErrorText } from "../errno.ts";
import { fileUser, sendFault, sendStatus, type Exchange } from "../exchange.ts";
import { open, stat } from "../file-system.ts";
import { baseName } from "../path.ts";
import { selectCoding } from "./accept-encoding.ts";
import { layOutRanges, READ_BYTES, readRanges } from "./byte-ranges.ts";
import { decideDelivery, isHttpDate, type ConditionHeaders, type Part } from "./conditions.ts";
import { inlineDisposition } from "./disposition.ts";
import { readFileQuery } from "./file-query.ts";
import { typeByContent, typeByName, UNKNOWN_TYPE } from "./media-type.ts";

/** Never waits for the other end of a pipe, never takes a terminal. */
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
/** So much of a file is looked at to tell text from other content. */
const SNIFFED_BYTES = 512;
/** No file of sysfs has more, though each says that it has exactly so much. */
const START_BYTES = 4_096;
/** Errors of the system, not those of Node. */
const SYSTEM_CODE = /^E[A-Z0-9]+$/;
/** From the middle of a file, whose start may be a head of another kind. */
const SAMPLED_BYTES = 32_768;
/** What does not become smaller than this part of itself is sent as it is, within a gzip stream. */
const MIN_GAIN = 0.95;

/** Content from a sandbox must not act as a page of the service that shows it. */
const SAFETY_HEADERS = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "private, no-store",
  "content-security-policy": "sandbox",
};

/** @throws SandboxError unauthenticated, invalid_argument, not_found, internal */
export async function download(exchange: Exchange): Promise<void> {
  const query = readFileQuery(exchange, "read");
  if (query === undefined) return;
  const { request, response, daemon } = exchange;
  const user = await fileUser(exchange, query.username);
  const path = await resolved(
    async () => pathFor(daemon, user, query.path ?? ""),
    query.path ?? "",
  );
  await requireFile(path);
  const headers = conditionsOf(exchange);
  const { coding, isIdentityRefused } = selectCoding(
    request.headers["accept-encoding"]?.toString(),
  );
  if (coding === undefined) {
    const reason = "no acceptable encoding found, supported: [gzip]";
    sendFault(response, 406, `error parsing Accept-Encoding: ${reason}`);
    return;
  }
  const isPlainOnly = needsIdentity(headers);
  if (isPlainOnly && isIdentityRefused) {
    const reason = "identity encoding not acceptable for Range or conditional request";
    sendFault(response, 406, reason);
    return;
  }
  await using file = await openFile(path);
  // What the name leads to may be another file by now.
  requireRegular(path, await file.stat());
  response.setHeader("vary", appended(response.getHeader("vary"), "Accept-Encoding"));
  response.setHeader("content-disposition", inlineDisposition(toWirePath(baseName(path))));
  for (const [name, value] of Object.entries(SAFETY_HEADERS)) response.setHeader(name, value);
  const content: Content = { exchange, path, file, type: typeByName(query.path ?? "") };
  try {
    const isEmpty = (await readStart(file)).length === 0;
    if (coding === "gzip" && !isPlainOnly && (!isEmpty || isIdentityRefused)) {
      await sendGzip(content);
    } else {
      await sendIdentity(content, headers);
    }
  } catch (error) {
    // A reply that has begun can only be broken off.
    throw response.headersSent ? error : readFault(path, error);
  }
}

/** Files of the kernel refuse to be read in many ways. */
function readFault(path: string, error: unknown): unknown {
  if (!SYSTEM_CODE.test(causeCode(error) ?? "")) return error;
  const message = `error reading file '${path}': ${fileErrorText("read", path, error)}`;
  return new SandboxError("internal", message, { cause: error });
}

interface Content {
  readonly exchange: Exchange;
  readonly path: string;
  readonly file: FileHandle;
  readonly type: string | undefined;
}

async function resolved(resolve: () => Promise<string>, path: string): Promise<string> {
  try {
    return await resolve();
  } catch (error) {
    const message = `error expanding and resolving path '${path}': ${errorText(error)}`;
    throw new SandboxError("invalid_argument", message, { cause: error });
  }
}

async function requireFile(path: string): Promise<void> {
  let stats: Stats;
  try {
    stats = await stat(path);
  } catch (error) {
    if (isCode(error, "ENOENT")) {
      throw new SandboxError("not_found", `path '${path}' does not exist`, { cause: error });
    }
    const text = fileErrorText("stat", path, error);
    const message = `error checking if path exists '${path}': ${text}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  requireRegular(path, stats);
}

function requireRegular(path: string, stats: Stats): Stats {
  if (stats.isDirectory()) {
    throw new SandboxError("invalid_argument", `path '${path}' is a directory`);
  }
  if (!stats.isFile()) {
    throw new SandboxError("invalid_argument", `path '${path}' is not a regular file`);
  }
  if (stats.size > Number.MAX_SAFE_INTEGER) {
    throw new SandboxError("invalid_argument", `path '${path}' is too large to be read`);
  }
  return stats;
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, OPEN_FLAGS);
  } catch (error) {
    const message = `error opening file '${path}': ${fileErrorText("open", path, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

function conditionsOf(exchange: Exchange): ConditionHeaders {
  const { headers } = exchange.request;
  return {
    ifMatch: headers["if-match"],
    ifUnmodifiedSince: headers["if-unmodified-since"],
    ifNoneMatch: headers["if-none-match"],
    ifModifiedSince: headers["if-modified-since"],
    ifRange: headers["if-range"]?.toString(),
    range: isHead(exchange) ? undefined : headers.range,
  };
}

function isHead({ request }: Exchange): boolean {
  return request.method === "HEAD";
}

function needsIdentity(headers: ConditionHeaders): boolean {
  const { range, ifModifiedSince, ifNoneMatch, ifRange } = headers;
  return [range, ifModifiedSince, ifNoneMatch, ifRange].some((value) => value !== undefined);
}

async function readStart(file: FileHandle): Promise<Uint8Array> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(START_BYTES), 0, START_BYTES, 0);
  return buffer.subarray(0, bytesRead);
}

async function sendGzip({ exchange, path, file, type }: Content): Promise<void> {
  const { response, signal } = exchange;
  const start = (await readStart(file)).length;
  const { size } = requireRegular(path, await file.stat());
  response.writeHead(200, {
    "content-type": type ?? UNKNOWN_TYPE,
    "content-encoding": "gzip",
  });
  if (isHead(exchange)) {
    response.end();
    return;
  }
  // The length of now: a file that is written to all the time would have no end. Files of the kernel
  // say that they are empty and are not.
  const end = size === 0 && start > 0 ? Number.POSITIVE_INFINITY : Math.max(size - 1, 0);
  const options = { start: 0, end, highWaterMark: READ_BYTES, autoClose: false };
  const source = file.createReadStream(options);
  const gzip = createGzip({ level: await levelOf(file, size), chunkSize: 65_536 });
  const whole = async function* (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    yield* chunks;
    // The file shrank meanwhile, and the client must see that; one of sysfs was never so long.
    if (source.bytesRead < size && start === Math.min(size, START_BYTES)) response.destroy();
  };
  await pipeline(source, whole, gzip, response, { signal });
}

/**
 * The peer is near: time spent on the last percent of size is lost. Images, archives and models are
 * compressed already, and a second time takes ten times as long as the rest of the way.
 */
async function levelOf(file: FileHandle, size: number): Promise<number> {
  const { Z_BEST_SPEED, Z_NO_COMPRESSION } = zlibConstants;
  const sample = Buffer.alloc(SAMPLED_BYTES);
  const { bytesRead } = await file.read(sample, 0, sample.length, Math.floor(size / 2));
  const plain = sample.subarray(0, bytesRead);
  const packed = gzipSync(plain, { level: Z_BEST_SPEED });
  return packed.length > plain.length * MIN_GAIN ? Z_NO_COMPRESSION : Z_BEST_SPEED;
}

async function sendIdentity(content: Content, headers: ConditionHeaders): Promise<void> {
  const { exchange, path, file } = content;
  const { response } = exchange;
  const start = await readStart(file);
  const type = content.type ?? typeByContent(start.subarray(0, SNIFFED_BYTES));
  const stats = requireRegular(path, await file.stat());
  const state = { size: stats.size, modifiedMs: stats.mtimeMs };
  const delivery = decideDelivery(headers, state);
  const modified = stats.mtime.toUTCString();
  // A program can set a time that no date of HTTP can tell.
  if (isHttpDate(modified)) response.setHeader("last-modified", modified);
  response.setHeader("accept-ranges", "bytes");
  if (delivery.kind === "none") {
    const isOutside = delivery.status === 416;
    sendStatus(
      response,
      delivery.status,
      isOutside ? { "content-range": `bytes */${stats.size}` } : {},
    );
    return;
  }
  response.setHeader("content-type", type);
  // Files of the kernel say that they are empty or of a page; their length is known at the end.
  if (start.length !== Math.min(stats.size, START_BYTES)) {
    await sendPart(content, { start: 0, end: Number.POSITIVE_INFINITY });
  } else if (delivery.kind === "whole") {
    response.setHeader("content-length", stats.size);
    await sendPart(content, { start: 0, end: stats.size - 1 });
  } else if (delivery.kind === "part") {
    const range = `bytes ${delivery.start}-${delivery.end}/${stats.size}`;
    response.setHeader("content-range", range);
    response.setHeader("content-length", delivery.end - delivery.start + 1);
    response.statusCode = 206;
    await sendPart(content, delivery);
  } else {
    const ranges = layOutRanges(delivery.parts, { type, size: stats.size });
    response.setHeader("content-type", ranges.contentType);
    response.setHeader("content-length", ranges.contentLength);
    response.statusCode = 206;
    // The promised length cannot be kept, and the client must see that.
    const body = readRanges(file, ranges, () => response.destroy());
    await pipeline(body, response, { signal: exchange.signal });
  }
}

async function sendPart({ exchange, file }: Content, part: Part): Promise<void> {
  const { response, signal } = exchange;
  if (isHead(exchange) || part.end < part.start) {
    response.end();
    return;
  }
  const source = file.createReadStream({ ...part, highWaterMark: READ_BYTES, autoClose: false });
  await pipeline(source, response, { signal, end: false });
  const isShort = Number.isFinite(part.end) && source.bytesRead < part.end - part.start + 1;
  // The file shrank meanwhile: the promised length cannot be kept, and the client must see that.
  if (isShort) response.destroy();
  else response.end();
}

function appended(value: number | string | readonly string[] | undefined, item: string): string {
  return value === undefined ? item : `${value.toString()}, ${item}`;
}
