/** Tool: runs a command or starts a server, with a bounded wait. */

import type { Sandbox } from "../../client/envd.ts";
import type { ProcessRequest } from "../../client/process.ts";
import { chunksOf } from "../../common/bytes.ts";
import { SandboxError } from "../../common/errors.ts";
import { orCanceled, throwIfCanceled } from "../../common/or-canceled.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { endSignal, type Capture } from "../../output/capture.ts";
import { excerptOutput, recentOf } from "../../output/excerpt.ts";
import { ENVIRONMENT_BOUNDS } from "../../wire/bounds.ts";
import {
  MAX_TIMEOUT_SECONDS,
  pairsInput,
  pathInput,
  sandboxIdInput,
  terminalSideInput,
  toRecord,
  userInput,
  waitInput,
} from "../inputs.ts";
import { noteCutInput } from "../processes/cut-input.ts";
import { followCapture } from "../processes/follow-capture.ts";
import { longLineFact } from "../processes/process-input.ts";
import { processLimitHint, withHints } from "../replies/error-hints.ts";
import {
  durationFact,
  excerptSections,
  expiryFact,
  lossFact,
  stateFact,
  volumeFact,
} from "../replies/facts.ts";
import { memoryFact } from "../replies/memory-end.ts";
import { Progress } from "../replies/progress.ts";
import { textReply, type Reply } from "../replies/respond.ts";
import { defineTool, DESTRUCTIVE, type ToolContext } from "../tool.ts";

const MAX_COMMAND_CHARACTERS = 100_000;
const MAX_ARGUMENTS = 1_000;
const MAX_STDIN_CHARACTERS = 1_000_000;
/**
 * What nearly all programs know; the codes are removed from the output. What is typed and shown is
 * UTF-8, whatever language an image or a create chose.
 */
const TERMINAL_ENVIRONMENT = { TERM: "xterm-256color", LC_CTYPE: "C.UTF-8" };
const STDIN_CHUNK_BYTES = 256 * 1024;

const input = z.strictObject({
  sandbox_id: sandboxIdInput(),
  cmd: z
    .string()
    .min(1)
    .max(MAX_COMMAND_CHARACTERS)
    .describe("Command line for bash; with args the program itself."),
  args: z
    .array(z.string().max(MAX_COMMAND_CHARACTERS))
    .max(MAX_ARGUMENTS)
    .optional()
    .describe("Arguments, passed literally; without any cmd is run by bash -l -c."),
  cwd: pathInput(
    "Working directory; default: that of the template, mostly the user's home.",
  ).optional(),
  user: userInput(),
  env: pairsInput("Environment variables of this process, 96 KiB in all.", ENVIRONMENT_BOUNDS),
  stdin: z
    .string()
    .max(MAX_STDIN_CHARACTERS)
    .optional()
    .describe("Written to its stdin, which is then closed."),
  keep_stdin_open: z
    .boolean()
    .default(false)
    .describe("Keep stdin open for more input; otherwise it is empty."),
  pty: z
    .boolean()
    .default(false)
    .describe("Run on a terminal, for REPLs and prompts; stdin stays open, stderr is in stdout."),
  cols: terminalSideInput("Columns of the terminal; default: 120."),
  rows: terminalSideInput("Rows of the terminal; default: 40."),
  wait_seconds: waitInput(30, "How long this call waits for the end; 0 to start a server."),
  timeout_seconds: z
    .int()
    .min(0)
    .max(MAX_TIMEOUT_SECONDS)
    .default(0)
    .describe("The process (not its children) is killed after this time; 0: never."),
  max_output_bytes: z
    .int()
    .min(1_000)
    .max(200_000)
    .default(30_000)
    .describe("Most output to return; what is cut can be read later."),
  detach: z
    .boolean()
    .default(false)
    .describe("Whether the process goes on when this call is cancelled."),
});

type Params = z.output<typeof input>;

export const runProcess = defineTool({
  name: "run_process",
  title: "Run a process",
  description:
    "Runs a command in the sandbox and returns its exit code and output; a non-zero exit code is " +
    "a normal result. If it has not ended after wait_seconds (default 30) it continues, and the " +
    "reply contains a process_id: get_process_output reads more and reports the end, send_signal " +
    "ends it. For servers and other long-running programs, use wait_seconds=0 rather than '&': a child " +
    "in the background keeps the command running as long as it holds the output. Cancelling the " +
    "call ends the process (not its children) unless detach is set. Only " +
    "timeout_seconds, a signal, or the end of the sandbox kills a process.",
  toolset: "core",
  input,
  annotations: { ...DESTRUCTIVE, openWorldHint: true },
  async handler(params, context) {
    if (!params.pty && (params.cols !== undefined || params.rows !== undefined)) {
      throw new SandboxError("invalid_argument", "cols and rows are for pty=true only");
    }
    const sandbox = await context.attach(params.sandbox_id);
    const { clock, signal, progress: send } = context;
    await using progress = new Progress({ send, clock, signal });
    throwIfCanceled(signal);
    const starting = startProcess(sandbox, params, context);
    const fed = starting.then(
      (started) => feed(started, params, context),
      () => undefined,
    );
    context.state.track(fed);
    const capture = await (params.detach ? orCanceled(starting, signal) : starting);
    await followCapture(capture, progress, context.waitLimit(params.wait_seconds * 1_000));
    if (signal.aborted) await cancel(capture, params, context);
    // The process id can be used with another server of this home.
    if (capture.state.kind === "running") await capture.output.announced();
    return reply({ capture, params, context, cause: await memoryFact(capture, context) });
  },
});

