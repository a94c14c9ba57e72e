/** Creates a sandbox: intent on disk, container, daemon, and only then the answer. */

import { anySignal } from "../../common/any-signal.ts";
import { SandboxError } from "../../common/errors.ts";
import { throwIfCanceled } from "../../common/or-canceled.ts";
import { step } from "../../common/steps.ts";
import type { Container } from "../../engine/engine.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { MESSAGES } from "../../wire/messages.ts";
import { awaitHealth, initDaemon, toFirstInit, toInit, toSpec } from "../boot/boot.ts";
import { startTemplateService } from "../boot/start-command.ts";
import { toStartFault } from "../boot/start-fault.ts";
import { planMemory } from "../builds/memory.ts";
import type { SandboxContext, Services, Folders } from "../context.ts";
import { keepCreation } from "../creation-record.ts";
import { toDiskFault } from "../disks/disk-space.ts";
import { removeTraces } from "../reclaim/discard.ts";
import { addEntry, followEntry, setDeadline } from "../registry.ts";
import { toSandbox, type CreateOptions, type Sandbox } from "../sandbox.ts";
import type { Reservation } from "../team-quota.ts";
import { requireSpace } from "../template-builds/free-space.ts";
import { checkTimeout, expiryOfRun } from "../timeout.ts";
import { mountVolumes, resolveMounts } from "../volumes/volumes.ts";
import {
  recordIntent,
  requireBuildOf,
  toStartingRecord,
  type CreatePlan,
  type CreateInput,
} from "./create-plan.ts";
import { planLive } from "./plan-live.ts";
import type { Pool } from "./pool.ts";

export type CreateContext = SandboxContext & { readonly pool: Pick<Pool, "take"> };

/**
 * Starts a sandbox; it answers when this resolves. After a fault nothing of it is left.
 * @throws SandboxError not_found for an unknown template, resource_exhausted when there are too
 * many, invalid_argument for a faulty option, unavailable when it cannot be started.
 */
export async function createSandbox(
  context: CreateContext,
  options: CreateOptions,
  signal: AbortSignal,
): Promise<Sandbox> {
  const bounded = anySignal([signal, context.closing]);
  const resolved = await context.templates.resolve(options.template, {
    signal: bounded,
    waitMs: options.templateWaitMs,
  });
  checkTimeout(options.timeoutSeconds);
  if (options.network?.allowPublicTraffic === false && !options.isSecured) {
    throw new SandboxError("invalid_argument", MESSAGES.publicTrafficNeedsToken);
  }
  const mounts = resolveMounts(context, options.volumeMounts);
  using reservation = context.quota.take(context.team);
  const plan = { options, resolved, mounts };
  return await startReserved(context, plan, { reservation, signal: bounded });
}

/** The reservation that a start counts by, and what aborts it. */
interface StartOptions {
  readonly reservation: Reservation;
  readonly signal: AbortSignal;
}

/**
 * Starts what was checked and resolved before. The reservation is released when the sandbox counts by
 * itself; after a fault the caller releases it.
 * @throws SandboxError resource_exhausted when the disk is too full, unavailable when it fails.
 */
export async function startReserved(
  context: CreateContext,
  plan: CreatePlan,
  terms: StartOptions,
): Promise<Sandbox> {
  const beganMs = performance.now();
  await requireSpace(context, "sandbox_create_refused");
  const sandbox = await start(context, plan, terms);
  const { sandboxId } = sandbox;
  const durationMs = Math.round(performance.now() - beganMs);
  const fields = { op: "sandbox.create", sandboxId, durationMs, outcome: "ok" };
  context.log.info(fields, "sandbox.create ok");
  return sandbox;
}

async function start(
  context: CreateContext,
  plan: CreatePlan,
  terms: StartOptions,
): Promise<Sandbox> {
  const { reservation, signal } = terms;
  const input = toInput(context, plan);
  const { intent } = input;
  const started =
    (await startWarm(context, input, signal)) ??
    (await startLive(context, plan, signal)) ??
    (await startCold(context, input, signal));
  const { container } = started;
  const record = await commitOrUndo(context, plan, started);
  const entry = addEntry(context, container, record);
  reservation[Symbol.dispose]();
  followEntry(context, entry, { isInitialized: true });
  const { mcpServers } = record;
  const fields = mcpServers.length === 0 ? {} : { mcp_servers: mcpServers.join(",") };
  context.logBook.note(record, "Sandbox created", fields);
  if (record.allowsInternet !== intent.allowsInternet) {
    context.logBook.note(record, "This machine gives sandboxes no way to the internet");
  }
  context.rescheduleExpiry();
  await step("create.committed");
  return toSandbox({ record, container }, context.secrets);
}

function toInput(context: CreateContext, plan: CreatePlan): CreateInput {
  const { build } = plan.resolved;
  const { isolation, restoresMemory: keepsMemory = true } = plan.options;
  const memory = planMemory(context, { build, keepsMemory, mounts: plan.mounts });
  const intent = { ...toStartingRecord(context, plan), memory: memory?.carried ?? null };
  const shared = toSpec(context, intent, build);
  // Memory is that of a kernel of its own.
  const needed = memory?.folder === undefined ? isolation : "gvisor";
  const spec = {
    ...shared,
    ...(needed !== undefined && { isolation: needed }),
    ...(memory?.folder !== undefined && { memory: memory.folder }),
  };
  return { plan, intent, spec };
}

