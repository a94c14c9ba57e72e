/** A build as people see it: one line that fills on a terminal, plain lines elsewhere. */

import type { BuildProgress } from "../engine/templates/base-progress.ts";
import type { ShowProgress } from "./base-build.ts";

export interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

const BAR_INTERVAL_MS = 250;
const LINE_INTERVAL_MS = 15_000;
const BAR_CELLS = 24;
const DEFAULT_COLUMNS = 80;
const CLEAR_LINE = "\r\u001b[2K";

/** Shows it on this output. */
export function showProgressOn(output: ProgressOutput, what: string): ShowProgress {
  return (progress) => {
    const isTerminal = output.isTTY === true;
    const text = () => `building ${what}, ${progress.describe()}`;
    const draw = () => {
      if (!isTerminal) output.write(`sandbox-mcp: ${text()}\n`);
      else output.write(`${CLEAR_LINE}${barOf(progress, text()).slice(0, widthOf(output))}`);
    };
    draw();
    const timer = setInterval(draw, isTerminal ? BAR_INTERVAL_MS : LINE_INTERVAL_MS);
    timer.unref();
    return (lastLine) => {
      clearInterval(timer);
      if (isTerminal) output.write(CLEAR_LINE);
      if (lastLine !== undefined) output.write(`sandbox-mcp: ${lastLine}\n`);
    };
  };
}

/** A line that is wrapped cannot be cleared as one. */
function widthOf({ columns }: ProgressOutput): number {
  return Math.max(1, (columns ?? DEFAULT_COLUMNS) - 1);
}

function barOf(progress: BuildProgress, text: string): string {
  const full = Math.round(progress.share() * BAR_CELLS);
  return `[${"#".repeat(full)}${"-".repeat(BAR_CELLS - full)}] ${text}`;
}
