/** Runs the builds of a service: as many at once as there are processors, the others in turn. */

import { availableParallelism } from "node:os";
import { anySignal } from "../../common/any-signal.ts";
import type { Track } from "../../common/concurrency.ts";
import { SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import type { TemplateBuildRecord } from "../../store/build-records.ts";
import { createBuildQueue } from "./build-queue.ts";
import type { LayerSizes } from "./layer-sizes.ts";
import type { Uploads } from "./uploads.ts";

export interface RunnerTask {
  readonly buildId: string;
  readonly templateId: string;
  readonly team: string;
  readonly tags: readonly string[];
  /** From the moment at which it runs. */
  readonly limitMs: number;
  /** Never throws. */
  onWait(): void;
  /** Why it is not wanted any more, which another process may have caused; undefined while it is. */
  findFault(): string | undefined;
  /** Never rejects. */
  work(signal: AbortSignal): Promise<void>;
}

export interface BuildRunner {
  readonly uploads: Uploads;
  readonly layerSizes: LayerSizes;
  /** Builds that failed, until the database can have it: a full disk may stay full for hours. */
  readonly unrecorded: Map<string, TemplateBuildRecord>;
  /**
   * Cancels what runs or waits for a tag of the same template, and runs the task when it is its turn.
   * What it returns resolves when the task has ended, and never rejects.
   */
  begin(task: RunnerTask): Promise<void>;
  cancel(templateId: string, reason: string): void;
}

/** How often it is asked whether a build is still wanted. */
const LOOK_MS = 1_000;

export function createBuildRunner(options: {
  readonly uploads: Uploads;
  readonly layerSizes: LayerSizes;
  readonly track: Track;
  /** Fires when the registry closes. */
  readonly closing: AbortSignal;
}): BuildRunner {
  const { uploads, layerSizes, track, closing } = options;
  const atOnce = availableParallelism();
  const queue = createBuildQueue(atOnce);
  const running = new Map<AbortController, RunnerTask>();

  function cancel(templateId: string, reason: string, tags?: readonly string[]): void {
    for (const [controller, task] of running) {
      const isMeant = tags === undefined || task.tags.some((tag) => tags.includes(tag));
      if (task.templateId === templateId && isMeant) {
        controller.abort(new SandboxError("canceled", reason));
      }
    }
  }

  async function run(task: RunnerTask, controller: AbortController): Promise<void> {
    const ended = anySignal([controller.signal, closing]);
    const watch = setInterval(() => endUnwanted(task, controller), LOOK_MS).unref();
    const leave = await queue.enter(task.team, ended);
    try {
      await task.work(anySignal([ended, signalAfter(task.limitMs)]));
    } finally {
      clearInterval(watch);
      running.delete(controller);
      leave();
    }
  }

  return {
    uploads,
    layerSizes,
    unrecorded: new Map(),
    begin(task) {
      const reason = `cancelled: build ${task.buildId} of the same template was started`;
      cancel(task.templateId, reason, task.tags);
      if (running.size >= atOnce) task.onWait();
      const controller = new AbortController();
      running.set(controller, task);
      // Closing waits for it.
      return track(run(task, controller));
    },
    cancel: (templateId, reason) => cancel(templateId, reason),
  };
}

function endUnwanted(task: RunnerTask, controller: AbortController): void {
  try {
    const fault = task.findFault();
    if (fault !== undefined) controller.abort(new SandboxError("canceled", fault));
  } catch {
    // A look that fails says nothing about the build; the next one comes soon.
  }
}
