/** Every part of a request that a service keeps has a bound, and a refusal says which. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startServeMcp } from "../../../src/commands/serve/serve-mcp.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { loadConfig } from "../../../src/config.ts";
import { createKey } from "../../../src/sandboxes/keys.ts";
import { sandboxSchema, type SandboxBody } from "../../../src/wire/control.ts";
import { createCase, type Door, type RequestCase } from "../../support/hostile/request-cases.ts";
import { createRandom } from "../../support/random.ts";
import { envelope, readEnvelopes } from "../../support/raw-call.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { startTestService, type Reply, type TestService } from "../../support/service.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);
const CASES = IS_WHOLE_RUN ? 1_500 : 500;
const REAL_CASES = IS_WHOLE_RUN ? 60 : 4;
/** More than one may make sandboxes as often as this test does. */
const TEAMS = 12;

let service: TestService;
let client: Client;
const keys: string[] = [];
const loaded = loadConfig({}, []);

beforeAll(async () => {
  service = await startTestService({
    maxSandboxes: 100,
    tcp: [{ host: "127.0.0.1", port: 0 }],
    startMcp: async (listener, known) => {
      if (!("config" in loaded)) throw new Error("no configuration");
      const options = { config: loaded.config, log: createSilentLog(), publicUrl: listener.url };
      return startServeMcp({ ...options, listener, keys: known });
    },
  });
  const { store, ports } = service.embedded;
  for (let index = 0; index < TEAMS; index += 1) {
    const holder = { name: `key ${index}`, team: `team-${index}` };
    keys.push(createKey(store, createSystemClock(), holder).key);
  }
  client = new Client({ name: "host", version: "1.0.0" });
  const headers = { authorization: `Bearer ${service.embedded.apiKey}` };
  const url = new URL(`http://127.0.0.1:${ports[0]}/mcp`);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
});
afterAll(async () => {
  await client.close();
  await service[Symbol.asyncDispose]();
});

interface Outcome {
  readonly status: number;
  readonly text: string;
}

/** A create of something that is not there, so that what is taken costs no sandbox. */
async function send(door: Door, { body }: RequestCase, key: string): Promise<Outcome> {
  if (door === "mcp") return callTool("create_sandbox", { template: "none", ...body });
  const path = door === "v1" ? "/sandboxes" : "/v2/sandboxes";
  const wish = { templateID: "none", ...body };
  return service.call({ method: "POST", path, body: wish, headers: { "x-api-key": key } });
}

/** What a tool says, with the status that its words stand for. */
async function callTool(name: string, input: Record<string, unknown>): Promise<Outcome> {
  const reply = await client.callTool({ name, arguments: input });
  const text = JSON.stringify(reply.content);
  if (reply.isError !== true) return { status: 200, text };
  if (text.includes("not_found")) return { status: 404, text };
  return { status: /invalid_argument|Input validation/i.test(text) ? 400 : 500, text };
}

/** What is not as it should be; undefined when everything is. */
function judge({ name, expected }: RequestCase, { status, text }: Outcome): string | undefined {
  const told = `${name} → ${status} ${text.slice(0, 300)}`;
  if (text.length > 4_000) return `${told} (${text.length} characters)`;
  if (expected === "taken") return status === 404 || status === 201 ? undefined : told;
  const { refused } = expected;
  const isRefused =
    status === 400 || (status === 404 && !refused.some((word) => word !== "not found"));
  const isNamed = refused.every((word) => text.includes(word));
  return isRefused && isNamed ? undefined : told;
}

test(`E44 creates around their bounds are taken or say the bound, seed ${SEED}`, async (context) => {
  const random = createRandom(SEED);
  const faults: string[] = [];
  for (let count = 0; count < CASES; count += 1) {
    const door = random.pick<Door>(["v1", "v1", "v2", "v2", "mcp"]);
    const wish = createCase(random, door);
    const fault = judge(wish, await send(door, wish, keys[count % TEAMS] ?? ""));
    if (fault !== undefined) faults.push(fault);
  }
  expect(faults).toEqual([]);
  tellCells(context, CASES);
});

/** How many bytes of environment a program in the sandbox sees. */
async function environmentBytes({ sandboxID, envdAccessToken }: SandboxBody): Promise<number> {
  const start = { process: { cmd: "/bin/sh", args: ["-c", "env | wc -c"] } };
  const reply = await request("http://localhost/process.Process/Start", {
    dispatcher: service.dispatcher,
    method: "POST",
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      "e2b-sandbox-id": sandboxID,
      "e2b-sandbox-port": "49983",
      ...(envdAccessToken && { "x-access-token": envdAccessToken }),
    },
    body: envelope(JSON.stringify(start)),
  });
  const bytes = Buffer.from(await reply.body.arrayBuffer());
  const text = JSON.stringify(readEnvelopes(bytes).map(({ json }) => json));
  const [, output = ""] = /"stdout":"([^"]*)"/.exec(text) ?? [];
  if (!text.includes('"exited":true')) throw new Error(text.slice(0, 500));
  return Number(Buffer.from(output, "base64").toString());
}

