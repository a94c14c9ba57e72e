/** The log of a sandbox as a resource: listed, read, subscribed to, kept after the end. */

import {
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { expect, test } from "vitest";
import { withoutMark } from "../../support/marks.ts";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";

async function run(world: McpWorld, sandboxId: string, command: string): Promise<void> {
  const args = ["-c", command];
  await world.call("run_process", { sandbox_id: sandboxId, cmd: "/bin/sh", args });
}

async function read(world: McpWorld, uri: string): Promise<unknown> {
  const { contents } = await world.host.client.readResource({ uri });
  return contents.map((part) =>
    "text" in part ? { ...part, text: withoutMark(part.text) } : part,
  );
}

test("the log of a live sandbox is listed, and read with everything that its processes wrote", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  await run(world, id, "echo hi; echo bad >&2");
  const uri = `sandbox:///${id}/log`;
  const { resources } = await world.host.client.listResources();
  expect(resources).toEqual([
    {
      uri,
      name: `log of ${id}`,
      title: `Output of sandbox ${id}`,
      description: expect.any(String),
      mimeType: "text/plain",
      size: expect.any(Number),
      annotations: { lastModified: expect.any(String) },
    },
  ]);
  const text = expect.stringMatching(
    /^--- log\n--- p_([0-9]+) started: \/bin\/sh -c echo hi; echo bad >&2\n[^]*\nhi\n[^]*\nbad\n--- p_\1 ended: exit_code 0\n--- end\n$/,
  );
  expect(await read(world, uri)).toEqual([{ uri, mimeType: "text/plain", text }]);
});

test("subscribers learn of changes, others do not", async () => {
  await using world = await startMcpWorld();
  const [mine, other] = [await world.createSandbox(), await world.createSandbox()];
  const updates: string[] = [];
  world.host.client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
    updates.push(params.uri);
  });
  const uri = `sandbox:///${mine}/log`;
  await world.host.client.subscribeResource({ uri });
  await run(world, other, "echo x");
  await run(world, mine, "echo x");
  await expect.poll(() => updates.length).toBeGreaterThan(0);
  await world.host.client.unsubscribeResource({ uri });
  const count = updates.length;
  expect(new Set(updates)).toEqual(new Set([uri]));
  await run(world, mine, "echo y");
  // A reply that comes later than a notification would prove that there was none.
  await world.host.client.ping();
  expect(updates).toHaveLength(count);
});

test("a busy process causes one update a second at most", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const atMs: number[] = [];
  world.host.client.setNotificationHandler(ResourceUpdatedNotificationSchema, () => {
    atMs.push(Date.now());
  });
  await world.host.client.subscribeResource({ uri: `sandbox:///${id}/log` });
  await run(world, id, "for i in $(seq 1 25); do echo $i; sleep 0.1; done");
  expect(atMs.length).toBeGreaterThan(1);
  const pauses = atMs.slice(1).map((ms, index) => ms - (atMs[index] ?? 0));
  // A timer may fire late, which makes the next pause short by as much.
  expect(Math.min(...pauses)).toBeGreaterThan(700);
});

test("the list changes with the sandboxes, and a log outlives its sandbox", async () => {
  await using world = await startMcpWorld();
  let changes = 0;
  world.host.client.setNotificationHandler(ResourceListChangedNotificationSchema, () => {
    changes += 1;
  });
  const id = await world.createSandbox();
  await expect.poll(() => changes).toBe(1);
  await run(world, id, "echo hi");
  await world.call("kill_sandbox", { sandbox_id: id });
  await expect.poll(() => changes).toBe(2);
  expect((await world.host.client.listResources()).resources).toEqual([]);
  const [content] = (await world.host.client.readResource({ uri: `sandbox:///${id}/log` }))
    .contents;
  expect(content).toMatchObject({ text: expect.stringContaining("hi\n") });
});

test.for(["sandbox:///i00000000000000000000/log", "sandbox:///../log", "sandbox:///i1/other"])(
  "%s is no resource",
  async (uri) => {
    await using world = await startMcpWorld();
    await expect(world.host.client.readResource({ uri })).rejects.toMatchObject({ code: -32_602 });
    await expect(world.host.client.subscribeResource({ uri })).rejects.toMatchObject({
      code: -32_602,
      data: { uri },
    });
  },
);

