/** Every route of the control API: with the right key each documented status, with any other 401. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createOpenApi, documentedStatuses, nameOf } from "../../src/control/openapi.ts";
import { ROUTES } from "../../src/control/routes/index.ts";
import { Filesystem } from "../../src/gen/filesystem/filesystem_pb.ts";
import { Process } from "../../src/gen/process/process_pb.ts";
import { createKey, revokeKeys } from "../../src/sandboxes/keys.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { createLayerEngine } from "../support/layer-engine.ts";
import { startTestService, type Call, type TestService } from "../support/service.ts";

const DOCUMENT = resolve(import.meta.dirname, "../../docs/openapi.json");
const MISSING = "i00000000000000000000";

let service: TestService;
let own: SandboxBody;
let other: SandboxBody;
let asleep: SandboxBody;
beforeAll(async () => {
  service = await startTestService({ engine: createLayerEngine(), maxSandboxes: 50 });
  own = await service.create();
  other = await service.create();
  asleep = await service.create();
  await service.embedded.sandboxes.pause(asleep.sandboxID, true);
});
afterAll(() => service[Symbol.asyncDispose]());

type Method = NonNullable<Call["method"]>;
/** What makes a route answer with a status: the last part of its call, made ready. */
type Row = () => Promise<Pick<Call, "path" | "body">>;

/** One that many rows share. */
async function running(): Promise<string> {
  return own.sandboxID;
}

async function fresh(): Promise<string> {
  return (await service.create()).sandboxID;
}

async function paused(): Promise<string> {
  const sandboxId = await fresh();
  await service.embedded.sandboxes.pause(sandboxId, true);
  return sandboxId;
}

async function snapshot(): Promise<string> {
  return (await service.embedded.sandboxes.snapshot(await running(), undefined)).snapshotId;
}

async function volume(name: string): Promise<string> {
  return (await service.embedded.sandboxes.createVolume(name)).volumeId;
}

/** A call that names a sandbox. */
function on(sandbox: () => Promise<string>, rest: string, body?: unknown): Row {
  return async () => ({
    path: `/sandboxes/${await sandbox()}${rest}`,
    ...(body !== undefined && { body }),
  });
}

function onV2(sandbox: () => Promise<string>, rest: string): Row {
  return async () => ({ path: `/v2/sandboxes/${await sandbox()}${rest}` });
}

function plain(path: string, body?: unknown): Row {
  return async () => ({ path, ...(body !== undefined && { body }) });
}

const TEMPLATE = { templateID: "base" };

const ROWS: Readonly<Record<string, Readonly<Record<number, Row>>>> = {
  "POST /sandboxes": { 201: plain("/sandboxes", TEMPLATE) },
  "POST /v2/sandboxes": { 201: plain("/v2/sandboxes", TEMPLATE) },
  "GET /sandboxes": { 200: plain("/sandboxes") },
  "GET /v2/sandboxes": { 200: plain("/v2/sandboxes?state=running,paused") },
  "GET /sandboxes/metrics": { 200: plain(`/sandboxes/metrics?sandbox_ids=${MISSING}`) },
  "GET /sandboxes/{sandboxID}": { 200: on(running, "") },
  "DELETE /sandboxes/{sandboxID}": { 204: on(fresh, "") },
  "POST /sandboxes/{sandboxID}/timeout": { 204: on(running, "/timeout", { timeout: 600 }) },
  "POST /sandboxes/{sandboxID}/refreshes": { 204: on(running, "/refreshes", {}) },
  "POST /sandboxes/{sandboxID}/pause": { 204: on(fresh, "/pause") },
  "POST /sandboxes/{sandboxID}/connect": {
    200: on(running, "/connect", { timeout: 9 }),
    201: on(paused, "/connect", { timeout: 9 }),
  },
  "POST /v2/sandboxes/{sandboxID}/connect": {
    200: onV2(running, "/connect"),
    201: onV2(paused, "/connect"),
  },
  "POST /sandboxes/{sandboxID}/resume": { 201: on(paused, "/resume") },
  "POST /sandboxes/{sandboxID}/fork": { 201: on(running, "/fork") },
  "PUT /sandboxes/{sandboxID}/network": { 204: on(running, "/network", {}) },
  "GET /sandboxes/{sandboxID}/logs": { 200: on(running, "/logs") },
  "GET /v2/sandboxes/{sandboxID}/logs": { 200: onV2(running, "/logs") },
  "GET /sandboxes/{sandboxID}/metrics": { 200: on(running, "/metrics") },
  "POST /sandboxes/{sandboxID}/snapshots": { 201: on(running, "/snapshots") },
  "GET /snapshots": { 200: plain("/snapshots") },
  "GET /templates": { 200: plain("/templates") },
  "GET /templates/{templateID}": { 200: plain("/templates/base") },
  "DELETE /templates/{templateID}": {
    204: async () => ({ path: `/templates/${encodeURIComponent(await snapshot())}` }),
  },
  "GET /templates/aliases/{alias}": { 200: plain("/templates/aliases/base") },
  "GET /volumes": { 200: plain("/volumes") },
  "POST /volumes": { 201: plain("/volumes", { name: "made" }) },
  "GET /volumes/{volumeID}": { 200: async () => ({ path: `/volumes/${await volume("found")}` }) },
  "DELETE /volumes/{volumeID}": {
    204: async () => ({ path: `/volumes/${await volume("removed")}` }),
  },
};

