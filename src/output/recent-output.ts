/** The part of an output that is in memory, as a reply shows it. */

import { incompleteTail } from "../common/characters.ts";
import type { Recent } from "./excerpt.ts";
import type { ProcessOutput } from "./process-output.ts";

/**
 * What a reply shows of an output, and the position of the next page. The beginning of a character
 * whose rest can still come is left to that page.
 */
export function recentOf(
  output: Pick<ProcessOutput, "recent" | "written" | "totalBytes">,
  isRunning: boolean,
): Recent & { readonly end: number } {
  const { written, totalBytes } = output;
  const pieces = output.recent();
  const last = pieces.at(-1);
  const open = last === undefined || !isRunning ? 0 : incompleteTail(last.bytes);
  if (last === undefined || last.stream === "note" || open === 0) {
    return { pieces, written, end: totalBytes };
  }
  const whole = { ...last, bytes: last.bytes.subarray(0, last.bytes.length - open) };
  return {
    pieces: [...pieces.slice(0, -1), whole],
    written: { ...written, [last.stream]: written[last.stream] - open },
    end: totalBytes - open,
  };
}
