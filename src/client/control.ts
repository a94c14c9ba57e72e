/** The control API from the caller's side: one method per operation, every reply checked. */

import { createControlCaller, type ControlOptions } from "./control-call.ts";
import { createSandboxRoutes, type SandboxRoutes } from "./control-sandboxes.ts";
import { createTemplateRoutes, type TemplateRoutes } from "./control-templates.ts";
import { createTemplateBuildRoutes, type TemplateBuildRoutes } from "./template-builds.ts";

export interface Control extends SandboxRoutes, TemplateRoutes, TemplateBuildRoutes {}

/** The control API of a service. */
export function createControl(options: ControlOptions): Control {
  const caller = createControlCaller(options);
  return {
    ...createSandboxRoutes(caller),
    ...createTemplateRoutes(caller),
    ...createTemplateBuildRoutes(caller, options),
  };
}
