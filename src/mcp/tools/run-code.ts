/** Tool: runs a cell in the code interpreter of a sandbox. */

import { randomUUID } from "node:crypto";
import type { Sandbox } from "../../client/envd.ts";
import { chunksOf } from "../../common/bytes.ts";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { quoteWords, sliceText } from "../../common/untrusted-text.ts";
import { endSignal, type Capture } from "../../output/capture.ts";
import { excerptOutput, recentOf } from "../../output/excerpt.ts";
import { CELL_EXIT, CELL_FLAGS, CELL_PROGRAM, CELL_RECORD } from "../code/cell-program.ts";
import { MAX_TIMEOUT_SECONDS, sandboxIdInput, waitInput } from "../inputs.ts";
import { CELL_FOLDER, readPictures } from "../pictures/cell-pictures.ts";
import { noteCutInput } from "../processes/cut-input.ts";
import { followCapture } from "../processes/follow-capture.ts";
import { processLimitHint, withHints } from "../replies/error-hints.ts";
import {
  durationFact,
  excerptSections,
  expiryFact,
  lossFact,
  stateFact,
} from "../replies/facts.ts";
import { Progress } from "../replies/progress.ts";
import { textReply, type Reply } from "../replies/respond.ts";
import { defineTool, DESTRUCTIVE, type ToolContext } from "../tool.ts";

const MAX_CODE_CHARACTERS = 1_000_000;
const MAX_RECORD_BYTES = 65_536;
const STDIN_CHUNK_BYTES = 256 * 1024;

const input = z.strictObject({
  sandbox_id: sandboxIdInput(),
  code: z.string().min(1).max(MAX_CODE_CHARACTERS).describe("The cell."),
  language: z
    .enum(["python", "javascript", "typescript", "bash"])
    .default("python")
    .describe("The language of the cell."),
  context: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,64}$/)
    .optional()
    .describe("Name of a separate state, made at its first use; default: one for each language."),
  wait_seconds: waitInput(50, "How long this call waits for the end."),
  timeout_seconds: z
    .int()
    .min(0)
    .max(MAX_TIMEOUT_SECONDS)
    .default(300)
    .describe("The cell is interrupted after this time; 0: never."),
  max_output_bytes: z
    .int()
    .min(1_000)
    .max(200_000)
    .default(30_000)
    .describe("Most output to return; what is cut can be read later."),
});

type Params = z.output<typeof input>;

/** What the program wrote for this tool; it comes from a sandbox. */
const recordSchema = z.object({
  pictures: z.array(z.string().max(256)).max(64),
  error: z.object({ name: z.string(), value: z.string() }).nullable(),
  count: z.number().nullable().catch(null),
  note: z.string().nullable(),
});

type CellRecord = z.infer<typeof recordSchema>;

export const runCode = defineTool({
  name: "run_code",
  title: "Run code in an interpreter",
  description:
    "Runs a cell as a notebook does, in a sandbox of the template code-interpreter: variables, " +
    "imports and functions stay for the next call, the value of the last expression is returned, " +
    "and plots of matplotlib come back as images (at most 4, further ones as files). Prefer it to " +
    "run_process for analysis of data, plots and step-by-step work with numpy, pandas, scipy, " +
    "scikit-learn; use run_process for programs, servers and files of a project. A cell that goes " +
    "on after wait_seconds has a process_id, as in run_process. Cancelling interrupts the cell; " +
    "variables stay.",
  toolset: "core",
  input,
  annotations: { ...DESTRUCTIVE, openWorldHint: true },
  async handler(params, context) {
    const sandbox = await context.attach(params.sandbox_id);
    const { clock, signal, progress: send } = context;
    const folder = `${CELL_FOLDER}/${randomUUID()}`;
    await using progress = new Progress({ send, clock, signal });
    const capture = await startCell(sandbox, { params, folder }, context);
    context.state.cells.note(capture, params);
    context.state.track(feed(capture, { params, folder }, context));
    await followCapture(capture, progress, context.waitLimit(params.wait_seconds * 1_000));
    if (signal.aborted) return await cancel(capture, context);
    if (capture.state.kind === "running") {
      await capture.output.announced();
      return runningReply(capture, { params, folder }, context);
    }
    return await reply(capture, { params, folder }, context);
  },
});

interface Cell {
  readonly params: Params;
  readonly folder: string;
}

async function startCell(sandbox: Sandbox, cell: Cell, context: ToolContext): Promise<Capture> {
  const starting = context.state.captures.start(sandbox, {
    label: `run_code ${cell.params.language}: ${firstLine(cell.params.code)}`,
    request: {
      cmd: "python3",
      args: [...CELL_FLAGS, "-c", CELL_PROGRAM],
      env: {},
      hasStdin: true,
    },
    user: undefined,
    timeoutMs: undefined,
    signal: context.signal,
  });
  return withHints(starting, {
    not_found: interpreterHint(context),
    resource_exhausted: processLimitHint(context.suggest),
  });
}

const MAX_LABEL_CHARACTERS = 120;

function firstLine(code: string): string {
  return sliceText(code.trim().split("\n", 1)[0] ?? "", MAX_LABEL_CHARACTERS);
}

/**
 * Sends the request during the wait, which it must not prolong. It goes by stdin: code may be
 * longer than an argument, and is not shown by `ps`.
 */
