/** Fields and routes that the newest public clients send and expect. */

import { afterAll, beforeAll, expect, test } from "vitest";
import type { SandboxBody } from "../../src/wire/control.ts";
import { tagGroupsSchema as groupsSchema } from "../../src/wire/tag-assignments.ts";
import { createHeldEngine, type HeldEngine } from "../support/engine/held-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";

let held: HeldEngine;
let service: TestService;
let sandbox: SandboxBody;
beforeAll(async () => {
  held = createHeldEngine();
  service = await startTestService({ engine: held.engine });
  sandbox = await service.create();
});
afterAll(() => service[Symbol.asyncDispose]());

function post(operation: string, body: object = {}) {
  const path = `/sandboxes/${sandbox.sandboxID}/${operation}`;
  return service.call({ method: "POST", path, body });
}

async function detail() {
  return (await service.call({ path: `/sandboxes/${sandbox.sandboxID}` })).body;
}

test("a paused sandbox tells what its pause kept, a running one nothing", async () => {
  expect(await detail()).not.toHaveProperty("pauseMode");
  const paused = await post("pause", { requireHealthyGuest: true });
  expect(paused).toMatchObject({ status: 204, headers: { "x-pause-mode": "full" } });
  const inProcess = { state: "paused", pauseMode: "full", pausedMemory: "process" };
  expect(await detail()).toMatchObject(inProcess);
  expect((await post("resume", { timeout: 600 })).status).toBe(201);
  const ended = await post("pause", { memory: false });
  expect(ended.headers["x-pause-mode"]).toBe("filesystem");
  expect(await detail()).toMatchObject({ state: "paused", pauseMode: "filesystem" });
  expect(await detail()).not.toHaveProperty("pausedMemory");
  expect((await post("resume", { timeout: 600 })).status).toBe(201);
  expect(await detail()).not.toHaveProperty("pauseMode");
});

test("a pause under way is described as what it will keep", async () => {
  using hold = held.hold("halt");
  const answer = post("pause", { memory: false });
  await hold.reached;
  const kept = { state: "paused", pauseMode: "filesystem", pauseReason: "request" };
  const described = await detail();
  hold[Symbol.dispose]();
  expect((await answer).status).toBe(204);
  expect(described).toMatchObject(kept);
  expect(described).not.toHaveProperty("pausedMemory");
  expect((await post("resume", { timeout: 600 })).status).toBe(201);
});

test("a daemon that is silent at the pause is told, and its memory is not resumed", async () => {
  const { sandboxID } = await service.create({ autoResume: { enabled: true } });
  const send = async (rest: string, body: object) =>
    service.call({ method: "POST", path: `/sandboxes/${sandboxID}/${rest}`, body });
  const mark = async () => (await service.call({ path: `/sandboxes/${sandboxID}` })).body;
  const silence = held.silence();
  expect(await send("pause", { requireHealthyGuest: true })).toMatchObject({ status: 503 });
  expect(await mark()).toMatchObject({ state: "running" });
  expect((await send("pause", {})).status).toBe(204);
  silence[Symbol.dispose]();
  expect(await mark()).toMatchObject({
    state: "paused",
    pauseMode: "full",
    envdUnresponsiveAtPause: true,
  });
  const listed = await service.call({ path: "/v2/sandboxes?state=paused" });
  expect(listed.body).toMatchObject([{ sandboxID, envdUnresponsiveAtPause: true }]);
  for (const operation of ["connect", "resume"]) {
    const refused = await send(operation, { timeout: 600 });
    const expected = { code: 409, error_code: "sandbox_snapshot_guest_agent_unresponsive" };
    expect(refused).toMatchObject({ status: 409, body: expected });
    expect(refused.headers["should-retry"]).toBe("false");
  }
  // Traffic does not boot a sandbox anew either.
  expect((await service.enter({ sandboxID, port: 80 }, { path: "/" })).status).toBe(502);
  expect((await send("connect", { timeout: 600, memory: false })).status).toBe(201);
  expect(await mark()).not.toHaveProperty("envdUnresponsiveAtPause");
  expect((await send("pause", {})).status).toBe(204);
  expect((await send("connect", { timeout: 600 })).status).toBe(201);
}, 30_000);

