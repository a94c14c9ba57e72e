/** Finds the sandboxes again that an earlier process of this instance left running. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { step } from "../common/steps.ts";
import type { Container } from "../engine/engine.ts";
import type { SandboxRecord } from "../store/store.ts";
import { discard, removeTraces } from "./discard.ts";
import type { Domain } from "./domain.ts";
import { egressOf } from "./egress.ts";
import { admitMember, followMember } from "./registry-entry.ts";
import { cleanUpOrRetry } from "./retry-cleanup.ts";

/** Adopts what still runs; whatever else this instance left is removed with its traces. */
export async function adoptSandboxes(domain: Domain): Promise<void> {
  for (const record of domain.store.sandboxes.ofOwner(domain.owner)) {
    if (!(await adopt(domain, record))) await discardOrLater(domain, record);
  }
  const known = new Set(domain.store.sandboxes.ofOwner(domain.owner).map((row) => row.sandboxId));
  for (const name of await readdir(domain.directory)) {
    // A database that was restored knows less than the machine.
    if (known.has(name)) continue;
    await cleanUpOrRetry(domain, `traces of ${name}`, () => removeTraces(domain, name));
  }
}

/** One that cannot be removed now must not keep the others from being found. */
async function discardOrLater(domain: Domain, record: SandboxRecord): Promise<void> {
  const { sandboxId } = record;
  try {
    await discard(domain, record, "host_restart");
  } catch (error) {
    domain.log.error({ op: "sandbox.discard", sandboxId, err: error }, "sandbox left traces");
    domain.retry(`end of ${sandboxId}`, () => discard(domain, record, "host_restart"));
  }
}

async function adopt(domain: Domain, record: SandboxRecord): Promise<boolean> {
  const { sandboxId, state } = record;
  if (state !== "running" && state !== "paused") return false;
  const directory = join(domain.directory, sandboxId);
  const container = await domain.engine.adopt(sandboxId, directory);
  if (container === undefined) return false;
  await step("adopt.found");
  const found = await settle(domain, container, record);
  const member = admitMember(domain, container, found);
  if (found.state === "running") followMember(domain, member, { isInitialized: false });
  domain.log.info({ op: "sandbox.adopt", sandboxId, outcome: "ok" }, "sandbox.adopt ok");
  return true;
}

/** The process that left may have died between act and record: the record decides if it can. */
async function settle(
  domain: Domain,
  container: Container,
  record: SandboxRecord,
): Promise<SandboxRecord> {
  if (container.isHalted) {
    if (record.state === "paused" && !record.hasMemory) return record;
    const paused = { ...record, state: "paused" as const, hasMemory: false };
    const found = { ...paused, endAtMs: Math.min(record.endAtMs, domain.clock.now()) };
    domain.store.sandboxes.put(found);
    return found;
  }
  if (record.state === "paused" && !record.hasMemory) {
    await container.halt();
    return record;
  }
  await restoreNames(domain, container, record);
  if (record.state === "running") await container.resume();
  else await container.pause();
  return record;
}

/**
 * Links and rules outlived the process that left, the program for names of hosts did not. Without
 * it what is sent to such names is refused, so a fault here is told and ends nothing.
 */
async function restoreNames(
  domain: Domain,
  container: Container,
  record: SandboxRecord,
): Promise<void> {
  const egress = egressOf(record);
  if (egress === "none" || egress.domains.length === 0) return;
  try {
    await container.setEgress(egress);
  } catch (error) {
    const { sandboxId } = record;
    const entry = { op: "sandbox.adopt", sandboxId, outcome: "error", err: error };
    domain.log.error(entry, "names of hosts are out of reach");
  }
}
