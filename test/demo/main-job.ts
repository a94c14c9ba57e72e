/** What an agent does with a sandbox, in order; each step checks what came back. */

import assert from "node:assert/strict";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import type { TestClient } from "../support/mcp/mcp-client.ts";
import type { ToolReply } from "../support/mcp/tool-reply.ts";
import type { Steps } from "./steps.ts";

const UPDATE_LIMIT_MS = 10_000;

/** Runs the whole job; every sandbox that it makes is killed at the end. */
export async function mainJob(client: TestClient, steps: Steps): Promise<void> {
  await steps.run("list the tools", async () => {
    const { tools } = await client.client.listTools();
    return `${tools.length} tools`;
  });
  const first = await create(client, steps, {});
  if (first === undefined) return;
  await runProcess(client, steps, first);
  await useFiles(client, steps, first);
  await watchFolder(client, steps, first);
  await signalProcess(client, steps, first);
  await readLog(client, steps, first);
  const { snapshot, second } = await startFromSnapshot(client, steps, first);
  for (const id of [first, second].filter((known) => known !== undefined)) {
    await steps.run("kill_sandbox", async () => {
      await ok(client.call("kill_sandbox", { sandbox_id: id }));
    });
  }
  if (snapshot === undefined) return;
  await steps.run("delete_snapshot", async () => {
    await ok(client.call("delete_snapshot", { snapshot_id: snapshot }));
  });
}

async function ok(pending: Promise<ToolReply>): Promise<ToolReply> {
  const reply = await pending;
  assert.equal(reply.isError, false, reply.text);
  return reply;
}

function field(reply: ToolReply, name: string): string {
  const value = reply.fields[name];
  assert.equal(typeof value, "string", `no field ${name} in: ${JSON.stringify(reply.fields)}`);
  return String(value);
}

/** An id such as `process_id: p_12` in the header line of a reply. */
function idIn(reply: ToolReply, name: string): string {
  const id = new RegExp(`${name}: ([a-z0-9_]+)`).exec(reply.text)?.[1];
  assert.ok(id, `no ${name} in: ${reply.text}`);
  return id;
}

async function create(
  client: TestClient,
  steps: Steps,
  input: Readonly<Record<string, unknown>>,
): Promise<string | undefined> {
  let id: string | undefined;
  await steps.run("create_sandbox", async () => {
    const reply = await ok(client.call("create_sandbox", { timeout_seconds: 300, ...input }));
    id = field(reply, "sandbox_id");
    return id;
  });
  return id;
}

async function runProcess(client: TestClient, steps: Steps, sandbox: string): Promise<void> {
  await steps.run("run_process with output as it comes", async () => {
    const arrivals: number[] = [];
    const reply = await ok(
      client.call(
        "run_process",
        {
          sandbox_id: sandbox,
          cmd: "for i in 1 2 3; do echo line $i; sleep 1.1; done; id -un; exit 7",
        },
        {
          onProgress: (progress) => {
            arrivals.push(progress.progress);
            steps.show(`       … ${progress.message ?? ""}`);
          },
        },
      ),
    );
    assert.match(reply.text, /exit_code: 7/);
    assert.match(reply.text, /line 1\nline 2\nline 3\nuser/);
    assert.ok(arrivals.length >= 3, `only ${arrivals.length} progress notifications`);
    assert.deepEqual(
      arrivals,
      arrivals.toSorted((a, b) => a - b),
    );
    return `${arrivals.length} progress notifications, exit code 7`;
  });
}