/** A container whose daemon answers, and what is on record of it until it is committed. */
interface Started {
  readonly container: Container;
  readonly intent: SandboxRecord;
}

async function startCold(
  context: Services & Folders,
  { plan, intent, spec }: CreateInput,
  signal: AbortSignal,
): Promise<Started> {
  recordIntent(context, plan, intent);
  let container: Container | undefined;
  try {
    await step("create.intent");
    await mountVolumes(context, intent.volumeMounts);
    container = await context.engine.create(spec, signal);
    await step("create.started");
    const toOwnInit = spec.memory === undefined ? toInit : toFirstInit;
    await initDaemon(container, toOwnInit(context, intent, plan.resolved.build), signal);
    await step("create.told");
    await awaitHealth(container, signal);
    await step("create.healthy");
    const { build } = plan.resolved;
    // In memory it runs already.
    if (spec.memory === undefined) {
      await startTemplateService(context, { container, record: intent, build }, signal);
    }
    signal.throwIfAborted();
    return { container, intent };
  } catch (error) {
    const fault = await toDiskFault(error, context.directory);
    await undoStart(context, intent, container);
    throw toStartFault(fault);
  }
}

/**
 * Goes on with a sandbox that the pool has started; undefined when there is none that fits and
 * works. Its row is the intent: until the start is committed, a crash removes what carries its name.
 */
async function startWarm(
  context: CreateContext,
  input: CreateInput,
  signal: AbortSignal,
): Promise<Started | undefined> {
  const warm = context.pool.take(input);
  if (warm === undefined) return undefined;
  const { container } = warm;
  const { sandboxId: id, bootId } = warm.record;
  const intent = { ...input.intent, sandboxId: id, bootId };
  try {
    await step("claim.taken");
    await container.resume();
    await step("claim.thawed");
    await initDaemon(container, toInit(context, intent, input.plan.resolved.build), signal);
    // The reply comes after the daemon listens to clients.
    await step("claim.healthy");
    const { build } = input.plan.resolved;
    if (!warm.isServing) {
      await startTemplateService(context, { container, record: intent, build }, signal);
    }
    throwIfCanceled(signal);
    return { container, intent };
  } catch (error) {
    await undoStart(context, intent, container);
    throwIfCanceled(signal);
    const { sandboxId } = intent;
    context.log.warn({ op: "pool.claim", sandboxId, err: error }, "warm sandbox did not answer");
    return undefined;
  }
}

/** Goes on from the memory of a template; undefined where there is none, or where it does not start. */
async function startLive(
  context: CreateContext,
  plan: CreatePlan,
  signal: AbortSignal,
): Promise<Started | undefined> {
  const live = await planLive(context, plan);
  if (live === undefined) return undefined;
  const input = toInput(context, live);
  try {
    return await startCold(context, input, signal);
  } catch (error) {
    throwIfCanceled(signal);
    const { sandboxId } = input.intent;
    const op = "sandbox.create";
    context.log.warn({ op, sandboxId, err: error }, "template starts without its memory");
    return undefined;
  }
}

/** The row of a start is its end, too: should it not be written, nothing of the start is left. */
async function commitOrUndo(
  context: Services & Folders,
  plan: CreatePlan,
  { container, intent }: Started,
): Promise<SandboxRecord> {
  try {
    const record = toStarted(context, plan, describeNetwork(intent, container));
    setDeadline(container, record);
    commitStart(context, plan, { container, record });
    return record;
  } catch (error) {
    await undoStart(context, intent, container);
    throw error;
  }
}

/** What is described is what is: where nothing leads outside, no internet is promised. */
function describeNetwork(intent: SandboxRecord, container: Container): SandboxRecord {
  return container.network === "loopback" ? { ...intent, allowsInternet: false } : intent;
}

/** Whether the container was made or not: removes what there is of it, by a retry if need be. */
async function undoStart(
  context: Services & Folders,
  { sandboxId }: SandboxRecord,
  container: Container | undefined,
): Promise<void> {
  try {
    await container?.[Symbol.asyncDispose]();
    await removeTraces(context, sandboxId);
  } catch (error) {
    context.log.error({ op: "sandbox.create", sandboxId, err: error }, "start left traces");
    context.retry(`start of ${sandboxId}`, () => removeTraces(context, sandboxId));
  }
}

function toStarted(context: Services, plan: CreatePlan, intent: SandboxRecord): SandboxRecord {
  const startedAtMs = context.clock.now();
  const endAtMs = expiryOfRun(plan.options.timeoutSeconds, startedAtMs);
  return { ...intent, state: "running", startedAtMs, endAtMs };
}

/** The sandbox runs: from here on it is found again after a crash. */
function commitStart(
  context: Services,
  plan: CreatePlan,
  { container, record }: { readonly container: Container; readonly record: SandboxRecord },
): void {
  context.store.transaction(() => {
    // The row of a pooled sandbox is of the template that it was started for, maybe not of this one.
    requireBuildOf(context, plan, record);
    context.store.sandboxes.put(record);
    const { once } = plan.options;
    if (once !== undefined) keepCreation(context, once, { record, isolation: container.level });
    const template = context.store.templates.get(record.templateId);
    if (template === undefined) return;
    context.store.templates.put({
      ...template,
      spawnCount: template.spawnCount + 1,
      lastSpawnedAtMs: record.startedAtMs,
    });
  });
}
