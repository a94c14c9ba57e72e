/** Requests of the protocol whose parameters are malformed. */

import { expect, test } from "vitest";
import { z } from "zod";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";

const ROWS = [
  {
    method: "logging/setLevel",
    params: { level: "loud" },
    told: /: params\.level: Invalid option/,
  },
  { method: "resources/read", params: {}, told: /: params\.uri: Invalid input: expected string/ },
  { method: "resources/subscribe", params: { uri: 5 }, told: /: params\.uri: Invalid input/ },
  { method: "resources/list", params: { cursor: 5 }, told: /: params\.cursor: Invalid input/ },
  { method: "tools/list", params: { cursor: 5 }, told: /: params\.cursor: Invalid input/ },
  { method: "completion/complete", params: {}, told: /: params\.ref: Invalid input/ },
] as const;

test.for(ROWS)("malformed parameters of $method are no internal error", async (row) => {
  await using remote = await startForeignHost((_, response) => response.destroy());
  const { method, params, told } = row;
  const asking = remote.host.client.request({ method, params }, z.unknown());
  await expect(asking).rejects.toMatchObject({
    code: -32_602,
    message: expect.stringMatching(told),
  });
});
