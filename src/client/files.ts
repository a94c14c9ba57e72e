/** The plain HTTP file endpoints of one sandbox: ranged reads, uploads, compose. */

import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { request } from "undici";
import { anySignal } from "../common/any-signal.ts";
import { createByteBuffer } from "../common/bytes.ts";
import { toSandboxError } from "../common/errors.ts";
import { sha256Hex } from "../common/hash.ts";
import { readBeginning } from "../common/http.ts";
import { signalAfter } from "../common/late-signal.ts";
import { faultsOf, z } from "../common/schema.ts";
import { unexpectedReply } from "../common/unexpected-reply.ts";
import { quoteName } from "../common/untrusted-text.ts";
import { fileRecordSchema, type FileRecord } from "../wire/files.ts";
import { IF_CONTENT_HEADER } from "../wire/headers.ts";
import { accessHeaders, withAccess, type AccessSource, type CallOptions } from "./access.ts";
import { requireContent, requireOutside, requirePart, sizeOf } from "./file-reply.ts";
import { daemonError, exchange, parseReply, type Connection, type HttpReply } from "./http.ts";
import { toPath } from "./paths.ts";
import { redactBody } from "./redact.ts";

export interface FileSlice {
  readonly bytes: Buffer;
  /** Of the whole file; undefined when the service sent none. */
  readonly sizeBytes: number | undefined;
  readonly contentType: string;
}

export interface FilesClient {
  /**
   * At most `limit` bytes from `offset` on; fewer at the end of the file.
   * @throws SandboxError not_found, invalid_argument for a directory.
   */
  read(
    path: string,
    range: { readonly offset: number; readonly limit: number },
    options: CallOptions,
  ): Promise<FileSlice>;
  /** Creates or replaces a file, with its parents; the content appears at once. */
  write(path: string, content: Uint8Array, options: CallOptions): Promise<FileRecord>;
  /**
   * The same of a file that still holds `before`; false when it holds something else by now, or is
   * gone. Daemons of other makers do not look at it, and replace whatever is there.
   */
  replace(
    path: string,
    change: { readonly before: Uint8Array; readonly after: Uint8Array },
    options: CallOptions,
  ): Promise<boolean>;
  /** Joins files in order and deletes them; all or nothing. */
  compose(
    sources: readonly string[],
    destination: string,
    options: CallOptions,
  ): Promise<FileRecord>;
}

/** What a daemon says that reads a part by seeking, of a file that has no positions. */
const SEEK_PATTERN = /seeker can't seek/i;
const READ_TIMEOUT_MS = 60_000;
const MAX_RECORD_BYTES = 1024 * 1024;
const MAX_ERROR_BYTES = 65_536;
/** A precondition that failed. */
const CHANGED_STATUS = 412;

export interface FilesOptions {
  readonly connection: Connection;
  readonly baseUrl: string;
  readonly source: AccessSource;
}

/** The file endpoints of a sandbox. */
export function createFiles(files: FilesOptions): FilesClient {
  const { source } = files;
  return {
    async read(path, range, options) {
      const url = fileUrl(files.baseUrl, path, options.user);
      return withAccess(source, options, () => readOnce(files, { url, path, range, options }));
    },

    async write(path, content, options) {
      const send = rawUpload(files, { path, content, options });
      return toWritten(await withAccess(source, options, () => post(files, send)), send.subject);
    },

    async replace(path, { before, after }, options) {
      const headers = { [IF_CONTENT_HEADER]: sha256Hex(before) };
      const send = { ...rawUpload(files, { path, content: after, options }), headers };
      return withAccess(source, options, async () => {
        const reply = await sendOnce(files, send);
        if (reply.status === CHANGED_STATUS) return false;
        toWritten(requireDone(reply, send.subject), send.subject);
        return true;
      });
    },

    async compose(sources, destination, options) {
      const subject = `compose ${quoteName(destination)}`;
      const { user } = options;
      const wanted = {
        source_paths: sources,
        destination,
        ...(user !== undefined && { username: user }),
      };
      const url = `${files.baseUrl}/files/compose`;
      const send = {
        url,
        body: JSON.stringify(wanted),
        type: "application/json",
        subject,
        options,
      };
      const body = await withAccess(source, options, () => post(files, send));
      const record = parse(body, fileRecordSchema, subject);
      return { ...record, path: toPath(record.path) };
    },
  };
}

interface Upload {
  readonly path: string;
  readonly content: Uint8Array;
  readonly options: CallOptions;
}

