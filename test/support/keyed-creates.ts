/** Creates whose idempotency key is refused. */

import { atStep } from "./at-step.ts";
import type { TestService } from "./service.ts";

const BASE = { templateID: "base" };

/** One whose key belongs to another request. */
export async function createOfOtherKey(service: TestService, path: string) {
  const headers = { "idempotency-key": "other-request" };
  await service.call({ method: "POST", path, body: { ...BASE, timeout: 60 }, headers });
  return { call: { path, body: BASE, headers } };
}

/** One that is sent again while it is under way. */
export function createUnderWay(service: TestService, path: string) {
  const headers = { "idempotency-key": `under-way-${path.length}` };
  const first = service.call({ method: "POST", path, body: BASE, headers });
  return {
    call: { path, body: BASE, headers },
    async finish() {
      await first;
    },
  };
}

/** The same of a volume, whose making stands still until then. */
export async function volumeUnderWay(service: TestService) {
  const path = "/volumes";
  const body = { name: "under-way" };
  const headers = { "idempotency-key": "volume-under-way" };
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const making = atStep("volume.recorded", async () => {
    reached.resolve();
    await released.promise;
  });
  const first = service.call({ method: "POST", path, body, headers });
  await reached.promise;
  return {
    call: { path, body, headers },
    async finish() {
      released.resolve();
      await first;
      making[Symbol.dispose]();
    },
  };
}
