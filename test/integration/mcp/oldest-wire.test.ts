/**
 * The tools on a service of the oldest wire: each route that it lacks is one result that names the
 * way on, and everything else works.
 */

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { startOlderService, type OlderService } from "../../support/mcp/older-service.ts";

let older: OlderService;
let world: McpWorld;
let sandboxId: string;

/** Every route that the oldest services lack. */
const NEWER =
  /^(?:POST \/v2\/sandboxes|\S+ \/v2\/.*|POST \/sandboxes\/\w+\/(?:fork|snapshots)|GET \/(?:snapshots|default-templates|sandboxes\/\w+\/metrics)|POST \/files\/compose)$/;

beforeAll(async () => {
  older = await startOlderService();
  world = await startMcpWorld(createSystemClock(), ({ embedded }) => {
    older.forwardTo(embedded.socketPath);
    return older.url;
  });
  older.lack(NEWER);
  sandboxId = await world.createSandbox();
  for (const name of ["a.txt", "b.txt"]) {
    await world.call("write_file", { sandbox_id: sandboxId, path: name, content: name });
  }
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  await older[Symbol.asyncDispose]();
});

interface Row {
  /** What the service lacks. */
  readonly missing: RegExp;
  readonly tool: string;
  readonly input?: Readonly<Record<string, unknown>>;
  /** What the result says: that it cannot, and what to do instead. */
  readonly way: RegExp;
  /** How the result begins, where it is not the refusal of an operation. */
  readonly begins?: RegExp;
}

const OF_SANDBOX = { sandbox_id: "of the test" };

const ROWS: readonly Row[] = [
  { missing: /^POST \S+\/fork$/, tool: "fork_sandbox", input: OF_SANDBOX, way: /snapshot/ },
  { missing: /^POST \S+\/snapshots$/, tool: "snapshot", input: OF_SANDBOX, way: /download_url/ },
  { missing: /^GET \/snapshots$/, tool: "list_snapshots", way: /snapshot_id that snapshot/ },
  {
    missing: /^DELETE \/templates\/\S+$/,
    tool: "delete_snapshot",
    input: { snapshot_id: "base" },
    way: /cannot delete snapshots/,
  },
  { missing: /^GET \/(?:v2\/|default-)?templates$/, tool: "list_templates", way: /base/ },
  {
    missing: /^GET \/templates\/\S+$/,
    tool: "get_template",
    input: { template: "base" },
    way: /default is base/,
    begins: /^not_found/,
  },
  { missing: /^GET \S+\/metrics$/, tool: "get_metrics", input: OF_SANDBOX, way: /run_process/ },
  { missing: /^GET \S+\/logs$/, tool: "get_logs", input: OF_SANDBOX, way: /get_process_output/ },
  { missing: /^POST \S+\/pause$/, tool: "pause_sandbox", input: OF_SANDBOX, way: /set_timeout/ },
  {
    missing: /^POST \S+\/connect$/,
    tool: "connect_sandbox",
    input: OF_SANDBOX,
    way: /set_timeout/,
  },
  {
    missing: /^POST \S+\/timeout$/,
    tool: "set_timeout",
    input: { ...OF_SANDBOX, timeout_seconds: 600 },
    way: /connect_sandbox/,
  },
  {
    missing: /^GET \/v2\/sandboxes$/,
    tool: "list_sandboxes",
    input: { state: "paused" },
    way: /without state/,
  },
  {
    missing: /^GET \/v2\/sandboxes$/,
    tool: "list_sandboxes",
    way: /i[a-z0-9]{20}/,
    begins: /sandbox_id/,
  },
  {
    missing: /^POST \/files\/compose$/,
    tool: "compose_files",
    input: { ...OF_SANDBOX, sources: ["a.txt", "b.txt"], destination: "c.txt" },
    way: /cat with run_process/,
  },
];

test.for(ROWS)("$tool without its route names the way on", async (row) => {
  const { tool, input = {}, way, begins = /^unimplemented/ } = row;
  const given = "sandbox_id" in input ? { ...input, sandbox_id: sandboxId } : input;
  older.lack(row.missing);
  const reply = await world.call(tool, given);
  expect(reply.text).toMatch(begins);
  expect(reply.text).toMatch(way);
});

test("a list without pages and paused sandboxes says so", async () => {
  older.lack(NEWER);
  const ids = [await world.createSandbox(), await world.createSandbox()];
  const noteOf = async (limit: number) =>
    (await world.call("list_sandboxes", { limit })).fields["note"];
  expect(await noteOf(1)).toMatch(
    /^this service lists running sandboxes only; \d+ more are not listed: raise limit$/,
  );
  expect(await noteOf(100)).toBe("this service lists running sandboxes only");
  for (const sandbox_id of ids) await world.call("kill_sandbox", { sandbox_id });
});

test("a service of the oldest wire does the whole of the main work", async () => {
  older.lack(NEWER);
  const id = await world.createSandbox();
  const inside = async (tool: string, input: object = {}) =>
    world.call(tool, { sandbox_id: id, ...input });
  const path = join(world.folder, "old.txt");
  expect((await inside("write_file", { path, content: "old\n" })).isError).toBe(false);
  expect((await inside("run_process", { cmd: `cat ${path}` })).text).toContain("old");
  expect((await inside("read_file", { path })).text).toContain("old");
  expect((await inside("set_timeout", { timeout_seconds: 900 })).isError).toBe(false);
  expect((await inside("pause_sandbox")).isError).toBe(false);
  expect((await inside("connect_sandbox")).fields).toMatchObject({ was_resumed: true });
  expect((await world.call("list_sandboxes", {})).text).toContain(id);
  expect((await inside("kill_sandbox")).isError).toBe(false);
});
