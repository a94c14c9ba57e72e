/** Creates whose idempotency key is refused. */

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
