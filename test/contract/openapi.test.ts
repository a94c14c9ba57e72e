/**
 * The document of the control API: it is what the table of routes says, and for every route each
 * status, each field and each parameter that it names is seen once, and none that it does not name.
 */

import { userInfo } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createOpenApi, documentedStatuses, nameOf } from "../../scripts/openapi-document.ts";
import { createSystemClock } from "../../src/common/clock.ts";
import type { Route } from "../../src/control/route.ts";
import { ROUTES } from "../../src/control/routes/index.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { podRow } from "../support/cluster/pod-front.ts";
import {
  committed,
  documented,
  fieldsOfBody,
  fieldsOfReply,
} from "../support/control/api-document.ts";
import { BODY, MISSING, PARAMETERS } from "../support/control/api-values.ts";
import { buildRows } from "../support/control/build-rows.ts";
import { BASE, PROXIED, PROXY, REFUSED, RICH } from "../support/control/create-bodies.ts";
import { createOfOtherKey, createUnderWay } from "../support/control/keyed-creates.ts";
import { lostMemoryRow } from "../support/control/lost-memory-row.ts";
import { tagRows } from "../support/control/tag-rows.ts";
import { templateRows } from "../support/control/template-rows.ts";
import { volumeRows } from "../support/control/volume-rows.ts";
import { BUILDING } from "../support/engine/building-template.ts";
import { createHeldEngine, type HeldEngine } from "../support/engine/held-engine.ts";
import { startTestService, type Call, type TestService } from "../support/service.ts";

let held: HeldEngine;
let service: TestService;
/** One in which there is no room. */
let crowded: TestService;
/** One whose template is being built. */
let unbuilt: TestService;
/** A sandbox that was created with everything that can be asked for. */
let rich: string;
/** One that is never paused, with a snapshot template. */
let plainId: string;
/** One that rows pause and wake. */
let shared: string;
/** Made by the first row that needs it, because the service waits for its daemon. */
let silentId: Promise<string> | undefined;
let busyKey: string;

function templatesOf() {
  return service.embedded.sandboxes.templates;
}

/** A create whose sandbox cannot be started. */
function failing(path: string): Row {
  return async () => {
    held.failStarts(1);
    return { call: { path, body: BASE } };
  };
}

/** A create that finds its template under construction. */
function building(path: string): Row {
  const headers = { prefer: "wait=0" };
  return async () => ({ call: { path, body: { templateID: "base" }, headers }, service: unbuilt });
}

beforeAll(async () => {
  held = createHeldEngine();
  const tcp = [{ host: "127.0.0.1", port: 0 }];
  const setup = { environment: {}, startCommand: "sleep 1", readyCommand: "" };
  const builtIn = { defaultUser: userInfo().username, defaultWorkdir: "/", find: async () => [] };
  const builtIns = [
    { ...builtIn, name: "base" },
    { ...builtIn, name: "serving", setup },
  ];
  service = await startTestService({ engine: held.engine, maxSandboxes: 100, tcp, builtIns });
  crowded = await startTestService({ maxSandboxes: 1 });
  await crowded.create();
  unbuilt = await startTestService({ builtIns: [BUILDING] });
  const { sandboxes, store } = service.embedded;
  await sandboxes.createVolume("shared");
  rich = (await service.create(RICH)).sandboxID;
  plainId = (await service.create()).sandboxID;
  shared = (await service.create()).sandboxID;
  await sandboxes.snapshot(plainId, "kept");
  busyKey = createKey(store, createSystemClock(), { name: "busy", team: "busy" }).key;
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await crowded[Symbol.asyncDispose]();
  await unbuilt[Symbol.asyncDispose]();
});

/** A call, and what is to be done once it was answered. */
interface Attempt {
  readonly call: Omit<Call, "method">;
  readonly service?: Pick<TestService, "call">;
  finish?(): Promise<void>;
}

type Row = () => Promise<Attempt>;

/** Rows by status; each must come to be answered so. */
type Rows = Readonly<Record<number, Row | readonly Row[]>>;

function call(path: string, body?: unknown): Row {
  return async () => ({ call: { path, ...(body !== undefined && { body }) } });
}

function made(make: () => Promise<Omit<Call, "method">>): Row {
  return async () => ({ call: await make() });
}

async function fresh(): Promise<string> {
  return (await service.create()).sandboxID;
}

