/** The log of a sandbox as clients get it: what the daemon noted, in order, with levels and fields. */

import { request } from "undici";
import { expect, test } from "vitest";
import { envelope } from "../support/raw-call.ts";
import { startTestService, type TestService } from "../support/service.ts";

interface Entry {
  readonly timestamp: string;
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, string>>;
}

interface Logs {
  readonly logs: readonly { readonly timestamp: string; readonly line: string }[];
  readonly logEntries: readonly Entry[];
}

async function logsOf(service: TestService, sandboxID: string, query = ""): Promise<Logs> {
  const reply = await service.call({ path: `/sandboxes/${sandboxID}/logs${query}` });
  return JSON.parse(reply.text);
}

function daemonEntries({ logEntries }: Logs): readonly Entry[] {
  return logEntries.filter(({ fields }) => fields["service"] === "envd");
}

/** One RPC with a JSON message; a stream is read to its end. */
async function rpc(
  service: TestService,
  sandbox: { sandboxID: string },
  call: {
    readonly method: string;
    readonly message: object;
    readonly headers: Readonly<Record<string, string>>;
    readonly isStream?: boolean;
  },
): Promise<number> {
  const json = JSON.stringify(call.message);
  const reply = await request(`http://localhost/${call.method}`, {
    dispatcher: service.dispatcher,
    method: "POST",
    headers: {
      "content-type": call.isStream ? "application/connect+json" : "application/json",
      "connect-protocol-version": "1",
      "e2b-sandbox-id": sandbox.sandboxID,
      "e2b-sandbox-port": "49983",
      ...call.headers,
    },
    body: call.isStream ? envelope(json) : json,
  });
  await reply.body.dump();
  return reply.statusCode;
}

/** What is noted of a process that ends by itself. */
const PROCESS = [
  ["debug", "process", "Process start (server stream start)", {}],
  [
    "info",
    "process",
    expect.stringMatching(/^Process with pid \d+ started$/),
    { kind: "process_start", command: "printf secret-%s output" },
  ],
  [
    "info",
    "process",
    expect.stringMatching(/^Process with pid \d+ ended$/),
    { kind: "process_end" },
  ],
  ["debug", "process", "Process start (server stream end)", {}],
];

test("what happened in a sandbox, in order, without a word of what went through it", async () => {
  await using service = await startTestService();
  const sandbox = await service.create();
  const { sandboxID } = sandbox;
  const headers = { "x-access-token": String(sandbox.envdAccessToken) };
  const stat = "filesystem.Filesystem/Stat";
  await rpc(service, sandbox, { method: stat, message: { path: "/tmp" }, headers });
  await rpc(service, sandbox, { method: stat, message: { path: "/no/such" }, headers });
  await service.enter(sandbox, { path: "/files?path=/tmp&signature=v1_x" });
  await service.enter(sandbox, { path: "/metrics" });
  await service.enter(sandbox, { path: "/health", headers });
  const upload = { method: "POST", path: "/files?path=a&username=root" } as const;
  const raw = { ...headers, "content-type": "application/octet-stream" };
  await service.enter(sandbox, { ...upload, headers: raw, body: "secret-content" });
  const compose = { source_paths: ["/root/a"], destination: "/root/b", username: "root" };
  await service.enter(sandbox, { method: "POST", path: "/files/compose", headers, body: compose });
  await service.enter(sandbox, { path: "/files?path=/root/b", headers });
  // The end of a reply is noted when it has been sent: the next call may come before.
  const noted = async () => daemonEntries(await logsOf(service, sandboxID)).length;
  let count = 9;
  await expect.poll(noted).toBe(count);
  for (const pty of [undefined, { size: { cols: 80, rows: 24 } }]) {
    const process = { cmd: "printf", args: ["secret-%s", "output"], envs: { KEY: "secret-value" } };
    const message = { process, ...(pty && { pty }), tag: "mine" };
    await rpc(service, sandbox, {
      method: "process.Process/Start",
      message,
      headers,
      isStream: true,
    });
    count += PROCESS.length;
    await expect.poll(noted).toBe(count);
  }
  const signal = { process: { tag: "nobody" }, signal: "SIGNAL_SIGKILL" };
  await rpc(service, sandbox, { method: "process.Process/SendSignal", message: signal, headers });

  await expect
    .poll(async () => (await logsOf(service, sandboxID)).logEntries.at(-1)?.message)
    .toBe("Process sendSignal");
  const found = await logsOf(service, sandboxID);
  const shown = daemonEntries(found).map(({ level, message, fields }) => {
    const { logger, error, path, username, event_type: kind, command } = fields;
    const facts = Object.entries({ error, path, username, kind, command });
    return [
      level,
      logger,
      message,
      Object.fromEntries(facts.filter(([, value]) => value !== undefined)),
    ];
  });
  expect(shown).toEqual([
    ["info", "filesystem", "Filesystem stat", { path: "/tmp" }],
    [
      "error",
      "filesystem",
      "Filesystem stat",
      { path: "/no/such", error: "file not found: lstat /no/such: no such file or directory" },
    ],
    ["error", "envd", "error during auth validation", { error: "invalid signature" }],
    ["error", "envd", "File read", { path: "/tmp", error: "invalid signature" }],
    ["error", "envd", "Trying to access secured envd without correct access token", {}],
    ["debug", "envd", "File processing", { path: "/root/a", kind: "file_processing" }],
    ["info", "envd", "File write", { path: "a", username: "root" }],
    ["info", "envd", "File compose completed", { path: "/root/b" }],
    ["info", "envd", "File read", { path: "/root/b" }],
    ...PROCESS,
    ...PROCESS,
    ["error", "process", "Process sendSignal", { error: "process with tag nobody not found" }],
  ]);
  expect(found.logEntries.map(({ timestamp }) => timestamp)).toEqual(
    found.logEntries.map(({ timestamp }) => timestamp).toSorted(),
  );
  for (const word of [
    "secret-output",
    "secret-value",
    "secret-content",
    headers["x-access-token"],
  ]) {
    expect(JSON.stringify(found)).not.toContain(word);
  }
});

