/** What a sandbox is started from, and what is on record of it before it runs. */

import { randomUUID } from "node:crypto";
import { SandboxError } from "../../common/errors.ts";
import type { ContainerSpec } from "../../engine/engine.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { newSandboxId } from "../../wire/address.ts";
import { templateMissing } from "../../wire/messages.ts";
import { limitsOf } from "../builds/build-limits.ts";
import type { Services, Tenant, Limits } from "../context.ts";
import type { CreateOptions } from "../sandbox.ts";
import type { ResolvedTemplate } from "../templates/resolve-template.ts";
import { requireMounts } from "../volumes/volumes.ts";

export interface CreatePlan {
  readonly options: CreateOptions;
  readonly resolved: ResolvedTemplate;
  readonly mounts: SandboxRecord["volumeMounts"];
}

/** A start with its row and its container as they will be; only the name may still change. */
export interface CreateInput {
  readonly plan: CreatePlan;
  readonly intent: SandboxRecord;
  readonly spec: ContainerSpec;
}

/** What a create that says nothing asks for, as for a sandbox of no client. */
export const PLAIN_OPTIONS = {
  timeoutSeconds: 0,
  isSecured: true,
  pausesAtTimeout: false,
  keepsMemory: true,
  resumesOnTraffic: false,
  allowsInternet: undefined,
  network: undefined,
  metadata: undefined,
  environment: {},
  volumeMounts: [],
} as const satisfies Omit<CreateOptions, "template">;

/** The row of a sandbox that is about to be started. */
export function toStartingRecord(
  context: Pick<Services, "clock" | "secrets"> &
    Pick<Tenant, "team" | "owner"> &
    Pick<Limits, "limits">,
  plan: CreatePlan,
): SandboxRecord {
  const { options, resolved } = plan;
  const nowMs = context.clock.now();
  return {
    sandboxId: newSandboxId(),
    owner: context.owner,
    team: context.team,
    templateId: resolved.template.templateId,
    buildId: resolved.build.buildId,
    alias: resolved.template.name?.split("/").at(-1) ?? null,
    state: "starting",
    isSecured: options.isSecured,
    isPrivate: options.network?.allowPublicTraffic === false,
    pausesAtTimeout: options.pausesAtTimeout,
    resumesOnTraffic: options.resumesOnTraffic,
    timeoutSeconds: options.timeoutSeconds,
    keepsMemory: options.keepsMemory,
    hasMemory: true,
    isDaemonUnresponsive: false,
    pauseReason: null,
    leftMs: 0,
    bootId: randomUUID(),
    startedAtMs: nowMs,
    endAtMs: nowMs,
    limits: limitsOf(context.limits, resolved.build),
    allowsInternet: options.allowsInternet ?? null,
    network: options.network ?? null,
    metadata: options.metadata ?? null,
    volumeMounts: plan.mounts,
    mcpServers: [...(options.mcpServers ?? [])],
    memory: null,
    sealedEnvironment: context.secrets.seal(JSON.stringify(options.environment)),
  };
}

/**
 * Writes the row of a start. From then on nothing that the sandbox stands on can be removed; what was
 * removed since it was found is missed here.
 * @throws SandboxError not_found without its build, invalid_argument without one of its volumes.
 */
export function recordIntent(
  context: Pick<Services, "store">,
  plan: CreatePlan,
  intent: SandboxRecord,
): void {
  const { store } = context;
  const { mounts } = plan;
  store.transaction(() => {
    requireBuildOf(context, plan, intent);
    requireMounts(context, mounts);
    store.sandboxes.put(intent);
  });
}

/** @throws SandboxError not_found when the build of a start was removed. */
export function requireBuildOf(
  { store }: Pick<Services, "store">,
  { options }: CreatePlan,
  { buildId }: SandboxRecord,
): void {
  if (store.builds.get(buildId) !== undefined) return;
  throw new SandboxError("not_found", templateMissing(options.template));
}
