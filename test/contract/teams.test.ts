/** Teams: what is another team's answers, byte for byte, like what never was. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { nameOf } from "../../scripts/openapi-document.ts";
import { startServeMcp } from "../../src/commands/serve/serve-mcp.ts";
import { createSystemClock } from "../../src/common/clock.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { loadConfig } from "../../src/config.ts";
import type { Route } from "../../src/control/route.ts";
import { ROUTES } from "../../src/control/routes/index.ts";
import { notOfferedRoutes } from "../../src/control/routes/not-offered.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { sandboxSchema, volumeSchema, type SandboxBody } from "../../src/wire/control.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type Call, type TestService } from "../support/service.ts";

let service: TestService;
/** Of the first team. */
let running: SandboxBody;
let asleep: SandboxBody;
let ended: SandboxBody;
let snapshotId: string;
let volumeId: string;
/** A key of another team. */
let foreignKey: string;

const loaded = loadConfig({}, []);

beforeAll(async () => {
  service = await startTestService({
    engine: createLayerEngine(),
    maxSandboxes: 50,
    tcp: [{ host: "127.0.0.1", port: 0 }],
    startMcp: async (listener, keys) => {
      if (!("config" in loaded)) throw new Error("no configuration");
      const options = { config: loaded.config, log: createSilentLog(), publicUrl: listener.url };
      return startServeMcp({ ...options, listener, keys });
    },
  });
  const { sandboxes, store } = service.embedded;
  foreignKey = createKey(store, createSystemClock(), { name: "x", team: "others" }).key;
  [running, asleep, ended] = [
    await service.create(),
    await service.create(),
    await service.create(),
  ];
  await sandboxes.pause(asleep.sandboxID, true);
  ({ snapshotId } = await sandboxes.snapshot(running.sandboxID, "mine"));
  ({ volumeId } = await sandboxes.createVolume("data"));
  await sandboxes.kill(ended.sandboxID);
});
afterAll(() => service[Symbol.asyncDispose]());

const MISSING: Readonly<Record<string, string>> = {
  sandboxID: "i00000000000000000000",
  templateID: "local/none",
  alias: "local/none",
  tag: "none",
  hash: "00ff",
  buildID: "none",
  volumeID: "00000000-0000-4000-8000-000000000000",
};

function owned(): Readonly<Record<string, readonly string[]>> {
  const { templateId } = service.embedded.sandboxes.templates.peek("local/mine") ?? {};
  return {
    sandboxID: [running, asleep, ended].map(({ sandboxID }) => sandboxID),
    templateID: [snapshotId, "local/mine", String(templateId), `${String(templateId)}:default`],
    alias: [snapshotId, "local/mine", String(templateId)],
    volumeID: [volumeId],
  };
}

/** Bodies that would do something to what is one's own; every route without one takes none. */
const BODIES: Readonly<Record<string, object>> = {
  "POST /sandboxes/{sandboxID}/timeout": { timeout: 1 },
  "POST /sandboxes/{sandboxID}/connect": { timeout: 1 },
  "POST /v2/templates/{templateID}/builds/{buildID}": { fromTemplate: "base" },
  "PATCH /templates/{templateID}": { public: true },
  "PATCH /v2/templates/{templateID}": { public: true },
};

/** Everything that the wire says in reply, without its moment and with the name taken out. */
async function answerTo(route: Route, path: string, name: string) {
  const { statusCode, headers, body } = await request(`http://localhost${path}`, {
    dispatcher: service.dispatcher,
    method: route.method,
    headers: { "x-api-key": foreignKey, "content-type": "application/json" },
    body: route.method === "GET" ? null : JSON.stringify(BODIES[nameOf(route)] ?? {}),
  });
  const { date: _, "content-length": length, ...rest } = headers;
  const text = await body.text();
  expect(Number(length ?? 0)).toBe(Buffer.byteLength(text));
  return { status: statusCode, headers: rest, text: text.replaceAll(name, "NAME") };
}

