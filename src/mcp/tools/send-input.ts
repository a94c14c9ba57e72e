/** Tool: writes to the stdin of a process. */

import { chunksOf } from "../../common/bytes.ts";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import {
  formatProcessId,
  requirePid,
  type ProcessState,
  type ProcessView,
} from "../../output/capture.ts";
import { logUri } from "../../output/logs.ts";
import { processHints, withHints } from "../error-hints.ts";
import { expiryFact, stateFact } from "../facts.ts";
import { decodeContent, processIdInput, sandboxIdInput } from "../inputs.ts";
import { textReply } from "../respond.ts";
import { DESTRUCTIVE, defineTool, type ToolContext } from "../tool.ts";

const MAX_DATA_CHARACTERS = 1_000_000;
/** Below the message limit of services. */
const CHUNK_BYTES = 256 * 1024;

export const sendInput = defineTool({
  name: "send_input",
  title: "Send input",
  description:
    "Writes data to the stdin of a process that run_process started with keep_stdin_open, and " +
    "closes it on request; many programs work only once their input is closed. Add the line end " +
    "yourself. Read the answer with get_process_output. It is no terminal: programs that need " +
    "one do not run this way.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    process_id: processIdInput(),
    data: z.string().max(MAX_DATA_CHARACTERS).describe("What to write; may be empty to close."),
    encoding: z.enum(["utf8", "base64"]).default("utf8").describe("How data is written."),
    close: z.boolean().default(false).describe("Close stdin afterwards."),
  }),
  annotations: DESTRUCTIVE,
  async handler(params, context) {
    const { sandbox_id: sandboxId, process_id: processId, data, encoding, close } = params;
    const pid = requirePid(processId);
    const bytes = decodeContent("data", data, encoding);
    const sandbox = await context.attach(sandboxId);
    const process = { sandboxId, pid };
    requireRunning(context.state.captures.find(sandboxId, pid), context);
    if (bytes.length > 0) {
      const chunks = chunksOf(bytes, CHUNK_BYTES);
      const sending = sandbox.process.sendInput(pid, chunks, context.signal);
      await explained(sending, process, context);
    }
    if (close) await explained(sandbox.process.closeStdin(pid, context.signal), process, context);
    return textReply([
      `sent ${bytes.length} bytes to ${processId}`,
      close ? "stdin is closed" : undefined,
      expiryFact(context, sandboxId),
    ]);
  },
});

interface Target {
  readonly sandboxId: string;
  readonly pid: number;
}

/** A refusal in terms of the process: it ended, its stdin is closed, or it never was. */
async function explained(work: Promise<void>, target: Target, context: ToolContext): Promise<void> {
  const { sandboxId, pid } = target;
  const { captures } = context.state;
  try {
    await withHints(work, processHints(context.suggest));
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    if (error.code === "not_found") {
      requireRunning(captures.find(sandboxId, pid), context);
      requireRunning(await captures.recall(sandboxId, pid), context);
    }
    if (error.code !== "internal" || !CLOSED_PATTERN.test(error.message)) throw error;
    const message = `stdin of ${formatProcessId(pid)} is closed`;
    const hint = context.suggest("run_process", "Start it with keep_stdin_open=true.");
    throw new SandboxError("failed_precondition", message, { cause: error, hint });
  }
}

const CLOSED_PATTERN = /not enabled or closed|broken pipe/;

const ENDED: ReadonlySet<ProcessState["kind"]> = new Set(["ended", "timed_out", "unwatched"]);

/** An ended process takes no input; its output is kept, and the error says where. */
function requireRunning(process: ProcessView | undefined, context: ToolContext): void {
  if (process === undefined || !ENDED.has(process.state.kind)) return;
  const { processId, sandboxId, state } = process;
  const page = `get_process_output(process_id="${processId}")`;
  const where = context.suggest("get_process_output", ` and is returned by ${page}`);
  const hint = `Its output is kept for 15 minutes${where}; also in ${logUri(sandboxId)}.`;
  const message = `${processId} has ended (${stateFact(state)})`;
  throw new SandboxError("failed_precondition", message, { hint });
}