/** A create with as much as it may have, of both. */
function fullBody(letter: string) {
  const width = Buffer.byteLength(letter);
  const fill = (bytes: number) =>
    letter.repeat(Math.floor(bytes / width)) + "a".repeat(bytes % width);
  return { metadata: { m: fill(65_535) }, envVars: { NAME: fill(98_304 - 6) } };
}

test("E44 programs and lists work with everything that was taken", async (context) => {
  const random = createRandom(SEED);
  const made: SandboxBody[] = [];
  for (let count = 0; count < REAL_CASES; count += 1) {
    const letter = random.pick(["a", '"', "\n", "\u65e5", "\u{1f600}"]);
    const path = random.pick(["/sandboxes", "/v2/sandboxes"]);
    const body = { templateID: "base", timeout: 600, ...fullBody(letter) };
    const reply = await service.call({ method: "POST", path, body });
    expect([reply.status, reply.text.slice(0, 300)]).toEqual([201, expect.anything()]);
    const sandbox = sandboxSchema.parse(reply.body);
    expect(await environmentBytes(sandbox)).toBeGreaterThan(98_304 - 10);
    made.push(sandbox);
  }
  const ids = made.map(({ sandboxID }) => sandboxID);
  expect(new Set(await listedByPages())).toEqual(new Set(ids));
  for (const list of [
    await service.call({ path: "/sandboxes" }),
    await service.call({ path: `/sandboxes?metadata=${encodeURIComponent("m=x")}` }),
  ]) {
    expect(list.status).toBe(200);
    expect(list.text.length).toBeLessThan(9 * 1_048_576);
  }
  expect((await callTool("list_sandboxes", { limit: 100 })).status).toBe(200);
  for (const id of ids) await service.embedded.sandboxes.kill(id);
  tellCells(context, REAL_CASES);
});

async function listedByPages(): Promise<readonly string[]> {
  const ids: string[] = [];
  let token = "";
  do {
    const reply: Reply = await service.call({ path: `/v2/sandboxes?nextToken=${token}` });
    expect(reply.text.length).toBeLessThan(9 * 1_048_576);
    ids.push(...[...reply.text.matchAll(/"sandboxID":"([^"]+)"/g)].map(([, id = ""]) => id));
    token = String(reply.headers["x-next-token"] ?? "");
  } while (token !== "");
  return ids;
}

const SIZES = [0, 511, 512, 513, 100_000, IS_WHOLE_RUN ? 15_000_000 : 1_000_000];
const LETTERS = ["n", "\u65e5", "\0", "\ud800"];

test("E44 names of snapshots, volumes and tags have a bound", async (context) => {
  const { sandboxID } = await service.create();
  const posts = [
    {
      path: `/sandboxes/${sandboxID}/snapshots`,
      field: "name",
      body: (text: string) => ({ name: text }),
    },
    { path: "/volumes", field: "name", body: (text: string) => ({ name: text }) },
    {
      path: "/templates/tags",
      field: "target",
      body: (text: string) => ({ target: text, tags: ["a"] }),
    },
    {
      path: "/templates/tags",
      field: "tags",
      body: (text: string) => ({ target: "base", tags: [text] }),
    },
  ];
  const wishes = posts.flatMap((post) =>
    SIZES.flatMap((size) =>
      LETTERS.filter((letter) => size <= 100_000 || letter === "n").map((letter) => {
        return { ...post, size, wish: post.body(letter.repeat(size)) };
      }),
    ),
  );
  const faults: string[] = [];
  for (const { path, field, size, wish } of wishes) {
    const { status, text } = await service.call({ method: "POST", path, body: wish });
    const isNamed = size <= 512 || (text.includes(field) && text.includes("512"));
    const isFine = [400, 404].includes(status) && isNamed && text.length < 4_000;
    if (!isFine) faults.push(`${path} ${field} ${size} → ${status} ${text.slice(0, 200)}`);
  }
  expect(faults).toEqual([]);
  await service.embedded.sandboxes.kill(sandboxID);
  tellCells(context, wishes.length);
});

async function listFiltered(amount: number): Promise<Reply> {
  const filter = Array.from({ length: amount }, (_, index) => `k${index}=v`).join("&");
  return service.call({ path: `/v2/sandboxes?metadata=${encodeURIComponent(filter)}` });
}

/** By the tool, with a value whose encoding is as long as one can be. */
async function listByTool(bytes: number): Promise<Outcome> {
  const metadata = [{ name: "k", value: "\n".repeat(bytes - 1) }];
  return callTool("list_sandboxes", { metadata });
}

test("E44 a filter has at most 100 pairs, and 2,048 bytes of the tool", async () => {
  const replies = [await listFiltered(100), await listFiltered(101)];
  expect(replies.map(({ status }) => status)).toEqual([200, 400]);
  expect(replies[1]?.text).toContain("at most 100 pairs");
  expect((await listByTool(2_048)).status).toBe(200);
  const refused = await listByTool(2_049);
  expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("2048 bytes")]);
});
