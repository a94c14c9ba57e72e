/** The tools beyond the core: snapshots, templates, paths, processes, ports, and absent routes. */

import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { CELL_FLAGS, CELL_PROGRAM } from "../../../src/mcp/code/cell-program.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startMcpHost } from "../../support/mcp/mcp-host.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { answerJson, startRecorder, type Answer } from "../../support/network/recorder.ts";

test("a directory is made once, and a file is moved into it", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const call = (tool: string, input: object) => world.call(tool, { sandbox_id: id, ...input });
  const folder = `${world.folder}/made/deep`;
  const file = `${world.folder}/a.txt`;
  const texts = [
    (await call("make_directory", { path: folder })).text,
    (await call("make_directory", { path: folder })).text,
    (await call("write_file", { path: file, content: "x" })).text,
    (await call("make_directory", { path: file })).text,
    (await call("move_path", { source: file, destination: folder })).text,
    (await call("move_path", { source: file, destination: `${folder}/b.txt` })).text,
    (await call("move_path", { source: file, destination: `${folder}/c.txt` })).text,
    (await call("move_path", { source: file, destination: folder })).text,
  ];
  const expires = String.raw`sandbox expires in \d+s`;
  expect(texts).toEqual([
    expect.stringMatching(`^made: ${folder} \\| ${expires}$`),
    expect.stringMatching(`^was there: ${folder} \\| ${expires}$`),
    expect.stringMatching("^wrote 1 bytes"),
    expect.stringMatching(`invalid_argument: .*no directory stands at ${file}`),
    expect.stringMatching(
      `^invalid_argument: ${folder} is a directory.*e\\.g\\. ${folder}/a\\.txt`,
    ),
    expect.stringMatching(`^moved: ${file} -> ${folder}/b.txt \\| ${expires}$`),
    expect.stringMatching("^not_found: .*Call list_directory"),
    expect.stringMatching("^not_found: .*Call list_directory"),
  ]);
  expect((await call("read_file", { path: `${folder}/b.txt` })).text).toContain("\nx\n--- end");
});

test("a process that runs is listed until it ends", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const call = (tool: string, input: object) => world.call(tool, { sandbox_id: id, ...input });
  const started = await call("run_process", { cmd: "sleep", args: ["100"], wait_seconds: 0 });
  const processId = /process_id: (p_\d+)/.exec(started.text)?.[1] ?? "";
  expect((await call("list_processes", {})).fields["processes"]).toEqual([
    { process_id: processId, command: "sleep 100" },
  ]);
  await call("send_signal", { process_id: processId, signal: "SIGKILL" });
  const processes = async () => (await call("list_processes", {})).fields["processes"];
  await expect.poll(processes).toEqual([]);
});

test("a cell of run_code is listed as one, not with the program that runs it", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const args = [...CELL_FLAGS, "-c", CELL_PROGRAM];
  // It waits for a request on stdin.
  const cell = { sandbox_id, cmd: "python3", args, keep_stdin_open: true, wait_seconds: 0 };
  const started = await world.call("run_process", cell);
  const process_id = /process_id: (p_\d+)/.exec(started.text)?.[1];
  const { fields } = await world.call("list_processes", { sandbox_id });
  expect(fields["processes"]).toEqual([{ process_id, command: "a cell of run_code" }]);
  expect(fields).not.toHaveProperty("note");
});

test("a record of the log has no field that all have", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const { text } = await world.call("get_logs", { sandbox_id });
  expect(text).toMatch(/\n\S+ info Sandbox created logger=sandboxes\n/);
});

test("templates are listed, and what is not there is no error to delete", async () => {
  await using world = await startMcpWorld();
  expect((await world.call("list_templates", {})).fields["templates"]).toEqual([
    expect.objectContaining({ names: expect.arrayContaining(["base"]), status: "ready" }),
  ]);
  const deletion = { snapshot_id: "local/absent:default" };
  expect([
    (await world.call("list_snapshots", { name: "absent" })).fields,
    (await world.call("delete_snapshot", deletion)).fields["outcome"],
  ]).toEqual([{ snapshots: [] }, "already_gone"]);
});

test("a service without an address for ports says so, and the ways on", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const { isError, text } = await world.call("get_sandbox_url", { sandbox_id: id, port: 8000 });
  expect([isError, text]).toEqual([
    true,
    "failed_precondition: this sandbox service has no address that others can reach. Reach the " +
      "port from inside with run_process. The user can start sandbox-mcp serve, which gives " +
      "ports an address.",
  ]);
});

