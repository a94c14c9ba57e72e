/** Templates of a team over the wire: tags on their builds, and who else may see them. */

import { userInfo } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { assignedTagsSchema, listedTemplateSchema } from "../../src/wire/control-templates.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type Call, type TestService } from "../support/service.ts";

let service: TestService;
let sandboxId: string;
let othersKey: string;
beforeAll(async () => {
  const builtIn = { defaultUser: userInfo().username, defaultWorkdir: "/", find: async () => [] };
  const builtIns = ["base", "second"].map((name) => ({ name, ...builtIn }));
  service = await startTestService({ engine: createLayerEngine(), builtIns });
  const { store } = service.embedded;
  sandboxId = (await service.create()).sandboxID;
  othersKey = createKey(store, createSystemClock(), { name: "x", team: "others" }).key;
});
afterAll(() => service[Symbol.asyncDispose]());

async function send(method: NonNullable<Call["method"]>, path: string, body?: unknown) {
  const reply = await service.call({ method, path, ...(body !== undefined && { body }) });
  return { status: reply.status, body: reply.body };
}

async function asOthers(method: NonNullable<Call["method"]>, path: string, body?: unknown) {
  const headers = { "x-api-key": othersKey };
  const reply = await service.call({ method, path, headers, ...(body !== undefined && { body }) });
  return { status: reply.status, body: reply.body };
}

async function tag(target: string, tags: readonly string[]) {
  return send("POST", "/templates/tags", { target, tags });
}

async function untag(name: string, tags: readonly string[]) {
  return send("DELETE", "/templates/tags", { name, tags });
}

function entry(name: string, buildID: string) {
  return { tag: name, buildID, createdAt: expect.stringMatching(/Z$/) };
}

function fault(code: number, message: string) {
  return { status: code, body: { code, message } };
}

test("a tag keeps its build when the name gets a new one, until it is put elsewhere", async () => {
  const { sandboxes } = service.embedded;
  await sandboxes.snapshot(sandboxId, "app");
  const first = assignedTagsSchema.parse((await tag("app", ["V1", "v1", "stable"])).body);
  expect(first.tags).toEqual(["v1", "stable"]);
  await sandboxes.snapshot(sandboxId, "app");
  const second = assignedTagsSchema.parse((await tag("local/app:default", ["v2"])).body);
  expect(second.buildID).not.toBe(first.buildID);
  expect(await tag("app:v2", ["stable"])).toEqual({
    status: 201,
    body: { tags: ["stable"], buildID: second.buildID },
  });
  expect((await send("GET", "/templates/app/tags")).body).toEqual([
    entry("default", second.buildID),
    entry("stable", second.buildID),
    entry("v1", first.buildID),
    entry("v2", second.buildID),
  ]);
  for (const reference of ["app:v1", "local/app:stable"]) {
    const created = await send("POST", "/v2/sandboxes", { templateID: reference });
    expect(created.status).toBe(201);
  }
  expect(await untag("app", ["v1", "none"])).toEqual(
    fault(404, "Template 'app' with tag 'none' not found"),
  );
  expect((await send("GET", "/templates/aliases/app%3Av1")).status).toBe(200);
  expect((await untag("app", ["v1"])).status).toBe(204);
  expect(await send("GET", "/templates/aliases/app%3Av1")).toEqual(
    fault(404, "tag 'v1' does not exist for template 'app:v1'"),
  );
});

test.for<{ name: string; call: () => ReturnType<typeof send>; expected: unknown }>([
  {
    name: "no tag",
    call: () => tag("app", []),
    expected: fault(400, "At least one tag is required"),
  },
  {
    name: "no tag to remove",
    call: () => untag("app", []),
    expected: fault(400, "At least one tag is required"),
  },
  {
    name: "a malformed tag",
    call: () => tag("app", ["a b"]),
    expected: fault(400, "invalid tag: a b"),
  },
  {
    name: "a UUID",
    call: () => tag("app", ["00000000-0000-4000-8000-000000000000"]),
    expected: fault(400, "tag cannot be a UUID"),
  },
  {
    name: "the tag of references without one",
    call: () => untag("app", ["default"]),
    expected: fault(400, "Cannot delete the 'default' tag"),
  },
  {
    name: "a name with a tag",
    call: () => untag("app:v2", ["stable"]),
    expected: fault(400, "name must not carry a tag"),
  },
  {
    name: "another namespace",
    call: () => tag("others/app", ["v1"]),
    expected: fault(400, "namespace 'others' must match your team 'local'"),
  },
  {
    name: "a target without its tag",
    call: () => tag("app:none", ["v1"]),
    expected: fault(404, "tag 'none' does not exist for template 'app:none'"),
  },
  {
    name: "a built-in template",
    call: () => tag("base", ["v1"]),
    expected: fault(403, "You don't have access to template 'base'"),
  },
])("$name is refused", async ({ call, expected }) => {
  expect(await call()).toEqual(expected);
});

