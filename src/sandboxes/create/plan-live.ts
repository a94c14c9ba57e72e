/** Which creates of a template go on from the memory of its commands. */

import { hasCommands } from "../boot/start-command.ts";
import { liveTemplateId } from "../builds/live-builds.ts";
import { planMemory } from "../builds/memory.ts";
import type { SandboxContext } from "../context.ts";
import type { CreatePlan } from "./create-plan.ts";

/** The same start from the live build; undefined where there is none that it may go on from. */
export async function planLive(
  context: Pick<SandboxContext, "store" | "team" | "engine" | "layersDirectory">,
  plan: CreatePlan,
): Promise<CreatePlan | undefined> {
  const { resolved, options, mounts } = plan;
  if (!hasCommands(resolved.build)) return undefined;
  const build = context.store.builds
    .ofTemplate(liveTemplateId(resolved.build.buildId))
    .find(({ status }) => status === "ready");
  if (build === undefined) return undefined;
  const { restoresMemory: keepsMemory = true, isolation } = options;
  if (planMemory(context, { build, keepsMemory, mounts })?.folder === undefined) return undefined;
  // Where sandboxes share the kernel, only those that ask for one of their own get it.
  const asked = isolation ?? resolved.build.setup?.isolation;
  const level = asked ?? (await context.engine.probe()).level;
  return level === "gvisor" ? { ...plan, resolved: { ...resolved, build } } : undefined;
}