function rawUpload({ baseUrl }: FilesOptions, { path, content, options }: Upload): Post {
  const subject = `write ${quoteName(path)}`;
  const url = fileUrl(baseUrl, path, options.user);
  return { url, body: content, type: "application/octet-stream", subject, options };
}

function toWritten(body: Buffer, subject: string): FileRecord {
  const [record] = parse(body, z.tuple([fileRecordSchema]), subject);
  return { ...record, path: toPath(record.path) };
}

function fileUrl(baseUrl: string, path: string, user: string | undefined): string {
  const query = new URLSearchParams({ path, ...(user !== undefined && { username: user }) });
  return `${baseUrl}/files?${query.toString()}`;
}

interface Read {
  readonly url: string;
  readonly path: string;
  readonly range: { readonly offset: number; readonly limit: number };
  readonly options: CallOptions;
}

async function readOnce(
  files: FilesOptions,
  wanted: Read,
  coding: "identity" | "gzip" = "identity",
): Promise<FileSlice> {
  const { offset, limit } = wanted.range;
  const subject = `read ${quoteName(wanted.path)}`;
  const enough = new AbortController();
  const access = accessHeaders(files.source);
  const limits = [wanted.options.signal, signalAfter(READ_TIMEOUT_MS), enough.signal];
  try {
    const reply = await request(wanted.url, {
      dispatcher: files.connection.dispatcher,
      headers: {
        ...access,
        range: `bytes=${offset}-${offset + limit - 1}`,
        "accept-encoding": coding,
      },
      signal: anySignal(limits),
      bodyTimeout: 0,
      headersTimeout: 0,
    });
    const { statusCode: status, headers } = reply;
    const contentType = typeof headers["content-type"] === "string" ? headers["content-type"] : "";
    if (status === 416) {
      const sizeBytes = requireOutside(headers, { offset, subject });
      return { bytes: Buffer.alloc(0), sizeBytes, contentType };
    }
    if (status >= 300) {
      const said = await readBeginning(reply.body, MAX_ERROR_BYTES);
      const body = redactBody(said, access);
      // Files of the kernel have no parts; a daemon that compresses reads them from their start.
      if (status === 500 && coding === "identity" && SEEK_PATTERN.test(body.toString("utf8"))) {
        return await readOnce(files, wanted, "gzip");
      }
      throw daemonError(subject, { status, headers, body });
    }
    requirePart({ status, headers }, { offset, subject });
    const isGzip = headers["content-encoding"] === "gzip";
    // What breaks there breaks the reader's end, too.
    const content = isGzip ? pipeline(reply.body, createGunzip(), () => undefined) : reply.body;
    const bytes = await take(content, status === 206 ? 0 : offset, limit);
    if (status === 200) requireContent({ status, headers, body: bytes }, subject);
    return { bytes, sizeBytes: isGzip ? undefined : sizeOf({ status, headers }), contentType };
  } catch (error) {
    throw toSandboxError(error, subject);
  } finally {
    // A service that ignores the range would send the rest of the file.
    enough.abort();
  }
}

/** At most `limit` bytes of a body after its first `skip`. */
async function take(body: AsyncIterable<Uint8Array>, skip: number, limit: number): Promise<Buffer> {
  const taken = createByteBuffer();
  let position = 0;
  for await (const chunk of body) {
    const from = Math.min(chunk.length, Math.max(0, skip - position));
    taken.add(chunk.subarray(from, from + limit - taken.length));
    position += chunk.length;
    if (taken.length >= limit) break;
  }
  return taken.take();
}

interface Post {
  readonly url: string;
  readonly body: string | Uint8Array;
  readonly type: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly subject: string;
  readonly options: CallOptions;
}

async function post(files: FilesOptions, send: Post): Promise<Buffer> {
  return requireDone(await sendOnce(files, send), send.subject);
}

function requireDone(reply: HttpReply, subject: string): Buffer {
  if (reply.status >= 300) throw daemonError(subject, reply);
  return reply.body;
}

async function sendOnce(files: FilesOptions, send: Post): Promise<HttpReply> {
  return exchange(files.connection, {
    method: "POST",
    url: send.url,
    headers: { ...accessHeaders(files.source), "content-type": send.type, ...send.headers },
    body: send.body,
    signal: send.options.signal,
    maxBytes: MAX_RECORD_BYTES,
    isIdempotent: false,
    subject: send.subject,
  });
}

function parse<T>(body: Buffer, schema: z.ZodType<T>, subject: string): T {
  const parsed = schema.safeParse(parseReply(body, subject));
  if (parsed.success) return parsed.data;
  throw unexpectedReply(faultsOf(parsed.error), { subject });
}
