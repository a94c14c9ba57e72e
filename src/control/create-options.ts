/** From the body of a create request to what the room of sandboxes is asked for. */

import { SandboxError } from "../common/errors.ts";
import type { CreateOptions } from "../sandboxes/sandbox.ts";
import type { CreateRequest } from "../wire/control.ts";
import { checkNetwork } from "./network.ts";

interface Defaults {
  readonly timeoutSeconds: number;
  readonly isSecured: boolean;
}

/**
 * Checks what no schema can say.
 * @throws SandboxError invalid_argument for a contradiction, permission_denied or unimplemented
 * for what is not offered.
 */
export function toCreateOptions(body: CreateRequest, defaults: Defaults): CreateOptions {
  const pausesAtTimeout = body.autoPause ?? false;
  const resumesOnTraffic = body.autoResume?.enabled ?? false;
  if (body.autoPauseMemory === false) checkFilesOnlyPause({ pausesAtTimeout, resumesOnTraffic });
  if (body.iam !== undefined) {
    refuse("Sandbox IAM workload tokens are not available for your team.");
  }
  if (body.network !== undefined) checkNetwork(body.network);
  return {
    template: body.templateID,
    ...defaults,
    pausesAtTimeout,
    keepsMemory: body.autoPauseMemory ?? true,
    resumesOnTraffic,
    allowsInternet: body.allow_internet_access,
    network: body.network,
    metadata: body.metadata,
    environment: body.envVars ?? {},
    volumeMounts: body.volumeMounts ?? [],
  };
}

function checkFilesOnlyPause(policy: {
  readonly pausesAtTimeout: boolean;
  readonly resumesOnTraffic: boolean;
}): void {
  if (!policy.pausesAtTimeout) refuse("autoPauseMemory=false only applies when autoPause is true.");
  if (policy.resumesOnTraffic) {
    refuse("autoPauseMemory=false (filesystem-only auto-pause) cannot be combined with autoResume");
  }
}

function refuse(message: string): never {
  throw new SandboxError("invalid_argument", message);
}