/** A path of the route that could be anybody's. */
function anyPath(path: string): string {
  return path.replace(/\{sandboxID\}/, MISSING).replaceAll(/\{[^}]+\}|\*$/g, "x");
}

test("the committed document is what the table of routes says", async () => {
  const committed: unknown = JSON.parse(await readFile(DOCUMENT, "utf8"));
  expect(committed).toEqual(JSON.parse(JSON.stringify(createOpenApi(ROUTES))));
});

test("every offered route has a row, and every row a route", () => {
  const offered = ROUTES.filter((route) => !documentedStatuses(route).includes(501));
  expect(Object.keys(ROWS).toSorted()).toEqual(offered.map(nameOf).toSorted());
});

describe.for(ROUTES)("$method $path", (route) => {
  const name = nameOf(route);
  const method: Method = route.method;

  test("answers with every status that is documented", async () => {
    const statuses = documentedStatuses(route);
    expect(statuses.length).toBeGreaterThan(0);
    for (const status of statuses) {
      const row = ROWS[name]?.[status] ?? plain(anyPath(route.path), {});
      const reply = await service.call({ method, ...(await row()) });
      const hasBody = reply.text !== "";
      expect({ status: reply.status, hasBody }).toEqual({ status, hasBody: status !== 204 });
    }
  });

  test("answers 401 to every other credential, whatever the body", async () => {
    const { store, apiKey } = service.embedded;
    const revoked = createKey(store, createSystemClock(), { name: `revoked ${name}` });
    revokeKeys(store, `revoked ${name}`);
    const path = anyPath(route.path);
    const credentials: Record<string, string>[] = [
      {},
      { "x-api-key": "" },
      { "x-api-key": "sk_1" },
      { "x-api-key": `e2b_${"0".repeat(40)}` },
      { "x-api-key": revoked.key },
      { "x-api-key": `${apiKey}, ${apiKey}` },
      { authorization: `Bearer ${apiKey}` },
    ];
    const replies = await Promise.all(
      credentials.flatMap((headers) =>
        [path, `${path}?api_key=${apiKey}`].map(async (target) => {
          const { statusCode, body } = await request(`http://localhost${target}`, {
            dispatcher: service.dispatcher,
            method,
            headers: { "content-type": "application/json", ...headers },
            body: method === "GET" ? null : "{ no JSON",
          });
          return { status: statusCode, body: await body.json() };
        }),
      ),
    );
    const expected = { status: 401, body: { code: 401 } };
    for (const reply of replies) expect(reply).toMatchObject(expected);
  });

  // Only a route that names a sandbox has this row.
  const isAddressed = route.path.includes("{sandboxID}") && ROWS[name] !== undefined;
  test.for(isAddressed ? [route.path] : [])(
    "%s answers 404 for a sandbox that is not there",
    async (template) => {
      const body = { timeout: 9 };
      const path = anyPath(template);
      const reply = await service.call({ method, path, ...(method !== "GET" && { body }) });
      expect(reply).toMatchObject({ status: 404, body: { code: 404 } });
    },
  );
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
  "$path in a sandbox asks for the token of this sandbox, and is gone when it is paused",
  async (entry) => {
    const token = String(own.envdAccessToken);
    const refused: Record<string, string | string[]>[] = [
      {},
      { "x-access-token": "wrong" },
      { "x-access-token": String(other.envdAccessToken) },
      { "x-access-token": service.embedded.apiKey },
      { "x-api-key": service.embedded.apiKey },
      { "x-access-token": [token, token] },
      { authorization: `Bearer ${token}` },
    ];
    const statuses = await Promise.all(
      refused.map((headers) => statusOf(entry, own.sandboxID, headers)),
    );
    expect(statuses).toEqual(refused.map(() => 401));
    expect(await statusOf(entry, own.sandboxID, { "x-access-token": token })).not.toBe(401);
    const right = { "x-access-token": String(asleep.envdAccessToken) };
    expect(await statusOf(entry, asleep.sandboxID, right)).toBe(502);
    expect(await statusOf(entry, MISSING, right)).toBe(502);
  },
);
