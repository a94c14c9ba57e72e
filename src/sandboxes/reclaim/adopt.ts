/** Finds the sandboxes again that an earlier process of this instance left running. */

import { readdir } from "node:fs/promises";
import { uptime } from "node:os";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { Container } from "../../engine/engine.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { sandboxMissing } from "../../wire/messages.ts";
import type { SandboxContext, Services, Folders, History, Registry } from "../context.ts";
import { egressOf } from "../egress.ts";
import { addEntry, followEntry, setDeadline } from "../registry.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import { mountVolumes } from "../volumes/volumes.ts";
import { discard, removeTraces } from "./discard.ts";
import { isOver, lostReason } from "./lost-reason.ts";

/**
 * Adopts what still runs; whatever else this instance left is removed with its traces. One that can
 * be neither now keeps nothing else from its start: it is tried again.
 */
export async function adoptSandboxes(context: SandboxContext): Promise<void> {
  for (const record of context.store.sandboxes.ofOwner(context.owner)) {
    const { sandboxId } = record;
    const find = createFinder(context, sandboxId);
    try {
      if (!(await adopt(context, sandboxId, find))) await discardOrLater(context, record);
    } catch (error) {
      context.log.error({ op: "sandbox.adopt", sandboxId, err: error }, "sandbox is not adopted");
      context.retry(`adoption of ${sandboxId}`, () => adoptLate(context, sandboxId, find));
    }
  }
  const known = new Set(context.store.sandboxes.ofOwner(context.owner).map((row) => row.sandboxId));
  for (const name of await readdir(context.directory)) {
    // A database that was restored knows less than the machine.
    if (known.has(name)) continue;
    await cleanUpOrRetry(context, `traces of ${name}`, () => removeTraces(context, name));
  }
  await mountAgain(context);
}

/** Containers have their volumes still; here they are mounted so that their growth is seen. */
async function mountAgain(context: SandboxContext): Promise<void> {
  const all = [...context.entries.values()].flatMap(({ record }) => record.volumeMounts);
  const attempt = async (mounts: SandboxRecord["volumeMounts"]): Promise<unknown> =>
    mountVolumes(context, mounts).catch((error: unknown) => error);
  if ((await attempt(all)) === undefined) return;
  // One that cannot be mounted must not keep the others.
  for (const mount of all) {
    const error = await attempt([mount]);
    if (error === undefined) continue;
    const { volumeId } = mount;
    context.log.error({ op: "sandbox.adopt", volumeId, err: error }, "volume is not mounted");
  }
}

/** Its time to live goes on meanwhile: one that is over by now is not begun again. */
async function adoptLate(context: SandboxContext, sandboxId: string, find: Finder): Promise<void> {
  const record = context.store.sandboxes.get(sandboxId);
  const isGone = record === undefined || context.entries.has(sandboxId);
  if (isGone || isOver(record, context.clock.now())) context.unadopted.delete(sandboxId);
  if (isGone) return;
  if (isOver(record, context.clock.now())) return discardLost(context, record);
  if (!(await adopt(context, sandboxId, find))) {
    // A client may have ended it meanwhile.
    const left = context.store.sandboxes.get(sandboxId);
    return left === undefined ? undefined : discardLost(context, left);
  }
  context.rescheduleExpiry();
  await cleanUpOrRetry(context, `volumes of ${sandboxId}`, () =>
    mountVolumes(context, record.volumeMounts),
  );
}

function discardLost(context: Services & Folders & History & Registry, record: SandboxRecord) {
  const nowMs = context.clock.now();
  return discard(
    context,
    record,
    lostReason(record, { nowMs, bootedAtMs: nowMs - uptime() * 1000 }),
  );
}

/**
 * Ends one that is not adopted yet; an attempt to do so that is under way finds its row ended.
 * @throws SandboxError not_found when there is none, internal when not everything could be removed: the
 * next attempt goes on with that.
 */
export async function endUnadopted(context: SandboxContext, sandboxId: string): Promise<void> {
  const record = findKept(context, sandboxId);
  if (record?.team !== context.team || record.owner !== context.owner) {
    throw new SandboxError("not_found", sandboxMissing(sandboxId));
  }
  context.store.sandboxes.put({ ...record, state: "ending", endReason: "request" });
  context.unadopted.delete(sandboxId);
  await discard(context, record, "request");
}

/** The row of one that is to be found again. */
function findKept(
  { store }: Pick<Services, "store">,
  sandboxId: string,
): SandboxRecord | undefined {
  const record = store.sandboxes.get(sandboxId);
  return record?.state === "running" || record?.state === "paused" ? record : undefined;
}

