/** What the client sends to the control API, and what it makes of each answer. */

import { expect, test } from "vitest";
import type { PageQuery } from "../../../src/client/control-templates.ts";
import type { Control } from "../../../src/client/control.ts";
import { createService } from "../../../src/client/service.ts";
import type { SandboxError } from "../../../src/common/errors.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { answerJson, startRecorder, type Answer } from "../../support/network/recorder.ts";

const SANDBOX = {
  templateID: "t0",
  sandboxID: "i1",
  clientID: "6532622b",
  envdVersion: "0.6.13",
  envdAccessToken: "token-1",
  domain: null,
};

const { signal } = new AbortController();

async function startService(answer: Answer) {
  const recorder = await startRecorder((request, response) => {
    // A date would tell that the service has another clock.
    response.sendDate = false;
    answer(request, response);
  });
  const clock = createFakeClock(0);
  const service = createService({ url: `${recorder.url}/prefix/`, apiKey: "e2b_key", clock });
  return {
    recorder,
    service,
    clock,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await recorder[Symbol.asyncDispose]();
    },
  };
}

test("create sends the wire's own fields and remembers token and expiry", async () => {
  await using started = await startService((_, response) =>
    answerJson(response, 201, { body: SANDBOX }),
  );
  const { service, recorder } = started;
  await service.control.create({ templateID: "base", timeout: 300, secure: true }, signal, 3);
  expect(recorder.requests.map(({ method, url, body }) => [method, url, JSON.parse(body)])).toEqual(
    [["POST", "/prefix/sandboxes", { templateID: "base", timeout: 300, secure: true }]],
  );
  expect(recorder.requests[0]?.headers).toMatchObject({ "x-api-key": "e2b_key", prefer: "wait=3" });
  expect(service.expiresAtMs("i1")).toBe(300_000);
});

const CHANGES: Readonly<Record<string, (control: Control) => Promise<unknown>>> = {
  kill: (control) => control.kill("i1", signal),
  setTimeout: (control) => control.setTimeout("i1", 60, signal),
  pause: (control) => control.pause("i1", true, signal),
  deleteTemplate: (control) => control.deleteTemplate("t1", signal),
};

function faultText({ code, message }: SandboxError): string {
  return `${code}: ${message}`;
}

async function answerChanges(status: number, body: string): Promise<Record<string, string>> {
  await using started = await startService((_, response) => {
    // Frameworks send this type by default, also with nothing.
    response.writeHead(status, { "content-type": "text/html; charset=utf-8" }).end(body);
  });
  const { control } = started.service;
  const told: Record<string, string> = {};
  for (const [name, change] of Object.entries(CHANGES)) {
    told[name] = await change(control).then(() => "done", faultText);
  }
  return told;
}

test.for([
  { status: 204, body: "" },
  { status: 200, body: "" },
  { status: 200, body: "OK\n" },
  { status: 200, body: "null" },
  { status: 201, body: '{"sandboxID":"i1"}' },
])("a change is done by a reply of $status with '$body'", async ({ status, body }) => {
  const done = Object.keys(CHANGES).map((name) => [name, "done"]);
  expect(await answerChanges(status, body)).toEqual(Object.fromEntries(done));
});

test.for([
  { status: 200, body: "Okay", told: "200 with Okay" },
  { status: 200, body: "Welcome. Sign in.\n", told: "200 with Welcome. Sign in." },
  { status: 202, body: "", told: "202 does not say that it was done" },
  { status: 203, body: "{}", told: "203 does not say that it was done" },
  { status: 206, body: "", told: "206 does not say that it was done" },
])("a change is not done by a reply of $status with '$body'", async ({ status, body, told }) => {
  const replies = Object.values(await answerChanges(status, body));
  const unexpected = expect.stringMatching(new RegExp(`^internal: .*unexpected reply: ${told}$`));
  expect(replies).toEqual(Object.keys(CHANGES).map(() => unexpected));
});

test("samples of an older service have no cache", async () => {
  const [timestamp, cpuCount, cpuUsedPct] = ["2026-01-01T00:00:00Z", 1, 2.5];
  const sizes = { memUsed: 1, memTotal: 2, diskUsed: 3, diskTotal: 4 };
  const sample = { timestamp, cpuCount, cpuUsedPct, ...sizes };
  await using started = await startService((_, response) =>
    answerJson(response, 200, { body: [sample, { ...sample, memCache: null }] }),
  );
  const range = { start: 0, end: 1 };
  const samples = await started.service.control.metrics("i1", range, signal);
  expect(samples).toMatchObject([sample, sample]);
});

