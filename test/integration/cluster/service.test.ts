/** A front of a cluster by the suite of all services; what Pods lack is refused. */

import { describe } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { describeService } from "../../suites/service.ts";
import { POD_KEY, startPodWorld } from "../../support/cluster/pod-front.ts";
import { startSnapshotWorld } from "../../support/cluster/snapshot-world.ts";

function connectTo(url: string) {
  const options = { url, sandboxUrl: url, apiKey: POD_KEY };
  const service = createService(options);
  const stranger = createService({ ...options, apiKey: `e2b_${"0".repeat(40)}` });
  return { service, stranger };
}

describe("a front of a cluster", () => {
  describeService(
    async () => {
      await using stack = new AsyncDisposableStack();
      const world = stack.use(await startPodWorld());
      const { url } = await world.start();
      const { service, stranger } = connectTo(url);
      stack.use(service);
      stack.use(stranger);
      const owned = stack.move();
      return { service, stranger, [Symbol.asyncDispose]: () => owned.disposeAsync() };
    },
    { canPause: false },
  );
});

describe("a front of a cluster with a registry for snapshots", () => {
  describeService(async () => {
    await using stack = new AsyncDisposableStack();
    const { url } = stack.use(await startSnapshotWorld());
    const { service, stranger } = connectTo(url);
    stack.use(service);
    stack.use(stranger);
    const owned = stack.move();
    return { service, stranger, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  });
});
