/** Sandboxes through the tools: their life, their faults, and their end with the server. */

import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startMcpHost } from "../../support/mcp/mcp-host.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { startTestService } from "../../support/service.ts";

const UNKNOWN = "i00000000000000000000";

test("a sandbox is made, described, listed, extended, paused, resumed and killed", async () => {
  await using world = await startMcpWorld();
  const created = await world.call("create_sandbox", {
    timeout_seconds: 200,
    metadata: [{ name: "task", value: "a b" }],
  });
  const id = String(created.fields["sandbox_id"]);
  expect(created.fields).toEqual({
    cpus: 2,
    disk_mb: 2048,
    memory_mb: 512,
    network: "internet",
    time_to_live_seconds: expect.any(Number),
    sandbox_id: id,
    template: "base",
    state: "running",
    expires_at: expect.any(String),
    isolation: "none",
    log: `sandbox:///${id}/log`,
  });
  expect(created.text).toContain(`sandbox_id: ${id}\n`);
  const sandbox = { sandbox_id: id };
  expect((await world.call("get_sandbox", sandbox)).fields).toMatchObject({
    sandbox_id: id,
    state: "running",
    metadata: [{ name: "task", value: "a b" }],
  });
  const filter = { metadata: [{ name: "task", value: "a b" }] };
  expect((await world.call("list_sandboxes", filter)).fields["sandboxes"]).toHaveLength(1);
  const other = { metadata: [{ name: "task", value: "c" }] };
  expect((await world.call("list_sandboxes", other)).fields["sandboxes"]).toEqual([]);
  const beforeMs = Date.now();
  const moved = await world.call("set_timeout", { ...sandbox, timeout_seconds: 1_000 });
  const atMs = Date.parse(String(moved.fields["expires_at"]));
  expect(atMs - 1_000_000).toBeGreaterThanOrEqual(beforeMs);
  expect(atMs - 1_000_000).toBeLessThanOrEqual(Date.now());
  const outcomes = [
    (await world.call("pause_sandbox", sandbox)).fields["outcome"],
    (await world.call("pause_sandbox", sandbox)).fields["outcome"],
    (await world.call("connect_sandbox", sandbox)).fields["was_resumed"],
    (await world.call("connect_sandbox", sandbox)).fields["was_resumed"],
    (await world.call("kill_sandbox", sandbox)).fields["outcome"],
    (await world.call("kill_sandbox", sandbox)).fields["outcome"],
  ];
  expect(outcomes).toEqual(["paused", "already_paused", true, false, "killed", "already_gone"]);
});

test.for([
  ["run_process", { cmd: "true" }],
  ["read_file", { path: "/x" }],
  ["write_file", { path: "/tmp/x", content: "" }],
  ["list_directory", {}],
  ["stat_path", { path: "/x" }],
  ["compose_files", { sources: ["/a"], destination: "/b" }],
  ["watch_path", { path: "/" }],
  ["send_signal", { process_id: "p_7" }],
  ["get_process_output", { process_id: "p_7" }],
  ["snapshot", {}],
  ["get_sandbox", {}],
  ["set_timeout", { timeout_seconds: 5 }],
  ["connect_sandbox", {}],
  ["pause_sandbox", {}],
  ["download_url", { path: "/x" }],
] as const)("%s in an unknown sandbox says so and names the way on", async ([tool, input]) => {
  await using world = await startMcpWorld();
  const { isError, text } = await world.call(tool, { sandbox_id: UNKNOWN, ...input });
  expect(isError).toBe(true);
  expect(text).toMatch(/^not_found: /);
  expect(text).toContain(UNKNOWN);
  expect(text).toMatch(/create_sandbox for a new one\.$/);
});

test("advice names only tools that are enabled", async () => {
  await using world = await startMcpWorld();
  const tools = TOOLS.filter(({ name }) => name === "run_process");
  await using host = await startMcpHost(world.state, tools);
  const reply = await host.client.callTool({
    name: "run_process",
    arguments: { sandbox_id: UNKNOWN, cmd: "true" },
  });
  expect(JSON.stringify(reply.content)).not.toMatch(/create_sandbox|list_sandboxes/);
});

test("an unknown template is named", async () => {
  await using world = await startMcpWorld();
  const { isError, text } = await world.call("create_sandbox", { template: "nope" });
  expect(isError).toBe(true);
  expect(text).toMatch(
    /^not_found: .*nope.*No such template or snapshot; the default is base\. list_templates has the templates\. list_snapshots has the snapshots\.$/,
  );
});

