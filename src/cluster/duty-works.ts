/**
 * Works of the leading front: a few of one subject at once, each once, beside the looks that find them.
 * One that waits long for its answer keeps none of the others waiting.
 */

import { createGate, type Track } from "../common/concurrency.ts";
import { asOperation } from "../common/operation.ts";
import type { LastingFault } from "./api/lasting-fault.ts";

/** At once: the API server limits its clients. */
const WIDTH = 8;

export interface Duty {
  /** Among those of its subject. */
  readonly name: string;
  readonly run: () => Promise<unknown>;
}

export interface DutyWorks {
  /** Begins those that are not under way; what is not named any more no longer counts as a fault. */
  look(due: readonly Duty[]): void;
}

export interface DutyWorksOptions {
  readonly subject: string;
  readonly fault: LastingFault;
  /** Fires when the front closes: what waits for its turn then is not begun. */
  readonly closing: AbortSignal;
  /** Closing waits for what is under way. */
  readonly track: Track;
}

export function createDutyWorks({ subject, fault, closing, track }: DutyWorksOptions): DutyWorks {
  const gate = createGate(WIDTH);
  const begun = new Set<string>();
  const failing = new Set<string>();

  /** It never rejects. */
  async function attempt({ name, run }: Duty): Promise<void> {
    try {
      if (closing.aborted) return;
      await asOperation(`cluster.${subject}`, run);
      failing.delete(name);
    } catch (error) {
      if (closing.aborted) return;
      failing.add(name);
      fault.note(error);
    } finally {
      begun.delete(name);
    }
  }

  return {
    look(due) {
      const names = new Set(due.map(({ name }) => name));
      for (const name of failing) if (!names.has(name)) failing.delete(name);
      if (failing.size === 0) fault.clear();
      for (const duty of due) {
        if (begun.has(duty.name)) continue;
        begun.add(duty.name);
        // Its faults are noted.
        void track(gate.run(async () => attempt(duty)));
      }
    },
  };
}
