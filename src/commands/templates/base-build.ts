/**
 * The build of a template, by default `base`, that a service does by itself, in the background, where its home
 * has none or one of an older recipe. One process of a home builds, the others wait for it; what it
 * began ends with the service.
 */

import { anySignal } from "../../common/any-signal.ts";
import { createSystemClock, type Clock } from "../../common/clock.ts";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import { orCanceled } from "../../common/or-canceled.ts";
import type { Layer } from "../../engine/engine.ts";
import { createBuildProgress, type BuildProgress } from "../../engine/templates/base-progress.ts";
import { findBuildLack } from "../../engine/templates/base.ts";
import { templateBuilding } from "../../wire/messages.ts";
import type { BuildTarget } from "./build-target.ts";
import { BASE_BUILD } from "./built-ins.ts";

/** What failed is tried again when a client asks for it, but no more often than this. */
const RETRY_MS = 30_000;

export interface BaseBuildOptions {
  /** Undefined: `base`. */
  readonly target?: BuildTarget;
  readonly home: string;
  readonly log: Logger;
  /** Whether it may be begun at all. */
  readonly isAllowed: boolean;
  readonly clock?: Clock;
  /** Tells people what they have to know, one line each. */
  readonly say: (line: string) => void;
  /** Shows people how it goes, from its begin to its end. */
  readonly show?: ShowProgress;
}

/** Shows a progress until what it returned is called, with the last line where there is one. */
export type ShowProgress = (progress: BuildProgress) => (lastLine?: string) => void;

export interface BaseBuild extends AsyncDisposable {
  /** Begins it where there is none or an older one; no caller waits for its end. */
  begin(): Promise<void>;
  /**
   * The layers once they are there, after at most `waitMs`.
   * @throws SandboxError unavailable when it takes longer or failed, canceled
   */
  wait(signal: AbortSignal, waitMs?: number): Promise<readonly Layer[] | undefined>;
}

/** Nothing is begun before it is asked for. */
export function createBaseBuild(options: BaseBuildOptions): BaseBuild {
  const { home, log, say, clock = createSystemClock(), target = BASE_BUILD } = options;
  const { name } = target;
  const closing = new AbortController();
  let running: RunningBuild | undefined;
  let failed: { readonly error: SandboxError; readonly atMs: number } | undefined;

  async function run(progress: BuildProgress, finish: (lastLine?: string) => void): Promise<void> {
    const startedAtMs = clock.elapsed();
    try {
      const onProgress = (line: string) => progress.note(line);
      await target.build({ home, signal: closing.signal, ifMissing: true, onProgress });
      const seconds = Math.round((clock.elapsed() - startedAtMs) / 1_000);
      log.info({ op: "template.build", template: name, seconds }, "template was built");
      failed = undefined;
      finish(`the ${name} template is built (${seconds} s)`);
    } catch (error) {
      const cause = toSandboxError(error, "build");
      failed = { error: toFailure(name, cause), atMs: clock.elapsed() };
      finish();
      if (closing.signal.aborted) return;
      log.warn({ op: "template.build", template: name, err: error }, "template was not built");
      say(`${failed.error.message}: ${failed.error.hint}`.replaceAll("\n", " "));
    } finally {
      running = undefined;
    }
  }

  async function start(): Promise<void> {
    const startedAtMs = (await target.findStart(home)) ?? clock.now();
    const expectedMs = await target.expectMs(home);
    if (running !== undefined || closing.signal.aborted) return;
    const progress = createBuildProgress(startedAtMs, () => clock.now(), expectedMs);
    log.info({ op: "template.build", template: name }, "building a template");
    const finish = options.show?.(progress) ?? (() => undefined);
    running = { name, progress, end: run(progress, finish) };
  }

  return {
    async begin() {
      if (!options.isAllowed || (await target.isCurrent(home))) return;
      const isOld = (await target.find(home)) !== undefined;
      const lack = findBuildLack();
      if (lack !== undefined) {
        return isOld ? undefined : say(`no template ${name}: ${lack.detail}: ${lack.hint}`);
      }
      if (isOld)
        say(`rebuilding the ${name} template, whose contents changed; the old one serves on`);
      else if (await target.hasLostModes(home))
        say(`rebuilding the ${name} template, whose files have lost their modes`);
      await start();
    },
    async wait(signal, waitMs) {
      if (!options.isAllowed) return undefined;
      const isFresh = failed !== undefined && clock.elapsed() - failed.atMs < RETRY_MS;
      if (running === undefined && failed !== undefined && isFresh) throw failed.error;
      if (running === undefined) await start();
      if (running !== undefined) await waitFor(running, { signal, waitMs, clock });
      const layers = await target.find(home);
      if (layers === undefined && failed !== undefined) throw failed.error;
      return layers;
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      await running?.end;
    },
  };
}

function toFailure(name: string, cause: SandboxError): SandboxError {
  const message = `the ${name} template could not be built: ${cause.message}`;
  return new SandboxError("unavailable", message, { cause, hint: cause.hint ?? FAILURE_HINT });
}

const FAILURE_HINT = "fix that; half a minute later the next create tries it again";

interface RunningBuild {
  readonly name: string;
  readonly end: Promise<void>;
  readonly progress: BuildProgress;
}

/** @throws SandboxError unavailable once the time is over, canceled */
async function waitFor(
  build: RunningBuild,
  limit: {
    readonly signal: AbortSignal;
    readonly waitMs: number | undefined;
    readonly clock: Clock;
  },
): Promise<void> {
  const over = new AbortController();
  const stop = anySignal([limit.signal, over.signal]);
  const late = async (): Promise<void> => {
    if (limit.waitMs === undefined) return build.end;
    await limit.clock.sleep(limit.waitMs, stop);
    throw new SandboxError("unavailable", templateBuilding(build.name, build.progress.describe()), {
      hint: "repeat the request",
    });
  };
  const waiting = late();
  // Its end by the signal below is no failure.
  waiting.catch(() => undefined);
  try {
    await orCanceled(Promise.race([build.end, waiting]), limit.signal, "no longer waited for");
  } finally {
    over.abort();
  }
}
