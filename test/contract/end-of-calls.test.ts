/** Calls of `/mcp` that wait when the service ends: a host gets a reply, since it would wait on. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, test } from "vitest";
import { startServeMcp } from "../../src/commands/serve/serve-mcp.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { loadConfig } from "../../src/config.ts";
import { toReply } from "../support/mcp/tool-reply.ts";
import { startTestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const KEY = `e2b_${"5".repeat(40)}`;
const WAIT = { wait_seconds: 50 };

async function startHost() {
  await using stack = new AsyncDisposableStack();
  const log = createSilentLog();
  const { path: home } = stack.use(await makeTempFolder());
  const loaded = loadConfig({}, ["--home", home, "--toolsets", "all"]);
  if (!("config" in loaded)) throw new Error("no configuration");
  const { config } = loaded;
  const service = stack.use(
    await startTestService({
      home,
      tcp: [{ host: "127.0.0.1", port: 0 }],
      apiKeys: [KEY],
      graceMs: 8_000,
      startMcp: async (listener, keys) =>
        startServeMcp({ config, log, listener, keys, publicUrl: listener.url }),
    }),
  );
  const client = new Client({ name: "test-host", version: "1.0.0" });
  const url = new URL(`http://127.0.0.1:${service.embedded.ports[0]}/mcp`);
  const headers = { authorization: `Bearer ${KEY}` };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  stack.defer(() => client.close());
  const call = async (name: string, input: Record<string, unknown>) =>
    toReply(await client.callTool({ name, arguments: input }));
  const { fields } = await call("create_sandbox", {});
  const owned = stack.move();
  return {
    service,
    call: (name: string, input: object) =>
      call(name, { sandbox_id: fields["sandbox_id"], ...input }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test("each has a reply at once with what there is, and with what it goes on", async () => {
  await using host = await startHost();
  // Nobody else writes there.
  await using quiet = await makeTempFolder();
  const silent = { cmd: "exec sleep 60", wait_seconds: 0, keep_stdin_open: true };
  const { text } = await host.call("run_process", silent);
  const process_id = /p_\d+/.exec(text)?.[0] ?? "";
  const calls = [
    host.call("run_process", { ...silent, ...WAIT }),
    host.call("get_process_output", { process_id, ...WAIT }),
    host.call("send_input", { process_id, data: "x", ...WAIT }),
    host.call("watch_path", { path: quiet.path, ...WAIT }),
  ];
  await expect
    .poll(async () => (await host.call("list_processes", {})).text)
    .toMatch(/sleep 60.*sleep 60/s);
  await host.service.embedded[Symbol.asyncDispose]();
  const replies = await Promise.all(calls);
  expect(replies.map((reply) => [reply.isError, reply.text])).toEqual([
    [false, expect.stringMatching(/^status: running .*process_id: p_\d+ \| next_cursor: 0/)],
    [false, expect.stringMatching(/^status: running .*next_cursor: 0/)],
    [false, expect.stringMatching(/^sent 1 bytes .*status: running .*next_cursor: 0/)],
    [false, expect.stringMatching(/^watcher_id: .*no change/)],
  ]);
});
