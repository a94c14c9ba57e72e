/**
 * The content of volumes, by the token of a volume instead of a key. It stands beside the table of
 * routes, because files are streamed and never held in memory.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { SandboxError } from "../common/errors.ts";
import { discardRest, readBodyInTurns, sendJson } from "../common/http.ts";
import type { Logger } from "../common/log.ts";
import { readQuery, requireUtf8 } from "../common/query.ts";
import { createTeamTurns, type TeamTurns } from "../common/team-turns.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import type { VolumeFiles } from "../sandboxes/volumes/volume-files.ts";
import { retryHeaders } from "../wire/retry.ts";
import { toFault } from "./reply.ts";
import { CONTENT_ROUTES, parse, type ContentRoute } from "./volume-content-routes.ts";

const TARGET_PATTERN = /^\/volumecontent\/([^/?]+)\/(path|dir|file)(?:\?(.*))?$/s;
/**
 * Of a team, up and down: each holds open files. Published clients have up to a hundred connections
 * and repeat nothing that was refused, so the others wait, each with its connection.
 */
const TRANSFERS = { maxAtOnce: 64, maxWaiting: 1_024 } as const;
/** The other operations of a team, of which a path of many components is hundreds of calls. */
const PATH_OPERATIONS = { maxAtOnce: 32, maxWaiting: 1_024 } as const;
/** Owner and mode. */
const MAX_CHANGE_BYTES = 4_096;
const NO_BODY = Buffer.alloc(0);
/** Clients give up after a minute; they are told before. */
const MAX_TURN_MS = 50_000;

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
  const transfers = { turns: createTeamTurns(TRANSFERS), what: TRANSFERS_TEXT };
  const others = { turns: createTeamTurns(PATH_OPERATIONS), what: PATH_OPERATIONS_TEXT };

  async function run(
    files: VolumeFiles,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<Outcome> {
    const { name, query } = readTarget(request);
    const path = `/volumecontent/{volumeID}/${name}`;
    const route = CONTENT_ROUTES.find((one) => one.path === path && one.method === request.method);
    if (route === undefined) throw new SandboxError("not_found", "no such operation on a volume");
    requireUtf8(query);
    const parsed = parse(route.query, readQuery(query));
    // Before the turn: a client may take any time for its body.
    const body =
      route.body === undefined ? NO_BODY : await readBodyInTurns(request, MAX_CHANGE_BYTES);
    const call = { files, query: parsed, body, request, response };
    const kind = route.isTransfer === true ? transfers : others;
    const end = await beginTurn(kind, files.team, response);
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
      discardRest(request);
      // A reply that has begun can only be cut.
      if (response.headersSent) response.destroy();
      else sendJson(response, status, { body, headers });
    }
    return { status: response.statusCode, team: files?.team };
  };
}

type Outcome = Awaited<ReturnType<ContentRoute["act"]>>;

const TRANSFERS_TEXT = `${TRANSFERS.maxAtOnce} transfers to and from volumes`;
const PATH_OPERATIONS_TEXT = `${PATH_OPERATIONS.maxAtOnce} operations on paths of volumes`;

/**
 * Waits for the turn of an operation, which lasts until the function that it returns is called.
 * @throws SandboxError resource_exhausted when that takes too long
 */
async function beginTurn(
  { turns, what }: { readonly turns: TeamTurns; readonly what: string },
  team: string,
  response: ServerResponse,
): Promise<() => void> {
  const over = new AbortController();
  const end = () => over.abort();
  const timer = setTimeout(end, MAX_TURN_MS);
  response.once("close", end);
  const leave = await turns.enter({ team, signal: over.signal });
  clearTimeout(timer);
  response.off("close", end);
  if (leave !== undefined) return leave;
  const message = `your team has ${what} at once`;
  throw new SandboxError("resource_exhausted", message, { retryAfterSeconds: 1 });
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
