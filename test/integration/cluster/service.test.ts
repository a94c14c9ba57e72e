/** A front of a cluster by the suite of all services; what Pods lack is refused. */

import { describe } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { describeService } from "../../suites/service.ts";
import { POD_KEY, startPodWorld } from "../../support/pod-front.ts";

describe("a front of a cluster", () => {
  describeService(
    async () => {
      await using stack = new AsyncDisposableStack();
      const world = stack.use(await startPodWorld());
      const { url } = await world.start();
      const options = { url, sandboxUrl: url, apiKey: POD_KEY };
      const service = stack.use(createService(options));
      const stranger = stack.use(createService({ ...options, apiKey: `e2b_${"0".repeat(40)}` }));
      const owned = stack.move();
      return { service, stranger, [Symbol.asyncDispose]: () => owned.disposeAsync() };
    },
    { canPause: false },
  );
});