test("replies of another maker may have nulls, and leave out what no client reads", async () => {
  const { clientID: _id, envdVersion: _version, ...detail } = SANDBOX_DETAIL;
  const nulls = { alias: null, metadata: null, volumeMounts: null, network: { allowOut: null } };
  const lifecycle = { autoResume: null, onTimeout: "pause" };
  const foreign = { ...detail, ...nulls, lifecycle };
  await using started = await startService(({ method, url }, response) => {
    if (method === "POST") answerJson(response, 201, { body: { sandboxID: "i1", alias: null } });
    else answerJson(response, 200, { body: url.includes("/v2/") ? [foreign] : foreign });
  });
  const { control } = started.service;
  const made = await control.create({ templateID: "base", timeout: 300 }, signal);
  expect(made).toMatchObject({ sandboxID: "i1", templateID: "base" });
  expect((await control.connect("i1", { timeout: 60 }, signal)).sandbox.sandboxID).toBe("i1");
  const { sandboxID, state } = SANDBOX_DETAIL;
  expect(await control.get("i1", signal)).toMatchObject({
    sandboxID,
    state,
    network: {},
    lifecycle: { autoResume: false, onTimeout: "pause" },
  });
  expect((await control.list({}, signal)).sandboxes).toMatchObject([{ sandboxID, state }]);
});

test("templates of an older service have their aliases as names", async () => {
  const times = { createdAt: "2025-01-01T00:00:00Z", updatedAt: "2025-01-01T00:00:00Z" };
  const size = { cpuCount: 2, memoryMB: 512, diskSizeMB: 1024 };
  const template = { templateID: "t0", buildID: "b0", public: false, aliases: ["mine"], ...times };
  const nameless = { ...template, ...size, aliases: null, names: null, lastSpawnedAt: null };
  await using started = await startService(({ url }, response) => {
    const body = [{ ...template, ...size }, nameless];
    answerJson(response, 200, { body: url.includes("t0") ? { ...template, builds: [] } : body });
  });
  const { control } = started.service;
  expect(await control.templates(signal)).toMatchObject([
    { templateID: "t0", names: ["mine"], buildStatus: "unknown" },
    { templateID: "t0", names: [] },
  ]);
  expect((await control.template("t0", {}, signal)).template).toMatchObject({ names: ["mine"] });
});

test("words of a newer service take nothing from the rest of a reply", async () => {
  const words = { pauseMode: "new", pausedMemory: "new", pauseReason: "new" };
  const lifecycle = { autoResume: true, onTimeout: "new" };
  await using started = await startService((_, response) =>
    answerJson(response, 200, { body: { ...SANDBOX_DETAIL, ...words, lifecycle } }),
  );
  const { pauseReason, ...found } = await started.service.control.get("i1", signal);
  expect(pauseReason).toBeUndefined();
  expect(found).toMatchObject({ state: "running", lifecycle: { autoResume: true } });
});

test("an empty domain or token of a reply is none", async () => {
  const body = { ...SANDBOX_DETAIL, domain: "", envdAccessToken: "" };
  await using recorder = await startRecorder(({ method }, response) =>
    answerJson(response, method === "POST" ? 201 : 200, { body }),
  );
  const address = { url: recorder.url, apiKey: "k", domain: "box.example" };
  await using service = createService(address);
  const linkOf = async () => service.downloadUrl("i1", { path: "/a", expiration: 1 });
  const url = "https://49983-i1.box.example/files?path=%2Fa";
  const expected = { url, isSigned: false, isOfSession: false };
  await service.control.create({ templateID: "base", timeout: 300 }, signal);
  expect(await linkOf()).toEqual(expected);
  await service.control.get("i1", signal);
  expect(await linkOf()).toEqual(expected);
  expect(service.portHost("i1", 80)).toBe("80-i1.box.example");
});

test.for([
  "box.example/x?",
  "k@192.0.2.1",
  "bad host",
  "..",
  "192.0.2.1",
  "box.example:99999",
  "https://box.example",
])("a reply with the domain %j is refused", async (domain) => {
  await using started = await startService((_, response) =>
    answerJson(response, 200, { body: { ...SANDBOX_DETAIL, domain } }),
  );
  await expect(started.service.control.get("i1", signal)).rejects.toMatchObject({
    code: "internal",
    hint: expect.stringContaining("not a domain"),
  });
});

