/** Tool: lists the processes of a sandbox. */

import { z } from "../../common/schema.ts";
import { cutText, oneLine, sliceText } from "../../common/untrusted-text.ts";
import { CELL_FLAGS, CELL_PROGRAM } from "../code/cell-program.ts";
import { sandboxIdInput } from "../inputs.ts";
import { expiryField } from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

const MAX_SHOWN = 200;
const MAX_COMMAND_CHARACTERS = 300;
/** Its text is the same for every cell, and says nothing of what the cell does. */
const CELL_COMMAND = ["python3", ...CELL_FLAGS, "-c", CELL_PROGRAM].join(" ");

export const listProcesses = defineTool({
  name: "list_processes",
  title: "List processes",
  description:
    "Lists the running processes that any client started through the service, with the " +
    "process_id for get_process_output, send_input and send_signal. " +
    "Children of a process are not listed: run ps with run_process to see everything.",
  toolset: "all",
  input: z.strictObject({ sandbox_id: sandboxIdInput() }),
  output: z.object({
    processes: z.array(z.object({ process_id: z.string(), command: z.string() })),
    note: z.string().optional(),
    expires_at: z.string().optional(),
  }),
  annotations: READ_ONLY,
  async handler({ sandbox_id: sandboxId }, context) {
    const sandbox = await context.attach(sandboxId);
    const all = await sandbox.process.list(context.signal);
    const listed = all.slice(0, MAX_SHOWN).map(({ pid, cmd }) => ({
      process_id: `p_${pid}`,
      // No text becomes shorter as one line: what is cut below costs nothing.
      command:
        cmd === CELL_COMMAND
          ? "a cell of run_code"
          : oneLine(sliceText(cmd, MAX_COMMAND_CHARACTERS + 2)),
    }));
    const hasCut = listed.some(({ command }) => command.length > MAX_COMMAND_CHARACTERS);
    const shown = listed.map((each) => ({
      ...each,
      command: cutText(each.command, MAX_COMMAND_CHARACTERS),
    }));
    const omitted = all.length - shown.length;
    const notes = [
      omitted > 0 ? `${omitted} more are not listed.` : "",
      hasCut ? "Long commands are cut." : "",
      omitted > 0 || hasCut
        ? context.suggest("run_process", "Run ps -ww with run_process for the rest.")
        : "",
    ];
    const note = notes.filter((text) => text !== "").join(" ");
    return recordReply({
      processes: shown,
      ...(note !== "" && { note }),
      ...expiryField(context, sandboxId),
    });
  },
});
