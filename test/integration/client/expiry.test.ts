/** When the time of a sandbox is over, as the client knows it after each reply. */

import { expect, test } from "vitest";
import { createService, type Service } from "../../../src/client/service.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { answerJson, startRecorder, type Answer } from "../../support/network/recorder.ts";

const SANDBOX = { templateID: "t0", sandboxID: "i1", envdAccessToken: "token-1", domain: null };

const { signal } = new AbortController();

async function startService(answer: Answer) {
  await using stack = new AsyncDisposableStack();
  const recorder = await startRecorder((request, response) => {
    // A date would tell that the service has another clock.
    response.sendDate = false;
    answer(request, response);
  });
  stack.use(recorder);
  const clock = createFakeClock(0);
  const service = stack.use(createService({ url: recorder.url, apiKey: "e2b_key", clock }));
  const owned = stack.move();
  return { recorder, service, clock, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test.for([
  { connect: "a resumed sandbox lives as long as asked", status: 201, detail: 500, endMs: 60_000 },
  { connect: "one that ran lives as its service says", status: 200, detail: 200, endMs: 90_000 },
  { connect: "one that ran, of a service that fails", status: 200, detail: 500, endMs: undefined },
])("the expiry after a connect: $connect", async ({ status, detail, endMs }) => {
  await using started = await startService(({ method, url }, response) => {
    const body = { ...SANDBOX_DETAIL, endAt: new Date(90_000).toISOString() };
    if (method === "GET") answerJson(response, detail, { body });
    else answerJson(response, url.endsWith("/connect") ? status : 201, { body: SANDBOX });
  });
  const { service } = started;
  await service.control.create({ templateID: "base", timeout: 3_600 }, signal);
  await service.control.connect("i1", { timeout: 60 }, signal);
  expect(service.expiresAtMs("i1")).toBe(endMs);
});

test.for([
  { name: "told just now", passedMs: 9_000, status: 200, known: 300_000, asks: 0 },
  { name: "told a while ago", passedMs: 10_000, status: 200, known: 600_000, asks: 1 },
  { name: "that has passed", passedMs: 300_000, status: 200, known: 600_000, asks: 1 },
  { name: "of a service that fails", passedMs: 10_000, status: 500, known: undefined, asks: 1 },
])("an expiry $name before a call", async ({ passedMs, status, known, asks }) => {
  await using started = await startService(({ method }, response) => {
    const body = { ...SANDBOX_DETAIL, endAt: new Date(600_000).toISOString() };
    if (method === "GET") answerJson(response, status, { body });
    else answerJson(response, 201, { body: SANDBOX });
  });
  const { service, clock, recorder } = started;
  await service.control.create({ templateID: "base", timeout: 300 }, signal);
  await clock.advance(passedMs);
  await service.renewExpiry("i1");
  expect(service.expiresAtMs("i1")).toBe(known);
  await service.renewExpiry("i1");
  expect(recorder.requests.filter(({ method }) => method === "GET")).toHaveLength(asks);
});

test.for([
  { order: "a new timeout", status: 200, endMs: undefined },
  { order: "a pause", status: 200, endMs: undefined },
  { order: "a kill", status: 200, endMs: undefined },
  { order: "a connect", status: 200, endMs: 70_000 },
  { order: "a connect", status: 500, endMs: 70_000 },
] as const)("a look from before $order, whose reply is $status, changes nothing", async (row) => {
  const looked = Promise.withResolvers<undefined>();
  const ordered = Promise.withResolvers<undefined>();
  await using started = await startService(({ method, url }, response) => {
    const body = { ...SANDBOX_DETAIL, endAt: new Date(600_000).toISOString() };
    const answer = () => answerJson(response, row.status, { body });
    const status = /timeout$|pause$/.test(url) || method === "DELETE" ? 204 : 201;
    if (method !== "GET") return answerJson(response, status, { body: SANDBOX });
    looked.resolve(undefined);
    return void ordered.promise.then(answer);
  });
  const { control } = started.service;
  const orders = {
    "a new timeout": async () => control.setTimeout("i1", 60, signal),
    "a pause": async () => control.pause("i1", true, signal),
    "a kill": async () => control.kill("i1", signal),
    "a connect": async () => control.connect("i1", { timeout: 60 }, signal),
  };
  await control.create({ templateID: "base", timeout: 300 }, signal);
  await started.clock.advance(10_000);
  const look = started.service.renewExpiry("i1");
  await looked.promise;
  await orders[row.order]();
  ordered.resolve(undefined);
  await look;
  expect(started.service.expiresAtMs("i1")).toBe(row.endMs);
});

test("nothing is asked of a sandbox that is gone by then, or unknown", async () => {
  await using started = await startService(({ method }, response) => {
    if (method === "GET") answerJson(response, 404, { body: { code: 404, message: "no" } });
    else answerJson(response, 201, { body: SANDBOX });
  });
  const { service, clock, recorder } = started;
  await service.control.create({ templateID: "base", timeout: 300 }, signal);
  await clock.advance(10_000);
  for (const id of ["i1", "i1", "i2"]) await service.renewExpiry(id);
  expect(service.expiresAtMs("i1")).toBe(undefined);
  expect(recorder.requests.map(({ method }) => method)).toEqual(["POST", "GET"]);
});

const PLAIN = { ...SANDBOX, envdAccessToken: null };
type Call = (service: Service) => Promise<unknown>;

test.for<{ name: string; status: number; call: Call }>([
  { name: "look", status: 200, call: (service) => service.renewExpiry("i1") },
  {
    name: "connect",
    status: 200,
    call: ({ control }) => control.connect("i1", { timeout: 60 }, signal),
  },
  {
    name: "resume",
    status: 201,
    call: ({ control }) => control.connect("i1", { timeout: 60 }, signal),
  },
])("a $name whose reply names no token and no domain keeps the known ones", async (row) => {
  await using started = await startService(({ method, url }, response) => {
    const created = { ...SANDBOX, domain: "box.example" };
    if (method === "GET") answerJson(response, 200, { body: SANDBOX_DETAIL });
    else if (url.endsWith("/connect")) answerJson(response, row.status, { body: PLAIN });
    else answerJson(response, 201, { body: created });
  });
  const { service, clock } = started;
  await service.control.create({ templateID: "base", timeout: 300 }, signal);
  const look = async () => ({
    link: await service.downloadUrl("i1", { path: "/a", expiration: 1 }),
    host: service.portHost("i1", 80),
  });
  const before = await look();
  await clock.advance(10_000);
  await row.call(service);
  expect(started.recorder.requests).not.toHaveLength(1);
  expect(before).toMatchObject({ host: "80-i1.box.example", link: { isSigned: true } });
  expect(await look()).toEqual(before);
});
