/** The keys of a sandbox that needs none and runs. */

import type { AccessSource } from "../../../src/client/access.ts";

export const OPEN_ACCESS: AccessSource = {
  sandboxId: "i1",
  current: () => ({
    token: undefined,
    domain: undefined,
    expiresAtMs: undefined,
    onTimeout: undefined,
  }),
  refresh: async () => false,
  isRunning: async () => true,
};
