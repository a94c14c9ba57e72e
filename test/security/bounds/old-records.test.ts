/** Sandboxes of an older home, whose metadata exceed what a create may have now. */

import { expect, test } from "vitest";
import type { CreateOptions } from "../../../src/sandboxes/sandbox.ts";
import { PLAIN_CREATE } from "../../support/control/plain-create.ts";
import { startTestService } from "../../support/service.ts";

const MIB = 1_048_576;

function options(bytes: number, mark: string): CreateOptions {
  return { ...PLAIN_CREATE, metadata: { mark, rest: "x".repeat(bytes) } };
}

test("E44 lists work and show everything with records of 15 MB", async () => {
  await using service = await startTestService();
  const { sandboxes } = service.embedded;
  const ids: string[] = [];
  for (const [index, bytes] of [15 * MIB, 100, 15 * MIB].entries()) {
    const made = await sandboxes.create(options(bytes, `m${index}`), AbortSignal.timeout(20_000));
    ids.unshift(made.sandboxId);
  }
  for (const path of ["/sandboxes", "/v2/sandboxes", "/v2/sandboxes?limit=100"]) {
    const { status, text, headers } = await service.call({ path });
    const listed = [...text.matchAll(/"sandboxID":"([^"]+)"/g)].map(([, id]) => id);
    expect([status, listed, text.length < MIB]).toEqual([200, ids, true]);
    expect(headers["x-next-token"]).toBeUndefined();
    expect(text).toContain('"mark":"m1"');
  }
  // They are found by their metadata, and told whole by their detail.
  const found = await service.call({ path: "/v2/sandboxes?metadata=mark%3Dm2" });
  expect(found.text).toContain(String(ids[0]));
  const detail = await service.call({ path: `/sandboxes/${ids[0]}` });
  expect([detail.status, detail.text.length > 15 * MIB]).toEqual([200, true]);
});