type Finder = () => Promise<Container | undefined>;

/** Looks for a container once for all attempts, because each handle watches for its end. */
function createFinder(
  { engine, directory }: Pick<Services, "engine"> & Pick<Folders, "directory">,
  sandboxId: string,
): Finder {
  let found: Container | undefined;
  return async () => {
    if (found !== undefined) return found;
    found = await engine.adopt(sandboxId, join(directory, sandboxId));
    void found?.exit.then(() => (found = undefined));
    return found;
  };
}

/** One that cannot be removed now must not keep the others from being found. */
async function discardOrLater(
  context: Services & Folders & History & Registry,
  record: SandboxRecord,
): Promise<void> {
  const { sandboxId } = record;
  try {
    await discardLost(context, record);
  } catch (error) {
    context.log.error({ op: "sandbox.discard", sandboxId, err: error }, "sandbox left traces");
    context.retry(`end of ${sandboxId}`, () => discardLost(context, record));
  }
}

async function adopt(
  context: Services & Folders & History & Registry,
  sandboxId: string,
  find: Finder,
): Promise<boolean> {
  try {
    const isAdopted = await tryAdopt(context, sandboxId, find);
    context.unadopted.delete(sandboxId);
    return isAdopted;
  } catch (error) {
    const record = findKept(context, sandboxId);
    // A client may have ended it meanwhile.
    if (record !== undefined) context.unadopted.set(sandboxId, { team: record.team, fault: error });
    throw error;
  }
}

async function tryAdopt(
  context: Services & Folders & History & Registry,
  sandboxId: string,
  find: Finder,
): Promise<boolean> {
  if (findKept(context, sandboxId) === undefined) return false;
  const container = await find();
  if (container === undefined) return false;
  await step("adopt.found");
  // A client may have ended it meanwhile.
  const record = findKept(context, sandboxId);
  if (record === undefined) return false;
  const found = await settle(context, container, record);
  if (findKept(context, sandboxId) === undefined) return false;
  restoreDeadline(context, container, found);
  const entry = addEntry(context, container, found);
  if (found.state === "running") followEntry(context, entry, { isInitialized: false });
  context.log.info({ op: "sandbox.adopt", sandboxId, outcome: "ok" }, "sandbox.adopt ok");
  return true;
}

/** The process that left may have died between act and record: the record decides if it can. */
async function settle(
  context: Services,
  container: Container,
  record: SandboxRecord,
): Promise<SandboxRecord> {
  if (container.isHalted) {
    const hasMemory = container.savedMemory !== undefined;
    if (record.state === "paused" && record.hasMemory === hasMemory) return record;
    const paused = { ...record, state: "paused" as const, hasMemory };
    const found = { ...paused, endAtMs: Math.min(record.endAtMs, context.clock.now()) };
    context.store.sandboxes.put(found);
    return found;
  }
  if (record.state === "paused" && !record.hasMemory) {
    await container.halt();
    return record;
  }
  const found = await restoreEgress(context, container, record);
  if (record.state === "running") await container.resume();
  else await container.pause();
  return found;
}

/** An earlier version left none; a fault here is told and ends nothing. */
function restoreDeadline(context: Services, container: Container, record: SandboxRecord): void {
  try {
    setDeadline(container, record);
  } catch (error) {
    const { sandboxId } = record;
    context.log.error({ op: "sandbox.adopt", sandboxId, err: error }, "deadline was not written");
  }
}

/**
 * Where links and rules outlived the process that left, the program for hostnames did not, and rules
 * may be those of a change that it had begun. Without that program what is sent to such names is
 * refused, and without a link everything is, so a fault here is told and ends nothing.
 */
async function restoreEgress(
  context: Services,
  container: Container,
  record: SandboxRecord,
): Promise<SandboxRecord> {
  const egress = egressOf(record);
  const owes = record.owesEgress === true;
  const isThere = egress === "none" || (container.hasLastingEgress && egress.domains.length === 0);
  if (isThere && !owes) return record;
  try {
    await container.setEgress(egress);
    // A client may have ended it meanwhile: its row must not come back.
    const present = findKept(context, record.sandboxId);
    if (!owes || present === undefined) return record;
    const found = { ...present, owesEgress: false };
    context.store.sandboxes.put(found);
    return found;
  } catch (error) {
    const { sandboxId } = record;
    const fields = { op: "sandbox.adopt", sandboxId, outcome: "error", err: error };
    context.log.error(fields, "the internet is out of reach");
    return record;
  }
}
