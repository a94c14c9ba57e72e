/**
 * Sandboxes that are started and frozen before a create asks for them. A create takes one over, thaws
 * it and tells its daemon who it serves. Until then no team has it: not listed, not adopted, and
 * after a crash removed like everything that was only intended.
 */

import { createBackoff } from "../../common/backoff.ts";
import { createGate, type Gate } from "../../common/concurrency.ts";
import { SandboxError } from "../../common/errors.ts";
import { asChange } from "../../common/operation.ts";
import { step } from "../../common/steps.ts";
import type { Container, ContainerSpec } from "../../engine/engine.ts";
import type { BuildRecord, SandboxRecord } from "../../store/store.ts";
import { initDaemon, toFirstInit, toSpec } from "../boot/boot.ts";
import { hasCommands, startTemplateService } from "../boot/start-command.ts";
import { warmUp } from "../boot/warm-up.ts";
import type { Folders, Limits, SandboxContext, Services, Tenant } from "../context.ts";
import { requireDiskSpace } from "../disks/disk-space.ts";
import { removeTraces } from "../reclaim/discard.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import type { ResolvedTemplate } from "../templates/resolve-template.ts";
import {
  PLAIN_OPTIONS,
  recordIntent,
  toStartingRecord,
  type CreateInput,
  type CreatePlan,
} from "./create-plan.ts";

/** A new one is begun after this much time without a start and without a look-up of a sandbox. */
const QUIET_MS = 100;
/** Sandboxes at work put it off too, so that it takes no processor from them, but only so long. */
const MAX_PATIENCE_MS = 2000;
/** A machine that cannot start one now is asked again after a while, and then less and less often. */
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;

/** A sandbox that waits, frozen, to be taken. */
export interface PooledContainer {
  readonly container: Container;
  readonly record: SandboxRecord;
  /** Everything by which its container could differ from that of another sandbox. */
  readonly kind: string;
  /** Whether the commands of its template have run. */
  readonly isServing: boolean;
}

export interface Pool extends AsyncDisposable {
  /**
   * One whose container is exactly what this start asks for; the caller's from then on, also to end
   * it. Undefined when there is none.
   */
  take(input: CreateInput): PooledContainer | undefined;
  /** Ends those of a template before the work, and starts none of it until the work is done. */
  without<T>(templateId: string, work: () => T): Promise<T>;
}

/** The part of the pool for one template. */
interface Share extends AsyncDisposable {
  take(input: CreateInput): PooledContainer | undefined;
  /** Resolves when none of a template is left. */
  release(templateId: string): Promise<void>;
}

/** How many sandboxes of a template, by its reference, are kept started. */
export interface PoolShare {
  readonly template: string;
  readonly size: number;
}

/** Keeps sandboxes of these templates started; one is started at a time. */
export function startPool(context: SandboxContext, shares: readonly PoolShare[]): Pool {
  const gate = createGate(1);
  const barred = new Set<string>();
  const pools = shares.map((share) => startShare({ context, gate, barred }, share));
  return {
    take(input) {
      for (const pool of pools) {
        const warm = pool.take(input);
        if (warm !== undefined) return warm;
      }
      return undefined;
    },
    async without(templateId, work) {
      const own = context.store.sandboxes.ofOwner(context.owner);
      const states = own.filter((row) => row.templateId === templateId).map(({ state }) => state);
      // Where a client has one, the work finds it, too.
      if (states.length === 0 || states.some((state) => state !== "pooled")) return work();
      barred.add(templateId);
      try {
        await Promise.all(pools.map((pool) => pool.release(templateId)));
        return work();
      } finally {
        barred.delete(templateId);
      }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(pools.map((pool) => pool[Symbol.asyncDispose]()));
    },
  };
}

/** What the parts of a pool have in common. */
interface Common {
  readonly context: SandboxContext;
  readonly gate: Gate;
  /** Templates that none is started of now. */
  readonly barred: ReadonlySet<string>;
}

