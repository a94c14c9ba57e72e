/** Keeps the memory of the sandbox in which the commands of a template proved themselves. */

import { SandboxError } from "../../common/errors.ts";
import type { BuildRecord } from "../../store/store.ts";
import { writeBuild } from "../builds/builds.ts";
import { liveTemplateId } from "../builds/live-builds.ts";
import { findMemoryFault, memoryOf, SAVE_FAILED } from "../builds/memory.ts";
import type { BuildLog } from "./build-log.ts";
import type { StepContext, StepSandbox } from "./step-sandbox.ts";

/**
 * Makes the live build of a template's build, where the sandbox can have one. Without it the commands
 * run in each new sandbox, so a failure fails nothing.
 */
export async function keepLive(
  context: StepContext,
  sandbox: StepSandbox,
  { build, log }: { readonly build: BuildRecord; readonly log: BuildLog },
): Promise<void> {
  if (findMemoryFault(sandbox, build, true) !== undefined) return;
  const { buildId, setup } = build;
  try {
    await writeBuild(context, sandbox, {
      templateId: liveTemplateId(buildId),
      form: "disk",
      keepsMemory: true,
      commit(ready) {
        if (!memoryOf(ready).isCarried) throw new SandboxError("unavailable", SAVE_FAILED);
        context.store.builds.put({ ...ready, setup });
      },
    });
    log.note("finalize", "kept the memory: new sandboxes begin with the running start command");
  } catch (error) {
    context.log.warn({ op: "template.build", buildId, err: error }, "memory was not kept");
    log.note("finalize", "the memory was not kept: the start command runs in each new sandbox");
  }
}
