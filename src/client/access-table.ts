/** What the control API said about the access to sandboxes, so that no call asks for it again. */

import type { Clock } from "../common/clock.ts";
import { hasErrorCode } from "../common/errors.ts";
import { signalAfter } from "../common/late-signal.ts";
import { parseSandboxId } from "../wire/address.ts";
import type { SandboxBody } from "../wire/control.ts";
import type { Access, OnTimeout } from "./access.ts";
import type { Control } from "./control.ts";
import type { ServiceTime } from "./service-time.ts";

/** Beyond it the access of the least recently used sandbox is dropped, and asked for again. */
const MAX_KNOWN_SANDBOXES = 4_096;

/** Other clients of the service move an expiry; one that was told longer ago is asked for again. */
const MAX_AGE_MS = 10_000;
/** The same of one that has passed: the sandbox was resumed, or is about to end. */
const MAX_PASSED_AGE_MS = 1_000;
/** A service that takes longer keeps no call waiting; its expiry is not known then. */
const LOOK_TIMEOUT_MS = 2_000;

export interface AccessTable {
  get(sandboxId: string): Access | undefined;
  /** Milliseconds since it was set; undefined for an unknown sandbox. */
  ageMs(sandboxId: string): number | undefined;
  set(sandboxId: string, access: Access): void;
  delete(sandboxId: string): void;
}

/** The access of the most recently used sandboxes. */
export function createAccessTable(clock: Pick<Clock, "elapsed">): AccessTable {
  const table = new Map<string, { readonly access: Access; readonly atMs: number }>();
  return {
    get: (sandboxId) => table.get(sandboxId)?.access,
    ageMs(sandboxId) {
      const known = table.get(sandboxId);
      return known && clock.elapsed() - known.atMs;
    },
    set(sandboxId, access) {
      table.delete(sandboxId);
      table.set(sandboxId, { access, atMs: clock.elapsed() });
      const oldest = table.size > MAX_KNOWN_SANDBOXES ? table.keys().next().value : undefined;
      if (oldest !== undefined) table.delete(oldest);
    },
    delete: (sandboxId) => void table.delete(sandboxId),
  };
}

/** Asks again for a known sandbox whose expiry was told too long ago or has passed; never rejects. */
export async function renewExpiry(
  sandboxId: string,
  sources: { readonly control: Control; readonly known: AccessTable; readonly nowMs: number },
): Promise<void> {
  const { control, known, nowMs } = sources;
  const access = known.get(sandboxId);
  if (access === undefined) return;
  const { expiresAtMs } = access;
  const isOver = expiresAtMs !== undefined && expiresAtMs <= nowMs;
  if ((known.ageMs(sandboxId) ?? 0) < (isOver ? MAX_PASSED_AGE_MS : MAX_AGE_MS)) return;
  const without = { ...access, expiresAtMs: undefined };
  const meanwhile = isOver ? without : access;
  // Calls beside this one do not ask, too.
  known.set(sandboxId, meanwhile);
  try {
    await control.get(sandboxId, signalAfter(LOOK_TIMEOUT_MS));
  } catch {
    // Other calls may have told more by now, also that it is gone.
    if (known.get(sandboxId) === meanwhile) known.set(sandboxId, without);
  }
}

/** The control API. What its replies say about access is kept in the table. */
export function rememberAccess(control: Control, known: AccessTable, time: ServiceTime): Control {
  function remember(
    body: SandboxBody,
    timeoutSeconds: number | undefined,
    onTimeout: OnTimeout | undefined,
  ): void {
    const expiresAtMs =
      timeoutSeconds === undefined ? undefined : time.now() + timeoutSeconds * 1_000;
    const { sandboxID } = body;
    known.set(sandboxID, { ...toAccess(body, onTimeout, known.get(sandboxID)), expiresAtMs });
  }
  function forgetExpiry(sandboxId: string): void {
    const access = known.get(sandboxId);
    if (access !== undefined) known.set(sandboxId, { ...access, expiresAtMs: undefined });
  }
  async function get(sandboxId: string, signal: AbortSignal) {
    const id = parseSandboxId(sandboxId) ?? sandboxId;
    const before = known.get(id);
    const body = await control.get(sandboxId, signal).catch((error: unknown) => {
      if (hasErrorCode(error, "not_found")) known.delete(sandboxId);
      throw error;
    });
    // An order that has ended meanwhile is newer than the reply.
    if (known.get(id) !== before) return body;
    const endAtMs = Date.parse(body.endAt);
    known.set(id, {
      ...toAccess(body, body.lifecycle?.onTimeout, before),
      // The life of a paused sandbox does not run out.
      expiresAtMs: Number.isNaN(endAtMs) || body.state === "paused" ? undefined : endAtMs,
    });
    return body;
  }
  return {
    ...control,
    get,
    async create(request, signal, waitSeconds) {
      const body = await control.create(request, signal, waitSeconds);
      remember(body, request.timeout, request.autoPause === true ? "pause" : "kill");
      return body;
    },
    async connect(sandboxId, request, signal) {
      const reply = await control.connect(sandboxId, request, signal);
      remember(reply.sandbox, request.timeout, undefined);
      // One that ran keeps its end where that is later, and another client may have moved it.
      if (!reply.wasResumed) await get(sandboxId, signal).catch(() => forgetExpiry(sandboxId));
      return reply;
    },
    async setTimeout(sandboxId, timeoutSeconds, signal) {
      await control.setTimeout(sandboxId, timeoutSeconds, signal);
      // The service may clamp the timeout.
      forgetExpiry(sandboxId);
    },
    async pause(sandboxId, keepsMemory, signal) {
      const reply = await control.pause(sandboxId, keepsMemory, signal);
      forgetExpiry(sandboxId);
      return reply;
    },
    async fork(sandboxId, request, signal) {
      const results = await control.fork(sandboxId, request, signal);
      for (const { sandbox } of results) {
        if (sandbox !== undefined) remember(sandbox, request.timeout, undefined);
      }
      return results;
    },
    async kill(sandboxId, signal) {
      const wasThere = await control.kill(sandboxId, signal);
      known.delete(sandboxId);
      return wasThere;
    },
  };
}

/** What a reply says, and what it does not say as before: services may say it at the create alone. */
function toAccess(
  { envdAccessToken, domain }: Pick<SandboxBody, "envdAccessToken" | "domain">,
  onTimeout: OnTimeout | undefined,
  before: Access | undefined,
): Omit<Access, "expiresAtMs"> {
  return {
    token: envdAccessToken ?? before?.token,
    domain: domain ?? before?.domain,
    onTimeout: onTimeout ?? before?.onTimeout,
  };
}
