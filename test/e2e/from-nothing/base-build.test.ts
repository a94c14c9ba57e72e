/** A service in an empty home builds the template `base` by itself, once, and says how it goes. */

import { mkdir, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findBase } from "../../../src/commands/templates/base-layers.ts";
import { openFakeBuilder, type FakeBuilder } from "../../support/engine/fake-builder.ts";
import { startMcpClient } from "../../support/mcp/mcp-client.ts";
import type { ToolReply } from "../../support/mcp/tool-reply.ts";
import { listeningUrl, startProgram } from "../../support/program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const KEY = `e2b_${"ab".repeat(20)}`;
const ON = { SANDBOX_MCP_BUILD_BASE: "on", SANDBOX_MCP_LOG_LEVEL: "silent" };
const LIMIT = { timeout: 120_000 };

function serve(home: string, builder: FakeBuilder) {
  const words = ["serve", "--home", home, "--port", "0", "--pool", "0", "--api-key", KEY];
  words.push("--on-exit", "kill");
  return startProgram(words, ON, builder.program);
}

async function create(url: string, wait?: string): Promise<{ status: number; text: string }> {
  const headers = {
    "x-api-key": KEY,
    "content-type": "application/json",
    ...(wait !== undefined && { prefer: wait }),
  };
  const body = JSON.stringify({ templateID: "base", timeout: 60 });
  const reply = await fetch(`${url}/sandboxes`, { method: "POST", headers, body });
  return { status: reply.status, text: await reply.text() };
}

async function listLayers(home: string): Promise<string[]> {
  return readdir(join(home, "layers"));
}

test("serve listens at once; a create waits as long as it prefers", LIMIT, async () => {
  await using builder = await openFakeBuilder(6);
  await using home = await makeTempFolder();
  await using program = serve(home.path, builder);
  const url = await listeningUrl(program);
  const early = await create(url, "wait=1");
  expect(early.status).toBe(503);
  expect(early.text).toMatch(/building the base template, about \d+ s left \(repeat the request\)/);
  const alias = await fetch(`${url}/templates/aliases/base`, { headers: { "x-api-key": KEY } });
  expect(alias.status).toBe(503);
  expect((await create(url)).status).toBe(201);
  expect(program.stderr()).toMatch(
    /^sandbox-mcp: building the base template, about 60 s left\n(sandbox-mcp: .*\n)*?sandbox-mcp: the base template is built \(\d+ s\)\n$/,
  );
  expect(await builder.begun()).toBe(1);
  const layers = await listLayers(home.path);
  expect(layers).toEqual([expect.stringMatching(/^base-\d{13}-[0-9a-f]{8}$/)]);
  expect(await readdir(join(home.path, "layers", layers[0] ?? ""))).toEqual(["root"]);
});

test("a tool call waits with progress; as root host serves meanwhile", LIMIT, async () => {
  await using builder = await openFakeBuilder(0);
  await builder.hold();
  await using home = await makeTempFolder();
  const flags = ["--home", home.path, "--pool", "0"];
  const environment = { ...ON, SANDBOX_MCP_ALLOW_HOST_TEMPLATE: "false" };
  await using client = await startMcpClient(flags, environment, builder.program);
  // Another of the same home waits for the same build.
  await using other = await startMcpClient(flags, ON, builder.program);
  const told: string[] = [];
  const onProgress = ({ message = "" }) => void told.push(message);
  // A slow machine takes longer than one call waits; the reply says what to do then.
  const createAfterAll = async (): Promise<ToolReply> => {
    const reply = await client.call("create_sandbox", {}, { onProgress });
    return reply.text.includes("Call create_sandbox again") ? createAfterAll() : reply;
  };
  const waiting = createAfterAll();
  const meanwhile = await other.call("create_sandbox", {});
  expect(meanwhile.fields).toMatchObject({
    template: "host",
    note: expect.stringMatching(/^template base is not built yet; host was used meanwhile(;|$)/),
  });
  await expect.poll(() => told.length, { timeout: 60_000 }).toBeGreaterThan(1);
  await builder.release();
  const reply = await waiting;
  expect(reply).toMatchObject({ isError: false, fields: { template: "base" } });
  expect(reply.fields["note"] ?? "").not.toContain("base");
  for (const line of told) {
    expect(line).toMatch(/^building the base template, (about \d+ s left|\d+ s so far)$/);
  }
  expect(await builder.begun()).toBe(1);
});

test("after a kill nothing half made is believed, and the next start builds", LIMIT, async () => {
  await using builder = await openFakeBuilder(3);
  await using home = await makeTempFolder();
  const killed = serve(home.path, builder);
  await listeningUrl(killed);
  await expect.poll(() => builder.begun()).toBe(1);
  killed.child.kill("SIGKILL");
  await killed.exited();
  expect(await findBase(home.path)).toBeUndefined();
  await using again = serve(home.path, builder);
  expect((await create(await listeningUrl(again))).status).toBe(201);
  expect(await builder.begun()).toBe(2);
  expect(await listLayers(home.path)).toHaveLength(1);
  expect(await builder.left()).toEqual([]);
});

test("the end of a service ends its build, with nothing left", LIMIT, async () => {
  await using builder = await openFakeBuilder(60);
  await using home = await makeTempFolder();
  const program = serve(home.path, builder);
  const url = await listeningUrl(program);
  await expect.poll(() => builder.begun()).toBe(1);
  const waiting = create(url).catch(() => undefined);
  program.child.kill("SIGTERM");
  expect(await program.exited()).toBe(0);
  await waiting;
  expect(await listLayers(home.path)).toEqual([]);
  expect(await builder.left()).toEqual([]);
});

test("a build that fails is told with its cause, and tried again later", LIMIT, async () => {
  await using builder = await openFakeBuilder(0);
  await using home = await makeTempFolder();
  await builder.fail();
  await using program = serve(home.path, builder);
  const url = await listeningUrl(program);
  const failed = await create(url);
  expect(failed.status).toBe(503);
  expect(failed.text).toContain("the base template could not be built: unshare: ");
  expect(failed.text).toContain("the mirror has burnt down");
  expect((await create(url)).status).toBe(503);
  expect(await builder.begun()).toBe(1);
  expect(await builder.left()).toEqual([]);
  await builder.repair();
  await expect.poll(async () => (await create(url)).status, { timeout: 60_000 }).toBe(201);
  expect(await builder.begun()).toBe(2);
});

test("a base of an older recipe serves while it is rebuilt", LIMIT, async () => {
  await using builder = await openFakeBuilder(2);
  await using home = await makeTempFolder();
  await mkdir(join(home.path, "layers"));
  await using first = serve(home.path, builder);
  await create(await listeningUrl(first));
  await first[Symbol.asyncDispose]();
  const [name = ""] = await listLayers(home.path);
  const old = name.replace(/-[0-9a-f]{8}$/, "-00000000");
  await rename(join(home.path, "layers", name), join(home.path, "layers", old));
  await using second = serve(home.path, builder);
  const early = await create(await listeningUrl(second), "wait=0");
  expect(early.status).toBe(201);
  expect(second.stderr()).toContain("sandbox-mcp: rebuilding the base template, whose contents");
  await expect
    .poll(() => listLayers(home.path), { timeout: 30_000 })
    .toContainEqual(expect.stringMatching(/^base-\d{13}-(?!0{8})[0-9a-f]{8}$/));
});
