/** Tools where no sandbox can run: listed as ever, each says how to come by a service. */

import { SandboxError } from "../common/errors.ts";
import type { Tool } from "./tool.ts";

/** The same tools; a call of any of them fails with the reason and the ways on. */
export function withoutService(
  tools: readonly Tool[],
  why: { readonly reason: string; readonly hint: string },
): readonly Tool[] {
  return tools.map((tool) => ({
    ...tool,
    handler: async () => {
      throw new SandboxError("failed_precondition", why.reason, { hint: why.hint });
    },
  }));
}
