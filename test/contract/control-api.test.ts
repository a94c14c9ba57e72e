/** The control API, status by status and body by body. */

import { Readable } from "node:stream";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestService, type Call, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ maxSandboxes: 5 });
});
afterAll(() => service[Symbol.asyncDispose]());

const MISSING = "i00000000000000000000";
const fault = (code: number, message: string) => ({ code, message });
const missing = fault(404, `Sandbox "${MISSING}" doesn't exist or you don't have access to it`);
const tooLong = fault(400, "Timeout cannot be greater than 24 hours");
const create = (body: Record<string, unknown>): Call => ({
  method: "POST",
  path: "/sandboxes",
  body: { templateID: "base", ...body },
});
const post = (path: string, body?: unknown): Call => ({
  method: "POST",
  path,
  ...(body !== undefined && { body }),
});

test.for<{ name: string; call: Call; message: string }>([
  {
    name: "no key",
    call: { path: "/sandboxes", headers: { "x-api-key": "" } },
    message: "authorization header is missing",
  },
  {
    name: "no key on an unknown path",
    call: { path: "/nowhere", headers: { "x-api-key": "" } },
    message: "authorization header is missing",
  },
  {
    name: "another prefix, bad body",
    call: { ...create({ timeout: -1 }), headers: { "x-api-key": "sk_1" } },
    message: "authorization header is malformed",
  },
  {
    name: "no hex",
    call: { path: "/sandboxes", headers: { "x-api-key": "e2b_xyz" } },
    message: "Invalid API key: after the prefix e2b_ come 40 hexadecimal digits",
  },
  {
    name: "unknown",
    call: { path: "/sandboxes", headers: { "x-api-key": `e2b_${"0".repeat(40)}` } },
    message: "Invalid API key: the service does not know it",
  },
])("a key is refused: $name", async ({ call, message }) => {
  const { status, body } = await service.call(call);
  expect({ status, body }).toEqual({ status: 401, body: fault(401, message) });
});

