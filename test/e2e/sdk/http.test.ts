/** Files over plain HTTP through the gateway: what no client has a method for, yet the wire says. */

import { gunzipSync, gzipSync } from "node:zlib";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Signal } from "../../../src/gen/process/process_pb.ts";
import {
  begin,
  byPid,
  openRpcSandbox,
  type RpcClients,
  type RpcSandbox,
} from "../../support/clients/rpc-sandbox.ts";
import { collect, runScript } from "../../support/daemon/collect.ts";
import { hasSetId, isGvisor } from "../../support/level.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

const RAW = { "content-type": "application/octet-stream" };
const MIB = 1024 * 1024;

let serve: TestServe;
let sandbox: RpcSandbox;
let processes: RpcClients["processes"];

beforeAll(async () => {
  serve = await startServe(["--pool", "0"]);
  sandbox = await openRpcSandbox(serve);
  ({ processes } = sandbox.clients({ useBinaryFormat: false }));
});

afterAll(async () => {
  await sandbox[Symbol.asyncDispose]();
  await serve[Symbol.asyncDispose]();
});

interface Call {
  readonly method?: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Uint8Array;
}

/** One call with the token; nothing is added to what the test says, and nothing decoded. */
async function send(path: string, { method = "GET", headers = {}, body = "" }: Call = {}) {
  const all = { ...sandbox.headers, ...headers };
  const options = { method, headers: all, ...(body === "" ? {} : { body }) };
  const reply = await request(`${serve.url}${path}`, options);
  return {
    status: reply.statusCode,
    headers: reply.headers,
    bytes: Buffer.from(await reply.body.arrayBuffer()),
  };
}

function pathQuery(path: string): string {
  return `/files?path=${encodeURIComponent(path)}`;
}

async function upload(path: string, body: string | Uint8Array, headers: Call["headers"] = {}) {
  return send(pathQuery(path), { method: "POST", headers: { ...RAW, ...headers }, body });
}

