/** Tool: writes to the stdin or the terminal of a process, and returns what it answers. */

import type { Sandbox } from "../../client/envd.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import {
  formatProcessId,
  hasEnded,
  isWatchedAnew,
  type ProcessView,
  requirePid,
  timeLimit,
} from "../../output/capture.ts";
import { logUri } from "../../output/logs.ts";
import { pageOutput } from "../../output/page-output.ts";
import {
  decodeContent,
  processIdInput,
  sandboxIdInput,
  terminalSideInput,
  waitInput,
} from "../inputs.ts";
import { answered, answerLimit } from "../processes/answer-limit.ts";
import { findProcess } from "../processes/find-process.ts";
import { followInput, markOf } from "../processes/follow-input.ts";
import {
  endInput,
  resizeTerminal,
  writeInput,
  type InputTarget,
} from "../processes/process-input.ts";
import { processHints, withHints } from "../replies/error-hints.ts";
import { expiryFact, stateFact, unknownFact } from "../replies/facts.ts";
import { textReply, type Reply } from "../replies/respond.ts";
import { DESTRUCTIVE, defineTool, type ToolContext } from "../tool.ts";

const MAX_DATA_CHARACTERS = 1_000_000;
const MAX_OUTPUT_BYTES = 30_000;
/** So long input waits for another stream in the place of a broken one. */
const MAX_CUT_MS = 5_000;
/** How long a process may take to read; a host's own limit, 60 s in most, comes later. */
const MAX_WRITE_MS = 40_000;
/** Of all of it, with what comes before the write and the wait for the output. */
const MAX_CALL_MS = 50_000;

const input = z.strictObject({
  sandbox_id: sandboxIdInput(),
  process_id: processIdInput(),
  data: z.string().max(MAX_DATA_CHARACTERS).describe("What to write; may be empty to close."),
  encoding: z.enum(["utf8", "base64"]).default("utf8").describe("How data is written."),
  close: z.boolean().default(false).describe("Close stdin afterwards."),
  wait_seconds: waitInput(0, "How long to wait for the output that follows, which is returned."),
  cols: terminalSideInput("New columns of the terminal, with rows."),
  rows: terminalSideInput("New rows of the terminal, with cols."),
});

type Params = z.output<typeof input>;

export const sendInput = defineTool({
  name: "send_input",
  title: "Send input",
  description:
    "Writes data to a process that run_process started with pty or keep_stdin_open, and closes " +
    "its input on request; many programs work only once it is closed. Add the line end yourself; " +
    "on a terminal \\u0003 is Ctrl-C. With wait_seconds it returns the output that follows as " +
    "soon as that pauses, so a REPL takes one call a turn; without, read it with " +
    "get_process_output.",
  toolset: "core",
  input,
  annotations: DESTRUCTIVE,
  async handler(params, context) {
    const { sandbox_id: sandboxId, process_id: processId, encoding } = params;
    const pid = requirePid(processId);
    requireSize(params);
    const bytes = decodeContent("data", params.data, encoding);
    const { clock } = context;
    const startedMs = clock.elapsed();
    const { sandbox, watched, find } = await openProcess(params, context);
    const sent = watched && markOf(watched.output);
    let written: Written;
    try {
      const lateMs = Math.min(MAX_WRITE_MS, MAX_CALL_MS - (clock.elapsed() - startedMs));
      const target = { sandbox, pid, signal: context.signal };
      written = await write(target, bytes, { params, context, lateMs });
    } catch (error) {
      if (!isBroken(error) || bytes.length === 0) throw error;
      return { ...textReply([`whether ${processId} got all of its input is not known`]), error };
    }
    const facts = [`sent ${bytes.length} bytes to ${processId}`, ...written.facts];
    if (watched === undefined || sent === undefined) {
      return textReply([...facts, expiryFact(context, sandboxId)]);
    }
    const leftMs = MAX_CALL_MS - (clock.elapsed() - startedMs);
    const deadline = context.waitLimit(Math.min(params.wait_seconds * 1_000, leftMs));
    const typed = written.isTyped ? bytes : Buffer.alloc(0);
    const following = { clock, deadline, sent, typed, find };
    const followed = await followInput(watched, following);
    const { process } = followed;
    const { output, state } = process;
    const { cursor } = followed.sent;
    const isRunning = state.kind === "running";
    const page = await pageOutput(output, {
      cursor,
      maxBytes: MAX_OUTPUT_BYTES,
      streams: ["stdout", "stderr"],
      isRunning,
    });
    const leftBytes = output.totalBytes - page.nextCursor;
    const reply: Reply<never> = textReply(
      [
        ...facts,
        stateFact(state),
        isWatchedAnew(process, watched) ? unknownFact(process) : undefined,
        `next_cursor: ${page.nextCursor}`,
        leftBytes > 0 ? `${leftBytes} bytes more` : undefined,
        output.totalBytes === cursor && isRunning ? "no output yet" : undefined,
        expiryFact(context, sandboxId),
      ],
      page.texts.map(({ stream, parts }) => ({ name: stream, parts })),
    );
    return reply;
  },
});

