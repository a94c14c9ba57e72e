/** Runs the builds of a service: as many at once as there are processors, the others in order. */

import { availableParallelism } from "node:os";
import { createGate, type Track } from "../../common/concurrency.ts";
import { SandboxError } from "../../common/errors.ts";
import type { Uploads } from "./uploads.ts";

export interface RunnerTask {
  readonly buildId: string;
  readonly templateId: string;
  /** From the moment at which it runs. */
  readonly limitMs: number;
  /** Called when it has to wait for its turn. */
  onWait(): void;
  /** Never rejects. */
  work(signal: AbortSignal): Promise<void>;
}

export interface BuildRunner {
  readonly uploads: Uploads;
  /** Cancels what runs or waits of the same template, and runs the task when it is its turn. */
  begin(task: RunnerTask): void;
  cancel(templateId: string, reason: string): void;
}

export function createBuildRunner(options: {
  readonly uploads: Uploads;
  readonly track: Track;
  /** Fires when the registry closes. */
  readonly closing: AbortSignal;
  /** Builds at once; one for each processor. */
  readonly atOnce?: number | undefined;
}): BuildRunner {
  const { uploads, track, closing, atOnce = availableParallelism() } = options;
  const gate = createGate(atOnce);
  const running = new Map<AbortController, string>();

  function cancel(templateId: string, reason: string): void {
    for (const [controller, id] of running) {
      if (id === templateId) controller.abort(new SandboxError("canceled", reason));
    }
  }

  async function run(task: RunnerTask, controller: AbortController): Promise<void> {
    try {
      await gate.run(() => {
        const limits = [controller.signal, AbortSignal.timeout(task.limitMs), closing];
        return task.work(AbortSignal.any(limits));
      });
    } finally {
      running.delete(controller);
    }
  }

  return {
    uploads,
    begin(task) {
      cancel(task.templateId, `cancelled: build ${task.buildId} of the same template was started`);
      if (running.size >= atOnce) task.onWait();
      const controller = new AbortController();
      running.set(controller, task.templateId);
      // It never rejects; closing waits for it.
      void track(run(task, controller));
    },
    cancel,
  };
}
