/** The stored outcome of a create with an idempotency key. */

import { SandboxError } from "../common/errors.ts";
import type { IsolationLevel } from "../engine/engine.ts";
import type { CreationRecord, SandboxRecord } from "../store/store.ts";
import type { Registry, Services, Tenant } from "./context.ts";
import type { CreationKey, StartedSandbox } from "./sandbox.ts";
import { tokensOf } from "./secrets.ts";

/** How long a key stands for one request. */
export const KEPT_MS = 86_400_000;
/** Keys of a team; beyond this number the oldest ones are removed early. */
export const MAX_KEPT = 10_000;
const RETRY_SECONDS = 1;

/**
 * The sandbox that the key made, as it was told then; undefined when it made none.
 * @throws SandboxError as `requireSameRequest`.
 */
export function findCreation(
  context: Services & Tenant,
  once: CreationKey,
): StartedSandbox | undefined {
  const nowMs = context.clock.now();
  const sinceMs = nowMs - KEPT_MS;
  context.store.creations.rebase(nowMs, sinceMs);
  const known = context.store.creations.get({ team: context.team, key: once.key }, sinceMs);
  if (known === undefined) return undefined;
  requireSameRequest(once, known.fingerprint);
  return toStarted(context, known);
}

/**
 * Keeps the key with its sandbox; only inside the transaction that commits the sandbox.
 * @throws SandboxError failed_precondition when another service of the home was first.
 */
export function keepCreation(
  { store, clock }: Services,
  once: CreationKey,
  { record, isolation }: { readonly record: SandboxRecord; readonly isolation: IsolationLevel },
): void {
  const nowMs = clock.now();
  const isNew = store.creations.add(
    { ...once, team: record.team, createdAtMs: nowMs, sandbox: toCreated(record, isolation) },
    { sinceMs: nowMs - KEPT_MS, most: MAX_KEPT },
  );
  if (!isNew) throw creationUnderWay();
}

/** What the reply of a create says, without its tokens. */
export function toCreated(
  record: SandboxRecord,
  isolation: IsolationLevel,
): CreationRecord["sandbox"] {
  const { sandboxId, templateId, alias, isSecured, isPrivate, allowsInternet, memory } = record;
  return {
    sandboxId,
    templateId,
    alias,
    isolation,
    isSecured,
    isPrivate,
    allowsInternet,
    memory,
  };
}

/** The tokens follow from the identifier, and none of them is stored. */
export function toStarted(
  { secrets }: Pick<Services, "secrets">,
  { sandbox }: Pick<CreationRecord, "sandbox">,
): StartedSandbox {
  const { sandboxId, templateId, alias, isolation } = sandbox;
  return {
    sandboxId,
    templateId,
    alias: alias ?? undefined,
    isolation,
    ...tokensOf(sandbox, secrets),
    allowsInternet: sandbox.allowsInternet ?? undefined,
    memory: sandbox.memory ?? undefined,
  };
}

/** @throws SandboxError invalid_argument when the key belongs to another request. */
export function requireSameRequest({ key, fingerprint }: CreationKey, known: string): void {
  if (fingerprint === known) return;
  const message = `Idempotency-Key ${key} belongs to another request`;
  throw new SandboxError("invalid_argument", message, { word: "idempotency_request_mismatch" });
}

/**
 * Does what a key was sent for, under a name of its own.
 * @throws SandboxError as `requireSameRequest`, and failed_precondition while it is done already.
 */
export async function whileActive<T>(
  { activeCreates }: Pick<Registry, "activeCreates">,
  once: CreationKey & { readonly name: string },
  create: () => Promise<T>,
): Promise<T> {
  const { name, fingerprint } = once;
  const running = activeCreates.get(name);
  if (running !== undefined) {
    requireSameRequest(once, running);
    throw creationUnderWay();
  }
  activeCreates.set(name, fingerprint);
  try {
    return await create();
  } finally {
    activeCreates.delete(name);
  }
}

export function creationUnderWay(): SandboxError {
  return new SandboxError(
    "failed_precondition",
    "a request with the same Idempotency-Key is under way",
    { word: "idempotency_in_progress", retryAfterSeconds: RETRY_SECONDS },
  );
}
