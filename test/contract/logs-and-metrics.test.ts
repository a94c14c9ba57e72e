/** Logs of the second generation and metrics, over the wire. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import { metricSchema } from "../../src/wire/control.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
let sandboxId: string;
beforeAll(async () => {
  service = await startTestService();
  sandboxId = (await service.create()).sandboxID;
  await service.call({ method: "POST", path: `/sandboxes/${sandboxId}/pause` });
  await service.call({ method: "POST", path: `/v2/sandboxes/${sandboxId}/connect` });
});
afterAll(() => service[Symbol.asyncDispose]());

const MISSING = "i00000000000000000000";
const entriesSchema = z.object({
  logs: z.array(z.object({ timestamp: z.string(), message: z.string(), level: z.string() })),
});

async function logs(query: string): Promise<z.infer<typeof entriesSchema>["logs"]> {
  const { body } = await service.call({ path: `/v2/sandboxes/${sandboxId}/logs?${query}` });
  return entriesSchema.parse(body).logs;
}

test("logs come newest first, or oldest first from a cursor on", async () => {
  const search = "sandbox&level=info";
  const newest = await logs(`search=${search}`);
  expect(newest.map(({ message }) => message)).toContain("Pausing sandbox");
  const oldest = await logs(`search=${search}&direction=forward`);
  expect(oldest.toReversed()).toEqual(newest);
  expect(await logs("search=Pausing")).toHaveLength(1);
  expect(await logs("search=pausing")).toHaveLength(0);
  expect(await logs("limit=1&direction=forward")).toHaveLength(1);
  expect(await logs("level=error")).toEqual([]);
  const cursor = Date.parse(String(oldest.at(0)?.timestamp));
  const later = await logs(`search=${search}&direction=forward&cursor=${cursor}`);
  expect(later.every(({ timestamp }) => Date.parse(timestamp) >= cursor)).toBe(true);
  const earlier = await logs(`search=${search}&cursor=${cursor}`);
  expect(earlier.every(({ timestamp }) => Date.parse(timestamp) <= cursor)).toBe(true);
});

test.for(["limit=1001", "direction=up", "level=fatal", "cursor=-1", `search=${"x".repeat(257)}`])(
  "logs with %s are refused",
  async (query) => {
    const { status, body } = await service.call({
      path: `/v2/sandboxes/${sandboxId}/logs?${query}`,
    });
    expect({ status, body }).toMatchObject({ status: 400, body: { code: 400 } });
  },
);

test("metrics of one sandbox, and the newest of several", async () => {
  const path = `/sandboxes/${sandboxId}/metrics`;
  const samples = async (query = "") =>
    z.array(metricSchema.strict()).parse((await service.call({ path: `${path}${query}` })).body);
  await expect.poll(() => samples()).not.toEqual([]);
  const [sample] = await samples();
  const unix = sample?.timestampUnix ?? 0;
  expect(await samples(`?start=${unix}&end=${unix}`)).toEqual([sample]);
  expect(await samples(`?end=${unix - 1}`)).toEqual([]);
  expect(sample).toMatchObject({ cpuCount: 2, memTotal: 536_870_912, cpuUsedPct: 0 });
  const many = await service.call({
    path: `/sandboxes/metrics?sandbox_ids=${sandboxId},${MISSING}`,
  });
  const apart = `/sandboxes/metrics?sandbox_ids=${sandboxId}&sandbox_ids=${MISSING}`;
  expect((await service.call({ path: apart })).body).toEqual(many.body);
  expect(z.object({ sandboxes: z.record(z.string(), metricSchema) }).parse(many.body)).toEqual({
    sandboxes: { [sandboxId]: (await samples()).at(-1) },
  });
});

test("a fresh sample comes last, outside of any range, and is not kept", async () => {
  const path = `/sandboxes/${sandboxId}/metrics`;
  const samples = async (query: string) =>
    z.array(metricSchema).parse((await service.call({ path: `${path}?${query}` })).body);
  const [fresh, ...more] = await samples("start=1&end=2&fresh=true");
  expect({ age: Date.now() - Date.parse(fresh?.timestamp ?? "") < 5_000, more }).toEqual({
    age: true,
    more: [],
  });
  expect(await samples("start=1&end=2&fresh=false")).toEqual([]);
  const all = await samples("start=0");
  expect(all.map(({ timestamp }) => timestamp)).not.toContain(fresh?.timestamp);
});

test.for([
  { path: `/sandboxes/${MISSING}/metrics`, status: 404 },
  { path: `/sandboxes/${MISSING}/metrics?fresh=true`, status: 404 },
  { path: `/sandboxes/${MISSING}/metrics?fresh=1`, status: 400 },
  { path: `/v2/sandboxes/${MISSING}/logs`, status: 404 },
  { path: "/sandboxes/metrics", status: 400 },
  { path: "/sandboxes/metrics?sandbox_ids=A", status: 400 },
  { path: `/sandboxes/metrics?sandbox_ids=${Array(101).fill(MISSING).join(",")}`, status: 400 },
])("$path is $status", async ({ path, status }) => {
  expect((await service.call({ path })).status).toBe(status);
});

test("a range that ends before it starts is refused", async () => {
  const { body } = await service.call({ path: `/sandboxes/${sandboxId}/metrics?start=2&end=1` });
  expect(body).toEqual({ code: 400, message: "Invalid time range for metrics" });
});

test("of a sandbox that was killed there are no metrics, which is no fault", async () => {
  const { sandboxID } = await service.create();
  await service.embedded.sandboxes.kill(sandboxID);
  const reply = await service.call({ path: `/sandboxes/${sandboxID}/metrics` });
  expect({ status: reply.status, body: reply.body }).toEqual({ status: 200, body: [] });
});

test.for(["/sandboxes/{id}/logs", "/v2/sandboxes/{id}/logs", "/sandboxes/{id}/metrics"])(
  "%s of one that was paused for longer than its log is kept is there",
  async (path) => {
    const { sandboxID } = await service.create();
    await service.call({ method: "POST", path: `/sandboxes/${sandboxID}/pause` });
    const look = async () => service.call({ path: path.replace("{id}", sandboxID) });
    // What waits to be written is, before it is forgotten.
    await look();
    service.embedded.store.logs.forgetBefore(Date.now() + 1, 1_000);
    expect((await look()).status).toBe(200);
    await service.embedded.sandboxes.kill(sandboxID);
  },
);