async function startProcess(
  sandbox: Sandbox,
  params: Params,
  context: ToolContext,
): Promise<Capture> {
  const shell = { cmd: "/bin/bash", args: ["-l", "-c", params.cmd] };
  const literal = { cmd: params.cmd, args: params.args ?? [] };
  const request: ProcessRequest = {
    ...(params.args === undefined ? shell : literal),
    ...(params.cwd !== undefined && { cwd: params.cwd }),
    env: { ...(params.pty && TERMINAL_ENVIRONMENT), ...toRecord(params.env) },
    hasStdin: params.keep_stdin_open || params.stdin !== undefined,
    ...(params.pty && { terminal: { cols: params.cols ?? 120, rows: params.rows ?? 40 } }),
  };
  const starting = context.state.captures.start(sandbox, {
    label: [params.cmd, ...(params.args ?? [])].join(" "),
    request,
    user: params.user,
    timeoutMs: params.timeout_seconds === 0 ? undefined : params.timeout_seconds * 1_000,
    // However late a detached one starts, it goes on and is watched.
    signal: params.detach ? context.state.signal : context.signal,
  });
  const { suggest } = context;
  const list = suggest("list_directory", "Call list_directory to see which directories exist.");
  return withHints(starting, {
    invalid_argument:
      params.cwd === undefined ? "" : `Check cwd (${quoteName(params.cwd)}). ${list}`,
    resource_exhausted: processLimitHint(suggest),
  });
}

/** Writes the input during the wait: a process can read it slowly, or never. */
async function feed(capture: Capture, params: Params, context: ToolContext): Promise<void> {
  if (params.stdin === undefined) return;
  const { sandbox, pid } = capture;
  const signal = endSignal(capture, context.state.signal);
  try {
    const chunks = chunksOf(Buffer.from(params.stdin), STDIN_CHUNK_BYTES);
    if (params.pty) return await sandbox.process.typeInput(pid, chunks, signal);
    await sandbox.process.sendInput(pid, chunks, signal);
    if (!params.keep_stdin_open) await sandbox.process.closeStdin(pid, signal);
  } catch (error) {
    // A process can end without reading its input.
    context.log.debug({ op: "process.stdin", sandboxId: sandbox.id, err: error });
    await noteCutInput(error, capture, context);
  }
}

/** Ends the process of a cancelled call, which has no reply that names it. */
async function cancel(capture: Capture, params: Params, context: ToolContext): Promise<never> {
  if (!params.detach) await context.state.captures.terminate(capture);
  const outcome = params.detach ? "goes on" : "was ended";
  throw new SandboxError("canceled", `run_process was cancelled; ${capture.processId} ${outcome}`);
}

function reply(ended: {
  readonly capture: Capture;
  readonly params: Params;
  readonly context: ToolContext;
  readonly cause: string | undefined;
}): Reply<never> {
  const { capture, params, context, cause } = ended;
  const { state, output, processId } = capture;
  const isRunning = state.kind === "running";
  const recent = recentOf(output, isRunning);
  const cursor = isRunning ? recent.end : undefined;
  const facts = [
    stateFact(state),
    cause,
    durationFact(capture, context),
    `process_id: ${processId}`,
    cursor === undefined ? undefined : `next_cursor: ${cursor}`,
    volumeFact(capture),
    lossFact(capture),
    params.pty ? longLineFact(Buffer.from(params.stdin ?? "")) : undefined,
    expiryFact(context, params.sandbox_id),
  ];
  const more = context.suggest(
    "get_process_output",
    `get_process_output(process_id="${processId}", cursor=${cursor}) returns more`,
  );
  const end = context.suggest("send_signal", "send_signal ends it");
  const nextStep = [more, end].filter((part) => part !== "").join("; ");
  const excerpts = excerptOutput(recent, params.max_output_bytes);
  const sections = excerptSections(capture, excerpts, more !== "");
  const text = textReply([...facts, isRunning ? nextStep : undefined], sections);
  return state.kind === "lost" ? { ...text, error: state.error } : text;
}