test.for([
  { status: 400, code: "invalid_argument" },
  { status: 401, code: "unauthenticated" },
  { status: 403, code: "permission_denied" },
  { status: 404, code: "not_found" },
  { status: 409, code: "failed_precondition" },
  { status: 429, code: "resource_exhausted" },
  { status: 500, code: "internal" },
  { status: 504, code: "deadline_exceeded" },
])("an answer of $status is $code, with the service's words quoted", async ({ status, code }) => {
  await using started = await startService((_, response) =>
    answerJson(response, status, { body: { code: status, message: "no\u202e way" } }),
  );
  await expect(started.service.control.get("i1", signal)).rejects.toMatchObject({
    code,
    message: `get i1: the service answered ${status} "no\\u202e way"`,
  });
});

test.for([
  { knows: "/v2/sandboxes", otherwise: 404 },
  { knows: "/v2/sandboxes", otherwise: 405 },
  { knows: "/sandboxes", otherwise: 404 },
])("both generations of a route are known: $knows, else $otherwise", async (row) => {
  await using started = await startService(({ url }, response) => {
    const isKnown = url.startsWith(`/prefix${row.knows}`);
    const body = isKnown ? SANDBOX : { code: row.otherwise, message: "no such path" };
    answerJson(response, isKnown ? 201 : row.otherwise, { body });
  });
  const { control } = started.service;
  const created = await control.create({ templateID: "base" }, signal);
  const { wasResumed } = await control.connect("i1", { timeout: 60 }, signal);
  expect([created.sandboxID, wasResumed]).toEqual(["i1", true]);
});

test("a template that neither generation knows is refused in the older one's words", async () => {
  await using started = await startService(({ url }, response) =>
    answerJson(response, 404, { body: { code: 404, message: `no template at ${url}` } }),
  );
  const creating = started.service.control.create({ templateID: "absent" }, signal);
  await expect(creating).rejects.toMatchObject({
    code: "not_found",
    message: 'create from absent: the service answered 404 "no template at /prefix/sandboxes"',
  });
});

test("a service that is not there is unavailable", async () => {
  const recorder = await startRecorder(() => undefined);
  await recorder[Symbol.asyncDispose]();
  const clock = createFakeClock();
  await using service = createService({ url: recorder.url, apiKey: "k", clock });
  const asked = service.control.create({ templateID: "base" }, signal);
  await expect(asked).rejects.toMatchObject({ code: "unavailable" });
});

test("a question is repeated when the service is busy, a command is not", async () => {
  const statuses = [503, 503, 200];
  await using started = await startService((_, response) =>
    answerJson(response, statuses.shift() ?? 503, { body: [] }),
  );
  const { service, recorder, clock } = started;
  const listing = service.control.list({}, signal);
  await expect.poll(() => recorder.requests.length).toBe(1);
  await expect
    .poll(async () => {
      await clock.advance(500);
      return recorder.requests.length;
    })
    .toBe(3);
  expect(await listing).toEqual({ sandboxes: [] });
  const creating = service.control.create({ templateID: "base" }, signal);
  await expect(creating).rejects.toMatchObject({ code: "unavailable" });
  expect(recorder.requests).toHaveLength(4);
});

test("a refusal that asks to wait is repeated after that time", async () => {
  let count = 0;
  await using started = await startService((_, response) => {
    count += 1;
    if (count > 1) answerJson(response, 201, { body: SANDBOX });
    else
      answerJson(response, 429, {
        body: { code: 429, message: "slow" },
        headers: { "retry-after": "2" },
      });
  });
  const { service, clock } = started;
  const creating = service.control.create({ templateID: "base" }, signal);
  await expect
    .poll(async () => {
      await clock.advance(500);
      return count;
    })
    .toBe(2);
  expect((await creating).sandboxID).toBe("i1");
});

test("a full disk of the service is not taken for that of a sandbox", async () => {
  await using started = await startService((_, response) =>
    answerJson(response, 507, {
      body: { code: 507, message: "no space left on the disk of the service" },
    }),
  );
  await expect(
    started.service.control.create({ templateID: "base" }, signal),
  ).rejects.toMatchObject({
    code: "resource_exhausted",
    hint: expect.stringMatching(/^The disk of the service is full, not that of a sandbox: delete/),
  });
});

