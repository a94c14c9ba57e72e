/** From the body of a create request to the options of the sandbox registry. */

import { SandboxError } from "../common/errors.ts";
import type { CreateOptions } from "../sandboxes/sandbox.ts";
import type { CreateRequest } from "../wire/control.ts";
import { checkNetwork } from "./network.ts";

/** Of a sandbox; they are kept for its log. */
const MAX_SERVERS = 64;
const MAX_SERVER_NAME = 128;

interface Defaults {
  readonly timeoutSeconds: number;
  readonly isSecured: boolean;
  readonly templateWaitMs: number;
}

/**
 * Checks what no schema can say.
 * @throws SandboxError invalid_argument for a contradiction, permission_denied for what is
 * not offered.
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
    network: body.network && {
      ...body.network,
      allowPublicTraffic: body.network.allowPublicTraffic ?? undefined,
    },
    metadata: body.metadata,
    environment: body.envVars ?? {},
    volumeMounts: body.volumeMounts ?? [],
    mcpServers: toServerNames(body.mcp ?? {}),
    ...(body.memory !== undefined && { restoresMemory: body.memory }),
    ...(body.isolation !== undefined && { isolation: body.isolation }),
  };
}

/** Cut to what is still a name. */
function toServerNames(mcp: Readonly<Record<string, unknown>>): string[] {
  const names = Object.keys(mcp).slice(0, MAX_SERVERS);
  return names.map((name) => name.slice(0, MAX_SERVER_NAME));
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
