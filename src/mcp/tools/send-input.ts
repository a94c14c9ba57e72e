/** Tool: writes to the stdin of a process. */

import { chunksOf } from "../../common/bytes.ts";
import { z } from "../../common/schema.ts";
import { requirePid } from "../../output/capture.ts";
import { processHints, withHints } from "../error-hints.ts";
import { expiryFact } from "../facts.ts";
import { processIdInput, sandboxIdInput } from "../inputs.ts";
import { textReply } from "../respond.ts";
import { DESTRUCTIVE, defineTool } from "../tool.ts";

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
    const sandbox = await context.attach(sandboxId);
    const bytes = Buffer.from(data, encoding);
    const hints = {
      ...processHints(context.suggest),
      internal: `stdin of ${processId} is closed; start it with keep_stdin_open=true.`,
    };
    if (bytes.length > 0) {
      await withHints(
        sandbox.process.sendInput(pid, chunksOf(bytes, CHUNK_BYTES), context.signal),
        hints,
      );
    }
    if (close) await withHints(sandbox.process.closeStdin(pid, context.signal), hints);
    return textReply([
      `sent ${bytes.length} bytes to ${processId}`,
      close ? "stdin is closed" : undefined,
      expiryFact(context, sandboxId),
    ]);
  },
});