test("a longer wish to wait is told", async () => {
  await using started = await startService((_, response) =>
    answerJson(response, 429, {
      body: { code: 429, message: "slow" },
      headers: { "retry-after": "600" },
    }),
  );
  await expect(started.service.control.kill("i1", signal)).rejects.toMatchObject({
    code: "resource_exhausted",
    hint: "Rate limited: wait 600 s.",
  });
});

test("killing what is gone says so", async () => {
  await using started = await startService((_, response) =>
    answerJson(response, 404, { body: { code: 404, message: "no" } }),
  );
  expect(await started.service.control.kill("i1", signal)).toBe(false);
});

test("a filter is encoded as the official clients do, and the next page is found", async () => {
  await using started = await startService((_, response) =>
    answerJson(response, 200, { body: [], headers: { "x-next-token": "t2" } }),
  );
  const { service, recorder } = started;
  const metadata = { "a b": "c/d,e" };
  const page = await service.control.list({ metadata, limit: 5, nextToken: "t1" }, signal);
  expect(page).toEqual({ sandboxes: [], nextToken: "t2" });
  expect(recorder.requests[0]?.url).toBe(
    "/prefix/v2/sandboxes?metadata=a%252520b%3Dc%25252Fd%25252Ce&limit=5&nextToken=t1",
  );
});

test("an answer of another shape is not trusted", async () => {
  await using started = await startService((_, response) =>
    answerJson(response, 200, { body: { sandboxID: 7 } }),
  );
  await expect(started.service.control.get("i1", signal)).rejects.toMatchObject({
    code: "internal",
  });
});

test("a cancelled question ends at once", async () => {
  await using started = await startService(() => undefined);
  const controller = new AbortController();
  const asked = started.service.control.get("i1", controller.signal);
  await expect.poll(() => started.recorder.requests.length).toBe(1);
  controller.abort();
  await expect(asked).rejects.toMatchObject({ code: "canceled" });
});

test("a snapshot's name is one segment of the path", async () => {
  await using started = await startService((_, response) =>
    answerJson(response, 404, { body: { code: 404, message: "no" } }),
  );
  const { service, recorder } = started;
  await expect(service.control.template("local/a:b", {}, signal)).rejects.toMatchObject({
    code: "not_found",
  });
  expect(recorder.requests[0]?.url).toBe("/prefix/templates/local%2Fa%3Ab");
});

test.for([
  { status: 401, code: "unauthenticated" },
  { status: 404, code: "unimplemented" },
  { status: 502, code: "unavailable" },
])("a refusal of $status with a page of any size keeps its code", async ({ status, code }) => {
  await using started = await startService((_, response) => {
    response.writeHead(status, { "content-type": "text/html" });
    response.end(`<html>${"x".repeat(200_000)}`);
  });
  await expect(started.service.control.get("i1", signal)).rejects.toMatchObject({
    code,
    message: expect.stringMatching(new RegExp(`the service answered ${status} "<html>x`)),
  });
});

const TEMPLATE = {
  templateID: "t0",
  buildID: "b0",
  public: false,
  names: ["mine"],
  aliases: [],
  createdAt: "2025-01-01T00:00:00Z",
  updatedAt: "2025-01-01T00:00:00Z",
  builds: [],
};

test.for<{ what: string; list: (control: Control, page: PageQuery) => Promise<object> }>([
  { what: "sandboxes", list: (control, page) => control.list(page, signal) },
  { what: "snapshots", list: (control, page) => control.snapshots(page, signal) },
  { what: "builds of a template", list: (control, page) => control.template("t0", page, signal) },
])("a page whose next page has its own token is refused: $what", async ({ list }) => {
  await using started = await startService(({ url }, response) => {
    const body = url.includes("/templates/") ? TEMPLATE : [];
    answerJson(response, 200, { body, headers: { "x-next-token": "n2" } });
  });
  const { control } = started.service;
  expect(await list(control, {})).toMatchObject({ nextToken: "n2" });
  expect(await list(control, { nextToken: "n1" })).toMatchObject({ nextToken: "n2" });
  await expect(list(control, { nextToken: "n2" })).rejects.toMatchObject({
    code: "internal",
    hint: expect.stringContaining("the next page has the token of this page"),
  });
});
