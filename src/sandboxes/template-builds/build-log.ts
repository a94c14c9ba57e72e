/** The log of one build: lines of people's size, so many and no more, with the step that they are of. */

import { StringDecoder } from "node:string_decoder";
import type { Clock } from "../../common/clock.ts";
import type { RecordLevel } from "../../common/log-level.ts";
import type { BuildLine } from "../../store/build-records.ts";
import type { Store } from "../../store/store.ts";

const MAX_LINES = 20_000;
const MAX_BYTES = 4 * 1024 * 1024;
const MAX_LINE_CHARACTERS = 2_000;
/** Of a step beyond these bounds: the last ones say why it failed. */
const MAX_LAST_LINES = 50;

export interface BuildLog {
  note(step: string, message: string, level?: RecordLevel): void;
  /** Makes lines of what a program writes; the last one counts when it is ended. */
  open(step: string): LineSink;
}

export interface LineSink {
  write(stream: "stdout" | "stderr", bytes: Uint8Array): void;
  end(): void;
}

export function createBuildLog(
  { store, clock }: { readonly store: Pick<Store, "buildLines">; readonly clock: Clock },
  buildId: string,
): BuildLog {
  let lines = 0;
  let bytes = 0;
  /** Of one piece of output: thousands of short lines, each of which would be a write of its own. */
  let pending: BuildLine[] = [];
  /** Of the newest step, beyond the bounds. */
  let last: Parameters<typeof add>[] = [];

  function save(): void {
    if (pending.length === 0) return;
    const saved = pending;
    pending = [];
    store.buildLines.append(buildId, saved);
  }

  function add(step: string, text: string, level: RecordLevel): void {
    lines += 1;
    const message = text.slice(0, MAX_LINE_CHARACTERS).toWellFormed();
    bytes += Buffer.byteLength(message);
    pending.push({ atMs: clock.now(), level, step, message });
  }

  /** What the service says itself is bounded by the number of steps. */
  const note: BuildLog["note"] = (step, message, level = "info") => {
    if (level === "error") for (const line of last.splice(0)) add(...line);
    add(step, message, level);
    save();
  };

  function addOutput(step: string, text: string, level: RecordLevel): void {
    if (lines > MAX_LINES || bytes > MAX_BYTES) {
      last.push([step, text, level]);
      if (last.length > MAX_LAST_LINES) last.shift();
      return;
    }
    add(step, text, level);
    if (lines > MAX_LINES || bytes > MAX_BYTES) {
      add(step, "the output of this build is too long: the rest of it is left out", "warn");
    }
  }

  return {
    note,
    open(step) {
      last = [];
      const sinks = {
        stdout: createSplitter((line) => addOutput(step, line, "info")),
        stderr: createSplitter((line) => addOutput(step, line, "warn")),
      };
      return {
        write(stream, chunk) {
          sinks[stream].write(chunk);
          save();
        },
        end() {
          sinks.stdout.end();
          sinks.stderr.end();
          save();
        },
      };
    },
  };
}

/** Splits at line feeds and at the returns by which programs draw progress. */
function createSplitter(take: (line: string) => void) {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  const flush = () => {
    if (rest !== "") take(rest);
    rest = "";
  };
  const add = (text: string) => {
    const [first = "", ...others] = text.split(/[\r\n]+/);
    // A line that never ends is held no longer than one that does.
    if (rest.length < MAX_LINE_CHARACTERS) rest += first.slice(0, MAX_LINE_CHARACTERS);
    for (const other of others) {
      flush();
      rest = other.slice(0, MAX_LINE_CHARACTERS);
    }
  };
  return {
    write: (bytes: Uint8Array) => add(decoder.write(Buffer.from(bytes))),
    end() {
      add(decoder.end());
      flush();
    },
  };
}