test.for<{ call: Call; expected: { code: number; message: string } }>([
  {
    call: { path: "/nowhere" },
    expected: fault(404, "validation error: no matching operation was found"),
  },
  {
    call: { method: "PUT", path: "/sandboxes" },
    expected: fault(400, "validation error: method not allowed"),
  },
  { call: { path: "/sandboxes/UPPER" }, expected: fault(400, "Invalid sandbox ID") },
  { call: { path: "/sandboxes/a-b-c" }, expected: fault(400, "Invalid sandbox ID") },
  { call: { path: `/sandboxes/${MISSING}` }, expected: missing },
  { call: { path: `/sandboxes/${MISSING}-6532622b` }, expected: missing },
  { call: { method: "DELETE", path: `/sandboxes/${MISSING}` }, expected: missing },
  { call: { path: `/sandboxes/${MISSING}/logs` }, expected: missing },
  { call: post(`/sandboxes/${MISSING}/pause`), expected: missing },
  { call: post(`/sandboxes/${MISSING}/pause`, { memory: false }), expected: missing },
  { call: post(`/sandboxes/${MISSING}/connect`, { timeout: 1 }), expected: missing },
  { call: post(`/v2/sandboxes/${MISSING}/connect`), expected: missing },
  { call: post(`/sandboxes/${MISSING}/resume`), expected: missing },
  { call: post(`/sandboxes/${MISSING}/timeout`, { timeout: 1 }), expected: missing },
  { call: post(`/sandboxes/${MISSING}/refreshes`, {}), expected: missing },
  { call: post(`/sandboxes/${MISSING}/snapshots`), expected: missing },
  {
    call: create({ templateID: "nope" }),
    expected: fault(404, "template 'nope' not found"),
  },
  {
    call: create({ templateID: "host" }),
    expected: fault(404, "template 'host' not found"),
  },
  {
    call: create({ templateID: "base:nope" }),
    expected: fault(404, "tag 'nope' does not exist for template 'base:nope'"),
  },
  {
    call: create({ templateID: "a b" }),
    expected: fault(400, "Invalid template reference: invalid template ID: a b"),
  },
  { call: create({ timeout: 86_401 }), expected: tooLong },
  {
    call: post("/v2/sandboxes", { templateID: "base", timeout: 0 }),
    expected: fault(400, "Timeout must be greater than 0"),
  },
  {
    call: create({ autoPauseMemory: false }),
    expected: fault(400, "autoPauseMemory=false only applies when autoPause is true."),
  },
  {
    call: create({ autoPauseMemory: false, autoPause: true, autoResume: { enabled: true } }),
    expected: fault(
      400,
      "autoPauseMemory=false (filesystem-only auto-pause) cannot be combined with autoResume",
    ),
  },
  {
    call: create({ network: { allowPublicTraffic: false } }),
    expected: fault(
      400,
      "You cannot create a sandbox without public access unless you enable secure envd access via 'secure' flag.",
    ),
  },
  {
    call: create({ volumeMounts: [{ name: "a", path: "/a" }] }),
    expected: fault(400, "invalid mounts:\n\t- volume mount #0: volume 'a' not found"),
  },
  {
    call: post(`/v2/sandboxes/${MISSING}/connect`, { timeout: 0 }),
    expected: fault(400, "Timeout must be greater than 0"),
  },
  {
    call: post(`/sandboxes/${MISSING}/resume`, { timeout: 0 }),
    expected: fault(400, "Timeout must be greater than 0"),
  },
  {
    call: { path: "/v2/sandboxes?order=up" },
    expected: fault(400, "Invalid order parameter: up"),
  },
  {
    call: { path: "/v2/sandboxes?nextToken=abc" },
    expected: fault(400, "Invalid next token"),
  },
  {
    call: { path: "/v2/sandboxes?template=base:x" },
    expected: fault(
      400,
      "Invalid template: tags are not supported here because sandboxes are not tag-scoped",
    ),
  },
  { call: { path: "/templates/nope" }, expected: fault(404, "Template nope not found") },
  {
    call: { method: "DELETE", path: "/templates/local%2Fnope%3Adefault" },
    expected: fault(404, "template 'local/nope:default' not found"),
  },
  {
    call: { method: "DELETE", path: "/templates/base" },
    expected: fault(403, "You don't have access to template 'base'"),
  },
  {
    call: { path: "/templates/aliases/nope" },
    expected: fault(404, "template 'nope' not found"),
  },
  {
    call: { path: `/volumecontent/${MISSING}/path` },
    // The key of the control API does not open it.
    expected: fault(401, "authorization header is missing"),
  },
  {
    call: post(`/sandboxes/${MISSING}/fork`),
    expected: missing,
  },
  {
    call: { method: "PUT", path: `/sandboxes/${MISSING}/network`, body: {} },
    expected: missing,
  },
])("$call.path → $expected.code $expected.message", async ({ call, expected }) => {
  const { status, body, headers } = await service.call(call);
  expect({ status, body, type: headers["content-type"] }).toEqual({
    status: expected.code,
    body: expected,
    type: "application/json; charset=utf-8",
  });
});

test.for<{ name: string; call: Call }>([
  { name: "body missing", call: post("/sandboxes") },
  { name: "field missing", call: post("/sandboxes", {}) },
  { name: "wrong type", call: create({ timeout: "1" }) },
  { name: "below the minimum", call: create({ timeout: -1 }) },
  { name: "beyond 32 bits", call: create({ timeout: 2_147_483_648 }) },
  { name: "metadata that is no map of strings", call: create({ metadata: { a: 1 } }) },
  { name: "timeout missing", call: post(`/sandboxes/${MISSING}/timeout`, {}) },
  { name: "v1 connect without a timeout", call: post(`/sandboxes/${MISSING}/connect`, {}) },
  { name: "limit 0", call: { path: "/v2/sandboxes?limit=0" } },
  { name: "limit 101", call: { path: "/v2/sandboxes?limit=101" } },
  { name: "a single value twice", call: { path: "/v2/sandboxes?limit=1&limit=2" } },
  { name: "a filter twice", call: { path: "/v2/sandboxes?metadata=a%3Db&metadata=c%3Dd" } },
  { name: "unknown state", call: { path: "/v2/sandboxes?state=dead" } },
  { name: "log limit below 0", call: { path: `/sandboxes/${MISSING}/logs?limit=-1` } },
  {
    name: "another content type",
    call: { ...create({}), headers: { "content-type": "text/plain" } },
  },
])("a request against its schema is refused: $name", async ({ call }) => {
  const { status, body } = await service.call(call);
  expect({ status, body }).toEqual({
    status: 400,
    body: { code: 400, message: expect.stringMatching(/^validation error: /) },
  });
});

const id = expect.stringMatching(/^[a-z0-9]{20}$/);
const sandboxId = expect.stringMatching(/^i[a-z0-9]{20}$/);
const token = expect.stringMatching(/^[0-9a-f]{64}$/);
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

