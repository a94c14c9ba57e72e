/**
 * A create that may be sent again, to any front. The record of its key names the sandbox before that
 * is committed as a running one, so whatever front goes on after a crash knows which sandbox the key
 * made: one, or none.
 */

import { randomUUID } from "node:crypto";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import {
  creationUnderWay,
  KEPT_MS,
  requireSameRequest,
  toCreated,
  toStarted,
} from "../../sandboxes/creation-record.ts";
import type { CreationKey, StartedSandbox } from "../../sandboxes/sandbox.ts";
import { isConflict } from "../api/api.ts";
import type { ClusterContext } from "../context.ts";
import { createPodSandbox, type CreateRequest } from "./create-pod.ts";
import {
  addCreation,
  changeCreation,
  creationName,
  madeAtMs,
  readCreation,
  removeCreation,
  type Creation,
  type KnownCreation,
  type OpenCreation,
} from "./creations.ts";

/** Changes of a record by others that a create waits for. */
const MAX_ROUNDS = 4;

/**
 * As `createPodSandbox`; a request that was answered with a sandbox is answered so again.
 * @throws SandboxError also invalid_argument for a key of another request, failed_precondition while
 * the first is under way.
 */
export async function createPodOnce(
  context: ClusterContext,
  request: CreateRequest,
  signal: AbortSignal,
): Promise<StartedSandbox> {
  const { once } = request.options;
  if (once === undefined) return createPodSandbox(context, request, signal);
  const opened = await openCreation(context, { team: request.team, once }, signal);
  if (opened.creation.sandbox !== null) {
    const { sandbox } = opened.creation;
    return toStarted(context.cluster, { sandbox });
  }
  const creation = toOpenCreation(context, opened);
  let sandbox: StartedSandbox;
  try {
    await step("creation.opened");
    sandbox = await createPodSandbox(context, { ...request, creation }, signal);
  } catch (error) {
    await abandonOrRetry(context, opened.creation);
    throw creation.isLost ? creationUnderWay() : error;
  }
  // From here on the sandbox runs: it stays that of its key, whatever fails.
  const keep = async () => keepCreation(context, opened.creation);
  try {
    await keep();
  } catch (error) {
    context.retry(`key of ${sandbox.sandboxId}`, keep);
    throw error;
  }
  await step("creation.kept");
  return sandbox;
}

/** A new record, or the one that is kept under the key. */
async function openCreation(
  context: ClusterContext,
  { team, once }: { readonly team: string; readonly once: CreationKey },
  signal: AbortSignal,
): Promise<KnownCreation> {
  const { api, clock, fronts } = context;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const nowMs = clock.now();
    const facts = { ...once, team, owner: fronts.name, createdAtMs: nowMs };
    const own = { ...facts, attempt: randomUUID(), sandbox: null, isKept: false };
    try {
      return await addCreation(api, own, signal);
    } catch (error) {
      if (!hasErrorCode(error, "already_exists")) {
        // It may have been written all the same.
        await abandonOrRetry(context, own);
        throw error;
      }
    }
    const stored = await readCreation(api, creationName({ team, key: once.key }));
    if (stored === undefined) continue;
    const { metadata, creation } = stored;
    if (creation === undefined || isOutdated({ metadata, creation }, nowMs)) {
      await removeCreation(api, stored);
      continue;
    }
    requireSameRequest(once, creation.fingerprint);
    if (creation.isKept) return { metadata, creation };
    break;
  }
  throw creationUnderWay();
}

/** Too old, or of no use because another program wrote it. */
function isOutdated(stored: KnownCreation, nowMs: number): boolean {
  const { isKept, sandbox } = stored.creation;
  return isKept && (sandbox === null || madeAtMs(stored) < nowMs - KEPT_MS);
}

function toOpenCreation(context: ClusterContext, { creation }: KnownCreation): OpenCreation {
  let isLost = false;
  return {
    get isLost() {
      return isLost;
    },
    async bind(record, level) {
      const sandbox = toCreated(record, level);
      let isBound = false;
      await whileOwn(context, creation, async (stored) => {
        await changeCreation(context.api, stored, { sandbox });
        isBound = true;
        return true;
      });
      isLost = !isBound;
      if (isLost) throw creationUnderWay();
      await step("creation.bound");
    },
  };
}

/** Idempotent; one that another front has kept or removed meanwhile is left so. */
async function keepCreation(context: ClusterContext, opened: Creation): Promise<void> {
  await whileOwn(context, opened, async (stored) => {
    if (stored.creation.isKept) return true;
    await changeCreation(context.api, stored, { isKept: true });
    return true;
  });
}

/** After a create that failed: the key is free again. */
async function abandonOrRetry(context: ClusterContext, opened: Creation): Promise<void> {
  const abandon = async () =>
    whileOwn(context, opened, async (stored) => removeCreation(context.api, stored));
  try {
    await abandon();
  } catch (error) {
    context.log.warn({ op: "sandbox.create", err: error }, "key of a failed create was left");
    context.retry("key of a failed create", abandon);
  }
}

/** Does the work on the newest state of the record of this request, again while it is false or finds a conflict. */
async function whileOwn(
  { api }: ClusterContext,
  opened: Creation,
  work: (stored: KnownCreation) => Promise<boolean>,
): Promise<void> {
  const name = creationName(opened);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const stored = await readCreation(api, name);
    if (stored?.creation?.attempt !== opened.attempt) return;
    const { metadata, creation } = stored;
    try {
      if (await work({ metadata, creation })) return;
    } catch (error) {
      if (hasErrorCode(error, "not_found")) return;
      if (!isConflict(error)) throw error;
    }
  }
  throw new SandboxError("unavailable", `ConfigMap ${name} stays busy`);
}