const named = ROUTES.filter(
  (route) => !notOfferedRoutes.includes(route) && route.path.includes("{"),
);

describe("of what is another team's", () => {
  test("every route that names a thing is among these", () => {
    expect(named.length).toBeGreaterThan(15);
    const parameters = named.flatMap(({ path }) => [...path.matchAll(/\{(\w+)\}/g)]);
    for (const [, parameter = ""] of parameters) expect(MISSING).toHaveProperty(parameter);
  });

  test.for(named)("$method $path says what it says of nothing", async (route) => {
    const [, parameter = ""] = /\{(\w+)\}/.exec(route.path) ?? [];
    const at = (name: string) => route.path.replace(`{${parameter}}`, encodeURIComponent(name));
    const missing = MISSING[parameter] ?? "";
    const nothing = await answerTo(route, at(missing), missing);
    expect(nothing.status).toBe(404);
    for (const name of owned()[parameter] ?? []) {
      expect(await answerTo(route, at(name), name)).toEqual(nothing);
    }
  });

  test("nothing of it changed", async () => {
    const state = async ({ sandboxID }: SandboxBody) =>
      (await service.call({ path: `/sandboxes/${sandboxID}` })).body;
    expect(await state(running)).toMatchObject({ state: "running" });
    expect(await state(asleep)).toMatchObject({ state: "paused" });
    const { body } = await service.call({ path: "/templates/local%2Fmine" });
    expect(body).toMatchObject({ public: false });
    expect((await service.call({ path: `/volumes/${volumeId}` })).status).toBe(200);
  });

  test.for(["/sandboxes", "/v2/sandboxes?state=running,paused", "/snapshots", "/volumes"])(
    "%s lists nothing",
    async (path) => {
      expect(await asOthers({ path })).toMatchObject({ status: 200, body: [] });
    },
  );

  test("snapshots are not found by source or name, figures not by id", async () => {
    for (const query of [`sandboxID=${running.sandboxID}`, "name=mine", "name=local/mine"]) {
      expect((await asOthers({ path: `/snapshots?${query}` })).body).toEqual([]);
    }
    const path = `/sandboxes/metrics?sandbox_ids=${running.sandboxID}`;
    await expect.poll(async () => (await service.call({ path })).text).toContain("cpuCount");
    expect((await asOthers({ path })).body).toEqual({ sandboxes: {} });
    const list = { path: `/v2/sandboxes?template=${encodeURIComponent("local/mine")}` };
    expect((await asOthers(list)).body).toEqual([]);
  });

  test.for([
    {
      name: "a snapshot",
      body: () => ({ templateID: snapshotId }),
      other: { templateID: "local/none:default" },
    },
    {
      name: "a volume",
      body: () => ({ templateID: "base", volumeMounts: [{ name: "data", path: "/d" }] }),
      other: { templateID: "base", volumeMounts: [{ name: "none", path: "/d" }] },
    },
  ])("$name is nothing to start with", async ({ body, other }) => {
    expect(await startFrom(body())).toEqual(await startFrom(other));
  });

  test("the MCP endpoint knows nothing of it either", async () => {
    const ids = await listedByTools(foreignKey);
    expect(ids).not.toContain(running.sandboxID);
    expect(await listedByTools(service.embedded.apiKey)).toContain(running.sandboxID);
  });
});

async function asOthers(call: Call) {
  return service.call({ ...call, headers: { "x-api-key": foreignKey } });
}

/** What a create says, whatever the name of the thing that is not there. */
async function startFrom(wish: object) {
  const reply = await asOthers({ method: "POST", path: "/sandboxes", body: wish });
  return { status: reply.status, text: reply.text.replaceAll(/data|none|mine/g, "NAME") };
}

