/** The routes of sandboxes in the control API. */

import { SandboxError, type ErrorWord } from "../common/errors.ts";
import { unexpectedReply } from "../common/unexpected-reply.ts";
import { quoteName } from "../common/untrusted-text.ts";
import { parseSandboxId } from "../wire/address.ts";
import {
  foundLogsSchema,
  logsSchema,
  type CreateRequest,
  type ForkResultBody,
  type CreatedSandboxBody,
  type ListedSandboxBody,
  type LogsBody,
  type MetricBody,
  type SandboxBody,
  type SandboxDetailBody,
} from "../wire/control.ts";
import { PAUSE_MODE_HEADER } from "../wire/headers.ts";
import {
  createVersionedSend,
  parseBody,
  queryOf,
  REPEATABLE,
  requireDone,
  WRITING,
  type ControlCaller,
} from "./control-call.ts";
import { claimedWord, type HttpReply } from "./http.ts";
import {
  createdReply,
  detailReply,
  forkReply,
  listReply,
  metricsReply,
  sandboxReply,
} from "./sandbox-replies.ts";

export interface ListFilter {
  readonly states?: readonly ("running" | "paused")[];
  readonly metadata?: Readonly<Record<string, string>>;
  readonly limit?: number;
  readonly nextToken?: string;
}

export interface ListPage {
  readonly sandboxes: readonly ListedSandboxBody[];
  /** Absent on the last page. */
  readonly nextToken?: string;
  /** Of a service that has no pages and lists no paused ones: how many were left out. */
  readonly ofRunning?: { readonly omitted: number };
}

export interface ConnectReply {
  readonly sandbox: SandboxBody;
  /** Undefined where a call that broke off may have resumed it. */
  readonly wasResumed: boolean | undefined;
}

export interface PauseReply {
  /** False when it was paused already, and by no call of this one that broke off. */
  readonly wasRunning: boolean;
  /** Undefined where the service did not say it. */
  readonly keptMemory: boolean | undefined;
}

interface ConnectRequest {
  /** Seconds. */
  readonly timeout: number;
  /** New processes on the files of a paused sandbox. */
  readonly memory?: false;
}

/** Every operation throws SandboxError with the code that the reply's status stands for. */
export interface SandboxRoutes {
  /** The service is asked to wait at most so many seconds for a template that it builds. */
  create(
    request: CreateRequest,
    signal: AbortSignal,
    waitSeconds?: number,
  ): Promise<CreatedSandboxBody>;
  list(filter: ListFilter, signal: AbortSignal): Promise<ListPage>;
  get(sandboxId: string, signal: AbortSignal): Promise<SandboxDetailBody>;
  /** Returns whether there was something to end; undefined: it is gone, perhaps by a call that broke off. */
  kill(sandboxId: string, signal: AbortSignal): Promise<boolean | undefined>;
  setTimeout(sandboxId: string, timeoutSeconds: number, signal: AbortSignal): Promise<void>;
  /** Resumes a paused sandbox, or extends the life of a running one. */
  connect(sandboxId: string, request: ConnectRequest, signal: AbortSignal): Promise<ConnectReply>;
  pause(sandboxId: string, keepsMemory: boolean, signal: AbortSignal): Promise<PauseReply>;
  /** One result for each copy that was asked for. */
  fork(
    sandboxId: string,
    request: { readonly count: number; readonly timeout: number },
    signal: AbortSignal,
  ): Promise<readonly ForkResultBody[]>;
  logs(
    sandboxId: string,
    query: { readonly start?: number; readonly limit?: number },
    signal: AbortSignal,
  ): Promise<LogsBody>;
  /** Records that contain a text, newest first. */
  findLogs(
    sandboxId: string,
    query: { readonly search: string; readonly limit: number },
    signal: AbortSignal,
  ): Promise<LogsBody["logEntries"]>;
  /** Samples between two times in Unix seconds, oldest first; `fresh` adds one of this moment. */
  metrics(
    sandboxId: string,
    range: { readonly start: number; readonly end: number; readonly fresh?: "true" },
    signal: AbortSignal,
  ): Promise<readonly MetricBody[]>;
}

export function sandboxPath(sandboxId: string): string {
  return `/sandboxes/${encodeURIComponent(sandboxId)}`;
}

type Transitions = Pick<SandboxRoutes, "setTimeout" | "connect" | "pause" | "fork">;

export function createSandboxRoutes(caller: ControlCaller): SandboxRoutes {
  const { read, readPage, remove } = caller;
  const sendCreate = createVersionedSend(caller.send);
  return {
    ...createTransitions(caller),

    async create(request, signal, waitSeconds) {
      const subject = `create from ${quoteName(request.templateID)}`;
      const call = { ...WRITING, path: "/sandboxes", json: request, signal, subject, waitSeconds };
      return parseBody(await sendCreate(call), createdReply(request.templateID), subject);
    },

    async list(filter, signal) {
      const call = { path: `/v2/sandboxes${listQuery(filter)}`, signal, subject: "list sandboxes" };
      const { nextToken: token } = filter;
      try {
        const { body: sandboxes, ...rest } = await readPage({ ...call, token }, listReply);
        return { sandboxes, ...rest };
      } catch (error) {
        if (!(error instanceof SandboxError) || !UNKNOWN_CODES.has(error.code)) throw error;
        return listRunning(caller, filter, signal);
      }
    },

    async get(sandboxId, signal) {
      const subject = `get ${sandboxId}`;
      const body = await read({ path: sandboxPath(sandboxId), signal, subject }, detailReply);
      requireAsked(body, sandboxId, subject);
      return body;
    },

    kill: (sandboxId, signal) =>
      remove({ path: sandboxPath(sandboxId), signal, subject: `kill ${sandboxId}` }),

    async logs(sandboxId, query, signal) {
      const path = `${sandboxPath(sandboxId)}/logs${queryOf(query)}`;
      return read({ path, signal, subject: `logs of ${sandboxId}` }, logsSchema);
    },

    async findLogs(sandboxId, query, signal) {
      const path = `/v2${sandboxPath(sandboxId)}/logs${queryOf({ ...query, direction: "backward" })}`;
      const subject = `logs of ${sandboxId}`;
      return (await read({ path, signal, subject }, foundLogsSchema)).logs;
    },

    async metrics(sandboxId, range, signal) {
      const path = `${sandboxPath(sandboxId)}/metrics${queryOf(range)}`;
      return read({ path, signal, subject: `metrics of ${sandboxId}` }, metricsReply);
    },
  };
}