test("a daemon that restarts at the pause is asked again, and counts as one that answers", async () => {
  const { sandboxID } = await service.create();
  const path = `/sandboxes/${sandboxID}`;
  held.breakConnections(3);
  const pause = {
    method: "POST" as const,
    path: `${path}/pause`,
    body: { requireHealthyGuest: true },
  };
  expect((await service.call(pause)).status).toBe(204);
  expect((await service.call({ path })).body).not.toHaveProperty("envdUnresponsiveAtPause");
  const connect = { method: "POST" as const, path: `${path}/connect`, body: { timeout: 600 } };
  expect((await service.call(connect)).status).toBe(201);
});

test("a snapshot says that it has no memory, and so does a sandbox from it", async () => {
  const files = { memory: false, memoryReason: "programs are those of the host" };
  const reply = await post("snapshots", { name: "files", memory: true });
  expect([reply.status, reply.body]).toEqual([
    201,
    { snapshotID: "local/files:default", names: ["local/files"], ...files },
  ]);
  const asked = await post("snapshots", { name: "asked", memory: false });
  expect(asked.body).toMatchObject({ memoryReason: "files alone were asked for" });
  const created = await service.call({
    method: "POST",
    path: "/sandboxes",
    body: { templateID: "files" },
  });
  expect([created.status, created.body]).toEqual([201, expect.objectContaining(files)]);
});

test("name servers are kept, checked and replaced; null traffic is the default", async () => {
  const denyOut = ["0.0.0.0/0"];
  const network = { allowOut: ["example.com"], denyOut, dnsServers: ["192.0.2.53"] };
  const { sandboxID } = await service.create({
    network: { ...network, allowPublicTraffic: null },
  });
  const stored = async () => (await service.call({ path: `/sandboxes/${sandboxID}` })).body;
  expect(await stored()).toMatchObject({ network });
  const put = async (body: object) =>
    (await service.call({ method: "PUT", path: `/sandboxes/${sandboxID}/network`, body })).status;
  expect(await put({ dnsServers: ["::1"] })).toBe(400);
  expect(await put({ dnsServers: Array.from({ length: 17 }, () => "192.0.2.1") })).toBe(400);
  expect(await put({ denyOut })).toBe(204);
  expect(await stored()).toMatchObject({ network: { denyOut } });
  expect(await stored()).not.toHaveProperty("network.dnsServers");
});

async function getOfTags(rest: string): Promise<unknown> {
  return (await service.call({ path: `/templates/tagged/tags/${rest}` })).body;
}

test("tags are counted, found, grouped in pages and told with their assignment", async () => {
  for (const tag of ["one", "two", "three"]) await post("snapshots", { name: `tagged:${tag}` });
  expect(await getOfTags("count")).toEqual({ total: 3 });
  expect(await getOfTags("exists?tag=%20ONE")).toEqual({ exists: true, normalizedTag: "one" });
  expect(await getOfTags("exists?tag=four")).toEqual({ exists: false, normalizedTag: "four" });
  const uuid = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  const time = expect.stringMatching(/^\d{4}-.*Z$/);
  const assignment = {
    assignmentId: uuid,
    buildId: uuid,
    assignedAt: time,
    buildCreatedAt: time,
    buildFinishedAt: time,
  };
  expect(await getOfTags("one/assignments")).toEqual({ data: [assignment], nextCursor: null });
  expect(await getOfTags("four/assignments")).toEqual({ data: [], nextCursor: null });
  const seen: unknown[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const query: string = cursor === "" ? "" : `&tagsCursor=${cursor}`;
    const page = groupsSchema.parse(await getOfTags(`groups?tagsLimit=1&sort=name_asc${query}`));
    seen.push(...page.tags);
    cursor = page.nextCursor;
  }
  expect(seen).toEqual(
    ["one", "three", "two"].map((tag) => ({ tag, assignments: [assignment], hasMore: false })),
  );
  expect(await getOfTags("groups?search=TH")).toMatchObject({ tags: [{ tag: "three" }] });
});

test("the default templates are the built-in ones", async () => {
  const [all, defaults] = await Promise.all([
    service.call({ path: "/templates" }),
    service.call({ path: "/default-templates" }),
  ]);
  expect([defaults.status, defaults.body]).toEqual([200, all.body]);
});