test("names to be reached without a rule for the rest are refused with that rule", async () => {
  await using world = await startMcpWorld();
  const rules = { allow_out: ["pypi.org"] };
  const { isError, text } = await world.call("create_sandbox", rules);
  expect(isError).toBe(true);
  expect(text).toMatch(
    /^invalid_argument: .* All traffic is 0\.0\.0\.0\/0: names in allow_out need/,
  );
  const rest = { deny_out: ["0.0.0.0/0"] };
  expect((await world.call("create_sandbox", { ...rules, ...rest })).isError).toBe(false);
});

test("bad input is a tool error that names field and bound", async () => {
  await using world = await startMcpWorld();
  const input = { sandbox_id: "NO", cmd: "", wait_seconds: 99 };
  const { isError, text } = await world.call("run_process", input);
  expect(isError).toBe(true);
  for (const word of ["sandbox_id", "cmd", "wait_seconds", "50"]) expect(text).toContain(word);
});

test.for([
  { tool: "run_process", input: { cmd: "true" } },
  { tool: "set_timeout", input: { timeout_seconds: 60 } },
  { tool: "snapshot", input: {} },
  { tool: "fork_sandbox", input: {} },
])("$tool of a paused sandbox says how to wake it", async ({ tool, input }) => {
  await using world = await startMcpWorld();
  const sandbox = { sandbox_id: await world.createSandbox() };
  await world.call("pause_sandbox", sandbox);
  const { isError, text } = await world.call(tool, { ...sandbox, ...input });
  expect([isError, text]).toEqual([
    true,
    `failed_precondition: sandbox ${sandbox.sandbox_id} is paused. Call connect_sandbox, then repeat this call.`,
  ]);
});

test("a paused sandbox has no time at which it ends", async () => {
  await using world = await startMcpWorld();
  const sandbox = { sandbox_id: await world.createSandbox() };
  const read = async () => {
    const { fields } = await world.call("get_sandbox", sandbox);
    const { sandboxes } = (await world.call("list_sandboxes", {})).fields;
    return { one: fields["expires_at"], all: JSON.stringify(sandboxes).includes("expires_at") };
  };
  expect(await read()).toEqual({ one: expect.any(String), all: true });
  await world.call("pause_sandbox", sandbox);
  expect(await read()).toEqual({ one: undefined, all: false });
});

test("metrics of a sandbox without a sample say whether it is paused or gone", async () => {
  const clock = createFakeClock();
  await using world = await startMcpWorld(clock);
  const sandbox = { sandbox_id: await world.createSandbox() };
  await world.call("pause_sandbox", sandbox);
  await clock.advance(11 * 60_000);
  expect((await world.call("get_metrics", sandbox)).fields["note"]).toBe(
    "No sample in these minutes: the sandbox is paused.",
  );
  await world.call("kill_sandbox", sandbox);
  const { isError, text } = await world.call("get_metrics", sandbox);
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(/^not_found: sandbox \w+ does not exist .* Call create_sandbox/),
  ]);
});

test("a create that is cancelled leaves no sandbox", async () => {
  await using world = await startMcpWorld();
  const controller = new AbortController();
  const creating = world.call("create_sandbox", {}, { signal: controller.signal });
  setImmediate(() => controller.abort());
  await expect(creating).rejects.toThrow("abort");
  const { signal } = new AbortController();
  await expect
    .poll(async () => (await world.service.control.list({}, signal)).sandboxes)
    .toEqual([]);
});

test.for([
  { onExit: "kill", left: 1 },
  { onExit: "leave", left: 2 },
] as const)("at the end with $onExit $left of two sandboxes live", async ({ onExit, left }) => {
  await using service = await startTestService();
  const { url, socketPath, apiKey } = service.embedded;
  await using client = createService({ url, socketPath, apiKey });
  const state = startMcpState({
    service: () => client,
    log: createSilentLog(),
    onExit: () => onExit,
  });
  await using host = await startMcpHost(state);
  const { signal } = new AbortController();
  await client.control.create({ templateID: "base", timeout: 60 }, signal);
  await host.client.callTool({ name: "create_sandbox", arguments: {} });
  expect(state.made.size).toBe(1);
  await state[Symbol.asyncDispose]();
  const { sandboxes } = await client.control.list({}, signal);
  expect(sandboxes).toHaveLength(left);
});
