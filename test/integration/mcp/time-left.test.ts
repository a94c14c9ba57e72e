/** A sandbox that ends soon: every reply about it says so, in each of its forms, and what helps. */

import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { listedOutput } from "../../../src/mcp/tool.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startMcpHost } from "../../support/mcp/mcp-host.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";

/** Tools that change or end the life of the sandbox. */
const CHANGES_LIFE = ["connect_sandbox", "kill_sandbox", "pause_sandbox", "set_timeout"];
const NOTE = /^time_left: sandbox i\w+ ends in \d+s; call set_timeout if it is needed for longer$/m;

test("with less than two minutes left every reply tells it, failures included", async () => {
  await using world = await startMcpWorld();
  const created = await world.call("create_sandbox", { timeout_seconds: 100 });
  const id = String(created.fields["sandbox_id"]);
  const at = (name: string) => `${world.folder}/${name}`;
  const calls: Record<string, object> = {
    get_logs: {},
    write_file: { path: at("a"), content: "x" },
    edit_file: { path: at("a"), old_string: "x", new_string: "y" },
    read_file: { path: at("absent") },
    search_files: { path: at("a"), pattern: "x" },
    stat_path: { path: at("a") },
    list_directory: { path: world.folder },
    make_directory: { path: at("d") },
    move_path: { source: at("a"), destination: at("b") },
    compose_files: { sources: [at("b")], destination: at("c") },
    download_url: { path: at("c") },
    watch_path: { path: world.folder, wait_seconds: 0 },
    run_process: { cmd: "sleep", args: ["60"], wait_seconds: 0 },
    run_code: { code: "1" },
    list_processes: {},
    send_input: { process_id: "p_999999", data: "" },
    get_process_output: { process_id: "p_999999" },
    send_signal: { process_id: "p_999999" },
    get_sandbox: {},
    get_sandbox_url: { port: 80 },
    get_metrics: {},
    snapshot: {},
    list_snapshots: {},
    fork_sandbox: {},
    remove_path: { path: at("c") },
  };
  const silent: string[] = [];
  const look = (tool: string, { text, fields }: typeof created) => {
    const isRecord = Object.keys(fields).length > 0;
    if (NOTE.test(text) && (!isRecord || fields["time_left"] !== undefined)) return;
    silent.push(`${tool}: ${text}`);
  };
  look("create_sandbox", created);
  for (const [tool, input] of Object.entries(calls)) {
    look(tool, await world.call(tool, { sandbox_id: id, ...input }));
  }
  expect(silent).toEqual([]);
  const about = TOOLS.filter(({ input }) => "sandbox_id" in input.shape).map(({ name }) => name);
  expect(about.filter((name) => !CHANGES_LIFE.includes(name)).toSorted()).toEqual(
    Object.keys(calls).toSorted(),
  );
});

test("a sandbox that is paused at its timeout is not said to end", async () => {
  await using world = await startMcpWorld();
  const input = { timeout_seconds: 100, on_timeout: "pause" };
  const { fields } = await world.call("create_sandbox", input);
  const id = String(fields["sandbox_id"]);
  const paused = expect.stringMatching(/^sandbox i\w+ is paused in \d+s; call set_timeout/);
  expect(fields["time_left"]).toEqual(paused);
  const list = () => world.call("list_directory", { sandbox_id: id, path: world.folder });
  expect((await list()).text).toMatch(/sandbox is paused in \d+s/);
  // Another client knows it by what the service says, and still after a resume.
  await world.call("pause_sandbox", { sandbox_id: id });
  const resumed = await world.call("connect_sandbox", { sandbox_id: id, timeout_seconds: 60 });
  expect(resumed.fields["time_left"]).toEqual(paused);
  const { url, socketPath, apiKey } = world.test.embedded;
  await using other = createService({ url, socketPath, apiKey });
  await other.control.get(id, new AbortController().signal);
  expect(other.onTimeout(id)).toBe("pause");
});

test("an expiry that another client moved is told within ten seconds, whichever tool is called", async () => {
  const clock = createFakeClock();
  await using world = await startMcpWorld(clock);
  const { fields } = await world.call("create_sandbox", { timeout_seconds: 3_600 });
  const id = String(fields["sandbox_id"]);
  const untold: string[] = [];
  for (const tool of ["get_logs", "get_metrics", "list_processes", "get_sandbox_url"]) {
    const path = `/sandboxes/${id}/timeout`;
    await world.test.call({ method: "POST", path, body: { timeout: 110 } });
    await clock.advance(10_000);
    const port = tool === "get_sandbox_url" ? { port: 80 } : {};
    const { text } = await world.call(tool, { sandbox_id: id, ...port });
    if (!text.includes("ends in 100s")) untold.push(tool);
    await world.test.call({ method: "POST", path, body: { timeout: 3_600 } });
    await clock.advance(10_000);
    const later = await world.call(tool, { sandbox_id: id, ...port });
    if (later.text.includes("ends in")) untold.push(tool);
  }
  expect(untold).toEqual([]);
});

test("with more time nothing is said, nor of a paused sandbox", async () => {
  await using world = await startMcpWorld();
  const { fields } = await world.call("create_sandbox", { timeout_seconds: 60 });
  const sandbox = { sandbox_id: String(fields["sandbox_id"]) };
  const texts = [
    await world.call("pause_sandbox", sandbox),
    await world.call("get_sandbox", sandbox),
    await world.call("run_process", { ...sandbox, cmd: "true" }),
    await world.call("connect_sandbox", { ...sandbox, timeout_seconds: 300 }),
    await world.call("get_logs", sandbox),
  ].map(({ text }) => text);
  expect(texts.filter((text) => text.includes("time_left"))).toEqual([]);
});

test("the note names no tool that is not enabled", async () => {
  await using world = await startMcpWorld();
  const tools = TOOLS.filter(({ name }) => name === "create_sandbox");
  await using host = await startMcpHost(world.state, tools);
  const reply = await host.client.callTool({
    name: "create_sandbox",
    arguments: { timeout_seconds: 30 },
  });
  expect(reply.structuredContent).toMatchObject({
    time_left: expect.stringMatching(/^sandbox i\w+ ends in \d+s$/),
  });
});

test("a record that is about no sandbox has no such field", () => {
  const fields = TOOLS.map((tool) => ({ name: tool.name, output: listedOutput(tool) }))
    .filter(({ output }) => output !== undefined && !("time_left" in output.shape))
    .map(({ name }) => name);
  expect(fields).toEqual(["delete_snapshot", "get_template", "list_sandboxes", "list_templates"]);
});

test("the end of a sandbox does not pass for that of a snapshot, a file or a URL", async () => {
  const fields = TOOLS.flatMap(({ name, output }) =>
    output === undefined ? [] : [{ name, output }],
  )
    .filter(({ output }) => "expires_at" in output.shape)
    .map(({ name }) => name);
  expect(fields).not.toContain("snapshot");
  expect(fields).not.toContain("stat_path");
  // That of a link is its own, and beside it that of a port lives as long as the sandbox.
  expect(fields).not.toContain("get_sandbox_url");
  expect(fields).toContain("download_url");
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const stat = await world.call("stat_path", { sandbox_id: id, path: world.folder });
  expect(stat.fields).toMatchObject({ sandbox_expires_at: expect.stringMatching(/^20.*Z$/) });
});
