/** One bounded HTTP exchange with a service, and the only place that repeats a request. */

import { request, type Dispatcher } from "undici";
import { anySignal } from "../common/any-signal.ts";
import type { Clock } from "../common/clock.ts";
import { SandboxError, errorText, isCode, toSandboxError } from "../common/errors.ts";
import { readBeginning, readBounded } from "../common/http.ts";
import { parseJson, tryParseAs } from "../common/json.ts";
import { signalAfter } from "../common/late-signal.ts";
import { z } from "../common/schema.ts";
import { unexpectedReply } from "../common/unexpected-reply.ts";
import { quoteWords } from "../common/untrusted-text.ts";
import { codeOfStatus, errorBodySchema } from "../wire/status.ts";
import { redactBody } from "./redact.ts";
import { parseHttpDate } from "./service-time.ts";

/** The connections of a service, and the clock of its repeats. */
export interface Connection {
  readonly dispatcher: Dispatcher;
  readonly clock: Clock;
}

export interface Exchange {
  readonly method: Dispatcher.HttpMethod;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly signal: AbortSignal;
  readonly maxBytes: number;
  /** Only such a request is repeated after a failure during which it may have been served. */
  readonly isIdempotent: boolean;
  /** The operation, as the beginning of an error message. */
  readonly subject: string;
}

export interface HttpReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  /** Whether an attempt before this one broke off, which may have been served. */
  readonly isRepeat?: boolean;
}

/** Servers give up after 70 seconds by contract. */
const EXCHANGE_TIMEOUT_MS = 75_000;
/** Delays before the repeats of a request that reached no service. */
const RETRY_DELAYS_MS: readonly number[] = [100, 400];
/** Repeats of a request that was refused with 429, as in the official clients. */
const MAX_RATE_REPEATS = 3;
/** A longer Retry-After is returned to the caller. */
const MAX_RETRY_AFTER_S = 10;
const MAX_ERROR_BYTES = 65_536;
/**
 * Twenty thousand listed entries have a dozen values each, a thousand log records some forty. More
 * would take tens of megabytes of memory for a few of the reply.
 */
export const MAX_REPLY_VALUES = 262_144;

/**
 * Sends a request and reads its whole reply, whatever its status.
 * @throws SandboxError unavailable, deadline_exceeded or canceled when there is no reply,
 *   resource_exhausted when it exceeds `maxBytes`. Of an error only the beginning is read.
 */
export async function exchange(connection: Connection, wanted: Exchange): Promise<HttpReply> {
  let failures = 0;
  let refusals = 0;
  let isRepeat = false;
  for (;;) {
    const outcome = await attempt(connection, wanted);
    const nowMs = connection.clock.now();
    const delayMs = nextDelay(outcome, wanted, { failures, refusals, nowMs });
    if (delayMs === undefined) return { ...settled(outcome), isRepeat };
    isRepeat ||= mayBeServed(outcome);
    if (isRefusal(outcome)) refusals += 1;
    else failures += 1;
    await pause(connection.clock, delayMs, wanted);
  }
}

type Outcome = { readonly reply: HttpReply } | { readonly error: SandboxError };

async function attempt(connection: Connection, wanted: Exchange): Promise<Outcome> {
  const signal = anySignal([wanted.signal, signalAfter(EXCHANGE_TIMEOUT_MS)]);
  try {
    const reply = await request(wanted.url, {
      dispatcher: connection.dispatcher,
      method: wanted.method,
      headers: { ...wanted.headers },
      body: wanted.body ?? null,
      signal,
      bodyTimeout: 0,
      headersTimeout: 0,
    });
    const { statusCode: status, headers } = reply;
    const body =
      status < FIRST_ERROR
        ? await readBounded(reply.body, wanted.maxBytes, wanted.subject)
        : await readBeginning(reply.body, MAX_ERROR_BYTES);
    const isQuoted = status >= FIRST_REFUSAL;
    return { reply: { status, headers, body: isQuoted ? redactBody(body, wanted.headers) : body } };
  } catch (error) {
    return { error: toSandboxError(error, wanted.subject) };
  }
}

function settled(outcome: Outcome): HttpReply {
  if ("error" in outcome) throw outcome.error;
  return outcome.reply;
}

/** Faults before a request is sent. */
const UNSENT_CODES = ["ECONNREFUSED", "ENOENT", "ENOTFOUND", "UND_ERR_CONNECT_TIMEOUT"] as const;

/** A service says why it refuses; proxies send a bare 503 for a connection that broke, too. */
function mayBeServed(outcome: Outcome): boolean {
  if ("error" in outcome) return !isCode(outcome.error, ...UNSENT_CODES);
  return !isRefusal(outcome) && errorMessage(outcome.reply.body) === undefined;
}

function isRefusal(outcome: Outcome): boolean {
  return "reply" in outcome && outcome.reply.status === 429;
}

/** How long to wait before the next attempt; undefined when the outcome is final. */
function nextDelay(
  outcome: Outcome,
  wanted: Exchange,
  made: { readonly failures: number; readonly refusals: number; readonly nowMs: number },
): number | undefined {
  if (isRefusal(outcome) && "reply" in outcome) {
    const seconds = retryAfter(outcome.reply, made.nowMs);
    if (seconds === undefined || seconds > MAX_RETRY_AFTER_S) return undefined;
    return made.refusals < MAX_RATE_REPEATS ? seconds * 1_000 : undefined;
  }
  const isTransient =
    "error" in outcome ? outcome.error.code === "unavailable" : outcome.reply.status === 503;
  return isTransient && wanted.isIdempotent ? RETRY_DELAYS_MS[made.failures] : undefined;
}

