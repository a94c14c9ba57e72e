/**
 * The content of volumes, by the token of a volume instead of a key. It stands beside the table of
 * routes, because files are streamed and never held in memory.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { SandboxError } from "../common/errors.ts";
import { sendJson } from "../common/http.ts";
import type { Logger } from "../common/log.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import type { VolumeFiles } from "../sandboxes/volume-files.ts";
import { retryHeaders } from "../wire/retry.ts";
import { toFault } from "./reply.ts";
import { CONTENT_ROUTES, parse, type ContentRoute } from "./volume-content-routes.ts";

const TARGET_PATTERN = /^\/volumecontent\/([^/?]+)\/(path|dir|file)(?:\?(.*))?$/s;
/** Of a team, up and down at once: each holds open files and a connection. */
const MAX_TRANSFERS = 64;

/** Whether a request is for the content of a volume. */
export function isVolumeContent({ url = "" }: IncomingMessage): boolean {
  return url.startsWith("/volumecontent/");
}

interface ContentOptions {
  readonly sandboxes: Pick<Sandboxes, "openVolume">;
  readonly log: Logger;
}

/** What became of a request; the team is that of the volume, undefined without its token. */
interface Answered {
  readonly status: number;
  readonly team: string | undefined;
}

/** Answers every request for content, also a faulty one; it never rejects. */
export function createVolumeContent({ sandboxes, log }: ContentOptions) {
  const transfers = new Map<string, number>();

  async function run(
    files: VolumeFiles,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<Outcome> {
    const { name, query } = readTarget(request);
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

  return async (request: IncomingMessage, response: ServerResponse): Promise<Answered> => {
    let files: VolumeFiles | undefined;
    try {
      files = sandboxes.openVolume(readTarget(request).volumeId, readToken(request));
      const outcome = await run(files, request, response);
      if (outcome?.body !== undefined) sendJson(response, outcome.status, { body: outcome.body });
      else if (outcome !== undefined) response.writeHead(outcome.status).end();
    } catch (error) {
      const { status, body, retryAfterSeconds } = toFault(error);
      const headers = retryHeaders(status, retryAfterSeconds);
      const entry = { op: "volume.content", status, err: error };
      // A client may leave at any time: that is no fault of the service.
      if (response.destroyed) log.debug(entry, "volume content");
      else if (status >= 500) log.warn(entry, "volume content");
      // A reply that has begun can only be cut, and so can what a client goes on to send.
      if (response.headersSent) response.destroy();
      else sendJson(response, status, { body, headers: { ...headers, connection: "close" } });
    }
    return { status: response.statusCode, team: files?.team };
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