/** What `list_sandboxes` says to the holder of a key. */
async function listedByTools(key: string): Promise<string> {
  const client = new Client({ name: "host", version: "1.0.0" });
  const headers = { authorization: `Bearer ${key}` };
  const url = new URL(`http://127.0.0.1:${service.embedded.ports[0]}/mcp`);
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
  await client.connect(transport);
  try {
    return JSON.stringify(await client.callTool({ name: "list_sandboxes", arguments: {} }));
  } finally {
    await client.close();
  }
}

test("two teams have the same names for things of their own", async () => {
  const created = await asOthers({
    method: "POST",
    path: "/v2/sandboxes",
    body: { templateID: "base" },
  });
  expect(created.status).toBe(201);
  const path = `/sandboxes/${sandboxSchema.parse(created.body).sandboxID}`;
  const taken = await asOthers({
    method: "POST",
    path: `${path}/snapshots`,
    body: { name: "mine" },
  });
  expect(taken.body).toEqual({
    snapshotID: "others/mine:default",
    names: ["others/mine"],
    memory: false,
    memoryReason: "programs are those of the host",
  });
  const refused = {
    method: "POST",
    path: `${path}/snapshots`,
    body: { name: "local/mine" },
  } as const;
  expect((await asOthers(refused)).body).toEqual({
    code: 400,
    message: "namespace 'local' must match your team 'others'",
  });
  const volume = await asOthers({ method: "POST", path: "/volumes", body: { name: "data" } });
  expect(volumeSchema.parse(volume.body).volumeID).not.toBe(volumeId);
  const own = await asOthers({ path: "/templates/mine" });
  expect(own.body).toMatchObject({ names: ["others/mine"] });
  const first = await service.call({ path: "/templates/mine" });
  expect(first.body).toMatchObject({ names: ["local/mine"] });
  expect((await asOthers({ method: "DELETE", path })).status).toBe(204);
});

test("a key of a team that cannot be one is not made", () => {
  const { store } = service.embedded;
  for (const team of ["", "A", "a/b", "-a", "a".repeat(64)]) {
    expect(() => createKey(store, createSystemClock(), { name: "x", team })).toThrow(
      expect.objectContaining({ code: "invalid_argument" }),
    );
  }
});

test("a key that is revoked is nobody's", async () => {
  const { store } = service.embedded;
  const { key, record } = createKey(store, createSystemClock(), { name: "gone", team: "others" });
  store.keys.remove(record.keyId);
  const reply = await service.call({ path: "/sandboxes", headers: { "x-api-key": key } });
  expect(reply.status).toBe(401);
});

test("what /mcp keeps for a team goes when another one calls after its last key was revoked", async () => {
  const { store, ports } = service.embedded;
  const make = (team: string) => createKey(store, createSystemClock(), { name: "x", team });
  const post = async (
    key: string,
    body: object,
    headers: Readonly<Record<string, string>> = {},
  ) => {
    const reply = await request(`http://127.0.0.1:${ports[0]}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...body }),
    });
    await reply.body.dump();
    return { status: reply.statusCode, session: String(reply.headers["mcp-session-id"]) };
  };
  const params = {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "host", version: "1.0.0" },
  };
  const open = (key: string) => post(key, { method: "initialize", params });
  const { key, record } = make("leaving");
  const { session } = await open(key);
  const ping = () => post(key, { method: "ping" }, { "mcp-session-id": session });
  await open(make("staying").key);
  expect(await ping()).toMatchObject({ status: 200 });
  store.keys.remove(record.keyId);
  await open(make("coming").key);
  store.keys.add(record);
  expect(await ping()).toMatchObject({ status: 404 });
});

test("no cache between clients and the service may keep what one team was told", async () => {
  const { sandboxID } = running;
  const paths = ["/sandboxes", `/sandboxes/${sandboxID}`, `/volumes/${volumeId}`, "/v2/templates"];
  const stored = await Promise.all(
    [...paths, "/sandboxes/i0"].map(async (path) => {
      const { headers } = await service.call({ path });
      return headers["cache-control"];
    }),
  );
  expect(stored).toEqual(Array.from(stored, () => "no-store"));
});