async function feed(capture: Capture, cell: Cell, context: ToolContext): Promise<void> {
  const { sandbox, pid } = capture;
  const { code, language, context: name, timeout_seconds: timeout } = cell.params;
  const { folder } = cell;
  const request = JSON.stringify({ code, language, context: name ?? null, folder, timeout });
  const signal = endSignal(capture, context.state.signal);
  try {
    const chunks = chunksOf(Buffer.from(request), STDIN_CHUNK_BYTES);
    await sandbox.process.sendInput(pid, chunks, signal);
    await sandbox.process.closeStdin(pid, signal);
  } catch (error) {
    // The program may have ended; its end is told.
    context.log.debug({ op: "process.stdin", sandboxId: sandbox.id, err: error });
    await noteCutInput(error, capture, context);
  }
}

/** The end of the program is the end of its connection, by which the interpreter interrupts. */
async function cancel(capture: Capture, context: ToolContext): Promise<never> {
  await context.state.captures.terminate(capture);
  throw new SandboxError("canceled", "run_code was cancelled; the cell was interrupted");
}

function runningReply(capture: Capture, cell: Cell, context: ToolContext): Reply<never> {
  const { output, processId } = capture;
  const { end: cursor } = recentOf(output, true);
  const more = context.suggest(
    "get_process_output",
    `get_process_output(process_id="${processId}", cursor=${cursor}) returns more`,
  );
  const end = context.suggest("send_signal", "send_signal ends it");
  const before = context.state.cells.before(capture, context.state.captures);
  const facts = [
    stateFact(capture.state),
    before && `waits for ${before.processId}, an earlier cell that still runs`,
    `process_id: ${processId}`,
    `next_cursor: ${cursor}`,
    `pictures will be in ${cell.folder}`,
    lossFact(capture),
    expiryFact(context, cell.params.sandbox_id),
    [more, end].filter((part) => part !== "").join("; "),
  ];
  return textReply(facts, sectionsOf(capture, cell, more !== ""));
}

function sectionsOf(capture: Capture, { params }: Cell, canPage: boolean) {
  const { output } = capture;
  const recent = recentOf(output, capture.state.kind === "running");
  return excerptSections(capture, excerptOutput(recent, params.max_output_bytes), canPage);
}

async function reply(capture: Capture, cell: Cell, context: ToolContext): Promise<Reply<never>> {
  const { state } = capture;
  if (state.kind === "lost") {
    return {
      ...textReply([stateFact(state)], sectionsOf(capture, cell, true)),
      error: state.error,
    };
  }
  const record = await readRecord(capture.sandbox, cell, context);
  const exitCode = state.kind === "ended" ? state.exitCode : -1;
  if (record === undefined || exitCode === CELL_EXIT.noInterpreter) {
    refuseWithout(exitCode, context);
  }
  if (exitCode === CELL_EXIT.refused) {
    const sections = sectionsOf(capture, cell, context.suggest("get_process_output", "x") !== "");
    return { ...textReply([`process_id: ${capture.processId}`], sections), error: refusal(record) };
  }
  const { images, named } = await readPictures(capture.sandbox, record?.pictures ?? [], context);
  const canPage = context.suggest("get_process_output", "x") !== "";
  const facts = [
    statusOf(record, exitCode),
    durationFact(capture, context),
    record?.count == null ? undefined : `execution ${record.count}`,
    cell.params.context === undefined ? undefined : `context: ${cell.params.context}`,
    `process_id: ${capture.processId}`,
    images.length > 0 ? `images: ${images.length}` : undefined,
    ...named,
    lossFact(capture),
    expiryFact(context, cell.params.sandbox_id),
  ];
  return { ...textReply(facts, sectionsOf(capture, cell, canPage)), images };
}

/** The interpreter did not run the cell, or not to its end. */
function refusal(record: CellRecord | undefined): SandboxError {
  const words = record?.note == null ? "it said nothing" : quoteWords(record.note);
  const message = `the code interpreter did not run the whole cell: ${words}`;
  const hint = "Variables of earlier cells may be gone: look before you call again.";
  return new SandboxError("unavailable", message, { hint });
}

const LATE = "the cell was interrupted at timeout_seconds";

function statusOf(record: CellRecord | undefined, exitCode: number): string {
  if (record?.note != null) return `status: ${quoteWords(record.note)}`;
  if (record?.error != null) return `status: error ${quoteWords(record.error.name)}`;
  if (exitCode === CELL_EXIT.late) return `status: ${LATE}`;
  if (exitCode === CELL_EXIT.failed) return "status: error";
  return exitCode === CELL_EXIT.done ? "status: ok" : `status: ended with ${exitCode}`;
}

function interpreterHint({ suggest }: ToolContext): string {
  return suggest(
    "create_sandbox",
    'Make one that has it: create_sandbox(template="code-interpreter"). If that is not built, its ' +
      "error names the command.",
  );
}

/** @throws SandboxError failed_precondition where the sandbox has no interpreter. */
function refuseWithout(exitCode: number, context: ToolContext): void {
  const isAbsent = exitCode === CELL_EXIT.noInterpreter || exitCode === 127 || exitCode === 126;
  if (!isAbsent) return;
  throw new SandboxError("failed_precondition", "this sandbox has no code interpreter", {
    hint: interpreterHint(context),
  });
}

/** Undefined where the program was ended before it wrote one. */
async function readRecord(
  sandbox: Sandbox,
  { folder }: Cell,
  { log, signal }: ToolContext,
): Promise<CellRecord | undefined> {
  try {
    const range = { offset: 0, limit: MAX_RECORD_BYTES };
    const path = `${folder}/${CELL_RECORD}`;
    const { bytes } = await sandbox.files.read(path, range, { signal });
    return recordSchema.parse(JSON.parse(bytes.toString("utf8")));
  } catch (error) {
    log.debug({ op: "run_code.record", sandboxId: sandbox.id, err: error });
    return undefined;
  }
}
