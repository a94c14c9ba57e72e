/**
 * A sandbox in which one step of a build runs. No team has it: it is not listed, and its row is an
 * intent, so after a crash the next start removes what carries its name.
 */

import type { DaemonClient } from "../../client/daemon-client.ts";
import { step } from "../../common/steps.ts";
import type { Container } from "../../engine/engine.ts";
import type { AddImageOptions } from "../../images/images.ts";
import type { LoginOptions } from "../../images/registry-login.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { awaitHealth, initDaemon, toInit, toSpec } from "../boot/boot.ts";
import { openDaemon } from "../boot/start-command.ts";
import type { Folders, Limits, Services, Tenant } from "../context.ts";
import { PLAIN_OPTIONS, toStartingRecord, type CreatePlan } from "../create/create-plan.ts";
import { removeTraces } from "../reclaim/discard.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import type { ResolvedTemplate } from "../templates/resolve-template.ts";
import { cacheTemplateId } from "./cache.ts";
import { requireSpace } from "./free-space.ts";

export type StepContext = Services & Tenant & Folders & Limits & BuildRules;

/** Of the login files only builds of the default team make use: they are those of the operator. */
export type BuildImages = Pick<AddImageOptions, "perlDirectory" | "mirrors" | "authFiles"> &
  Pick<LoginOptions, "ecrEndpoint">;

/** What holds for sandboxes of builds alone. */
export interface BuildRules {
  /** How images are fetched; undefined where none are. */
  readonly images?: BuildImages | undefined;
  readonly buildNetwork: {
    readonly allowsInternet: boolean | undefined;
    readonly network: CreatePlan["options"]["network"];
  };
}

export interface StepSandbox extends AsyncDisposable {
  readonly daemon: DaemonClient;
  readonly container: Container;
  readonly record: SandboxRecord;
}

/**
 * Starts one on the layers of a build, with its user, work folder and environment, without its
 * commands.
 * @throws SandboxError unavailable when it does not start; nothing of it is left then.
 */
export async function startStepSandbox(
  context: StepContext,
  resolved: ResolvedTemplate,
  signal: AbortSignal,
): Promise<StepSandbox> {
  await requireSpace(context);
  const plan: CreatePlan = {
    resolved,
    mounts: [],
    options: { ...PLAIN_OPTIONS, ...context.buildNetwork, template: resolved.template.templateId },
  };
  const started = toStartingRecord(context, plan);
  // It holds up no removal of its template, which ends the build.
  const templateId = cacheTemplateId(context);
  const record: SandboxRecord = { ...started, templateId, state: "pooled" };
  context.store.sandboxes.put(record);
  await using stack = new AsyncDisposableStack();
  let container: Container | undefined;
  stack.defer(() => remove(context, record, container));
  container = await context.engine.create(toSpec(context, record, resolved.build), signal);
  await initDaemon(container, toInit(context, started, resolved.build), signal);
  await awaitHealth(container, signal);
  const daemon = stack.use(openDaemon(context, container, record));
  await step("build.started");
  const owned = stack.move();
  return { daemon, container, record, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function remove(
  context: StepContext,
  { sandboxId }: SandboxRecord,
  container: Container | undefined,
): Promise<void> {
  await cleanUpOrRetry(context, `build sandbox ${sandboxId}`, async () => {
    await container?.[Symbol.asyncDispose]();
    await removeTraces(context, sandboxId);
  });
}