/** A cache on the way may answer with another sandbox. @throws SandboxError internal then. */
function requireAsked(body: SandboxBody, sandboxId: string, subject: string): void {
  if (body.sandboxID === parseSandboxId(sandboxId)) return;
  throw unexpectedReply(`it is about sandbox ${body.sandboxID}`, { subject });
}

/** What a service answers that has not the second version of the list. */
const UNKNOWN_CODES: ReadonlySet<string> = new Set(["not_found", "unimplemented"]);

/** The first version of the list has running sandboxes only, all of them at once. */
async function listRunning(
  { read }: ControlCaller,
  filter: ListFilter,
  signal: AbortSignal,
): Promise<ListPage> {
  const subject = "list sandboxes";
  if (filter.states?.includes("running") === false) {
    const hint = "It lists running sandboxes only: call list_sandboxes without state.";
    throw new SandboxError("unimplemented", `${subject}: paused ones are not listed`, { hint });
  }
  const { metadata } = filter;
  const query = listQuery(metadata === undefined ? {} : { metadata });
  const all = await read({ path: `/sandboxes${query}`, signal, subject }, listReply);
  const sandboxes = all.slice(0, filter.limit);
  return { sandboxes, ofRunning: { omitted: all.length - sandboxes.length } };
}

const MEMORY_LOST: ErrorWord = "sandbox_memory_not_restorable";

/** Memory of another version, or damaged: no repeat brings it back. */
function isMemoryLost({ body }: HttpReply): boolean {
  return claimedWord(body) === MEMORY_LOST;
}

/** The routes that a sandbox refuses while its state changes. */
function createTransitions({ send, sendUntilSettled }: ControlCaller): Transitions {
  const sendConnect = createVersionedSend(send);
  /** A paused sandbox refuses with the same status, for good. */
  const isPaused = async (sandboxId: string, signal: AbortSignal, subject: string) => {
    const call = { method: "GET", isIdempotent: true, signal, subject } as const;
    const reply = await send({ ...call, path: sandboxPath(sandboxId) });
    return reply.status < 300 && parseBody(reply, detailReply, subject).state === "paused";
  };
  return {
    async setTimeout(sandboxId, timeoutSeconds, signal) {
      const subject = `set timeout of ${sandboxId}`;
      const path = `${sandboxPath(sandboxId)}/timeout`;
      const json = { timeout: timeoutSeconds };
      const reply = await sendUntilSettled({ ...REPEATABLE, path, json, signal, subject });
      requireDone(reply, subject);
    },

    async connect(sandboxId, request, signal) {
      const subject = `connect ${sandboxId}`;
      const path = `${sandboxPath(sandboxId)}/connect`;
      const call = { ...REPEATABLE, path, json: request, signal, subject };
      const reply = await sendUntilSettled(call, { send: sendConnect, isFinal: isMemoryLost });
      const sandbox = parseBody(reply, sandboxReply, subject);
      requireAsked(sandbox, sandboxId, subject);
      const isResumed = reply.status === 201;
      return { sandbox, wasResumed: isResumed || reply.isRepeat !== true ? isResumed : undefined };
    },

    async pause(sandboxId, keepsMemory, signal) {
      const subject = `pause ${sandboxId}`;
      const path = `${sandboxPath(sandboxId)}/pause`;
      const call = { ...REPEATABLE, path, json: { memory: keepsMemory }, signal, subject };
      const isFinal = () => isPaused(sandboxId, signal, subject);
      const reply = await sendUntilSettled(call, { isFinal });
      if (reply.status === 409) {
        return { wasRunning: reply.isRepeat === true, keptMemory: undefined };
      }
      requireDone(reply, subject);
      const mode = reply.headers[PAUSE_MODE_HEADER];
      const isSaid = mode === "full" || mode === "filesystem";
      return { wasRunning: true, keptMemory: isSaid ? mode === "full" : undefined };
    },

    async fork(sandboxId, request, signal) {
      const subject = `fork ${sandboxId}`;
      const path = `${sandboxPath(sandboxId)}/fork`;
      const call = { ...WRITING, path, json: request, signal, subject };
      const isFinal = () => isPaused(sandboxId, signal, subject);
      const reply = await sendUntilSettled(call, { isFinal });
      return parseBody(reply, forkReply, subject);
    },
  };
}

/** The filter as the wire has it: states joined by commas, metadata encoded three times in all. */
function listQuery(filter: ListFilter): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(filter.metadata ?? {})) {
    pairs.set(encodeURIComponent(name), encodeURIComponent(value));
  }
  return queryOf({
    state: filter.states?.join(","),
    metadata: pairs.size === 0 ? undefined : pairs.toString(),
    limit: filter.limit,
    nextToken: filter.nextToken,
  });
}