test("a published snapshot is everybody's to read and start, its team's to change", async () => {
  await service.embedded.sandboxes.snapshot(sandboxId, "gift");
  const path = "/templates/local%2Fgift";
  expect((await asOthers("GET", path)).status).toBe(404);
  expect(await send("PATCH", `/v2${path}`, { public: true })).toEqual({
    status: 200,
    body: { names: ["local/gift"] },
  });
  expect(await asOthers("GET", path)).toMatchObject({ status: 200, body: { public: true } });
  expect((await asOthers("GET", `${path}/tags`)).status).toBe(200);
  const wish = { templateID: "local/gift" };
  expect((await asOthers("POST", "/v2/sandboxes", wish)).status).toBe(201);
  const refused = fault(403, "You don't have access to template 'local/gift'");
  expect(await asOthers("DELETE", path)).toEqual(refused);
  expect(await asOthers("PATCH", path, { public: false })).toEqual(refused);
  expect((await asOthers("GET", "/snapshots")).body).toEqual([]);
  expect(await send("PATCH", path, { public: false })).toEqual({ status: 200, body: null });
  expect((await asOthers("GET", path)).status).toBe(404);
  expect((await asOthers("POST", "/v2/sandboxes", wish)).status).toBe(404);
});

test("the second list of templates is the first in pages, without those that were never built", async () => {
  expect((await send("POST", "/v3/templates", { name: "waits" })).status).toBe(202);
  const all = listedTemplateSchema.array().parse((await send("GET", "/templates")).body);
  expect(all.flatMap(({ names }) => names).toSorted()).toEqual(["base", "second"]);
  const first = await service.call({ path: "/v2/templates?limit=1" });
  expect(first.body).toEqual(all.slice(0, 1));
  const token = String(first.headers["x-next-token"]);
  const last = await service.call({ path: `/v2/templates?limit=1&nextToken=${token}` });
  expect({ body: last.body, next: last.headers["x-next-token"] }).toEqual({
    body: all.slice(1),
    next: undefined,
  });
  expect((await send("DELETE", "/templates/waits")).status).toBe(204);
});

test("a build of a built-in's name takes the name once it has made something", async () => {
  const { templateID: builtIn } = await service.create({ templateID: "second" });
  expect((await send("POST", "/v3/templates", { name: "second" })).status).toBe(202);
  expect((await service.create({ templateID: "second" })).templateID).toBe(builtIn);
  expect(await send("POST", "/v2/sandboxes", { templateID: "local/second" })).toEqual(
    fault(404, "tag 'default' does not exist for template 'local/second'"),
  );
  await service.embedded.sandboxes.snapshot(sandboxId, "second");
  expect((await service.create({ templateID: "second" })).templateID).not.toBe(builtIn);
});

test("a template that only paused sandboxes use is not said to have running ones", async () => {
  await service.embedded.sandboxes.snapshot(sandboxId, "used");
  const { sandboxID, templateID } = await service.create({ templateID: "used" });
  await service.embedded.sandboxes.pause(sandboxID, true);
  expect(await send("DELETE", "/templates/used")).toEqual(
    fault(
      400,
      `cannot delete template '${templateID}' because there are running or paused sandboxes using it`,
    ),
  );
});

test("of mcp the names of the servers stand in the log, and nothing that they are told", async () => {
  const mcp = { browser: { apiKey: "secret-1" }, "a,b": null };
  const { sandboxID } = await service.create({ mcp });
  const { text } = await service.call({ path: `/sandboxes/${sandboxID}/logs` });
  expect(text).toContain(String.raw`\"mcp_servers\":\"browser,a,b\"`);
  expect(text).not.toContain("secret-1");
});

test("of builds that newer snapshots of the same name replaced the newest fifty are kept", async () => {
  const { sandboxes, store } = service.embedded;
  for (let count = 0; count < 53; count += 1) await sandboxes.snapshot(sandboxId, "again");
  const templateId = store.templates.getByName("local/again")?.templateId ?? "";
  expect(store.builds.ofTemplate(templateId)).toHaveLength(51);
  expect((await send("DELETE", "/templates/again")).status).toBe(204);
});

test("a refused name is told with the form that it needs", async () => {
  const form =
    "NAME, TEAM/NAME or NAME:TAG, each of 1 to 128 letters, digits, hyphens and underscores";
  const message = `Invalid name: 'my app!' is not of the form ${form}`;
  const refused = { status: 400, body: { code: 400, message } };
  const body = { name: "my app!" };
  expect(await send("POST", "/v3/templates", body)).toEqual(refused);
  expect(await send("POST", `/sandboxes/${sandboxId}/snapshots`, body)).toEqual(refused);
  expect(await send("GET", "/snapshots?name=my%20app!")).toEqual(refused);
});