test("a sandbox of the first generation is open by default", async () => {
  const { status, body } = await service.call(create({ timeout: 60 }));
  expect({ status, body }).toEqual({
    status: 201,
    body: {
      templateID: id,
      sandboxID: sandboxId,
      clientID: "6532622b",
      envdVersion: "0.6.13",
      isolation: "none",
      alias: "base",
      envdAccessToken: null,
      trafficAccessToken: null,
      domain: null,
      allowInternetAccess: null,
    },
  });
});

test("a sandbox of the second generation is secured, and described in full", async () => {
  const created = await service.create({
    metadata: { "k 1": "v" },
    secure: false,
    autoPause: true,
    autoResume: { enabled: true },
    network: { allowPublicTraffic: false, denyOut: ["0.0.0.0/0"] },
    unknown: 1,
  });
  expect(created).toEqual({
    templateID: id,
    sandboxID: sandboxId,
    clientID: "6532622b",
    envdVersion: "0.6.13",
    isolation: "none",
    alias: "base",
    envdAccessToken: token,
    trafficAccessToken: token,
    domain: null,
    allowInternetAccess: null,
  });
  const detail = await service.call({ path: `/sandboxes/${created.sandboxID}` });
  expect(detail.body).toEqual({
    templateID: created.templateID,
    sandboxID: created.sandboxID,
    clientID: "6532622b",
    alias: "base",
    startedAt: time,
    endAt: time,
    cpuCount: 2,
    memoryMB: 512,
    diskSizeMB: 2048,
    state: "running",
    envdVersion: "0.6.13",
    isolation: "none",
    metadata: { "k 1": "v" },
    volumeMounts: [],
    envdAccessToken: created.envdAccessToken,
    allowInternetAccess: null,
    domain: null,
    network: { allowPublicTraffic: false, denyOut: ["0.0.0.0/0"] },
    lifecycle: { autoResume: true, onTimeout: "pause" },
    missingAbilities: ["memory in snapshots"],
  });
  const path = "/v2/sandboxes?metadata=k%2525201%3Dv&template=base&state=";
  const list = await service.call({ path: `${path}running,paused` });
  const { status, body } = await service.call({ path: `${path}running&state=paused` });
  expect({ status, body }).toEqual({ status: 200, body: list.body });
  expect({ total: list.headers["x-total-running"], body: list.body }).toEqual({
    total: "1",
    body: [
      {
        templateID: created.templateID,
        sandboxID: created.sandboxID,
        clientID: "6532622b",
        alias: "base",
        startedAt: time,
        endAt: time,
        cpuCount: 2,
        memoryMB: 512,
        diskSizeMB: 2048,
        state: "running",
        envdVersion: "0.6.13",
        isolation: "none",
        metadata: { "k 1": "v" },
        volumeMounts: [],
      },
    ],
  });
});

test("a template is described with its builds", async () => {
  const { status, body } = await service.call({ path: "/templates/base" });
  expect({ status, body }).toEqual({
    status: 200,
    body: {
      templateID: id,
      public: true,
      aliases: ["base"],
      names: ["base"],
      createdAt: time,
      updatedAt: time,
      lastSpawnedAt: expect.toSatisfy((value) => value === null || typeof value === "string"),
      spawnCount: expect.any(Number),
      builds: [
        {
          buildID: expect.stringMatching(/^[0-9a-f-]{36}$/),
          status: "ready",
          createdAt: time,
          updatedAt: time,
          finishedAt: time,
          cpuCount: 2,
          memoryMB: 512,
          diskSizeMB: 2048,
          envdVersion: "0.6.13",
        },
      ],
    },
  });
  const alias = await service.call({ path: "/templates/aliases/base" });
  expect(alias.body).toEqual({ templateID: id, public: true });
});

test("a body comes in chunks, with no length", async () => {
  const reply = await request("http://localhost/sandboxes", {
    dispatcher: service.dispatcher,
    method: "POST",
    headers: { "x-api-key": service.embedded.apiKey, "content-type": "application/json" },
    body: Readable.from(['{"templateID":', '"nope"}']),
  });
  expect(await reply.body.json()).toEqual(fault(404, "template 'nope' not found"));
});

test("a body beyond 16 MiB is refused", async () => {
  const { status, body } = await service.call(create({ envVars: { a: "x".repeat(17_000_000) } }));
  expect({ status, body }).toEqual({
    status: 413,
    body: fault(413, "body exceeds 16777216 bytes"),
  });
});
