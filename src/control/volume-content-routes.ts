/** The operations on the content of a volume, as a table like that of the routes. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { SandboxError } from "../common/errors.ts";
import { parseJson } from "../common/json.ts";
import { faultsOf, z } from "../common/schema.ts";
import type { VolumeEntry } from "../sandboxes/volumes/volume-entry.ts";
import type { VolumeFiles } from "../sandboxes/volumes/volume-files.ts";
import {
  volumeChangeSchema,
  volumeEntryQuery,
  volumeEntrySchema,
  volumeListQuery,
  volumePathQuery,
  type VolumeEntryBody,
} from "../wire/volume-content.ts";
import { readContent } from "./read-content.ts";

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
  /** The whole body of a route that has a schema for it; else empty. */
  readonly body: Buffer;
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
  /** Moves files or long lists; those of a team are counted apart from its other operations. */
  readonly isTransfer?: boolean;
  /** The status and body of the reply; undefined once the reply was sent. */
  act(call: ContentCall<Query>): Promise<{ status: number; body?: unknown } | undefined>;
}

function defineContent<Query>(route: ContentRoute<Query>): ContentRoute<Query> {
  return route;
}

export const CONTENT_ROUTES: readonly ContentRoute[] = [
  defineContent({
    method: "GET",
    path: "/volumecontent/{volumeID}/path",
    query: volumePathQuery,
    replies: { 200: volumeEntrySchema },
    faults: [400, 404, 429],
    act: async ({ files, query }) => reply(200, await files.stat(query.path)),
  }),
  defineContent({
    method: "PATCH",
    path: "/volumecontent/{volumeID}/path",
    query: volumePathQuery,
    body: volumeChangeSchema,
    replies: { 200: volumeEntrySchema },
    faults: [400, 404, 409, 429],
    async act({ files, query, body }) {
      const change = parse(volumeChangeSchema, parseBody(body));
      return reply(200, await files.change(query.path, change));
    },
  }),
  defineContent({
    method: "DELETE",
    path: "/volumecontent/{volumeID}/path",
    query: volumePathQuery,
    replies: { 204: null },
    faults: [400, 404, 429],
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
    faults: [400, 404, 429],
    isTransfer: true,
    async act({ files, query: { path, depth = 1 } }) {
      return { status: 200, body: (await files.list(path, depth)).map(toBody) };
    },
  }),
  defineContent({
    method: "POST",
    path: "/volumecontent/{volumeID}/dir",
    query: volumeEntryQuery,
    replies: { 201: volumeEntrySchema },
    faults: [400, 404, 409, 429],
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
    faults: [400, 404, 409, 429],
    isTransfer: true,
    async act({ files, query, response }) {
      await using opened = await files.read(query.path);
      const { file, sizeBytes } = opened;
      response.writeHead(200, { ...CONTENT_HEADERS, "content-length": sizeBytes });
      if (sizeBytes > 0) {
        const options = { start: 0, end: sizeBytes - 1, highWaterMark: READ_BYTES };
        const source = file.createReadStream({ ...options, autoClose: false });
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

/** @throws SandboxError invalid_argument with every fault. */
export function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new SandboxError("invalid_argument", `validation error: ${faultsOf(result.error)}`);
}

function parseBody(body: Buffer): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    const reason = error instanceof SandboxError ? error.message : "body is not JSON";
    throw new SandboxError("invalid_argument", reason, { cause: error });
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
