/** Finds the sandboxes again that an earlier process of this instance left running. */

import { join } from "node:path";
import { errorText } from "../common/errors.ts";
import type { Container } from "../engine/engine.ts";
import type { SandboxRecord } from "../store/store.ts";
import type { Domain } from "./domain.ts";
import { egressOf } from "./egress.ts";
import { releaseForkBuild } from "./fork-builds.ts";
import { admitMember, followMember } from "./member.ts";

/** Adopts what still runs; every other row of this instance is removed with its traces. */
export async function adoptSandboxes(domain: Domain): Promise<void> {
  for (const record of domain.store.sandboxes.ofOwner(domain.owner)) {
    if (!(await adopt(domain, record))) await discard(domain, record);
  }
}

async function adopt(domain: Domain, record: SandboxRecord): Promise<boolean> {
  const { sandboxId, state } = record;
  if (state !== "running" && state !== "paused") return false;
  const directory = join(domain.directory, sandboxId);
  const container = await domain.engine.adopt(sandboxId, directory);
  if (container === undefined) return false;
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
    const entry = { op: "sandbox.adopt", sandboxId, outcome: "error", error: errorText(error) };
    domain.log.error(entry, "names of hosts are out of reach");
  }
}

async function discard(domain: Domain, record: SandboxRecord): Promise<void> {
  const { sandboxId } = record;
  await domain.engine.remove(sandboxId, join(domain.directory, sandboxId));
  domain.store.sandboxes.remove(sandboxId);
  await releaseForkBuild(domain, record.buildId);
  // Nobody was ever told of a pooled one: it has no log.
  if (record.state !== "pooled") {
    domain.logBook.note(record, "Sandbox stopped", { kill_reason: "host_restart" });
  }
  domain.log.info({ op: "sandbox.discard", sandboxId, outcome: "ok" }, "sandbox.discard ok");
}
