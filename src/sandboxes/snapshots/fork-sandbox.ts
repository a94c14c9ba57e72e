/** Forks: new sandboxes that begin with the files, and memory, of a running one, which goes on. */

import { anySignal } from "../../common/any-signal.ts";
import { createGate } from "../../common/concurrency.ts";
import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { BuildRecord, SandboxRecord } from "../../store/store.ts";
import { randomId } from "../../wire/address.ts";
import { sandboxCannotBe, sandboxPausedFork } from "../../wire/messages.ts";
import { dropMemory, releaseForkBuild, writeBuild } from "../builds/builds.ts";
import type {
  SandboxContext,
  SandboxEntry,
  Tenant,
  Limits,
  Registry,
  Services,
} from "../context.ts";
import type { CreatePlan } from "../create/create-plan.ts";
import { startReserved, type CreateContext } from "../create/create-sandbox.ts";
import { findEntry, requireKnownEntry } from "../find-entry.ts";
import { changeState, endEntry } from "../registry.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import { optionsOf, type CreateOptions, type Sandbox } from "../sandbox.ts";
import type { Reservation } from "../team-quota.ts";
import { checkForkOptions, requireForkAwaited, type ForkOptions } from "./fork-rules.ts";

/** Each start is a few processes and mounts. */
const STARTS_AT_ONCE = 4;

/** One fork, or why it did not come about. */
export type ForkResult = { readonly sandbox: Sandbox } | { readonly error: unknown };

/**
 * Copies a running sandbox once and starts `count` sandboxes on the copy. They have identities,
 * tokens and lives of their own, and everything else as the source; its memory where the copy can
 * have that. Durable when it resolves.
 * @throws SandboxError invalid_argument for a bad count, not_found, failed_precondition unless it
 * runs and rests; canceled when the signal fired.
 */
export async function forkSandbox(
  context: CreateContext,
  sandboxId: string,
  options: ForkOptions,
): Promise<ForkResult[]> {
  checkForkOptions(options, context.quota.sharesOf(context.team).limit);
  const entry = requireForkable(context, sandboxId);
  const source = entry.record;
  // All at once and before anything is copied, so that no other create takes one meanwhile.
  using taken = reserve(context, options.count);
  const { reservations, refusals } = taken;
  if (reservations.length === 0) return refusals;
  const build = await copyFiles(context, entry);
  const { buildId } = build;
  const gate = createGate(STARTS_AT_ONCE);
  const signal = anySignal([options.signal, context.closing]);
  try {
    await step("fork.copied");
    requireForkAwaited(options);
    const { timeoutSeconds } = options;
    const isolation = entry.container.level === "gvisor" ? entry.container.level : undefined;
    const plan = toPlan(context, source, { build, timeoutSeconds, isolation });
    const starts = reservations.map((reservation) =>
      gate.run(async () => {
        using own = reservation;
        return await startReserved(context, plan, { reservation: own, signal });
      }),
    );
    const results = await Promise.allSettled(starts);
    await step("fork.started");
    if (options.signal.aborted) await endForks(context, results);
    requireForkAwaited(options);
    context.log.info(
      { op: "sandbox.fork", sandboxId, count: options.count, outcome: "ok" },
      "sandbox.fork ok",
    );
    const outcomes = results.map((result) =>
      result.status === "fulfilled" ? { sandbox: result.value } : { error: result.reason },
    );
    return [...outcomes, ...refusals];
  } finally {
    context.activeForkBuilds.delete(buildId);
    await releaseCopy(context, build);
    await step("fork.released");
  }
}

/** Forks count already: a release that fails, as on a full disk, must not hide them from their client. */
async function releaseCopy(context: CreateContext, build: BuildRecord): Promise<void> {
  const { buildId } = build;
  await cleanUpOrRetry(context, `copy of forks ${buildId}`, async () => {
    await dropMemory(context, build);
    await releaseForkBuild(context, buildId);
  });
}

/** Ends those that were made; no client knows them. */
async function endForks(
  context: SandboxContext,
  results: readonly PromiseSettledResult<Sandbox>[],
): Promise<void> {
  const ends = results.map(async (result) => {
    const entry = result.status === "fulfilled" && findEntry(context, result.value.sandboxId);
    if (!entry) return;
    const { sandboxId } = entry.record;
    try {
      await endEntry(context, entry, "request");
    } catch (error) {
      context.log.error({ op: "sandbox.end", sandboxId, err: error }, "sandbox left traces");
    }
  });
  await Promise.all(ends);
}

/** As many reservations as there are, and a refusal for each of the others. */
function reserve({ quota: all, team }: Tenant & Limits, count: number) {
  const stack = new DisposableStack();
  const reservations: Reservation[] = [];
  const refusals: ForkResult[] = [];
  for (let index = 0; index < count; index += 1) {
    try {
      reservations.push(stack.use(all.take(team)));
    } catch (error) {
      refusals.push({ error });
    }
  }
  return { reservations, refusals, [Symbol.dispose]: () => stack.dispose() };
}

function requireForkable(context: Tenant & Registry, sandboxId: string): SandboxEntry {
  const entry = requireKnownEntry(context, sandboxId);
  const state = entry.ending === undefined ? entry.phase : "killing";
  if (state === "running") return entry;
  throw new SandboxError(
    "failed_precondition",
    state === "paused" ? sandboxPausedFork(sandboxId) : sandboxCannotBe("forked", sandboxId, state),
  );
}

async function copyFiles(context: SandboxContext, entry: SandboxEntry): Promise<BuildRecord> {
  context.logBook.note(entry.record, "Forking sandbox");
  const { promise, resolve: done } = Promise.withResolvers<BuildRecord>();
  await changeState(context, { entry, during: "snapshotting" }, async () => {
    const build = await writeBuild(context, entry, {
      // No template has this identifier: the build is the forks' alone.
      templateId: randomId(),
      form: "disk",
      keepsMemory: true,
      commit(ready) {
        context.activeForkBuilds.add(ready.buildId);
        context.store.builds.put(ready);
        return ready;
      },
    });
    done(build);
    return "running";
  });
  return promise;
}

function toPlan(
  context: Services,
  source: SandboxRecord,
  fork: { readonly build: BuildRecord } & Pick<CreateOptions, "timeoutSeconds" | "isolation">,
): CreatePlan {
  const { build, timeoutSeconds, isolation } = fork;
  const template = context.store.templates.get(source.templateId);
  if (template === undefined) {
    throw new SandboxError("internal", `template ${source.templateId} is gone`);
  }
  return {
    resolved: { template, build },
    mounts: source.volumeMounts,
    options: {
      ...optionsOf(source, context.secrets),
      timeoutSeconds,
      isolation,
    },
  };
}
