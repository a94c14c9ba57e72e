/** How a process and its output read in a reply. */

import type { ProcessState, ProcessView } from "./capture.ts";
import type { Excerpt } from "./excerpt.ts";
import { logUri } from "./logs.ts";
import type { Section } from "./quote.ts";
import { formatBytes } from "./text.ts";

/** The state of a process as a fact. */
export function stateFact(state: ProcessState): string {
  switch (state.kind) {
    case "running":
      return "status: running";
    case "ended":
      return `exit_code: ${state.exitCode}${signalOf(state)}`;
    case "timed_out":
      return "status: killed at timeout_seconds";
    case "lost":
      return `status: connection lost (${state.error.code})`;
    case "unwatched":
      return "status: ended while no server watched it; its exit code is not known";
    default:
      return state satisfies never;
  }
}

/** Services tell a death by signal as -1 or as 128 and more, and name it in words of their own. */
function signalOf(state: { readonly exitCode: number; readonly reason: string }): string {
  const name = /^signal: ([a-z0-9 ]{1,32})/.exec(state.reason)?.[1];
  return name === undefined ? "" : ` (ended by signal: ${name})`;
}

/** How much each stream wrote. */
export function volumeFact(capture: ProcessView): string {
  const { stdout, stderr } = capture.output.written;
  return `stdout ${formatBytes(stdout)}, stderr ${formatBytes(stderr)}`;
}

/** Output that was too much to keep is named; it is lost for good. */
export function lossFact(capture: ProcessView): string | undefined {
  const { lostBytes } = capture.output;
  return lostBytes === 0 ? undefined : `${formatBytes(lostBytes)} in the middle no longer kept`;
}

/** Excerpts as sections; a cut names the way to what was left out. */
export function excerptSections(
  capture: Pick<ProcessView, "sandboxId" | "processId">,
  excerpts: readonly Excerpt[],
  canPage: boolean,
): Section[] {
  return excerpts.map(({ stream, head, cut }) => {
    if (cut === undefined) return { name: stream, parts: head };
    const page = `get_process_output(process_id="${capture.processId}", cursor=${cut.cursor})`;
    const way = canPage ? `, or ${page}` : "";
    const where = `newest part: ${logUri(capture.sandboxId)}${way}`;
    const note = `[… ${formatBytes(cut.omittedBytes)} omitted; ${where}]`;
    return { name: stream, parts: [...head, { note }, ...cut.tail] };
  });
}
