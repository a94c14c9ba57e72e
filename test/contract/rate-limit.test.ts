/** Too many creates are told when to come again, and reads go on. */

import { expect, test } from "vitest";
import { startTestService } from "../support/service.ts";

const create = (templateID: string) =>
  ({ method: "POST", path: "/v2/sandboxes", body: { templateID } }) as const;

test("a loop of creates ends in 429 with Retry-After in whole seconds", async () => {
  await using service = await startTestService();
  const replies = await Promise.all(
    Array.from({ length: 400 }, () => service.call(create("none"))),
  );
  const refused = replies.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused[0]).toMatchObject({
    headers: { "retry-after": "1", "ratelimit-limit": "200", "ratelimit-remaining": "0" },
    body: { code: 429, message: "Rate limit exceeded" },
  });
  expect((await service.call({ path: "/v2/sandboxes" })).status).toBe(200);
});

test("too many sandboxes at once are no reason to try again soon", async () => {
  await using service = await startTestService({ maxSandboxes: 1 });
  await service.create();
  const { status, headers } = await service.call(create("base"));
  expect([status, headers["retry-after"]]).toEqual([429, undefined]);
});
