/** Tool: more output of a process, or its exit code. */

import { anySignal } from "../../common/any-signal.ts";
import { orCanceled } from "../../common/or-canceled.ts";
import { z } from "../../common/schema.ts";
import {
  isWatchedAnew,
  type ProcessState,
  type ProcessView,
  timeLimit,
} from "../../output/capture.ts";
import { pageOutput, type Page } from "../../output/page-output.ts";
import { formatBytes } from "../../output/text.ts";
import { processIdInput, sandboxIdInput, waitInput } from "../inputs.ts";
import { findProcess } from "../processes/find-process.ts";
import { explain } from "../replies/error-hints.ts";
import { durationFact, expiryFact, stateFact, unknownFact, volumeFact } from "../replies/facts.ts";
import { memoryFact } from "../replies/memory-end.ts";
import { textReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool, type ToolContext } from "../tool.ts";

const STREAMS = {
  both: ["stdout", "stderr"],
  stdout: ["stdout"],
  stderr: ["stderr"],
} as const;

const input = z.strictObject({
  sandbox_id: sandboxIdInput(),
  process_id: processIdInput(),
  cursor: z
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(0)
    .describe("Byte of the output to go on from: next_cursor of the last reply."),
  wait_seconds: waitInput(0, "How long to wait for new output or the end."),
  max_bytes: z.int().min(1_000).max(200_000).default(30_000).describe("Most bytes to return."),
  stream: z.enum(["both", "stdout", "stderr"]).default("both").describe("Which output."),
});

/** Of the look for the process and the wait together; a host's own limit, 60 s in most, comes later. */
const MAX_CALL_MS = 50_000;

type Params = z.output<typeof input>;

export const getProcessOutput = defineTool({
  name: "get_process_output",
  title: "Get process output",
  description:
    "Returns the output of a process from a cursor on, its status or exit code, and the cursor " +
    "for the next call. With wait_seconds it waits for new output. A call can be repeated: the " +
    "same cursor returns the same bytes for 15 minutes after the end of the process or its " +
    "sandbox, also across a restart of this server. For a process without an earlier reader, " +
    "only output from now on is available.",
  toolset: "core",
  input,
  annotations: READ_ONLY,
  async handler(params, context) {
    const { process: capture, page, state, cursor } = await readPage(params, context);
    const { output } = capture;
    const hasMore = page.nextCursor < output.totalBytes;
    const facts = [
      stateFact(state),
      await lostFact(capture, context),
      await memoryFact(capture, context),
      durationFact(capture, context),
      `process_id: ${params.process_id}`,
      `next_cursor: ${page.nextCursor}`,
      hasMore ? `${output.totalBytes - page.nextCursor} bytes more` : undefined,
      volumeFact(capture),
      unknownFact(capture),
      passedFact(capture, cursor),
      page.resumedAt === undefined
        ? undefined
        : `output from this cursor to ${page.resumedAt} was discarded`,
      unwrittenFact(capture),
      expiryFact(context, params.sandbox_id),
    ];
    return textReply(
      facts,
      page.texts.map(({ stream, parts }) => ({ name: stream, parts })),
    );
  },
});

/** Why the stream of a process broke, and the next step; undefined for any other state. */
async function lostFact(
  { state, sandboxId }: ProcessView,
  context: ToolContext,
): Promise<string | undefined> {
  if (state.kind !== "lost") return undefined;
  const { message, hint = "" } = await explain(state.error, sandboxId, context);
  return `${message}. ${hint}`.trim();
}

function unwrittenFact({ unwrittenBytes }: ProcessView): string | undefined {
  if (unwrittenBytes === 0) return undefined;
  return `${formatBytes(unwrittenBytes)} at the end could not be written to the disk and are lost`;
}

/** A position of output that is not known any more waits for what comes after it, here or never. */
function passedFact({ isAttached, output }: ProcessView, cursor: number): string | undefined {
  if (!isAttached || cursor <= output.totalBytes) return undefined;
  return `cursor ${cursor} is beyond the output that is known: read from cursor 0`;
}

/** What was found; undefined where that takes too long. */
async function unlessLate<T>(finding: Promise<T>, late: AbortSignal): Promise<T | undefined> {
  try {
    return await orCanceled(finding, late);
  } catch (error) {
    if (late.aborted) return undefined;
    throw error;
  }
}

interface Reading {
  readonly process: ProcessView;
  readonly page: Page;
  /** Where it begins. */
  readonly cursor: number;
  /** Of the process, when the page was read. */
  readonly state: ProcessState;
}

/** The next page. The beginning of a character alone is no output yet, and is waited for. */
async function readPage(params: Params, context: ToolContext): Promise<Reading> {
  const { signal } = context;
  const late = timeLimit(context.clock, MAX_CALL_MS, signal);
  const find = () => findProcess(params, context, "get_process_output");
  let process = await find();
  let deadline: AbortSignal | undefined;
  let { cursor } = params;
  for (;;) {
    const { state, output } = process;
    const { totalBytes } = output;
    const isRunning = state.kind === "running";
    const page = await pageOutput(output, {
      cursor,
      maxBytes: params.max_bytes,
      streams: STREAMS[params.stream],
      isRunning,
    });
    const hasNews = page.texts.length > 0 || page.resumedAt !== undefined || !isRunning;
    if (hasNews || params.wait_seconds === 0) return { process, page, state, cursor };
    deadline ??= anySignal([late, context.waitLimit(params.wait_seconds * 1_000)]);
    if (deadline.aborted || signal.aborted) return { process, page, state, cursor };
    // A cursor beyond the end waits for what comes after it.
    const isAtEnd = page.nextCursor <= cursor;
    // What the other stream wrote is passed over.
    if (!isAtEnd) cursor = page.nextCursor;
    // Output that came while the page was read is not waited for.
    if (isAtEnd && output.totalBytes === totalBytes) await process.changed(deadline);
    // Its server has ended: this one takes its output from here on.
    if (process.isOrphan) {
      const found = await unlessLate(find(), late);
      if (found === undefined) return { process, page, state, cursor };
      if (isWatchedAnew(found, process)) cursor = 0;
      process = found;
    }
  }
}
