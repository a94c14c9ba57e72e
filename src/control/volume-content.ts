/**
 * The content of volumes, by the token of a volume instead of a key. It stands beside the table of
 * routes, because files are streamed and never held in memory.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { SandboxError } from "../common/errors.ts";
import { readBody, sendJson } from "../common/http.ts";
import { parseJson } from "../common/json.ts";
import type { Logger } from "../common/log.ts";
import { faultsOf, z } from "../common/schema.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import type { VolumeEntry } from "../sandboxes/volume-entry.ts";
import type { VolumeFiles } from "../sandboxes/volume-files.ts";
import { retryHeaders } from "../wire/retry.ts";
import {
  volumeChangeSchema,
  volumeEntryQuery,
  volumeEntrySchema,
  volumeListQuery,
  volumePathQuery,
  type VolumeEntryBody,
} from "../wire/volume-content.ts";
import { toFault } from "./reply.ts";

const TARGET_PATTERN = /^\/volumecontent\/([^/?]+)\/(path|dir|file)(?:\?(.*))?$/s;
/** Owner and mode. */
const MAX_CHANGE_BYTES = 4_096;
/** Of a team, up and down at once: each holds open files and a connection. */
const MAX_TRANSFERS = 64;
/** A client that sends nothing for so long has gone. */
const UPLOAD_PAUSE_MS = 60_000;
const READ_BYTES = 262_144;
const MIN_TIME_MS = 0;
const MAX_TIME_MS = Date.UTC(9999, 11, 31);

/** Content from a sandbox must not act as a page of the service that shows it. */
const CONTENT_HEADERS = {
  "content-type": "application/octet-stream",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "private, no-store",
  "content-security-policy": "sandbox",
} as const;

interface ContentCall<Query> {
  readonly files: VolumeFiles;
  readonly query: Query;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** A row of the table: what it needs for the document, and what it does. */
export interface ContentRoute<Query = unknown> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query: z.ZodType<Query>;
  readonly body?: z.ZodType;
  /** Whether the request has a file as its body. */
  readonly takesFile?: boolean;
  readonly replies: Readonly<Record<number, z.ZodType | null | "file">>;
  readonly faults: readonly number[];
  /** Streams files, of which a team has so many at once. */
  readonly isTransfer?: boolean;
  /** The status and body of the reply; undefined once the reply was sent. */
  act(call: ContentCall<Query>): Promise<{ status: number; body?: unknown } | undefined>;
}

function defineContent<Query>(route: ContentRoute<Query>): ContentRoute<Query> {
  return route;
}

/** Whether a request is for the content of a volume. */
export function isVolumeContent({ url = "" }: IncomingMessage): boolean {
  return url.startsWith("/volumecontent/");
}

export const CONTENT_ROUTES: readonly ContentRoute[] = [
  defineContent({
    method: "GET",
    path: "/volumecontent/{volumeID}/path",
    query: volumePathQuery,
    replies: { 200: volumeEntrySchema },
    faults: [400, 404],
    act: async ({ files, query }) => reply(200, await files.stat(query.path)),
  }),
  defineContent({
    method: "PATCH",
    path: "/volumecontent/{volumeID}/path",
    query: volumePathQuery,
    body: volumeChangeSchema,
    replies: { 200: volumeEntrySchema },
    faults: [400, 404],
    async act({ files, query, request }) {
      const change = parse(
        volumeChangeSchema,
        parseBody(await readBody(request, MAX_CHANGE_BYTES)),
      );
      return reply(200, await files.change(query.path, change));
    },
  }),
  defineContent({
    method: "DELETE",
    path: "/volumecontent/{volumeID}/path",
    query: volumePathQuery,
    replies: { 204: null },
    faults: [400, 404],
    async act({ files, query }) {
      await files.remove(query.path);
      return { status: 204 };
    },
  }),
  defineContent({
    method: "GET",
    path: "/volumecontent/{volumeID}/dir",
    query: volumeListQuery,
    replies: { 200: z.array(volumeEntrySchema) },
    faults: [400, 404],
    async act({ files, query: { path, depth = 1 } }) {
      return { status: 200, body: (await files.list(path, depth)).map(toBody) };
    },
  }),
  defineContent({
    method: "POST",
    path: "/volumecontent/{volumeID}/dir",
    query: volumeEntryQuery,
    replies: { 201: volumeEntrySchema },
    faults: [400, 404, 409],
    async act({ files, query: { path, force, ...entry } }) {
      const makesParents = force === "true";
      return reply(201, await files.makeFolder(path, { ...entry, makesParents }));
    },
  }),
  defineContent({
    method: "GET",
    path: "/volumecontent/{volumeID}/file",
    query: volumePathQuery,
    replies: { 200: "file" },
    faults: [400, 404, 429],
    isTransfer: true,
    async act({ files, query, response }) {
      const { file, sizeBytes } = await files.read(query.path);
      await using opened = file;
      response.writeHead(200, { ...CONTENT_HEADERS, "content-length": sizeBytes });
      if (sizeBytes > 0) {
        const options = { start: 0, end: sizeBytes - 1, highWaterMark: READ_BYTES };
        const source = opened.createReadStream({ ...options, autoClose: false });
        await pipeline(source, response, { end: false });
        // The file shrank meanwhile: the promised length cannot be kept, and the client must see that.
        if (source.bytesRead < sizeBytes) response.destroy();
      }
      response.end();
      return undefined;
    },
  }),
  defineContent({
    method: "PUT",
    path: "/volumecontent/{volumeID}/file",
    query: volumeEntryQuery,
    takesFile: true,
    replies: { 201: volumeEntrySchema },
    faults: [400, 404, 429],
    isTransfer: true,
    async act({ files, query: { path, force, ...entry }, request }) {
      const makesParents = force === "true";
      const written = await files.write(path, readContent(request), { ...entry, makesParents });
      return reply(201, written);
    },
  }),
];