interface OpenProcess {
  readonly sandbox: Sandbox;
  /** Where the output that follows is asked for: the process, whose output is taken from now on. */
  readonly watched: ProcessView | undefined;
  readonly find: () => Promise<ProcessView>;
}

/** The process that gets the input. @throws SandboxError deadline_exceeded while nothing was sent. */
async function openProcess(params: Params, context: ToolContext): Promise<OpenProcess> {
  const { sandbox_id: sandboxId, process_id: processId } = params;
  const { clock, signal } = context;
  const pid = requirePid(processId);
  const find = async () => findProcess(params, context, "send_input");
  const open = async (): Promise<OpenProcess> => {
    const sandbox = await context.attach(sandboxId);
    const known = context.state.captures.find(sandboxId, pid);
    // Of what it answers before its output is taken again, as after a resume, nothing is known.
    await known?.whole(timeLimit(clock, MAX_CUT_MS, signal));
    if (known !== undefined) await context.state.captures.endReplaced(known);
    requireRunning(known, context);
    const watched = params.wait_seconds > 0 ? await find() : undefined;
    requireRunning(watched, context);
    return { sandbox, watched, find };
  };
  const outcome = `nothing was sent to ${formatProcessId(pid)}`;
  return answered(open(), { limit: answerLimit(context), outcome, tool: "send_input", context });
}

/** A connection that broke, as by a pause, may have carried the bytes. */
function isBroken(error: unknown): error is SandboxError {
  return hasErrorCode(error, "unavailable");
}

function requireSize({ cols, rows }: Params): void {
  if ((cols === undefined) === (rows === undefined)) return;
  throw new SandboxError("invalid_argument", "cols and rows must be given together");
}

interface WriteOptions {
  readonly params: Params;
  readonly context: ToolContext;
  /** How long the process may take to read. */
  readonly lateMs: number;
}

interface Written {
  /** Whether a terminal took it. */
  readonly isTyped: boolean;
  /** What may be lost, and how the input was ended, if it was to be. */
  readonly facts: readonly (string | undefined)[];
}

async function write(
  target: InputTarget,
  bytes: Buffer,
  { params, context, lateMs }: WriteOptions,
): Promise<Written> {
  const { close, cols, rows } = params;
  if (cols !== undefined && rows !== undefined) {
    await explained(resizeTerminal(target, { cols, rows }), target, context);
  }
  const facts: (string | undefined)[] = [];
  let isTyped = false;
  if (bytes.length > 0) {
    const late = timeLimit(context.clock, lateMs, context.signal);
    const taken = await explained(writeInput(target, bytes, late), target, context);
    isTyped = taken.isTyped;
    facts.push(taken.fact);
  }
  if (close) facts.push(await explained(closeInput(target, bytes), target, context));
  return { isTyped, facts };
}

/** What was written may have ended the process, with which its input closes. */
async function closeInput(target: InputTarget, written: Buffer): Promise<string> {
  try {
    return await endInput(target, written);
  } catch (error) {
    const isOver = hasErrorCode(error, "not_found") || isClosed(error);
    if (!isOver || written.length === 0) throw error;
    return "stdin was closed already: the process ended, or closed it";
  }
}

/** A refusal in terms of the process: it ended, its stdin is closed, or it never was. */
async function explained<T>(
  work: Promise<T>,
  target: InputTarget,
  context: ToolContext,
): Promise<T> {
  const { pid } = target;
  const sandboxId = target.sandbox.id;
  const { captures } = context.state;
  try {
    return await withHints(work, processHints(context.suggest));
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    if (error.code === "not_found") {
      requireRunning(captures.find(sandboxId, pid), context);
      requireRunning(await captures.recall(sandboxId, pid), context);
    }
    if (!isClosed(error)) throw error;
    const message = `stdin of ${formatProcessId(pid)} is closed`;
    const hint = context.suggest("run_process", "Start it with keep_stdin_open=true or pty=true.");
    throw new SandboxError("failed_precondition", message, { cause: error, hint });
  }
}

function isClosed(error: unknown): boolean {
  return hasErrorCode(error, "internal") && CLOSED_PATTERN.test(error.message);
}

const CLOSED_PATTERN = /not enabled or closed|broken pipe/;

/** An ended process takes no input; its output is kept, and the error says where. */
function requireRunning(process: ProcessView | undefined, context: ToolContext): void {
  if (process === undefined || !hasEnded(process)) return;
  const { processId, sandboxId, state } = process;
  const page = `get_process_output(process_id="${processId}")`;
  const where = context.suggest("get_process_output", ` and is returned by ${page}`);
  const hint = `Its output is kept for 15 minutes${where}; also in ${logUri(sandboxId)}.`;
  const message = `${processId} has ended (${stateFact(state)})`;
  throw new SandboxError("failed_precondition", message, { hint });
}
