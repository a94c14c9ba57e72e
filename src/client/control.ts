/** The control API from the caller's side: one method per operation, every reply checked. */

import { SandboxError } from "../common/errors.ts";
import { faultsOf, z } from "../common/schema.ts";
import {
  forkResultSchema,
  listedSandboxSchema,
  listedTemplateSchema,
  logsSchema,
  metricSchema,
  sandboxDetailSchema,
  sandboxSchema,
  snapshotSchema,
  templateSchema,
  type CreateRequest,
  type ForkResultBody,
  type ListedSandboxBody,
  type ListedTemplateBody,
  type LogsBody,
  type MetricBody,
  type SandboxBody,
  type SandboxDetailBody,
  type SnapshotBody,
  type TemplateBody,
} from "../wire/control.ts";
import { API_KEY_HEADER, NEXT_TOKEN_HEADER } from "../wire/headers.ts";
import {
  exchange,
  parseReply,
  replyError,
  type Connection,
  type Exchange,
  type HttpReply,
} from "./http.ts";
import { retryConflicts } from "./retry-conflict.ts";

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
}

export interface PageQuery {
  readonly limit?: number;
  readonly nextToken?: string;
}

export interface SnapshotFilter extends PageQuery {
  /** Only those taken from this sandbox. */
  readonly sandboxID?: string;
  readonly name?: string;
}

export interface SnapshotPage {
  readonly snapshots: readonly SnapshotBody[];
  readonly nextToken?: string;
}

export interface TemplatePage {
  readonly template: TemplateBody;
  readonly nextToken?: string;
}

/** Every operation throws SandboxError with the code that the reply's status stands for. */
export interface Control {
  create(request: CreateRequest, signal: AbortSignal): Promise<SandboxBody>;
  list(filter: ListFilter, signal: AbortSignal): Promise<ListPage>;
  get(sandboxId: string, signal: AbortSignal): Promise<SandboxDetailBody>;
  /** Whether there was something to end. */
  kill(sandboxId: string, signal: AbortSignal): Promise<boolean>;
  setTimeout(sandboxId: string, timeoutSeconds: number, signal: AbortSignal): Promise<void>;
  /** Resumes a paused sandbox, or extends the life of a running one. */
  connect(
    sandboxId: string,
    timeoutSeconds: number,
    signal: AbortSignal,
  ): Promise<{ readonly sandbox: SandboxBody; readonly wasResumed: boolean }>;
  /** Whether it ran before; false when it was paused already. */
  pause(sandboxId: string, keepsMemory: boolean, signal: AbortSignal): Promise<boolean>;
  snapshot(sandboxId: string, name: string | undefined, signal: AbortSignal): Promise<SnapshotBody>;
  logs(
    sandboxId: string,
    query: { readonly start?: number; readonly limit?: number },
    signal: AbortSignal,
  ): Promise<LogsBody>;
  template(templateId: string, query: PageQuery, signal: AbortSignal): Promise<TemplatePage>;
  templates(signal: AbortSignal): Promise<readonly ListedTemplateBody[]>;
  /** Whether there was something to delete; a snapshot is a template too. */
  deleteTemplate(templateId: string, signal: AbortSignal): Promise<boolean>;
  snapshots(filter: SnapshotFilter, signal: AbortSignal): Promise<SnapshotPage>;
  /** One result for each copy that was asked for. */
  fork(
    sandboxId: string,
    wish: { readonly count: number; readonly timeout: number },
    signal: AbortSignal,
  ): Promise<readonly ForkResultBody[]>;
  /** Samples between two times in Unix seconds, oldest first. */
  metrics(
    sandboxId: string,
    range: { readonly start: number; readonly end: number },
    signal: AbortSignal,
  ): Promise<readonly MetricBody[]>;
}

export interface ControlOptions {
  readonly connection: Connection;
  /** Base URL; a path in it is kept as prefix. */
  readonly url: string;
  readonly apiKey: string;
}

/** Ten thousand log records of the largest size allowed by contract do not occur in practice. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;

type Call = Pick<Exchange, "method" | "signal" | "isIdempotent" | "subject"> & {
  readonly path: string;
  readonly json?: unknown;
};

/** The control API of a service. */
export function createControl(options: ControlOptions): Control {
  const caller = createCaller(options);
  return { ...createChanges(caller), ...createTransitions(caller), ...createQueries(caller) };
}

interface Caller {
  readonly send: (call: Call) => Promise<HttpReply>;
  /** As `send`, but a reply of 300 and above is thrown. */
  readonly ask: (call: Call) => Promise<HttpReply>;
  readonly connection: Connection;
}