const DETAIL = { ...SANDBOX_DETAIL, endAt: "2036-01-01T00:00:00Z" };

const SAMPLE = {
  timestamp: "2026-01-01T00:00:00Z",
  timestampUnix: 1_767_225_600,
  cpuCount: 2,
  cpuUsedPct: 12.34,
  memUsed: 104_857_600,
  memTotal: 536_870_912,
  memCache: 0,
  diskUsed: 1_048_576,
  diskTotal: 10_485_760,
};

interface RemoteOptions {
  readonly answer?: Answer;
  readonly address?: { readonly publicUrl?: string; readonly domain?: string };
}

/** A host and our tools on a service that knows one sandbox and whatever `answer` knows. */
async function startRemote({ answer, address = {} }: RemoteOptions) {
  await using stack = new AsyncDisposableStack();
  const recorder = stack.use(
    await startRecorder((request, response) => {
      if (request.url === "/sandboxes/i1" && request.method === "GET") {
        return answerJson(response, 200, { body: DETAIL });
      }
      if (answer !== undefined) return answer(request, response);
      return answerJson(response, 404, { body: { code: 404, message: "no such path" } });
    }),
  );
  const sandboxUrl = address.publicUrl === undefined ? { sandboxUrl: recorder.url } : {};
  const service = stack.use(
    createService({ url: recorder.url, apiKey: "k", ...sandboxUrl, ...address }),
  );
  const state = stack.use(
    startMcpState({ service: () => service, log: createSilentLog(), onExit: () => "leave" }),
  );
  const host = stack.use(await startMcpHost(state));
  const owned = stack.move();
  return {
    recorder,
    call: (name: string, input: Record<string, unknown>) =>
      host.client.callTool({ name, arguments: input }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** For every path but the list of sandboxes. */
function answerStatus(status: number): Answer {
  return ({ url }, response) =>
    url.startsWith("/v2/sandboxes?")
      ? answerJson(response, 200, { body: [] })
      : answerJson(response, status, { body: { code: status, message: "no such path" } });
}

test.for([
  { tool: "fork_sandbox", input: { sandbox_id: "i1" }, told: "cannot fork. Use snapshot" },
  { tool: "get_metrics", input: { sandbox_id: "i1" }, told: "keeps no metrics" },
  { tool: "connect_sandbox", input: { sandbox_id: "i1" }, told: "cannot connect. set_timeout" },
  { tool: "list_snapshots", input: {}, told: "cannot list snapshots." },
  { tool: "list_templates", input: {}, told: "cannot list templates." },
  { tool: "build_template", input: { name: "x" }, told: "cannot build templates." },
])("$tool says in a sentence that a service lacks its route", async ({ tool, input, told }) => {
  for (const status of [404, 405, 501]) {
    await using remote = await startRemote({ answer: answerStatus(status) });
    expect(await remote.call(tool, input)).toEqual({
      isError: true,
      content: [
        {
          type: "text",
          text: expect.stringMatching(`^unimplemented\\. The sandbox service ${told}`),
        },
      ],
    });
  }
});

test.for([
  {
    tool: "pause_sandbox",
    input: {},
    way: "The sandbox service cannot pause. set_timeout extends a life.",
  },
  {
    tool: "snapshot",
    input: {},
    way: "The sandbox service cannot snapshot. Keep files: pack them by tar, then use download_url.",
  },
  {
    tool: "set_timeout",
    input: { timeout_seconds: 60 },
    way: "The sandbox service sets no timeout of a running sandbox. connect_sandbox extends a life, too.",
  },
  {
    tool: "get_logs",
    input: {},
    way: "The sandbox service keeps no logs. get_process_output has what programs wrote.",
  },
])("$tool says so too where the sandbox is there and the route is not", async (row) => {
  for (const status of [404, 405, 501]) {
    await using remote = await startRemote({ answer: answerStatus(status) });
    const input = { sandbox_id: "i1", ...row.input };
    expect(await remote.call(row.tool, input)).toEqual({
      isError: true,
      content: [{ type: "text", text: `unimplemented. ${row.way}` }],
    });
  }
});

test("a fork of a sandbox that is gone says that it is gone", async () => {
  await using remote = await startRemote({});
  expect(await remote.call("fork_sandbox", { sandbox_id: "i2" })).toMatchObject({
    isError: true,
    content: [{ text: expect.stringMatching("^not_found: sandbox i2 does not exist") }],
  });
});

test("each copy of a fork is told with its id or its reason", async () => {
  const sandbox = { templateID: "t", sandboxID: "i9", clientID: "c", envdVersion: "0.6.13" };
  await using remote = await startRemote({
    answer: (_request, response) =>
      answerJson(response, 201, {
        body: [{ sandbox }, { error: { code: 429, message: "no\nroom" } }],
      }),
  });
  const input = { sandbox_id: "i1", count: 2, timeout_seconds: 60 };
  expect(await remote.call("fork_sandbox", input)).toMatchObject({
    structuredContent: {
      source: "i1",
      copies: [{ sandbox_id: "i9" }, { error: String.raw`no\nroom` }],
    },
  });
  expect(remote.recorder.requests.map(({ url, body }) => [url, JSON.parse(body)])).toEqual([
    ["/sandboxes/i1/fork", { count: 2, timeout: 60 }],
  ]);
});

test("metrics tell the newest sample, the peaks and a course", async () => {
  const samples = Array.from({ length: 20 }, (_, index) => ({
    ...SAMPLE,
    cpuUsedPct: index === 5 ? 99.96 : 1,
  }));
  await using remote = await startRemote({
    answer: (_request, response) => answerJson(response, 200, { body: samples }),
  });
  const newest = { at: SAMPLE.timestamp, cpu_percent: 1, memory_mb: 100, disk_mb: 1 };
  expect(await remote.call("get_metrics", { sandbox_id: "i1" })).toMatchObject({
    structuredContent: {
      samples: 20,
      cpus: 2,
      memory_total_mb: 512,
      disk_total_mb: 10,
      newest,
      peak: { cpu_percent: 100, memory_mb: 100, disk_mb: 1 },
      course: [newest, newest, newest, newest, newest, newest, newest],
    },
  });
});

test("a sandbox without samples says so", async () => {
  await using remote = await startRemote({
    answer: (_request, response) => answerJson(response, 200, { body: [] }),
  });
  expect(await remote.call("get_metrics", { sandbox_id: "i1" })).toMatchObject({
    structuredContent: {
      samples: 0,
      course: [],
      note: "No sample in these minutes; one is taken every 5 s.",
    },
  });
});

test("the address of a port is a host of its own, or a base with headers", async () => {
  const headers = [
    { name: "e2b-sandbox-id", value: "i1" },
    { name: "e2b-sandbox-port", value: "8000" },
  ];
  const input = { sandbox_id: "i1", port: 8_000 };
  await using plain = await startRemote({});
  expect(await plain.call("get_sandbox_url", input)).toMatchObject({
    structuredContent: { url: plain.recorder.url, headers },
  });
  const address = { publicUrl: "http://127.0.0.1:3490", domain: "sandbox.localhost" };
  await using serve = await startRemote({ address });
  expect(await serve.call("get_sandbox_url", input)).toMatchObject({
    structuredContent: {
      url: "http://8000-i1.sandbox.localhost:3490",
      headers,
      base: "http://127.0.0.1:3490",
    },
  });
});

test("an isolation that a service lacks is not to be asked for again", async () => {
  await using remote = await startRemote({ answer: answerStatus(503) });
  const reply = await remote.call("create_sandbox", { isolation: "gvisor" });
  expect(reply["content"]).toEqual([
    {
      type: "text",
      text: expect.stringMatching(/^unavailable: .* a repeat does not help: tell the user/),
    },
  ]);
});

test("the log of a build that has ended goes on at a cursor where it exceeds a reply", async () => {
  const line = {
    timestamp: "2026-01-01T00:00:00Z",
    level: "info",
    step: "base",
    message: "x".repeat(400),
  };
  const status = {
    templateID: "t",
    buildID: "00000000-0000-4000-8000-000000000000",
    status: "ready",
    logs: [],
    logEntries: Array.from({ length: 100 }, () => line),
  };
  await using remote = await startRemote({
    answer: (_request, response) => answerJson(response, 200, { body: status }),
  });
  const input = { build_id: "t/00000000-0000-4000-8000-000000000000" };
  const reply = await remote.call("build_template", input);
  expect(reply["content"]).toEqual([
    {
      type: "text",
      text: expect.stringMatching(/^status: ready \|.*\| next_cursor: 74 \| the log goes on/),
    },
  ]);
});
