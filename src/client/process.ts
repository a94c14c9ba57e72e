/** The process service of one sandbox, without the types of the wire. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import { anySignal } from "../common/any-signal.ts";
import type { Clock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import {
  Process,
  Signal,
  type ProcessEvent as WireEvent,
  type ProcessSelectorSchema,
  type StreamInputRequestSchema,
} from "../gen/process/process_pb.ts";
import { KEEPALIVE_INTERVAL_HEADER } from "../wire/headers.ts";
import { renewAccess, userHeader, type AccessSource, type CallOptions } from "./access.ts";
import type { EventClient, EventMessages } from "./event-stream.ts";
import { toWord } from "./paths.ts";
import { fromRpcError } from "./rpc.ts";
import { KEEPALIVE_S, StreamGuard, type GuardOptions } from "./stream-guard.ts";
import { callUnary } from "./unary.ts";

export type OutputStream = "stdout" | "stderr";

export type ProcessEvent =
  | { readonly type: "start"; readonly pid: number }
  | { readonly type: "data"; readonly stream: OutputStream; readonly bytes: Uint8Array }
  | {
      readonly type: "end";
      /** -1 or 128 + n for a process that a signal ended. */
      readonly exitCode: number;
      /** The daemon's text, such as `exit status 1`; untrusted. */
      readonly status: string;
    };

export interface ProcessRequest {
  readonly cmd: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env: Readonly<Record<string, string>>;
  /** Whether stdin stays open for input; otherwise it is empty. */
  readonly hasStdin: boolean;
  /** Runs it on a terminal of this size, which has one output and takes input always. */
  readonly terminal?: TerminalSize;
}

/** In characters. */
export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface StartOptions extends CallOptions {
  /** The daemon kills the process after this time, connected or not; absent: never. */
  readonly timeoutMs?: number | undefined;
}

export type SignalName = "SIGTERM" | "SIGKILL";

