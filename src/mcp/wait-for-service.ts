/** Tools whose service may not stand yet: listed as ever, each call waits for it. */

import type { Tool } from "./tool.ts";

/** The same tools; a call fails as `ready` does where there is no service. */
export function whenReady(tools: readonly Tool[], ready: () => Promise<void>): readonly Tool[] {
  return tools.map((tool) => ({
    ...tool,
    async handler(input, context) {
      await ready();
      return tool.handler(input, context);
    },
  }));
}
