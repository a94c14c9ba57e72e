/** What is under way with a sandbox: of several fronts one begins it, the others wait for its end. */

import { randomUUID } from "node:crypto";
import { anySignal } from "../../common/any-signal.ts";
import { SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { sandboxCannotBe, sandboxMissing } from "../../wire/messages.ts";
import { isConflict } from "../api/api.ts";
import type { ClusterContext } from "../context.ts";
import {
  changeRecord,
  isKnown,
  readRecord,
  touchRecord,
  type KnownSandbox,
  type SandboxChange,
  type StoredSandbox,
} from "../records.ts";

/** Changes of a record by others that a change waits for. */
const MAX_ROUNDS = 8;
/** Longer than a start may take; a pause may take longer, and its front goes on with it. */
const MAX_WAIT_MS = 60_000;

export interface Subject {
  readonly team: string;
  readonly sandboxId: string;
}

/** The newest record of one that runs or is paused. @throws SandboxError not_found */
async function requireRecord(
  { api }: Pick<ClusterContext, "api">,
  { team, sandboxId }: Subject,
): Promise<KnownSandbox> {
  const stored = await readRecord(api, sandboxId);
  const isThere =
    isKnown(stored) &&
    stored.record.team === team &&
    ["running", "paused"].includes(stored.record.state);
  if (!isThere) throw new SandboxError("not_found", sandboxMissing(sandboxId));
  return stored;
}

/** What a change begins from; undefined when there is nothing to do. @throws where it is refused. */
export type Decide = (stored: KnownSandbox, hasWaited: boolean) => SandboxChange | undefined;

/** A change that this front carries out, unlike any other one of it. */
export function newChange(
  { fronts }: Pick<ClusterContext, "fronts">,
  change: Pick<SandboxChange, "kind" | "reason">,
): SandboxChange {
  return { ...change, owner: fronts.name, attempt: randomUUID() };
}

/** Whether there is something to do once nothing is under way: nothing is begun. @throws as `beginChange` */
export async function foresee(
  context: ClusterContext,
  subject: Subject,
  decide: Decide,
): Promise<boolean> {
  let hasWaited = false;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const stored = await requireRecord(context, subject);
    context.records.apply(stored);
    if (stored.change === undefined) return decide(stored, hasWaited) !== undefined;
    hasWaited = true;
    await awaitEnd(context, subject.sandboxId, stored.change);
  }
  throw staysBusy(subject);
}

function staysBusy({ sandboxId }: Subject): SandboxError {
  return new SandboxError("unavailable", `sandbox ${sandboxId} stays busy`);
}

/**
 * Waits until nothing is under way, and then begins a change in the record. Returns the record that was
 * decided about, and the change that was begun, if any.
 * @throws SandboxError not_found, failed_precondition when others do not come to an end
 */
export async function beginChange(
  context: ClusterContext,
  subject: Subject,
  decide: Decide,
): Promise<{ readonly stored: KnownSandbox; readonly change?: SandboxChange }> {
  let hasWaited = false;
  let refused: SandboxChange | undefined;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const stored = await requireRecord(context, subject);
    context.records.apply(stored);
    // One that was carried out twice, as by a proxy, is refused by what it did itself.
    if (refused !== undefined && isOwn(stored, refused)) return { stored, change: refused };
    if (stored.change !== undefined) {
      hasWaited = true;
      await awaitEnd(context, subject.sandboxId, stored.change);
      continue;
    }
    const change = decide(stored, hasWaited);
    if (change === undefined) return { stored };
    try {
      const begun = await changeRecord(context.api, stored, { change });
      context.records.apply(begun);
      return { stored: begun, change };
    } catch (error) {
      if (isConflict(error)) {
        refused = change;
        continue;
      }
      // It may have been written all the same, or will be.
      await abandon(context, stored, change);
      throw error;
    }
  }
  throw staysBusy(subject);
}

/** Takes back a change of which nothing was done, and which a record of this version may still get. */
async function abandon(
  context: ClusterContext,
  { metadata: { resourceVersion }, record: { sandboxId } }: KnownSandbox,
  change: SandboxChange,
): Promise<void> {
  const { api, records } = context;
  const work = async () => {
    const stored = await readRecord(api, sandboxId);
    if (!isKnown(stored)) return;
    if (isOwn(stored, change)) {
      records.apply(await changeRecord(api, stored, { change: null }));
    } else if (stored.metadata.resourceVersion === resourceVersion) {
      records.apply(await touchRecord(api, stored));
    }
  };
  try {
    await work();
  } catch (error) {
    const fields = { op: "sandbox.change", sandboxId, kind: change.kind, err: error };
    context.log.warn(fields, "change is taken back later");
    context.retry(`change of ${sandboxId}`, work);
  }
}

function findEnd(stored: StoredSandbox | undefined): string | undefined {
  return stored?.change === undefined ? "over" : undefined;
}

async function awaitEnd(
  { records, closing }: ClusterContext,
  sandboxId: string,
  { kind }: SandboxChange,
): Promise<void> {
  const late = signalAfter(MAX_WAIT_MS);
  try {
    await records.until(sandboxId, findEnd, anySignal([closing, late]));
  } catch (error) {
    if (!late.aborted) throw error;
    throw inChange(sandboxId, kind);
  }
}

/** The refusal of what cannot wait. */
export function inChange(sandboxId: string, kind: SandboxChange["kind"]): SandboxError {
  return new SandboxError("failed_precondition", sandboxCannotBe("changed", sandboxId, kind));
}

/** Whether a record still has this change of this front. */
export function isOwn({ change }: KnownSandbox, { kind, owner, attempt }: SandboxChange): boolean {
  return change?.kind === kind && change.owner === owner && change.attempt === attempt;
}