async function compose(body: object) {
  const headers = { "content-type": "application/json" };
  const reply = await send("/files/compose", {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  const json: unknown = JSON.parse(reply.bytes.toString());
  return [reply.status, json];
}

async function composeTo(sources: readonly string[], destination = "destination") {
  return compose({ source_paths: sources, destination });
}

function refusedWith(code: number, message: string) {
  return [code, { code, message }];
}

async function say(script: string): Promise<string> {
  return (await runScript(processes, script)).stdout;
}

function textOf(reply: { readonly bytes: Buffer }): string {
  return reply.bytes.toString();
}

async function statusOf(path: string, headers: Readonly<Record<string, string>>) {
  return (await fetch(`${serve.url}${path}`, { headers })).status;
}

/** Status and message of a refusal. */
function refusal(reply: { readonly status: number; readonly bytes: Buffer }) {
  const { message }: { message: string } = JSON.parse(textOf(reply));
  return [reply.status, message];
}

test("ten mebibytes are composed in order, and their sources are gone", async () => {
  const letters = Array.from("abcdefghij");
  await Promise.all(letters.map(async (letter) => upload(`parts/${letter}`, letter.repeat(MIB))));
  const reply = await compose({
    source_paths: letters.map((letter) => `parts/${letter}`),
    destination: "whole/of/them.txt",
  });
  expect(reply).toEqual([
    200,
    { path: "/home/user/whole/of/them.txt", name: "them.txt", type: "file" },
  ]);
  const expected = letters.map((letter) => letter.repeat(MIB)).join("");
  expect(textOf(await send(pathQuery("whole/of/them.txt"))) === expected).toBe(true);
  expect(await say("ls -A parts; stat -c '%U:%G %a' whole whole/of/them.txt")).toBe(
    "user:user 755\nuser:user 644\n",
  );
});

test("a composition is refused with everything left as it was", async () => {
  await upload("source", "source");
  await upload("destination", "destination");
  expect([
    await composeTo([]),
    await composeTo(["source"], ""),
    await composeTo(["destination"]),
    await composeTo(["source", "/tmp"]),
    await composeTo(["source", "missing"]),
  ]).toEqual([
    refusedWith(400, "source_paths must not be empty"),
    refusedWith(400, "destination is required"),
    refusedWith(400, 'source path "destination" cannot be the same as destination'),
    refusedWith(400, "source path is not a regular file: /tmp"),
    refusedWith(404, "source file not found: missing"),
  ]);
  const [status] = await composeTo(["source"], "/tmp");
  expect(status).toBe(500);
  expect(await say("cat source destination")).toBe("sourcedestination");
  expect((await composeTo(["source"]))[0]).toBe(200);
  expect(await say("cat destination; ls -d source 2>&1 | wc -l")).toBe("source1\n");
});

test("composing needs the token; no signature stands in for it", async () => {
  const { "x-access-token": _, ...outside } = sandbox.headers;
  const reply = await fetch(`${serve.url}/files/compose?signature=v1_x`, {
    method: "POST",
    headers: outside,
    body: JSON.stringify({ source_paths: ["a"], destination: "b" }),
  });
  expect(reply.status).toBe(401);
});

test("uploads to where nothing can be stored are told apart", async () => {
  expect(refusal(await upload("/proc/no-such/x", "x"))[0]).toBe(500);
  expect(refusal(await upload("/proc/no-such/x", "x"))[1]).toMatch(/^error ensuring directories: /);
  expect(refusal(await upload("/tmp", "x"))).toEqual([400, "path is a directory: /tmp"]);
  expect(refusal(await upload("/proc/new-file", "x"))).toEqual([
    500,
    `error opening file: open /proc/new-file: ${isGvisor ? "operation not permitted" : "no such file or directory"}`,
  ]);
  expect(refusal(await send("/files", { method: "POST", headers: RAW, body: "x" }))).toEqual([
    400,
    "path query parameter is required for raw body upload",
  ]);
  const headers = { "content-type": "application/json" };
  expect(refusal(await send(pathQuery("x"), { method: "POST", headers, body: "{}" }))).toEqual([
    400,
    "unsupported content type: application/json, expected multipart/form-data or application/octet-stream",
  ]);
});

test("a file of the kernel takes an upload as it is", async () => {
  const { pid, rest } = await begin(processes, "exec sleep 600");
  const path = `/proc/${pid}/oom_score_adj`;
  const written = JSON.stringify([{ path, name: "oom_score_adj", type: "file" }]);
  // Files of gVisor's `/proc` have the owners that they have.
  const refused = { code: 500, message: "error changing file ownership: operation not permitted" };
  const answer = isGvisor ? [500, JSON.stringify(refused)] : [200, written];
  // The file is root's until the process has become its user.
  await expect
    .poll(async () => upload(path, "700").then((reply) => [reply.status, textOf(reply)]))
    .toEqual(answer);
  expect(await say(`cat ${path}`)).toBe(isGvisor ? "0\n" : "700\n");
  await processes.sendSignal({ process: byPid(pid), signal: Signal.SIGKILL });
  await collect(rest);
});

test("compressed bodies are stored as what they hold, raw and as a form", async () => {
  const gzip = { "content-encoding": "gzip" };
  await upload("unzipped.txt", gzipSync("raw"), gzip);
  expect(textOf(await send(pathQuery("unzipped.txt")))).toBe("raw");
  const form = new FormData();
  form.append("file", new Blob(["by form"]), "unzipped-form.txt");
  const whole = new Response(form);
  const headers = { ...gzip, "content-type": whole.headers.get("content-type") ?? "" };
  const body = gzipSync(Buffer.from(await whole.arrayBuffer()));
  expect((await send("/files", { method: "POST", headers, body })).status).toBe(200);
  expect(textOf(await send(pathQuery("unzipped-form.txt")))).toBe("by form");
});

test("a compressed download keeps its type; ranges ask for the plain form", async () => {
  await upload("typed.txt", "typed text");
  const zipped = await send(pathQuery("typed.txt"), { headers: { "accept-encoding": "gzip" } });
  expect(zipped.headers).toMatchObject({
    "content-encoding": "gzip",
    "content-type": "text/plain; charset=utf-8",
    vary: "Accept-Encoding",
  });
  expect(gunzipSync(zipped.bytes).toString()).toBe("typed text");
  const part = await send(pathQuery("typed.txt"), { headers: { range: "bytes=6-" } });
  expect([part.status, part.headers["content-range"], textOf(part)]).toEqual([
    206,
    "bytes 6-9/10",
    "text",
  ]);
  const headers = { "accept-encoding": "gzip; q=1,*; q=0", range: "bytes=0-1" };
  expect(refusal(await send(pathQuery("typed.txt"), { headers }))).toEqual([
    406,
    "identity encoding not acceptable for Range or conditional request",
  ]);
});

test.for([
  ["plain.txt", "inline; filename=plain.txt"],
  ["two words.txt", 'inline; filename="two words.txt"'],
  [`quo"te.txt`, String.raw`inline; filename="quo\"te.txt"`],
  ["back\\slash.txt", String.raw`inline; filename="back\\slash.txt"`],
  ["ü.txt", "inline; filename*=utf-8''%C3%BC.txt"],
  [".hidden", "inline; filename=.hidden"],
] as const)("the base name of %j is told to browsers", async ([name, disposition]) => {
  await upload(`told/${name}`, "x");
  const reply = await send(pathQuery(`told/${name}`));
  expect(reply.headers["content-disposition"]).toBe(disposition);
});

test("of metadata given twice the first counts", async () => {
  const reply = await upload("twice", "x", { "X-Metadata-Key": ["one", "two"] });
  // A runtime without set-id programs keeps no attributes either.
  const kept = hasSetId ? { metadata: { key: "one" } } : {};
  expect(JSON.parse(textOf(reply))).toEqual([
    { path: "/home/user/twice", name: "twice", type: "file", ...kept },
  ]);
});

test("health needs no token, figures and variables do", async () => {
  const { "x-access-token": _, ...outside } = sandbox.headers;
  expect(await statusOf("/health", outside)).toBe(204);
  expect(await statusOf("/metrics", outside)).toBe(401);
  expect(await statusOf("/envs", outside)).toBe(401);
  const variables: unknown = JSON.parse(textOf(await send("/envs")));
  expect(variables).toMatchObject({ E2B_SANDBOX: "true", E2B_SANDBOX_ID: sandbox.sandboxId });
  const figures: unknown = JSON.parse(textOf(await send("/metrics")));
  expect(figures).toMatchObject({
    ts: expect.any(Number),
    cpu_count: expect.any(Number),
    cpu_used_pct: expect.any(Number),
    mem_total: expect.any(Number),
    mem_used: expect.any(Number),
    disk_used: expect.any(Number),
    disk_total: expect.any(Number),
  });
});