test("sandbox ids are completed from those that live", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const { completion } = await world.host.client.complete({
    ref: { type: "ref/resource", uri: "sandbox:///{sandbox_id}/log" },
    argument: { name: "sandbox_id", value: id.slice(0, 3) },
  });
  expect(completion.values).toEqual([id]);
});

test("a reply names the log by its URI and has no link block, which some hosts refuse", async () => {
  await using world = await startMcpWorld();
  const made = await world.host.client.callTool({ name: "create_sandbox", arguments: {} });
  const { log, sandbox_id: id } = Object(made.structuredContent);
  expect(log).toBe(`sandbox:///${id}/log`);
  expect(made.content).toEqual([{ type: "text", text: expect.stringContaining(`log: ${log}`) }]);
  const command = "seq 1 10000";
  const cut = await world.host.client.callTool({
    name: "run_process",
    arguments: { sandbox_id: id, cmd: "sh", args: ["-c", command], max_output_bytes: 1_000 },
  });
  expect(cut.content).toEqual([{ type: "text", text: expect.stringContaining(log) }]);
});

test("subscribers of a part of a log, and of an id with a suffix, learn of changes as well", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const uris = [`sandbox:///${id}/log/0`, `sandbox:///${id}-client/log`];
  const updates = new Set<string>();
  world.host.client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
    updates.add(params.uri);
  });
  for (const uri of uris) await world.host.client.subscribeResource({ uri });
  await run(world, id, "echo x");
  await expect.poll(() => [...updates].toSorted()).toEqual(uris.toSorted());
});

test("subscriptions to logs of ended sandboxes and processes leave a host with space for new ones", async () => {
  await using world = await startMcpWorld();
  const { client } = world.host;
  const ended = await world.createSandbox();
  const other = await world.createSandbox();
  const made = await world.call("run_process", { sandbox_id: other, cmd: "true" });
  const processId = /process_id: (p_[0-9]+)/.exec(made.text)?.[1] ?? "";
  const parts = Array.from({ length: 255 }, (_, from) => `sandbox:///${ended}/log/${from}`);
  for (const uri of parts) await client.subscribeResource({ uri });
  await client.subscribeResource({ uri: `sandbox:///${other}/process/${processId}/log` });
  await world.call("kill_sandbox", { sandbox_id: ended });
  const updates = new Set<string>();
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
    updates.add(params.uri);
  });
  const further = parts.map((_, from) => `sandbox:///${other}/log/${from}`);
  for (const uri of [...further, `sandbox:///${other}/log`])
    await client.subscribeResource({ uri });
  await run(world, other, "echo x");
  await expect.poll(() => updates.size).toBe(256);
  const uri = `sandbox:///${other}-client/log`;
  await expect(client.subscribeResource({ uri })).rejects.toThrow("too many subscriptions");
});

/** The first part in memory has 256 KiB, and both parts a MiB. */
test.for([
  { lines: 50_000, of: "two parts in memory" },
  { lines: 200_000, of: "more than memory holds" },
])("a log of $of has its newest line, and its pages have every line once", async ({ lines }) => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  await run(world, id, `seq ${lines}`);
  const text = async (uri: string) => {
    const { contents } = await world.host.client.readResource({ uri });
    return contents.map((part) => ("text" in part ? part.text : "")).join("");
  };
  const processId = /--- (p_\d+) ended/.exec(await text(`sandbox:///${id}/log`))?.[1] ?? "";
  const log = `sandbox:///${id}/process/${processId}/log`;
  expect(await text(log)).toContain(`\n${lines}\n`);
  const seen = new Set<string>();
  let rest = "";
  for (let next: string | undefined = `${log}/0`; next !== undefined;) {
    expect(seen).not.toContain(next);
    seen.add(next);
    const page = await text(next);
    const [, body = ""] = /^--- log \w+\n([^]*?)--- (?:\[|end )/.exec(page) ?? [];
    rest += body;
    next = /more: (sandbox:\S+\/log\/[0-9]+)\]/.exec(page)?.[1];
  }
  expect(rest).toBe(Array.from({ length: lines }, (_none, index) => `${index + 1}\n`).join(""));
});