async function useFiles(client: TestClient, steps: Steps, sandbox: string): Promise<void> {
  await steps.run("write_file twice", async () => {
    for (const part of ["one", "two"]) {
      await ok(
        client.call("write_file", {
          sandbox_id: sandbox,
          path: `parts/${part}.txt`,
          content: `${part}\n`,
        }),
      );
    }
  });
  await steps.run("compose_files", async () => {
    await ok(
      client.call("compose_files", {
        sandbox_id: sandbox,
        sources: ["parts/one.txt", "parts/two.txt"],
        destination: "parts/whole.txt",
      }),
    );
  });
  await steps.run("read_file", async () => {
    const reply = await ok(
      client.call("read_file", { sandbox_id: sandbox, path: "parts/whole.txt" }),
    );
    assert.match(reply.text, /one\ntwo\n/);
  });
  await steps.run("list_directory", async () => {
    const reply = await ok(client.call("list_directory", { sandbox_id: sandbox, path: "parts" }));
    assert.match(reply.text, /whole\.txt/);
    assert.doesNotMatch(reply.text, /one\.txt/);
  });
}

async function watchFolder(client: TestClient, steps: Steps, sandbox: string): Promise<void> {
  await steps.run("watch_path", async () => {
    const armed = await ok(
      client.call("watch_path", { sandbox_id: sandbox, path: "parts", wait_seconds: 0 }),
    );
    const watcher = idIn(armed, "watcher_id");
    await ok(client.call("run_process", { sandbox_id: sandbox, cmd: "touch parts/seen.txt" }));
    const reply = await ok(
      client.call("watch_path", {
        sandbox_id: sandbox,
        watcher_id: watcher,
        wait_seconds: 10,
        close: true,
      }),
    );
    assert.match(reply.text, /seen\.txt/);
  });
}

async function signalProcess(client: TestClient, steps: Steps, sandbox: string): Promise<void> {
  await steps.run("send_signal ends a server", async () => {
    const started = await ok(
      client.call("run_process", {
        sandbox_id: sandbox,
        cmd: "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done",
        wait_seconds: 1,
      }),
    );
    const process = idIn(started, "process_id");
    await ok(client.call("send_signal", { sandbox_id: sandbox, process_id: process }));
    const output = await ok(
      client.call("get_process_output", {
        sandbox_id: sandbox,
        process_id: process,
        wait_seconds: 10,
      }),
    );
    assert.match(output.text, /ready/);
  });
}

async function readLog(client: TestClient, steps: Steps, sandbox: string): Promise<void> {
  const uri = `sandbox:///${sandbox}/log`;
  await steps.run("the log resource: list, update, read", async () => {
    const { resources } = await client.client.listResources();
    assert.ok(
      resources.some((resource) => resource.uri === uri),
      `no ${uri} in the list`,
    );
    const { promise: updated, resolve } = Promise.withResolvers<void>();
    client.client.setNotificationHandler(ResourceUpdatedNotificationSchema, (notification) => {
      if (notification.params.uri === uri) resolve();
    });
    await client.client.subscribeResource({ uri });
    await ok(client.call("run_process", { sandbox_id: sandbox, cmd: "echo into the log" }));
    const late = AbortSignal.timeout(UPDATE_LIMIT_MS);
    await Promise.race([
      updated,
      new Promise((_, reject) => {
        late.addEventListener("abort", () => reject(new Error("no update notification")));
      }),
    ]);
    const { contents } = await client.client.readResource({ uri });
    const [content] = contents;
    assert.ok(content !== undefined && "text" in content);
    assert.match(content.text, /line 1[\s\S]*into the log/);
    return `${content.text.length} characters`;
  });
}

async function startFromSnapshot(
  client: TestClient,
  steps: Steps,
  sandbox: string,
): Promise<{ readonly snapshot: string | undefined; readonly second: string | undefined }> {
  let snapshot: string | undefined;
  await steps.run("snapshot", async () => {
    const reply = await ok(client.call("snapshot", { sandbox_id: sandbox }));
    snapshot = field(reply, "snapshot_id");
    return snapshot;
  });
  if (snapshot === undefined) return { snapshot, second: undefined };
  const second = await create(client, steps, { template: snapshot });
  if (second === undefined) return { snapshot, second };
  await steps.run("the second sandbox has the files of the first", async () => {
    const reply = await ok(
      client.call("read_file", { sandbox_id: second, path: "parts/whole.txt" }),
    );
    assert.match(reply.text, /one\ntwo\n/);
  });
  return { snapshot, second };
}
