/** Creates a sandbox: intent on disk, container, daemon, and only then the answer. */

import { SandboxError, toSandboxError, type ErrorCode } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import type { Container } from "../engine/engine.ts";
import { isBindFault } from "../engine/oci/bind-paths.ts";
import type { SandboxRecord } from "../store/store.ts";
import { MESSAGES } from "../wire/messages.ts";
import { awaitHealth, initDaemon, toInit, toSpec } from "./boot.ts";
import { toIntent, type CreatePlan, type CreateInput } from "./create-plan.ts";
import { removeTraces } from "./discard.ts";
import { requireDiskSpace, toDiskFault } from "./disk-space.ts";
import type { Domain } from "./domain.ts";
import { admitMember, followMember } from "./registry-entry.ts";
import { toSandbox, type CreateOptions, type Sandbox } from "./sandbox.ts";
import type { Reservation } from "./team-quota.ts";
import { checkTimeout, expiryAfter } from "./timeout.ts";
import { resolveMounts } from "./volumes.ts";

/**
 * Starts a sandbox; it answers when this resolves. After a fault nothing of it is left.
 * @throws SandboxError not_found for an unknown template, resource_exhausted when there are too
 * many, invalid_argument for a faulty option, unavailable when it cannot be started.
 */
export async function createSandbox(
  domain: Domain,
  options: CreateOptions,
  signal: AbortSignal,
): Promise<Sandbox> {
  const bounded = AbortSignal.any([signal, domain.closing]);
  const resolved = await domain.templates.resolve(options.template, bounded);
  checkTimeout(options.timeoutSeconds);
  if (options.network?.allowPublicTraffic === false && !options.isSecured) {
    throw new SandboxError("invalid_argument", MESSAGES.publicTrafficNeedsToken);
  }
  const mounts = resolveMounts(domain, options.volumeMounts);
  return startSandbox(domain, { options, resolved, mounts }, bounded);
}

/**
 * Starts what was checked and resolved before.
 * @throws SandboxError resource_exhausted when there are too many, unavailable when it fails.
 */
async function startSandbox(
  domain: Domain,
  plan: CreatePlan,
  signal: AbortSignal,
): Promise<Sandbox> {
  using place = domain.places.take(domain.team);
  return await startInPlace(domain, plan, { place, signal });
}

/** Where a start has its place, and what ends it before it is over. */
interface StartTerms {
  readonly place: Reservation;
  readonly signal: AbortSignal;
}

/**
 * As `startSandbox`, in a place that was taken before. The place is freed when the sandbox counts by
 * itself; after a fault the caller frees it.
 */
export async function startInPlace(
  domain: Domain,
  plan: CreatePlan,
  terms: StartTerms,
): Promise<Sandbox> {
  const beganMs = performance.now();
  await requireDiskSpace(domain.directory);
  const sandbox = await start(domain, plan, terms);
  const { sandboxId } = sandbox;
  const durationMs = Math.round(performance.now() - beganMs);
  const entry = { op: "sandbox.create", sandboxId, durationMs, outcome: "ok" };
  domain.log.info(entry, "sandbox.create ok");
  return sandbox;
}

async function start(domain: Domain, plan: CreatePlan, terms: StartTerms): Promise<Sandbox> {
  const { place, signal } = terms;
  const intent = toIntent(domain, plan);
  const wish: CreateInput = { plan, intent, spec: toSpec(domain, intent, plan.resolved.build) };
  const started =
    (await startWarm(domain, wish, signal)) ?? (await startCold(domain, wish, signal));
  const { container } = started;
  const record = await commitOrUndo(domain, plan, started);
  const member = admitMember(domain, container, record);
  place[Symbol.dispose]();
  followMember(domain, member, { isInitialized: true });
  const { mcpServers } = record;
  const fields = mcpServers.length === 0 ? {} : { mcp_servers: mcpServers.join(",") };
  domain.logBook.note(record, "Sandbox created", fields);
  if (record.allowsInternet !== intent.allowsInternet) {
    domain.logBook.note(record, "This machine gives sandboxes no way to the internet");
  }
  domain.noteExpiry();
  await step("create.committed");
  return toSandbox({ record, container }, domain.secrets);
}

/** A container whose daemon answers, and what is on record of it until it is committed. */
interface Started {
  readonly container: Container;
  readonly intent: SandboxRecord;
}