export interface ProcessClient {
  /** Starts a process; the first event is `start`. Leaving the iteration does not end it. */
  start(request: ProcessRequest, options: StartOptions): AsyncGenerator<ProcessEvent, void>;
  /** The output of a running process from now on, and its end; the first event is `start`. */
  connect(pid: number, signal: AbortSignal): AsyncGenerator<ProcessEvent, void>;
  list(signal: AbortSignal): Promise<readonly { readonly pid: number; readonly cmd: string }[]>;
  /**
   * Sends input in order; returns once the process has taken it or its pipe holds it. A process
   * that never reads is waited for until the signal fires.
   */
  sendInput(pid: number, chunks: Iterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /** As `sendInput`, for a process on a terminal. */
  typeInput(pid: number, chunks: Iterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  resize(pid: number, size: TerminalSize, signal: AbortSignal): Promise<void>;
  closeStdin(pid: number, signal: AbortSignal): Promise<void>;
  /** Reaches the process alone, not its children, and does not wait for its end. */
  sendSignal(pid: number, name: SignalName, signal: AbortSignal): Promise<void>;
}

const SIGNALS = { SIGTERM: Signal.SIGTERM, SIGKILL: Signal.SIGKILL } as const;

interface Stream {
  readonly source: AccessSource;
  readonly options: CallOptions;
  /** For the silence of the peer. */
  readonly guard: GuardOptions;
  open(signal: AbortSignal): EventMessages;
}

export interface ProcessOptions {
  readonly source: AccessSource;
  readonly clock: Clock;
  /** JSON, whose cost is judged before it is parsed: a list of nothing has two bytes an entry. */
  readonly plain: Transport;
  /** Serves the two calls that carry output, for a daemon of ours. */
  readonly streams?: EventClient | undefined;
}

/** The process service behind a transport. */
export function createProcess(
  transport: Transport,
  { source, clock, plain, streams }: ProcessOptions,
): ProcessClient {
  const client = createClient(Process, transport);
  const lists = createClient(Process, plain);
  const guardOf = (subject: string, timeoutMs?: number): GuardOptions => ({
    clock,
    subject,
    hasKeepalives: streams !== undefined,
    timeoutMs,
    isRunning: (signal) => source.isRunning(signal),
  });
  const opened: EventClient = streams ?? client;
  async function send(pid: number, input: Input, signal: AbortSignal): Promise<void> {
    const subject = `input of process ${pid}`;
    const work = {
      source,
      isIdempotent: false,
      // The reply comes once the process, which may read late, has taken the bytes.
      isUnlimited: true,
      subject,
      options: { signal },
    };
    const selector = byPid(pid);
    await callUnary(work, (call) => client.streamInput(inputMessages(selector, input), call));
  }

  const alive = { [KEEPALIVE_INTERVAL_HEADER]: String(KEEPALIVE_S) };

  return {
    start(request, options) {
      const { timeoutMs } = options;
      const headers = { ...alive, ...startHeaders(options) };
      const message = toStart(request);
      const open = (signal: AbortSignal) => opened.start(message, { signal, headers });
      return events({ source, options, guard: guardOf("start process", timeoutMs), open });
    },

    connect(pid, signal) {
      const message = { process: byPid(pid) };
      const open = (inner: AbortSignal) =>
        opened.connect(message, { signal: inner, headers: alive });
      const guard = guardOf(`connect to process ${pid}`);
      return events({ source, options: { signal }, guard, open });
    },

    async list(signal) {
      const work = { source, isIdempotent: true, subject: "list processes", options: { signal } };
      const reply = await callUnary(work, (call) => lists.list({}, call));
      return reply.processes.map((process) => ({
        pid: process.pid,
        cmd: [process.config?.cmd ?? "", ...(process.config?.args ?? [])].join(" "),
      }));
    },

    sendInput: (pid, chunks, signal) => send(pid, { kind: "stdin", chunks }, signal),
    typeInput: (pid, chunks, signal) => send(pid, { kind: "pty", chunks }, signal),

    async resize(pid, size, signal) {
      const subject = `size of the terminal of process ${pid}`;
      const work = { source, isIdempotent: true, subject, options: { signal } };
      await callUnary(work, (call) => client.update({ process: byPid(pid), pty: { size } }, call));
    },

    async closeStdin(pid, signal) {
      const subject = `close stdin of process ${pid}`;
      const work = { source, isIdempotent: true, subject, options: { signal } };
      await callUnary(work, (call) => client.closeStdin({ process: byPid(pid) }, call));
    },

    async sendSignal(pid, name, signal) {
      const subject = `${name} to process ${pid}`;
      const work = { source, isIdempotent: false, subject, options: { signal } };
      const message = { process: byPid(pid), signal: SIGNALS[name] };
      await callUnary(work, (call) => client.sendSignal(message, call));
    },
  };
}

function startHeaders({ user, timeoutMs }: StartOptions): Readonly<Record<string, string>> {
  return {
    ...userHeader(user),
    // As a header, not as a call option, which would end the stream at this end too.
    ...(timeoutMs !== undefined && { "connect-timeout-ms": String(timeoutMs) }),
  };
}

function toStart({ cmd, args, cwd, env, terminal, hasStdin }: ProcessRequest) {
  const process = { cmd, args: [...args], envs: { ...env }, ...(cwd !== undefined && { cwd }) };
  return { process, stdin: hasStdin, ...(terminal && { pty: { size: terminal } }) };
}

function byPid(pid: number): MessageInitShape<typeof ProcessSelectorSchema> {
  return { selector: { case: "pid", value: pid } };
}

interface Input {
  readonly kind: "stdin" | "pty";
  readonly chunks: Iterable<Uint8Array>;
}

/** The messages of an input stream: the process, then the bytes in order. */
async function* inputMessages(
  selector: MessageInitShape<typeof ProcessSelectorSchema>,
  { kind, chunks }: Input,
): AsyncGenerator<MessageInitShape<typeof StreamInputRequestSchema>, void> {
  yield { event: { case: "start", value: { process: selector } } };
  for (const value of chunks) {
    yield { event: { case: "data", value: { input: { input: { case: kind, value } } } } };
  }
}

/** The events of a stream, opened once more when the first token was refused. */
async function* events(stream: Stream): AsyncGenerator<ProcessEvent, void> {
  try {
    yield* eventsOnce(stream);
    return;
  } catch (error) {
    // A refusal precedes the first event, so no event is repeated.
    await renewAccess(stream.source, error, stream.options);
  }
  yield* eventsOnce(stream);
}

async function* eventsOnce(stream: Stream): AsyncGenerator<ProcessEvent, void> {
  using guard = new StreamGuard(stream.guard);
  const { subject } = stream.guard;
  let hasStarted = false;
  let hasEnded = false;
  try {
    guard.waits();
    const signal = anySignal([stream.options.signal, guard.signal]);
    for await (const { event } of stream.open(signal)) {
      guard.took(event?.event?.case);
      const known = toEvent(event);
      hasStarted ||= known?.type === "start";
      hasEnded ||= known?.type === "end";
      if (known !== undefined) yield known;
      guard.waits();
    }
    guard.isOver = true;
  } catch (error) {
    if (hasEnded) return;
    const failure = guard.fault ?? fromRpcError(error, subject);
    throw hasStarted ? midStream(failure) : failure;
  }
  if (!hasEnded) throw new SandboxError("unavailable", `${subject}: stream without an end`);
}

/** After the start, invalid_argument can only come from the transport. */
function midStream(failure: SandboxError): SandboxError {
  if (failure.code !== "invalid_argument") return failure;
  return new SandboxError("unavailable", failure.message, { cause: failure });
}

/** Undefined for keepalives and for events of a newer peer. */
function toEvent(event: WireEvent | undefined): ProcessEvent | undefined {
  const known = event?.event;
  switch (known?.case) {
    case "start":
      return { type: "start", pid: known.value.pid };
    case "data": {
      const { output } = known.value;
      if (output.case === undefined) return undefined;
      const stream = output.case === "stderr" ? "stderr" : "stdout";
      return { type: "data", stream, bytes: output.value };
    }
    case "end": {
      const { exitCode, status } = known.value;
      return { type: "end", exitCode, status: toWord(status) };
    }
    case "keepalive":
    case undefined:
      return undefined;
    default:
      return known satisfies never;
  }
}
