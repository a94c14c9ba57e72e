/** The one line of a terminal that fills while something is made. */

export interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

const BAR_CELLS = 24;
const DEFAULT_COLUMNS = 80;
const CLEAR_LINE = "\r\u001b[2K";

/** Draws the line in the place of the last one; `share` is between 0 and 1. */
export function drawBar(output: ProgressOutput, share: number, text: string): void {
  const full = Math.round(share * BAR_CELLS);
  const line = `[${"#".repeat(full)}${"-".repeat(BAR_CELLS - full)}] ${text}`;
  // A line that is wrapped cannot be cleared as one.
  const width = Math.max(1, (output.columns ?? DEFAULT_COLUMNS) - 1);
  output.write(`${CLEAR_LINE}${line.slice(0, width)}`);
}

export function clearBar(output: ProgressOutput): void {
  output.write(CLEAR_LINE);
}
