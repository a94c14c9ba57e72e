/** Every route of the control API, and every operation in a sandbox: only the right credential opens it. */

import { request } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { nameOf } from "../../scripts/openapi-document.ts";
import { createSystemClock } from "../../src/common/clock.ts";
import { ROUTES } from "../../src/control/routes/index.ts";
import { Filesystem } from "../../src/gen/filesystem/filesystem_pb.ts";
import { Process } from "../../src/gen/process/process_pb.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { tellCells } from "../support/run/cells.ts";
import { startTestService, type TestService } from "../support/service.ts";

const MISSING = "i00000000000000000000";

let service: TestService;
let own: SandboxBody;
let other: SandboxBody;
let asleep: SandboxBody;
beforeAll(async () => {
  service = await startTestService();
  own = await service.create();
  other = await service.create();
  asleep = await service.create();
  await service.embedded.sandboxes.pause(asleep.sandboxID, true);
});
afterAll(() => service[Symbol.asyncDispose]());

/** A path of the route that could be anybody's. */
function anyPath(path: string): string {
  return path.replace(/\{sandboxID\}/, MISSING).replaceAll(/\{[^}]+\}|\*$/g, "x");
}

describe.for(ROUTES)("$method $path", (route) => {
  test("R5 answers 401 to every other credential, whatever the body", async (context) => {
    const { store, apiKey } = service.embedded;
    const revoked = createKey(store, createSystemClock(), { name: `revoked ${nameOf(route)}` });
    store.keys.remove(revoked.record.keyId);
    const path = anyPath(route.path);
    const credentials: Record<string, string>[] = [
      {},
      { "x-api-key": "" },
      { "x-api-key": "sk_1" },
      { "x-api-key": `e2b_${"0".repeat(40)}` },
      { "x-api-key": revoked.key },
      { "x-api-key": `${apiKey}, ${apiKey}` },
      { authorization: `Bearer ${apiKey}` },
      { "x-api-key": apiKey.slice(0, -1) },
      { "x-api-key": apiKey.toUpperCase() },
    ];
    const replies = await Promise.all(
      credentials.flatMap((headers) =>
        [path, `${path}?api_key=${apiKey}`].map(async (target) => {
          const { statusCode, body } = await request(`http://localhost${target}`, {
            dispatcher: service.dispatcher,
            method: route.method,
            headers: { "content-type": "application/json", ...headers },
            body: route.method === "GET" ? null : "{ no JSON",
          });
          return { status: statusCode, body: await body.json() };
        }),
      ),
    );
    const expected = { status: 401, body: { code: 401 } };
    for (const reply of replies) expect(reply).toMatchObject(expected);
    tellCells(context, replies.length);
  });
});

const PROCEDURES = [Filesystem, Process].flatMap(({ typeName, methods }) =>
  methods.map((one) => ({ path: `/${typeName}/${one.name}`, isUnary: one.methodKind === "unary" })),
);
const PLAIN = ["/files?path=a", "/metrics", "/envs"].map((path) => ({ path, isUnary: undefined }));

type Entry = (typeof PROCEDURES)[number] | (typeof PLAIN)[number];

/** The status with which an operation of a sandbox answers a nearly empty call. */
async function statusOf(
  { path, isUnary }: Entry,
  sandboxId: string,
  headers: Record<string, string | string[]>,
): Promise<number> {
  const type = isUnary === true ? "application/json" : "application/connect+json";
  const { statusCode, body } = await request(`http://localhost${path}`, {
    dispatcher: service.dispatcher,
    method: isUnary === undefined ? "GET" : "POST",
    headers: {
      "e2b-sandbox-id": sandboxId,
      "e2b-sandbox-port": "49983",
      ...(isUnary !== undefined && { "content-type": type, "connect-protocol-version": "1" }),
      ...headers,
    },
    body: isUnary === undefined ? null : "{}",
  });
  await body.dump();
  return statusCode;
}

test.for([...PROCEDURES, ...PLAIN])(
  "R5 $path in a sandbox asks for the token of this sandbox, and is gone when it is paused",
  async (entry, context) => {
    const token = String(own.envdAccessToken);
    const refused: Record<string, string | string[]>[] = [
      {},
      { "x-access-token": "wrong" },
      { "x-access-token": String(other.envdAccessToken) },
      { "x-access-token": service.embedded.apiKey },
      { "x-api-key": service.embedded.apiKey },
      { "x-access-token": [token, token] },
      { authorization: `Bearer ${token}` },
      { "x-access-token": "" },
      { "x-access-token": token.slice(0, -1) },
      { "x-access-token": token.toUpperCase() },
    ];
    const statuses = await Promise.all(
      refused.map((headers) => statusOf(entry, own.sandboxID, headers)),
    );
    expect(statuses).toEqual(refused.map(() => 401));
    expect(await statusOf(entry, own.sandboxID, { "x-access-token": token })).not.toBe(401);
    const right = { "x-access-token": String(asleep.envdAccessToken) };
    expect(await statusOf(entry, asleep.sandboxID, right)).toBe(502);
    expect(await statusOf(entry, MISSING, right)).toBe(502);
    tellCells(context, refused.length + 3);
  },
);