function createCaller(options: ControlOptions): Caller {
  const base = options.url.replace(/\/+$/, "");
  async function send(call: Call): Promise<HttpReply> {
    return exchange(options.connection, {
      method: call.method,
      url: `${base}${call.path}`,
      headers: {
        [API_KEY_HEADER]: options.apiKey,
        ...(call.json !== undefined && { "content-type": "application/json" }),
      },
      ...(call.json !== undefined && { body: JSON.stringify(call.json) }),
      signal: call.signal,
      maxBytes: MAX_REPLY_BYTES,
      isIdempotent: call.isIdempotent,
      subject: call.subject,
    });
  }
  return {
    connection: options.connection,
    send,
    ask: async (call) => accepted(await send(call), call.subject),
  };
}

/** @throws SandboxError for a reply of 300 and above. */
function accepted(reply: HttpReply, subject: string): HttpReply {
  if (reply.status >= 300) throw replyError(subject, reply);
  return reply;
}

/** Answers that a service gives for a path it does not know; 404 also for what is not there. */
const UNKNOWN_STATUSES: ReadonlySet<number> = new Set([404, 405, 501]);

/**
 * Sends to a route that has two generations, of which a service may know only one. The one that
 * it turned out to know is asked first from then on. Where both refuse, what the older one said
 * stands.
 */
function createEither(send: Caller["send"]): Caller["send"] {
  let known: "older" | "newer" = "older";
  return async (call) => {
    const ways = { older: call, newer: { ...call, path: `/v2${call.path}` } };
    const other = known === "older" ? "newer" : "older";
    const first = await send(ways[known]);
    if (!UNKNOWN_STATUSES.has(first.status)) return first;
    const second = await send(ways[other]);
    if (UNKNOWN_STATUSES.has(second.status)) return known === "older" ? first : second;
    known = other;
    return second;
  };
}

const READING = { method: "GET", isIdempotent: true } as const;
const WRITING = { method: "POST", isIdempotent: false } as const;
const REPEATABLE = { method: "POST", isIdempotent: true } as const;
const DELETING = { method: "DELETE", isIdempotent: true } as const;

type Queries = Pick<
  Control,
  "list" | "get" | "logs" | "template" | "templates" | "snapshots" | "metrics"
>;

type Transitions = Pick<Control, "setTimeout" | "connect" | "pause" | "snapshot" | "fork">;

/** Operations that make, end or delete. */
function createChanges({ send }: Caller): Omit<Control, keyof Queries | keyof Transitions> {
  const sendCreate = createEither(send);
  return {
    async create(request, signal) {
      const subject = `create from ${request.templateID}`;
      const call = { ...WRITING, path: "/sandboxes", json: request, signal, subject };
      return parse(accepted(await sendCreate(call), subject), sandboxSchema, subject);
    },

    async kill(sandboxId, signal) {
      const subject = `kill ${sandboxId}`;
      const reply = await send({ ...DELETING, path: pathOf(sandboxId), signal, subject });
      if (reply.status === 404) return false;
      accepted(reply, subject);
      return true;
    },

    async deleteTemplate(templateId, signal) {
      const subject = `delete ${templateId}`;
      const path = `/templates/${encodeURIComponent(templateId)}`;
      const reply = await send({ ...DELETING, path, signal, subject });
      if (reply.status === 404) return false;
      accepted(reply, subject);
      return true;
    },
  };
}

/** A refusal that can only be for now. */
const never = () => Promise.resolve(false);

