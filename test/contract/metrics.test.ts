/** `/metrics` of a service, where it was asked for; and what pages of other sites can do. */

import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ hasMetrics: true, maxSandboxes: 7 });
});
afterAll(() => service[Symbol.asyncDispose]());

const PATH = "/metrics";

/** The figures, by name with labels. */
async function figures(): Promise<ReadonlyMap<string, number>> {
  const { text } = await service.call({ path: PATH });
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const mark = line.lastIndexOf(" ");
      return [line.slice(0, mark), Number(line.slice(mark + 1))];
    }),
  );
}

const calls = (labels: string) => `sandbox_mcp_control_calls_total{${labels}}`;

test("sandboxes are counted by state, calls by route and status", async () => {
  const { sandboxID } = await service.create();
  const asleep = await service.create();
  await service.call({ method: "POST", path: `/sandboxes/${asleep.sandboxID}/pause` });
  await service.call({ path: `/sandboxes/${sandboxID}` });
  await service.call({ path: "/sandboxes/i0" });
  await service.call({ path: '/"odd{path}' });
  const seen = await figures();
  expect(Object.fromEntries(seen)).toMatchObject({
    'sandbox_mcp_sandboxes{state="running"}': 1,
    'sandbox_mcp_sandboxes{state="paused"}': 1,
    'sandbox_mcp_sandboxes{state="starting"}': 0,
    sandbox_mcp_sandboxes_max: 7,
    [calls('method="POST",path="/v2/sandboxes",status="201"')]: 2,
    [calls('method="POST",path="/sandboxes/{sandboxID}/pause",status="204"')]: 1,
    [calls('method="GET",path="/sandboxes/{sandboxID}",status="200"')]: 1,
    [calls('method="GET",path="/sandboxes/{sandboxID}",status="404"')]: 1,
    [calls('method="GET",path="(unknown)",status="404"')]: 1,
    process_resident_memory_bytes: expect.any(Number),
  });
  const times = [...seen].filter(([name]) => name.startsWith("sandbox_mcp_control_call_seconds"));
  expect(times.every(([, seconds]) => seconds > 0)).toBe(true);
  expect(times).toHaveLength(5);
});

test("every line is one of the text form", async () => {
  const reply = await service.call({ path: PATH });
  expect(reply.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
  const sample = /^[a-z_]+(?:\{(?:[a-z]+="[^"\\\n]*",?)+\})? [0-9.e+-]+$/;
  const comment = /^# (?:HELP [a-z_]+ .+|TYPE [a-z_]+ (?:gauge|counter))$/;
  const lines = reply.text.trimEnd().split("\n");
  expect(lines.filter((line) => !sample.test(line) && !comment.test(line))).toEqual([]);
});

test("only keys of the team that runs the service are told", async () => {
  const { store, apiKey } = service.embedded;
  const others = createKey(store, createSystemClock(), { name: "x", team: "others" }).key;
  const statusOf = async (headers: Record<string, string>) =>
    (await service.call({ path: PATH, headers: { "x-api-key": "", ...headers } })).status;
  expect(await statusOf({})).toBe(401);
  expect(await statusOf({ "x-api-key": others })).toBe(401);
  expect(await statusOf({ "x-api-key": apiKey })).toBe(200);
  const bearer = async (key: string) => {
    const { statusCode, body } = await request(`http://localhost${PATH}`, {
      dispatcher: service.dispatcher,
      headers: { authorization: `Bearer ${key}` },
    });
    await body.dump();
    return statusCode;
  };
  expect([await bearer(apiKey), await bearer(others)]).toEqual([200, 401]);
  const post = await service.call({ method: "POST", path: PATH });
  expect([post.status, post.headers["allow"]]).toEqual([405, "GET"]);
});

test("a refusal names the key that is needed", async () => {
  const holder = { name: "x", team: "others" };
  const others = createKey(service.embedded.store, createSystemClock(), holder).key;
  const refusalOf = async (key: string) => {
    const { headers, body } = await service.call({ path: PATH, headers: { "x-api-key": key } });
    return { scheme: headers["www-authenticate"], body };
  };
  const body = { code: 401, message: "the metrics need a key of the team local" };
  expect(await refusalOf("")).toEqual({ scheme: "Bearer", body });
  expect(await refusalOf(others)).toEqual({ scheme: "Bearer", body });
});

test("without the flag there is no such path", async () => {
  await using plain = await startTestService();
  expect(await plain.call({ path: PATH })).toMatchObject({ status: 404, body: { code: 404 } });
});

test.for(["/sandboxes", "/v2/sandboxes", "/mcp", PATH, "/health"])(
  "a page of another site gets no leave to call %s",
  async (path) => {
    const { headers, body } = await request(`http://localhost${path}`, {
      dispatcher: service.dispatcher,
      method: "OPTIONS",
      headers: {
        origin: "https://evil.test",
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-api-key",
      },
    });
    await body.dump();
    const granted = Object.keys(headers).filter((name) => name.startsWith("access-control-"));
    expect(granted).toEqual([]);
    const read = await service.call({ path, headers: { origin: "https://evil.test" } });
    expect(read.headers["access-control-allow-origin"]).toBeUndefined();
  },
);