async function startCold(
  domain: Domain,
  { plan, intent, spec }: CreateInput,
  signal: AbortSignal,
): Promise<Started> {
  domain.store.sandboxes.put(intent);
  let container: Container | undefined;
  try {
    await step("create.intent");
    container = await domain.engine.create(spec, signal);
    await step("create.started");
    await initDaemon(container, toInit(domain, intent, plan.resolved.build), signal);
    await step("create.told");
    await awaitHealth(container, signal);
    await step("create.healthy");
    signal.throwIfAborted();
    return { container, intent };
  } catch (error) {
    const fault = await toDiskFault(error, domain.directory);
    await undoStart(domain, intent, container);
    throw toStartFault(fault);
  }
}

/**
 * Goes on with a sandbox that the pool has started; undefined when there is none that fits and
 * works. Its row is the intent: until the start is committed, a crash removes what carries its name.
 */
async function startWarm(
  domain: Domain,
  wish: CreateInput,
  signal: AbortSignal,
): Promise<Started | undefined> {
  const warm = domain.takeWarm(wish);
  if (warm === undefined) return undefined;
  const { container } = warm;
  const intent = { ...wish.intent, sandboxId: warm.record.sandboxId };
  try {
    await step("claim.taken");
    await container.resume();
    await step("claim.thawed");
    await initDaemon(container, toInit(domain, intent, wish.plan.resolved.build), signal);
    // The reply comes after the daemon listens to clients.
    await step("claim.healthy");
    signal.throwIfAborted();
    return { container, intent };
  } catch (error) {
    await undoStart(domain, intent, container);
    signal.throwIfAborted();
    const { sandboxId } = intent;
    domain.log.warn({ op: "pool.claim", sandboxId, err: error }, "warm sandbox did not answer");
    return undefined;
  }
}

/** The row of a start is its end, too: should it not be written, nothing of the start is left. */
async function commitOrUndo(
  domain: Domain,
  plan: CreatePlan,
  { container, intent }: Started,
): Promise<SandboxRecord> {
  try {
    return commitStart(domain, plan, describeNetwork(intent, container));
  } catch (error) {
    await undoStart(domain, intent, container);
    throw error;
  }
}

/** What is described is what is: where nothing leads outside, no internet is promised. */
function describeNetwork(intent: SandboxRecord, container: Container): SandboxRecord {
  return container.network === "loopback" ? { ...intent, allowsInternet: false } : intent;
}

/** Whether the container was made or not: nothing of it is left, now or a little later. */
async function undoStart(
  domain: Domain,
  { sandboxId }: SandboxRecord,
  container: Container | undefined,
): Promise<void> {
  try {
    await container?.[Symbol.asyncDispose]();
    await removeTraces(domain, sandboxId);
  } catch (error) {
    domain.log.error({ op: "sandbox.create", sandboxId, err: error }, "start left traces");
    domain.retry(`start of ${sandboxId}`, () => removeTraces(domain, sandboxId));
  }
}

/** What the engine finds wrong with our own request is no fault of the client, but for mount paths. */
function toStartFault(error: unknown): SandboxError {
  const fault = toSandboxError(error, "sandbox start");
  if (isBindFault(fault)) return fault;
  if (!OWN_FAULTS.has(fault.code)) return fault;
  return new SandboxError("unavailable", "sandbox could not be started", { cause: fault });
}

const OWN_FAULTS: ReadonlySet<ErrorCode> = new Set([
  "already_exists",
  "failed_precondition",
  "invalid_argument",
  "not_found",
]);

/** The sandbox runs: from here on it is found again after a crash. */
function commitStart(domain: Domain, plan: CreatePlan, intent: SandboxRecord): SandboxRecord {
  const startedAtMs = domain.clock.now();
  const endAtMs = expiryAfter(domain, plan.options.timeoutSeconds, startedAtMs);
  const record: SandboxRecord = { ...intent, state: "running", startedAtMs, endAtMs };
  domain.store.transaction(() => {
    domain.store.sandboxes.put(record);
    const template = domain.store.templates.get(record.templateId);
    if (template === undefined) return;
    domain.store.templates.put({
      ...template,
      spawnCount: template.spawnCount + 1,
      lastSpawnedAtMs: startedAtMs,
    });
  });
  return record;
}
