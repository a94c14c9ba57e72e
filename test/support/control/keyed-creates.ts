/** Creates whose idempotency key is refused. */

import type { StepName } from "../../../src/common/steps.ts";
import { atStep } from "../at-step.ts";
import type { TestService } from "../service.ts";

const BASE = { templateID: "base" };

/** One whose key belongs to another request. */
export async function createOfOtherKey(service: TestService, path: string) {
  const headers = { "idempotency-key": "other-request" };
  await service.call({ method: "POST", path, body: { ...BASE, timeout: 60 }, headers });
  return { call: { path, body: BASE, headers } };
}

/** One that is sent again while it is under way. */
export function createUnderWay(service: TestService, path: string) {
  return underWay(service, "create.intent", { path, body: BASE });
}

/** The same of a volume. */
export function volumeUnderWay(service: TestService) {
  return underWay(service, "volume.recorded", { path: "/volumes", body: { name: "under-way" } });
}

/** The first one stands still at the step until `finish`. */
async function underWay(
  service: TestService,
  at: StepName,
  request: { path: string; body: object },
) {
  const call = { ...request, headers: { "idempotency-key": `under-way-${request.path.length}` } };
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const making = atStep(at, async () => {
    reached.resolve();
    await released.promise;
  });
  const first = service.call({ ...call, method: "POST" });
  await reached.promise;
  return {
    call,
    async finish() {
      released.resolve();
      await first;
      making[Symbol.dispose]();
    },
  };
}
