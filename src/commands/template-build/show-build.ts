/** A build of a template as people see it: a bar on a terminal, a line for each of its log elsewhere. */

import { escapeUnsafe } from "../../common/untrusted-text.ts";
import type { BuildLineBody } from "../../wire/template-builds.ts";
import { clearBar, drawBar, type ProgressOutput } from "../program/progress-bar.ts";

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
    if (hasBar) clearBar(output);
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
      drawBar(output, done / Math.max(1, build.steps), `${build.name}: ${text}`);
      hasBar = true;
    },
    end(text) {
      clear();
      output.write(`${text}\n`);
    },
    [Symbol.dispose]: clear,
  };
}