/**
 * Waits before a repeat.
 * @throws SandboxError canceled when the request is.
 */
export async function pause(
  clock: Clock,
  ms: number,
  wanted: Pick<Exchange, "signal" | "subject">,
): Promise<void> {
  try {
    await clock.sleep(ms, wanted.signal);
  } catch (error) {
    throw toSandboxError(error, wanted.subject);
  }
}

/** The seconds that a Retry-After header asks for, as a number or as a date by the service's clock. */
function retryAfter(reply: HttpReply, nowMs: number): number | undefined {
  const value = reply.headers["retry-after"];
  if (typeof value !== "string") return undefined;
  if (/^[0-9]{1,6}$/.test(value)) return Number(value);
  const atMs = parseHttpDate(value);
  const sentAtMs = parseHttpDate(reply.headers["date"]) ?? nowMs;
  return atMs === undefined ? undefined : Math.max(0, Math.ceil((atMs - sentAtMs) / 1_000));
}

/** What is told of redirections and errors quotes their body. */
const FIRST_REFUSAL = 300;
const FIRST_ERROR = 400;

const NOT_FOUND = 404;
const UNKNOWN_PATH_HINT =
  "The sandbox service answered 404 in a form that the E2B API does not have: it does not know the " +
  "path, or something else answers at its address. Nothing was learnt about what was asked for. Tell the user.";

/**
 * Whether the service says that what was asked for is not there. Its errors are objects; routers and
 * proxies answer with a page, a line of text or nothing for a path that leads nowhere.
 */
export function isMissing({ status, body }: Pick<HttpReply, "status" | "body">): boolean {
  return status === NOT_FOUND && smallObject(body) !== undefined;
}

/** A reply of 300 and above as an error that quotes its message. */
export function replyError(subject: string, reply: HttpReply): SandboxError {
  const { status } = reply;
  const code = codeOfStatus(status);
  const message = `${subject}: the service answered ${status} ${quoted(reply.body)}`;
  if (status < FIRST_ERROR) {
    const hint = `The address of the sandbox service redirects to another one (${status}): it must be that of the service itself. No tool call repairs this; tell the user.`;
    return new SandboxError(code, message, { hint });
  }
  if (status === NOT_FOUND && !isMissing(reply)) {
    return new SandboxError("unimplemented", message, { hint: UNKNOWN_PATH_HINT });
  }
  const seconds = status === 429 ? retryAfter(reply, Date.now()) : undefined;
  if (seconds === undefined) return new SandboxError(code, message);
  return new SandboxError(code, message, { hint: `Rate limited: wait ${seconds} s.` });
}

const FULL_STATUS = 507;

/** The same of a daemon, whose disk is that of its sandbox. */
export function daemonError(subject: string, reply: HttpReply): SandboxError {
  const error = replyError(subject, reply);
  if (reply.status !== FULL_STATUS) return error;
  return new SandboxError(error.code, error.message, { hint: "The disk of the sandbox is full." });
}

/** The message of an error body, quoted; the plain text of any other body. */
function quoted(body: Buffer): string {
  const message = errorMessage(body);
  return quoteWords(message ?? body.toString("utf8").trim());
}

/** The message of an error body; undefined for any other text. */
export function errorMessage(body: Uint8Array): string | undefined {
  return tryParseAs(body, errorBodySchema)?.message;
}

const connectErrorSchema = z.looseObject({ code: z.string() });

/** Whether an error body is in Connect's own form, whose code is a word. */
export function isConnectError(body: Uint8Array): boolean {
  return tryParseAs(body, connectErrorSchema) !== undefined;
}

/** As sign-in pages of proxies and services of other makers have it; no reply of the API has this field. */
const otherErrorSchema = z.looseObject({
  error: z
    .union([z.string(), z.looseObject({ message: z.string() }).transform((said) => said.message)])
    .pipe(z.string().min(1)),
});

/** What an error body says under a status of success; undefined for any other body. */
export function claimedError(body: Uint8Array): string | undefined {
  const value = smallObject(body);
  const { code, message } = errorBodySchema.safeParse(value).data ?? {};
  if (code !== undefined && code >= FIRST_ERROR) return message;
  return otherErrorSchema.safeParse(value).data?.error;
}

/** The reason of an error as a word, where its body gives one. */
export function claimedWord(body: Uint8Array): string | undefined {
  return errorBodySchema.safeParse(smallObject(body)).data?.error_code;
}

/** Whether a body is an object with fields of which none has these names. */
export function isForeign(body: Uint8Array, names: ReadonlySet<string>): boolean {
  const fields = Object.keys(smallObject(body) ?? {});
  return fields.length > 0 && !fields.some((name) => names.has(name));
}

/** The value of a body that is a JSON object of the size of an error at most. */
function smallObject(body: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  return body.length > MAX_ERROR_BYTES ? undefined : tryParseAs(body, z.looseObject({}));
}

/** Whether a body is a page of HTML. Frameworks name this type by default, also for no body or for a word. */
export function isPage(headers: HttpReply["headers"], body: Buffer): boolean {
  const isHtml = String(headers["content-type"]).startsWith("text/html");
  return isHtml && /^\s*</.test(body.toString("utf8"));
}

/**
 * The value of a reply that claims to be JSON; undefined when it is none, which the caller's schema
 * refuses and says what was wanted instead.
 * @throws SandboxError internal when parsing it would cost too much.
 */
export function parseReply(body: Uint8Array, subject: string): unknown {
  try {
    return parseJson(body, { maxValues: MAX_REPLY_VALUES });
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw unexpectedReply(errorText(error), { subject, cause: error });
  }
}
