/** What the control API said about the access to sandboxes, so that no call asks for it again. */

import { hasErrorCode } from "../common/errors.ts";
import type { SandboxBody } from "../wire/control.ts";
import type { Access, OnTimeout } from "./access.ts";
import type { Control } from "./control.ts";
import type { ServiceTime } from "./service-time.ts";

/** Beyond it the access of the least recently used sandbox is dropped, and asked for again. */
const MAX_KNOWN_SANDBOXES = 4_096;

export interface AccessTable {
  get(sandboxId: string): Access | undefined;
  set(sandboxId: string, access: Access): void;
  delete(sandboxId: string): void;
}

/** The access of the most recently used sandboxes. */
export function createAccessTable(): AccessTable {
  const table = new Map<string, Access>();
  return {
    get: (sandboxId) => table.get(sandboxId),
    set(sandboxId, access) {
      table.delete(sandboxId);
      table.set(sandboxId, access);
      const oldest = table.size > MAX_KNOWN_SANDBOXES ? table.keys().next().value : undefined;
      if (oldest !== undefined) table.delete(oldest);
    },
    delete: (sandboxId) => void table.delete(sandboxId),
  };
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
    const { sandboxID, envdAccessToken, domain } = body;
    const token = envdAccessToken ?? undefined;
    known.set(sandboxID, { token, domain: domain ?? undefined, expiresAtMs, onTimeout });
  }
  function forgetExpiry(sandboxId: string): void {
    const access = known.get(sandboxId);
    if (access !== undefined) known.set(sandboxId, { ...access, expiresAtMs: undefined });
  }
  async function get(sandboxId: string, signal: AbortSignal) {
    const body = await control.get(sandboxId, signal).catch((error: unknown) => {
      if (hasErrorCode(error, "not_found")) known.delete(sandboxId);
      throw error;
    });
    const endAtMs = Date.parse(body.endAt);
    known.set(body.sandboxID, {
      token: body.envdAccessToken ?? undefined,
      domain: body.domain ?? undefined,
      // The life of a paused sandbox does not run out.
      expiresAtMs: Number.isNaN(endAtMs) || body.state === "paused" ? undefined : endAtMs,
      onTimeout: body.lifecycle?.onTimeout ?? known.get(body.sandboxID)?.onTimeout,
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
    async connect(sandboxId, timeoutSeconds, signal) {
      const reply = await control.connect(sandboxId, timeoutSeconds, signal);
      remember(reply.sandbox, timeoutSeconds, known.get(reply.sandbox.sandboxID)?.onTimeout);
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