/** One that rows take turns with, running. */
async function awake(): Promise<string> {
  await service.embedded.sandboxes.connect(shared, { timeoutSeconds: 600, keepsMemory: true });
  return shared;
}

/** The same, paused. */
async function paused(): Promise<string> {
  await awake();
  await service.embedded.sandboxes.pause(shared, true);
  return shared;
}

/** One whose daemon was silent when it was paused. */
async function silenced(): Promise<string> {
  return (silentId ??= makeSilent());
}

async function makeSilent(): Promise<string> {
  const { sandboxID } = await service.create();
  const silence = held.silence();
  await service.embedded.sandboxes.pause(sandboxID, true);
  silence[Symbol.dispose]();
  return sandboxID;
}

async function plain(): Promise<string> {
  return plainId;
}

async function richOne(): Promise<string> {
  return rich;
}

/** A call on a sandbox. */
function on(sandbox: () => Promise<string>, rest: string, body?: unknown): Row {
  return made(async () => ({
    path: `/sandboxes/${await sandbox()}${rest}`,
    ...(body !== undefined && { body }),
  }));
}

function onV2(sandbox: () => Promise<string>, rest: string, body?: unknown): Row {
  return made(async () => ({
    path: `/v2/sandboxes/${await sandbox()}${rest}`,
    ...(body !== undefined && { body }),
  }));
}

/** A call on a sandbox in the middle of a change. */
function during(
  operation: "pause" | "snapshot" | "end",
  toCall: (sandboxId: string) => Omit<Call, "method">,
): Row {
  return async () => {
    const { sandboxes } = service.embedded;
    const sandboxId = operation === "end" ? await fresh() : await awake();
    const hold = held.hold(operation);
    const change =
      operation === "pause"
        ? sandboxes.pause(sandboxId, true)
        : operation === "end"
          ? sandboxes.kill(sandboxId)
          : sandboxes.snapshot(sandboxId, undefined).then(() => undefined);
    await hold.reached;
    return {
      call: toCall(sandboxId),
      async finish() {
        hold[Symbol.dispose]();
        await change;
      },
    };
  };
}

function inPath(reference: string): string {
  return encodeURIComponent(reference);
}

async function snapshotOf(name?: string): Promise<string> {
  return (await service.embedded.sandboxes.snapshot(plainId, name)).snapshotId;
}

async function measured(sandboxId: string): Promise<string> {
  await expect.poll(() => service.embedded.sandboxes.latestMetric(sandboxId)).toBeDefined();
  return sandboxId;
}

/** The token of the second page of a list. */
async function secondPage(path: string): Promise<string> {
  const { headers } = await service.call({
    path: `${path}${path.includes("?") ? "&" : "?"}limit=1`,
  });
  return inPath(String(headers["x-next-token"]));
}

const full: Row = async () => ({ service: crowded, call: { path: "/sandboxes", body: BASE } });
const fullV2: Row = async () => ({ service: crowded, call: { path: "/v2/sandboxes", body: BASE } });

/** A fork counts as so many creates, also when there is nothing to fork. */
const often: Row = async () => {
  const headers = { "x-api-key": busyKey };
  const wish = { path: `/sandboxes/${MISSING}/fork`, body: { count: 100 }, headers };
  await service.call({ ...wish, method: "POST" });
  await service.call({ ...wish, method: "POST" });
  return { call: wish };
};

