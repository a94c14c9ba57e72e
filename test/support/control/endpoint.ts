/** Endpoints of sandboxes that do not exist, for what is decided before a connection is made. */

import { SandboxError } from "../../../src/common/errors.ts";
import type { Endpoint } from "../../../src/sandboxes/run.ts";

/** An endpoint on whose ports nothing listens. */
export function closedEndpoint(facts: Partial<Endpoint> = {}): Endpoint {
  return {
    httpsPorts: [],
    servicePorts: [],
    sandboxId: "i0123456789abcdefghij",
    accessToken: undefined,
    trafficToken: undefined,
    maskedHost: undefined,
    ended: new AbortController().signal,
    dial: async (port) => {
      throw new SandboxError("unavailable", `nothing listens on port ${port}`);
    },
    watch: { wait: () => () => undefined },
    ...facts,
  };
}