/** Operations that a sandbox refuses while it changes its state. */
function createTransitions({ connection, send }: Caller): Transitions {
  const sendConnect = createEither(send);
  const settle = (call: Call, isFinal = never) =>
    retryConflicts(connection, { ...call, send: () => send(call) }, isFinal);
  /** A refusal with the same status can also mean that the sandbox is paused. */
  const isPaused = async (sandboxId: string, { signal, subject }: Call) => {
    const reply = await send({ ...READING, path: pathOf(sandboxId), signal, subject });
    return reply.status < 300 && parse(reply, sandboxDetailSchema, subject).state === "paused";
  };
  return {
    async setTimeout(sandboxId, timeoutSeconds, signal) {
      const subject = `set timeout of ${sandboxId}`;
      const path = `${pathOf(sandboxId)}/timeout`;
      const json = { timeout: timeoutSeconds };
      accepted(await settle({ ...REPEATABLE, path, json, signal, subject }), subject);
    },

    async connect(sandboxId, timeoutSeconds, signal) {
      const subject = `connect ${sandboxId}`;
      const path = `${pathOf(sandboxId)}/connect`;
      const call = { ...REPEATABLE, path, json: { timeout: timeoutSeconds }, signal, subject };
      const wanted = { ...call, send: () => sendConnect(call) };
      const reply = accepted(await retryConflicts(connection, wanted, never), subject);
      return { sandbox: parse(reply, sandboxSchema, subject), wasResumed: reply.status === 201 };
    },

    async pause(sandboxId, keepsMemory, signal) {
      const subject = `pause ${sandboxId}`;
      const path = `${pathOf(sandboxId)}/pause`;
      const json = { memory: keepsMemory };
      const call = { ...REPEATABLE, path, json, signal, subject };
      const reply = await settle(call, () => isPaused(sandboxId, call));
      if (reply.status === 409) return false;
      accepted(reply, subject);
      return true;
    },

    async snapshot(sandboxId, name, signal) {
      const subject = `snapshot ${sandboxId}`;
      const path = `${pathOf(sandboxId)}/snapshots`;
      const json = name === undefined ? {} : { name };
      const reply = await settle({ ...WRITING, path, json, signal, subject });
      return parse(accepted(reply, subject), snapshotSchema, subject);
    },

    async fork(sandboxId, wish, signal) {
      const subject = `fork ${sandboxId}`;
      const path = `${pathOf(sandboxId)}/fork`;
      const call = { ...WRITING, path, json: wish, signal, subject };
      const reply = await settle(call, () => isPaused(sandboxId, call));
      return parse(accepted(reply, subject), z.array(forkResultSchema), subject);
    },
  };
}

/** The operations that only read. */
function createQueries({ ask }: Caller): Queries {
  return {
    async list(filter, signal) {
      const subject = "list sandboxes";
      const path = `/v2/sandboxes${listQuery(filter)}`;
      const reply = await ask({ ...READING, path, signal, subject });
      const sandboxes = parse(reply, z.array(listedSandboxSchema), subject);
      return { sandboxes, ...nextTokenOf(reply) };
    },

    async get(sandboxId, signal) {
      const subject = `get ${sandboxId}`;
      const reply = await ask({ ...READING, path: pathOf(sandboxId), signal, subject });
      return parse(reply, sandboxDetailSchema, subject);
    },

    async logs(sandboxId, query, signal) {
      const subject = `logs of ${sandboxId}`;
      const path = `${pathOf(sandboxId)}/logs${queryOf({ ...query })}`;
      const reply = await ask({ ...READING, path, signal, subject });
      return parse(reply, logsSchema, subject);
    },

    async template(templateId, query, signal) {
      const subject = `get template ${templateId}`;
      const path = `/templates/${encodeURIComponent(templateId)}${queryOf({ ...query })}`;
      const reply = await ask({ ...READING, path, signal, subject });
      return { template: parse(reply, templateSchema, subject), ...nextTokenOf(reply) };
    },

    async templates(signal) {
      const subject = "list templates";
      const reply = await ask({ ...READING, path: "/templates", signal, subject });
      return parse(reply, z.array(listedTemplateSchema), subject);
    },

    async snapshots(filter, signal) {
      const subject = "list snapshots";
      const path = `/snapshots${queryOf({ ...filter })}`;
      const reply = await ask({ ...READING, path, signal, subject });
      return { snapshots: parse(reply, z.array(snapshotSchema), subject), ...nextTokenOf(reply) };
    },

    async metrics(sandboxId, range, signal) {
      const subject = `metrics of ${sandboxId}`;
      const path = `${pathOf(sandboxId)}/metrics${queryOf({ ...range })}`;
      const reply = await ask({ ...READING, path, signal, subject });
      return parse(reply, z.array(metricSchema), subject);
    },
  };
}

function pathOf(sandboxId: string): string {
  return `/sandboxes/${encodeURIComponent(sandboxId)}`;
}

function queryOf(values: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
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

function nextTokenOf(reply: HttpReply): { readonly nextToken?: string } {
  const value = reply.headers[NEXT_TOKEN_HEADER];
  return typeof value === "string" && value !== "" ? { nextToken: value } : {};
}

/** The body of a reply as the wire promises it. */
function parse<T>(reply: HttpReply, schema: z.ZodType<T>, subject: string): T {
  const parsed = schema.safeParse(parseReply(reply.body, subject));
  if (parsed.success) return parsed.data;
  throw new SandboxError("internal", `${subject}: unexpected reply: ${faultsOf(parsed.error)}`);
}