function startShare({ context, gate, barred }: Common, { template, size }: PoolShare): Share {
  const waiting = new Set<PooledContainer>();
  const ends = new Set<Promise<void>>();
  let filling: Promise<void> | undefined;
  let starting: Promise<PooledContainer> | undefined;
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);

  async function fill(): Promise<void> {
    let pauseMs = QUIET_MS;
    let patientUntilMs = context.clock.elapsed() + MAX_PATIENCE_MS;
    while (waiting.size < size && (await wait(context, pauseMs))) {
      pauseMs = QUIET_MS;
      if (isBusy(context, patientUntilMs)) continue;
      try {
        const start = () => startOne(context, template, barred);
        starting = gate.run(() => asChange("pool.fill", start));
        admit(await starting);
        patientUntilMs = context.clock.elapsed() + MAX_PATIENCE_MS;
      } catch (error) {
        if (context.closing.aborted) break;
        context.log.warn(
          { op: "pool.fill", template, err: error },
          "no warm sandbox could be started",
        );
        pauseMs = backoff.next();
      }
    }
    filling = undefined;
  }

  function refill(): void {
    // Its faults are caught inside.
    if (!context.closing.aborted) filling ??= fill();
  }

  function admit(warm: PooledContainer): void {
    waiting.add(warm);
    // Its faults are caught inside.
    void warm.container.exit.then(() => discard(warm));
  }

  /** Ends one that is no use any more, in the background; the end of the pool waits for it. */
  function discard(warm: PooledContainer): void {
    if (!waiting.delete(warm)) return;
    const end = endWarm(context, warm).finally(() => ends.delete(end));
    ends.add(end);
    refill();
  }

  function discardWhere(isUnwanted: (record: SandboxRecord) => boolean): void {
    for (const warm of waiting) if (isUnwanted(warm.record)) discard(warm);
  }

  refill();
  return {
    take({ plan, spec }) {
      const isOfTemplate = plan.options.template === template;
      discardWhere((record) => isOfTemplate && isOutdated(record, plan.resolved, context.team));
      const kind = kindOf(spec, plan.resolved.build);
      const warm = [...waiting].find((candidate) => candidate.kind === kind);
      if (warm === undefined) return undefined;
      waiting.delete(warm);
      backoff.reset();
      refill();
      return warm;
    },
    async release(templateId) {
      // One that is being started becomes one that waits; `fill` handles its faults.
      await starting?.catch(() => undefined);
      discardWhere((record) => record.templateId === templateId);
      await Promise.all(ends);
    },
    async [Symbol.asyncDispose]() {
      await filling;
      for (const warm of waiting) discard(warm);
      await Promise.all(ends);
    },
  };
}

/** Whether a create of the same reference shows that it means another build now. */
function isOutdated(
  { buildId, templateId }: SandboxRecord,
  { template, build }: ResolvedTemplate,
  team: string,
): boolean {
  // By the same name another team may mean a template of its own.
  const isShared = template.kind === "built-in" || template.team === team;
  return buildId !== build.buildId && (isShared || templateId === template.templateId);
}

/** Ends one with everything that it has on disk and on record; a failure is retried. */
async function endWarm(
  context: Services & Folders,
  { container, record }: { container: Container | undefined; record: SandboxRecord },
): Promise<void> {
  const { sandboxId } = record;
  await cleanUpOrRetry(context, `warm ${sandboxId}`, async () => {
    await container?.[Symbol.asyncDispose]();
    await removeTraces(context, sandboxId);
  });
}

/** Whether a start, or until some time a look-up of a sandbox, is better left alone. */
function isBusy({ clock, lastUse, quota }: SandboxContext, patientUntilMs: number): boolean {
  const nowMs = clock.elapsed();
  const isQuiet = nowMs - lastUse.atMs >= QUIET_MS;
  return quota.starting > 0 || (!isQuiet && nowMs < patientUntilMs);
}

/** False when the registry closes first. */
async function wait(context: Services, ms: number): Promise<boolean> {
  try {
    await context.clock.sleep(ms, context.closing);
    return true;
  } catch (error) {
    if (context.closing.aborted) return false;
    throw error;
  }
}

async function startOne(
  context: Services & Tenant & Folders & Limits,
  template: string,
  barred: ReadonlySet<string>,
): Promise<PooledContainer> {
  const { closing: signal } = context;
  await requireDiskSpace(context.directory);
  const resolved = await context.templates.resolve(template, { signal });
  if (barred.has(resolved.template.templateId)) {
    throw new SandboxError("unavailable", `${template} is being removed`);
  }
  const plan: CreatePlan = { resolved, mounts: [], options: { ...PLAIN_OPTIONS, template } };
  const record: SandboxRecord = { ...toStartingRecord(context, plan), state: "pooled" };
  recordIntent(context, plan, record);
  let container: Container | undefined;
  try {
    const spec = toSpec(context, record, resolved.build);
    container = await context.engine.create(spec, signal);
    // What runs in the daemon's warm-up needs it. The claim tells it anew, whatever the clock is by then.
    const init = toFirstInit(context, record, resolved.build);
    await initDaemon(container, init, signal);
    const isServing = hasCommands(resolved.build);
    const sandbox = { container, record, build: resolved.build };
    if (isServing) await startTemplateService(context, sandbox, signal);
    else await warmUp(context, { container, record, init }, signal);
    await container.pause();
    await step("pool.frozen");
    signal.throwIfAborted();
    return { container, record, kind: kindOf(spec, resolved.build), isServing };
  } catch (error) {
    await endWarm(context, { container, record });
    throw error;
  }
}

/** All of a container's specification but its name, and what runs in it. */
function kindOf(spec: ContainerSpec, build: BuildRecord): string {
  const service = hasCommands(build) ? [build.setup, build.defaultUser, build.defaultWorkdir] : [];
  return JSON.stringify({ ...spec, id: "", directory: "", hostname: "", bootId: "", service });
}