interface ContentOptions {
  readonly sandboxes: Pick<Sandboxes, "openVolume">;
  readonly log: Logger;
}

/** Answers every request for content, also a faulty one; it never rejects. */
export function createVolumeContent({ sandboxes, log }: ContentOptions) {
  const transfers = new Map<string, number>();

  async function run(request: IncomingMessage, response: ServerResponse): Promise<Outcome> {
    const { volumeId, name, query } = readTarget(request);
    const files = sandboxes.openVolume(volumeId, readToken(request));
    const path = `/volumecontent/{volumeID}/${name}`;
    const route = CONTENT_ROUTES.find((one) => one.path === path && one.method === request.method);
    if (route === undefined) throw new SandboxError("not_found", "no such operation on a volume");
    const parsed = parse(route.query, Object.fromEntries(new URLSearchParams(query)));
    const call = { files, query: parsed, request, response };
    if (route.isTransfer !== true) return route.act(call);
    const end = beginTransfer(transfers, files.team);
    try {
      return await route.act(call);
    } finally {
      end();
    }
  }

  return async (request: IncomingMessage, response: ServerResponse): Promise<number> => {
    try {
      const outcome = await run(request, response);
      if (outcome?.body !== undefined) sendJson(response, outcome.status, { body: outcome.body });
      else if (outcome !== undefined) response.writeHead(outcome.status).end();
    } catch (error) {
      const { status, body, retryAfterSeconds } = toFault(error);
      const headers = retryHeaders(status, retryAfterSeconds);
      // A reply that has begun can only be cut, and so can what a client goes on to send.
      if (response.headersSent) response.destroy();
      else sendJson(response, status, { body, headers: { ...headers, connection: "close" } });
      if (status >= 500) log.warn({ op: "volume.content", status, err: error }, "volume content");
    }
    return response.statusCode;
  };
}

type Outcome = Awaited<ReturnType<ContentRoute["act"]>>;

/** Counts a transfer until the function that it returns is called. */
function beginTransfer(transfers: Map<string, number>, team: string): () => void {
  const amount = transfers.get(team) ?? 0;
  if (amount >= MAX_TRANSFERS) {
    const message = `your team has ${amount} transfers to and from volumes at once`;
    throw new SandboxError("resource_exhausted", message, { retryAfterSeconds: 1 });
  }
  transfers.set(team, amount + 1);
  return () => {
    const left = (transfers.get(team) ?? 1) - 1;
    if (left > 0) transfers.set(team, left);
    else transfers.delete(team);
  };
}

function readTarget({ url = "" }: IncomingMessage) {
  const [, volumeId = "", name = "", query = ""] = TARGET_PATTERN.exec(url) ?? [];
  return { volumeId, name, query };
}

/** @throws SandboxError unauthenticated */
function readToken({ headers }: IncomingMessage): string {
  const { authorization } = headers;
  if (authorization === undefined) {
    throw new SandboxError("unauthenticated", "authorization header is missing");
  }
  return /^bearer +(\S+)$/i.exec(authorization)?.[1] ?? "";
}

function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new SandboxError("invalid_argument", `validation error: ${faultsOf(result.error)}`);
}

function parseBody(body: Buffer): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    throw new SandboxError("invalid_argument", "body is not JSON", { cause: error });
  }
}

/** The body of an upload; a pause that is too long ends it like a client that left. */
async function* readContent(request: IncomingMessage): AsyncGenerator<Buffer> {
  const end = () => request.destroy(new Error("upload paused for too long"));
  let timer = setTimeout(end, UPLOAD_PAUSE_MS);
  try {
    const body: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false });
    for await (const chunk of body) {
      clearTimeout(timer);
      yield chunk;
      timer = setTimeout(end, UPLOAD_PAUSE_MS);
    }
  } catch (error) {
    throw new SandboxError("canceled", "request ended before its body", { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function reply(status: number, entry: VolumeEntry) {
  return { status, body: toBody(entry) };
}

function toBody(entry: VolumeEntry): VolumeEntryBody {
  const { name, type, path, mode, uid, gid, target } = entry;
  return {
    name,
    type,
    path,
    size: entry.sizeBytes,
    mode,
    uid,
    gid,
    atime: toTime(entry.accessedAtMs),
    mtime: toTime(entry.modifiedAtMs),
    ctime: toTime(entry.changedAtMs),
    ...(target !== undefined && { target }),
  };
}

/** A sandbox sets times as it likes; those beyond four digits of a year have no common spelling. */
function toTime(atMs: number): string {
  return new Date(Math.min(Math.max(atMs, MIN_TIME_MS), MAX_TIME_MS)).toISOString();
}
