/** A build or a pull as people see it: one line that fills on a terminal, plain lines elsewhere. */

import type { BuildProgress } from "../../engine/templates/base-progress.ts";
import type { ShowProgress } from "../templates/base-build.ts";
import { clearBar, drawBar, type ProgressOutput } from "./progress-bar.ts";

const BAR_INTERVAL_MS = 250;
const LINE_INTERVAL_MS = 15_000;

/** Shows it on this output; `what` is the beginning of the text: `building the base template`. */
export function showProgressOn(output: ProgressOutput, what: string): ShowProgress {
  return (progress) => {
    const isTerminal = output.isTTY === true;
    const text = () => `${what}, ${progress.describe()}`;
    const draw = () => {
      if (isTerminal) drawBar(output, progress.share(), text());
      else output.write(`sandbox-mcp: ${text()}\n`);
    };
    draw();
    const timer = setInterval(draw, isTerminal ? BAR_INTERVAL_MS : LINE_INTERVAL_MS);
    timer.unref();
    return (lastLine) => {
      clearInterval(timer);
      if (isTerminal) clearBar(output);
      if (lastLine !== undefined) output.write(`sandbox-mcp: ${lastLine}\n`);
    };
  };
}

/** A command whose progress is shown until it is disposed. */
export interface ShownCommand extends Disposable {
  /** Takes a line of what the command does. */
  line(text: string): void;
}

/** As `showProgressOn` on a terminal; elsewhere each line as it comes. */
export function showCommandOn(
  output: ProgressOutput,
  what: string,
  progress: BuildProgress,
): ShownCommand {
  if (output.isTTY !== true) {
    return { line: (text) => output.write(`${text}\n`), [Symbol.dispose]: () => undefined };
  }
  let finish: (() => void) | undefined = showProgressOn(output, what)(progress);
  return {
    line: (text) => progress.note(text),
    [Symbol.dispose]() {
      finish?.();
      finish = undefined;
    },
  };
}