const ROWS: Readonly<Record<string, Rows>> = {
  "POST /sandboxes": {
    201: [call("/sandboxes", RICH), call("/sandboxes", { templateID: "kept", memory: true })],
    400: REFUSED.map((body) => call("/sandboxes", body)),
    403: call("/sandboxes", PROXIED),
    404: call("/sandboxes", { templateID: "none" }),
    409: async () => createUnderWay(service, "/sandboxes"),
    422: async () => createOfOtherKey(service, "/sandboxes"),
    429: full,
    503: [building("/sandboxes"), failing("/sandboxes")],
  },
  "POST /v2/sandboxes": {
    201: [call("/v2/sandboxes", RICH), call("/v2/sandboxes", { templateID: "kept", memory: true })],
    400: REFUSED.map((body) => call("/v2/sandboxes", body)),
    403: call("/v2/sandboxes", PROXIED),
    404: call("/v2/sandboxes", { templateID: "none" }),
    409: async () => createUnderWay(service, "/v2/sandboxes"),
    422: async () => createOfOtherKey(service, "/v2/sandboxes"),
    429: fullV2,
    503: [building("/v2/sandboxes"), failing("/v2/sandboxes")],
  },
  "GET /sandboxes": {
    200: call("/sandboxes?metadata=purpose%3Dall"),
    400: call("/sandboxes?metadata=%25zz"),
  },
  "GET /v2/sandboxes": {
    200: [
      made(async () => {
        const query = `state=running,paused&order=desc&startedAfter=2020-01-01T00:00:00Z`;
        const path = `/v2/sandboxes?${query}&template=base`;
        return { path: `${path}&limit=1&nextToken=${await secondPage(path)}` };
      }),
      call("/v2/sandboxes?metadata=purpose%3Dall"),
      made(async () => {
        await silenced();
        return { path: "/v2/sandboxes?state=paused" };
      }),
    ],
    400: call("/v2/sandboxes?limit=0"),
  },
  "GET /sandboxes/metrics": {
    200: made(async () => ({ path: `/sandboxes/metrics?sandbox_ids=${await measured(plainId)}` })),
    400: call("/sandboxes/metrics?sandbox_ids=No!"),
  },
  "GET /sandboxes/{sandboxID}": {
    200: [on(richOne, ""), on(silenced, ""), lostMemoryRow, podRow],
  },
  "DELETE /sandboxes/{sandboxID}": { 204: on(fresh, "") },
  "POST /sandboxes/{sandboxID}/timeout": {
    204: on(plain, "/timeout", { timeout: 600 }),
    409: during("pause", (id) => ({ path: `/sandboxes/${id}/timeout`, body: { timeout: 1 } })),
  },
  "POST /sandboxes/{sandboxID}/refreshes": {
    204: on(plain, "/refreshes", { duration: 60 }),
    409: during("pause", (id) => ({ path: `/sandboxes/${id}/refreshes`, body: {} })),
  },
  "POST /sandboxes/{sandboxID}/pause": {
    204: on(awake, "/pause", { memory: true, requireHealthyGuest: true }),
    409: on(paused, "/pause"),
    503: async () => {
      const sandboxId = await fresh();
      const silence = held.silence();
      return {
        call: { path: `/sandboxes/${sandboxId}/pause`, body: { requireHealthyGuest: true } },
        async finish() {
          silence[Symbol.dispose]();
        },
      };
    },
  },
  "POST /sandboxes/{sandboxID}/connect": {
    200: on(plain, "/connect", { timeout: 600, memory: true }),
    201: on(paused, "/connect", { timeout: 600 }),
    409: [
      during("end", (id) => ({ path: `/sandboxes/${id}/connect`, body: { timeout: 1 } })),
      on(silenced, "/connect", { timeout: 600 }),
    ],
  },
  "POST /v2/sandboxes/{sandboxID}/connect": {
    200: onV2(richOne, "/connect", { timeout: 600, memory: true }),
    201: onV2(paused, "/connect"),
    409: [
      during("end", (id) => ({ path: `/v2/sandboxes/${id}/connect` })),
      onV2(silenced, "/connect"),
    ],
  },
  "POST /sandboxes/{sandboxID}/resume": {
    201: on(paused, "/resume", { timeout: 600, autoPause: false, memory: true }),
    409: [on(plain, "/resume"), on(silenced, "/resume")],
  },
  "POST /sandboxes/{sandboxID}/fork": {
    201: async () => {
      held.failStarts(1);
      return { call: { path: `/sandboxes/${plainId}/fork`, body: { count: 2, timeout: 60 } } };
    },
    409: on(paused, "/fork"),
    429: often,
  },
  "PUT /sandboxes/{sandboxID}/network": {
    204: on(awake, "/network", {
      allowOut: ["1.1.1.1"],
      denyOut: ["0.0.0.0/0"],
      dnsServers: [],
      allow_internet_access: true,
    }),
    400: on(plain, "/network", { rules: { "a.test": [] } }),
    403: on(plain, "/network", PROXY),
    409: during("pause", (id) => ({ path: `/sandboxes/${id}/network`, body: {} })),
  },
  "GET /sandboxes/{sandboxID}/logs": { 200: on(plain, "/logs?start=0&limit=10") },
  "GET /v2/sandboxes/{sandboxID}/logs": {
    200: [
      onV2(plain, "/logs?direction=forward&level=info&search=created&limit=10&cursor=0"),
      onV2(plain, "/logs"),
    ],
  },
  "GET /sandboxes/{sandboxID}/metrics": {
    200: on(async () => measured(plainId), `/metrics?start=0&end=${Date.now()}&fresh=true`),
  },
  "POST /sandboxes/{sandboxID}/snapshots": {
    201: on(plain, "/snapshots", { name: "made", memory: false }),
    409: during("snapshot", (id) => ({ path: `/sandboxes/${id}/snapshots` })),
  },
  "GET /snapshots": {
    200: [
      made(async () => {
        await snapshotOf("paged");
        return { path: `/snapshots?limit=100&nextToken=${await secondPage("/snapshots")}` };
      }),
      call("/snapshots?limit=1"),
      made(async () => ({ path: `/snapshots?name=kept&sandboxID=${plainId}` })),
    ],
    400: call("/snapshots?name=a%20b"),
  },
  ...templateRows({ call, made, snapshotOf, secondPage }),
  ...tagRows({ call, made, snapshotOf, tag: (...words) => templatesOf().tag(...words) }),
  ...buildRows<Row>({ call, made, service: () => service, busyKey: () => busyKey }),
  ...volumeRows({ call, made, service: () => service }),
};