test("lines that belong together share a number, and each is an object with its level", async () => {
  await using service = await startTestService();
  const sandbox = await service.create();
  const headers = { "x-access-token": String(sandbox.envdAccessToken) };
  const message = { process: { cmd: "sh", args: ["-c", "echo out; echo err! >&2; exit 3"] } };
  await rpc(service, sandbox, {
    method: "process.Process/Start",
    message,
    headers,
    isStream: true,
  });
  await expect
    .poll(async () => (await logsOf(service, sandbox.sandboxID)).logEntries.at(-1)?.message)
    .toBe("Process start (server stream end)");
  const { logs, logEntries } = await logsOf(service, sandbox.sandboxID);
  const lines = logs.map(({ line }): Record<string, unknown> => JSON.parse(line));
  const own = lines.filter((line) => line["logger"] === "process");
  expect(own).toHaveLength(4);
  expect(new Set(own.map((line) => line["operation_id"])).size).toBe(1);
  expect(own[2]).toEqual({
    level: "info",
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    message: expect.stringMatching(/^Process with pid \d+ ended$/),
    logger: "process",
    pid: expect.any(Number),
    operation_id: expect.stringMatching(/^\d+$/),
    event_type: "process_end",
    process_result: { exit_code: 3, exited: true, status: "exit status 3", error: "exit status 3" },
    stdout_bytes: 4,
    stderr_bytes: 5,
    pty_bytes: 0,
    service: "envd",
    sandboxID: sandbox.sandboxID,
    instanceID: sandbox.sandboxID,
    templateID: sandbox.templateID,
    envID: sandbox.templateID,
    category: "default",
  });
  // The command line of the public service wants these two of every line.
  expect(lines.every((line) => "level" in line && typeof line["logger"] === "string")).toBe(true);
  // Objects are told in the line alone.
  const ended = logEntries.find(({ fields }) => fields["event_type"] === "process_end");
  expect([ended?.fields["stdout_bytes"], ended?.fields["process_result"]]).toEqual([
    "4",
    undefined,
  ]);
  // To follow: from the millisecond after the last one on.
  const last = logEntries.at(-1)?.timestamp ?? "";
  const later = await logsOf(service, sandbox.sandboxID, `?start=${Date.parse(last) + 1}`);
  expect(later).toEqual({ logs: [], logEntries: [] });
  const limited = await logsOf(service, sandbox.sandboxID, "?limit=1");
  expect(limited.logEntries.map((entry) => entry.message)).toEqual(["Sandbox created"]);
});
