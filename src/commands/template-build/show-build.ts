/** A build of a template as people see it: a bar on a terminal, a line for each of its log elsewhere. */

import { escapeUnsafe } from "../../common/untrusted-text.ts";
import type { BuildLineBody } from "../../wire/template-builds.ts";
import type { ProgressOutput } from "../show-progress.ts";

const BAR_CELLS = 24;
const DEFAULT_COLUMNS = 80;
const CLEAR_LINE = "\r\u001b[2K";

export interface ShownBuild extends Disposable {
  line(line: BuildLineBody): void;
  /** The last line. */
  end(text: string): void;
}

export function showBuildOn(
  output: ProgressOutput,
  build: { readonly name: string; readonly steps: number },
): ShownBuild {
  const isTerminal = output.isTTY === true;
  let hasBar = false;

  function clear(): void {
    if (hasBar) output.write(CLEAR_LINE);
    hasBar = false;
  }

  return {
    line({ step, message, level }) {
      const text = escapeUnsafe(message);
      if (!isTerminal || level === "error") {
        clear();
        output.write(`${text}\n`);
        return;
      }
      const done = step === "finalize" ? build.steps : Math.max(0, Number(step) - 1) || 0;
      const full = Math.round((done / Math.max(1, build.steps)) * BAR_CELLS);
      const bar = `[${"#".repeat(full)}${"-".repeat(BAR_CELLS - full)}]`;
      const width = Math.max(1, (output.columns ?? DEFAULT_COLUMNS) - 1);
      output.write(`${CLEAR_LINE}${`${bar} ${build.name}: ${text}`.slice(0, width)}`);
      hasBar = true;
    },
    end(text) {
      clear();
      output.write(`${text}\n`);
    },
    [Symbol.dispose]: clear,
  };
}