/** A path of the route with something in place of its parameters. */
function pathWith(route: Route, kind: "missing" | "faulty"): string {
  return route.path
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => PARAMETERS[name]?.[kind] ?? "x")
    .replace(/\*$/, "x");
}

/** The calls that make a route answer with a status. */
function rowsFor(route: Route, status: number): readonly Row[] {
  const own = ROWS[nameOf(route)]?.[status];
  if (own !== undefined) return "length" in own && typeof own !== "function" ? own : [own];
  const body = route.method === "GET" ? undefined : BODY;
  const at = (kind: "missing" | "faulty") => call(pathWith(route, kind), body);
  if (status === 401) {
    return [
      async () => ({ call: { path: pathWith(route, "missing"), headers: { "x-api-key": "" } } }),
    ];
  }
  if (status === 413) return [call(pathWith(route, "missing"), { fill: "x".repeat(17_000_000) })];
  if (status === 400) return [at("faulty")];
  if (status === 404 || status === 501) return [at("missing")];
  throw new Error(`ROWS has no call that ${nameOf(route)} answers with ${status}`);
}

interface Seen {
  readonly status: number;
  readonly fields: readonly string[];
}

/** Those that a create reads; a key is no part of a route. */
const CREATE_HEADERS: ReadonlySet<string> = new Set(["idempotency-key", "prefer"]);

async function attempt(route: Route, row: Row): Promise<Seen> {
  const attempted = await row();
  const { call: wanted, service: target = service } = attempted;
  const reply = await target.call({ ...wanted, method: route.method });
  await attempted.finish?.();
  const { searchParams } = new URL(wanted.path, "http://localhost");
  const isMeant = reply.status !== 413 && wanted.body !== BODY;
  return {
    status: reply.status,
    fields: [
      `status ${reply.status}`,
      ...fieldsOfReply(route, reply),
      ...[...searchParams.keys()].map((name) => `query ${name}`),
      ...Object.keys(wanted.headers ?? {})
        .filter((name) => CREATE_HEADERS.has(name))
        .map((name) => `header ${name}`),
      ...(isMeant ? fieldsOfBody(route, wanted.body) : []),
    ],
  };
}

test("the committed document is what the table of routes says", () => {
  expect(committed).toEqual(JSON.parse(JSON.stringify(createOpenApi())));
});

test("every row is for a route that is offered", () => {
  const offered = ROUTES.filter((route) => !documentedStatuses(route).includes(501));
  expect(Object.keys(ROWS).toSorted()).toEqual(offered.map(nameOf).toSorted());
});

test.for(ROUTES)("$method $path shows all that is documented, and no more", async (route) => {
  const statuses = documentedStatuses(route);
  const seen = new Set<string>();
  for (const status of statuses) {
    for (const row of rowsFor(route, status)) {
      let found = await attempt(route, row);
      // A rate limit lets one more through as time passes, perhaps just this call.
      const isLetThrough = (seenNow: Seen) => status === 429 && seenNow.status !== 429;
      while (isLetThrough(found)) found = await attempt(route, row);
      expect(found.status, `a call that is to be answered with ${status}`).toBe(status);
      for (const field of found.fields) seen.add(field);
    }
  }
  expect([...seen].toSorted()).toEqual([...new Set(documented(route))].toSorted());
});
