/**
 * The build of the template `base` that a service does by itself, in the background, where its home
 * has none or one of an older recipe. One process of a home builds, the others wait for it; what it
 * began ends with the service.
 */

import { createSystemClock, type Clock } from "../common/clock.ts";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { Layer } from "../engine/engine.ts";
import { installCommand } from "../engine/host/install-command.ts";
import { createBuildProgress, type BuildProgress } from "../engine/templates/base-progress.ts";
import { canBuildBase } from "../engine/templates/base.ts";
import { templateBuilding } from "../wire/messages.ts";
import { buildNewBase, isBaseCurrent } from "./built-ins.ts";
import { findBase, findBuildStart } from "./home.ts";

/** What failed is tried again when somebody asks for it, but no more often than this. */
const RETRY_MS = 30_000;

export interface BaseBuildOptions {
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
  /** Begins it where there is none or an older one; its end is waited for by nobody. */
  begin(): Promise<void>;
  /**
   * The layers once they are there, after at most `waitMs`.
   * @throws SandboxError unavailable when it takes longer or failed, canceled
   */
  wait(signal: AbortSignal, waitMs?: number): Promise<readonly Layer[] | undefined>;
}

/** Nothing is begun before it is asked for. */
export function createBaseBuild(options: BaseBuildOptions): BaseBuild {
  const { home, log, say, clock = createSystemClock() } = options;
  const closing = new AbortController();
  let running: { readonly end: Promise<void>; readonly progress: BuildProgress } | undefined;
  let failed: { readonly error: SandboxError; readonly atMs: number } | undefined;

  async function run(progress: BuildProgress, finish: (lastLine?: string) => void): Promise<void> {
    const startedAtMs = clock.now();
    try {
      const onProgress = (line: string) => progress.note(line);
      await buildNewBase({ home, signal: closing.signal, ifMissing: true, onProgress });
      const seconds = Math.round((clock.now() - startedAtMs) / 1_000);
      log.info({ op: "template.build", template: "base", seconds }, "base was built");
      failed = undefined;
      finish(`the base template is built (${seconds} s)`);
    } catch (error) {
      const cause = toSandboxError(error, "build");
      failed = { error: toFailure(cause), atMs: clock.now() };
      finish();
      if (closing.signal.aborted) return;
      log.warn({ op: "template.build", template: "base", err: error }, "base was not built");
      say(`${failed.error.message}: ${failed.error.hint}`.replaceAll("\n", " "));
    } finally {
      running = undefined;
    }
  }

  async function start(): Promise<void> {
    const startedAtMs = (await findBuildStart(home)) ?? clock.now();
    if (running !== undefined || closing.signal.aborted) return;
    const progress = createBuildProgress(startedAtMs, () => clock.now());
    log.info({ op: "template.build", template: "base" }, "building the template base");
    const finish = options.show?.(progress) ?? (() => undefined);
    running = { progress, end: run(progress, finish) };
  }

  return {
    async begin() {
      if (!options.isAllowed || (await isBaseCurrent(home))) return;
      const isOld = (await findBase(home)) !== undefined;
      if (!canBuildBase()) return isOld ? undefined : say(`no template base: ${installCommand()}`);
      if (isOld) say("rebuilding the base template, whose contents changed; the old one serves on");
      await start();
    },
    async wait(signal, waitMs) {
      if (!options.isAllowed) return undefined;
      const isFresh = failed !== undefined && clock.now() - failed.atMs < RETRY_MS;
      if (running === undefined && failed !== undefined && isFresh) throw failed.error;
      if (running === undefined) await start();
      if (running !== undefined) await waitFor(running, { signal, waitMs, clock });
      const layers = await findBase(home);
      if (layers === undefined && failed !== undefined) throw failed.error;
      return layers;
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      await running?.end;
    },
  };
}

function toFailure(cause: SandboxError): SandboxError {
  const message = `the base template could not be built: ${cause.message}`;
  return new SandboxError("unavailable", message, { cause, hint: cause.hint ?? FAILURE_HINT });
}

const FAILURE_HINT = "fix that; half a minute later the next create tries it again";

/** @throws SandboxError unavailable once the time is over, canceled */
async function waitFor(
  build: { readonly end: Promise<void>; readonly progress: BuildProgress },
  limit: {
    readonly signal: AbortSignal;
    readonly waitMs: number | undefined;
    readonly clock: Clock;
  },
): Promise<void> {
  const over = new AbortController();
  const stop = AbortSignal.any([limit.signal, over.signal]);
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const cancel = () => reject(new SandboxError("canceled", "no longer waited for"));
  if (limit.signal.aborted) cancel();
  limit.signal.addEventListener("abort", cancel, { once: true });
  const late = async (): Promise<void> => {
    if (limit.waitMs === undefined) return build.end;
    await limit.clock.sleep(limit.waitMs, stop);
    throw new SandboxError("unavailable", templateBuilding("base", build.progress.describe()), {
      hint: "repeat the request",
    });
  };
  const waiting = late();
  // Its end by the signal below is no failure.
  waiting.catch(() => undefined);
  try {
    await Promise.race([build.end, aborted, waiting]);
  } finally {
    limit.signal.removeEventListener("abort", cancel);
    over.abort();
  }
}
