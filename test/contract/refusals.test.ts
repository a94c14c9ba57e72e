/** Every refusal says whether it helps to repeat it, and the words of those that programs tell apart. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { SandboxError, diskFullError } from "../../src/common/errors.ts";
import { toFault } from "../../src/control/reply.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { retryHeaders } from "../../src/wire/retry.ts";
import { createHeldEngine } from "../support/engine/held-engine.ts";
import { startReplyServer } from "../support/hostile/reply-server.ts";
import { startTestService, type Reply, type TestService } from "../support/service.ts";

const held = createHeldEngine();
let service: TestService;
let sandbox: SandboxBody;
beforeAll(async () => {
  service = await startTestService({
    engine: held.engine,
    maxSandboxes: 3,
    tcp: [{ host: "127.0.0.1", port: 0 }],
  });
  sandbox = await service.create();
});
afterAll(() => service[Symbol.asyncDispose]());

function create() {
  return service.call({ method: "POST", path: "/v2/sandboxes", body: { templateID: "base" } });
}

function told({ status, headers, body }: Reply) {
  return { status, retry: headers["should-retry"], after: headers["retry-after"], body };
}

test("what is the same the next time says false", async () => {
  const missing = { sandboxID: "i00000000000000000000" };
  const replies = [
    await service.call({ path: "/sandboxes/No!" }),
    await service.call({ path: "/sandboxes", headers: { "x-api-key": "e2b_00" } }),
    await service.call({ path: `/sandboxes/${missing.sandboxID}` }),
    await service.call({ path: "/secrets" }),
    await service.enter(missing, { path: "/health" }),
    await service.enter({ ...sandbox, port: 9 }, { path: "/" }),
    await service.call({ path: "/health", headers: { host: "evil.test" } }),
    await service.call({ path: "/sandboxes", headers: { origin: "https://evil.test" } }),
  ];
  expect(replies.map((reply) => [reply.status, reply.headers["should-retry"]])).toEqual(
    [400, 401, 404, 501, 502, 502, 400, 403].map((status) => [status, "false"]),
  );
});

test("a success does not say anything", async () => {
  expect((await service.call({ path: "/sandboxes" })).headers["should-retry"]).toBeUndefined();
});

test("a service at capacity, and a start that failed, may be asked again", async () => {
  held.failStarts(1);
  expect(told(await create())).toMatchObject({
    status: 503,
    retry: "true",
    body: { code: 503, error_code: "sandbox_create_failed" },
  });
  const others = [await service.create(), await service.create()];
  expect(told(await create())).toMatchObject({
    status: 429,
    retry: "true",
    after: undefined,
    body: { code: 429, error_code: "sandbox_capacity_unavailable" },
  });
  for (const other of others) await service.embedded.sandboxes.kill(other.sandboxID);
});

test.for([
  "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
  "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
  "no HTTP at all\r\n\r\n",
])("a daemon that answers %j is a fault of its sandbox, of which nothing is left", async (head) => {
  await using daemon = await startReplyServer();
  daemon.answer((asked) =>
    asked === "" ? undefined : { pieces: [Buffer.from(head)], isEarly: false, ending: "end" },
  );
  const before = (await service.call({ path: "/sandboxes" })).body;
  {
    using _ = held.replaceDaemons(daemon.port);
    expect(told(await create())).toMatchObject({
      status: 503,
      retry: "true",
      body: { code: 503, error_code: "sandbox_create_failed" },
    });
  }
  expect((await service.call({ path: "/sandboxes" })).body).toEqual(before);
});

test("a full disk and a fault of the service are no reason to repeat", () => {
  const { status, body } = toFault(diskFullError("disk", undefined, "sandbox_create_refused"));
  expect([status, body.error_code, retryHeaders(status)]).toEqual([
    507,
    "sandbox_create_refused",
    { "should-retry": "false" },
  ]);
  expect(toFault(new Error("any")).body).toEqual({
    code: 500,
    message: "internal error",
    error_code: "internal_server_error",
  });
});

test("a full disk stays one under an error of ours", () => {
  const refused = new SandboxError("resource_exhausted", "no start", {
    cause: diskFullError("disk"),
    word: "sandbox_create_refused",
  });
  expect(toFault(refused)).toMatchObject({ status: 507, body: { code: 507 } });
});

test("domain is that of the service, with its port", async () => {
  const domain = `sandbox.localhost:${service.embedded.ports[0]}`;
  expect(sandbox.domain).toBe(domain);
  const detail = await service.call({ path: `/sandboxes/${sandbox.sandboxID}` });
  expect(detail.body).toMatchObject({ domain });
});

test("of five resumes at once each gets the sandbox; a later one is told that it runs", async () => {
  const { sandboxes } = service.embedded;
  const { sandboxID } = sandbox;
  const resume = async (keepsMemory = true) =>
    sandboxes.resume(sandboxID, { timeoutSeconds: 60, keepsMemory });
  await sandboxes.pause(sandboxID, true);
  const resumed = await Promise.all([1, 2, 3, 4, 5].map(() => resume()));
  for (const one of resumed) expect(one).toEqual(resumed[0]);
  const late = { method: "POST", path: `/sandboxes/${sandboxID}/resume` } as const;
  expect((await service.call(late)).status).toBe(409);
  await sandboxes.pause(sandboxID, true);
  const [first, fromDisk] = await Promise.allSettled([resume(), resume(false)]);
  expect([first.status, fromDisk]).toEqual([
    "fulfilled",
    { status: "rejected", reason: expect.objectContaining({ code: "failed_precondition" }) },
  ]);
});
