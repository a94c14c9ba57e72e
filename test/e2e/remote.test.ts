/**
 * The tools on a remote service: another `serve`, reached over TLS by key and domain alone, or by
 * its plain address. The outcome of each is that of a stdio server beside the same `serve`.
 */

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startMcpClient, type TestClient } from "../support/mcp/mcp-client.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { startServe, type TestServe } from "../support/serve.ts";

const DOMAIN = "remote.test";
const NAMES = resolve(import.meta.dirname, "../support/network/loopback-names.ts");

let certificate: TestCertificate;

beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
});
afterAll(async () => certificate[Symbol.asyncDispose]());

async function startSecureServe(): Promise<TestServe> {
  const { certificatePath, keyPath } = certificate;
  const tls = ["--tls-cert", certificatePath, "--tls-key", keyPath, "--domain", DOMAIN];
  return startServe([...tls, "--pool", "0"]);
}

/** What a client needs that knows nothing but a key and a domain. */
function remoteByDomain(serve: TestServe): Readonly<Record<string, string>> {
  return {
    E2B_API_KEY: serve.apiKey,
    E2B_DOMAIN: `${DOMAIN}:${new URL(serve.url).port}`,
    NODE_EXTRA_CA_CERTS: certificate.authorityPath,
    NODE_OPTIONS: `--import=${NAMES}`,
  };
}

async function startRemote(serve: TestServe): Promise<TestClient> {
  return startMcpClient(["--toolsets", "all"], remoteByDomain(serve));
}

async function startRemoteByAddress(serve: TestServe): Promise<TestClient> {
  return startMcpClient(["--toolsets", "all"], {
    E2B_API_KEY: serve.apiKey,
    E2B_API_URL: serve.url,
    E2B_SANDBOX_URL: serve.url,
  });
}

async function startBeside(serve: TestServe): Promise<TestClient> {
  return startMcpClient(["--toolsets", "all", "--home", serve.home]);
}

interface Outcome {
  readonly tool: string;
  readonly isError: boolean;
  readonly text: string;
}

/** What differs from run to run, by name instead of by value. */
function settled(text: string): string {
  return text
    .replaceAll(/\bi[a-z0-9]{20}\b/g, "<sandbox>")
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b/g, "<uuid>")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:]+(\.\d+)?Z?/g, "<time>")
    .replaceAll(/\bp_\d+/g, "<process>")
    .replaceAll(/\b\d+(\.\d+)?m?s\b/g, "<duration>")
    .replaceAll(/watcher_id: \S+/g, "watcher_id: <watcher>")
    .replaceAll(/snap-\w+/g, "<snapshot>")
    .replaceAll(/template_id: \S+/g, "template_id: <template>")
    .replaceAll(/\nport_host: \S+/g, "")
    .replaceAll(/spawn_count: \d+/g, "spawn_count: <count>")
    .replaceAll(/time_to_live_seconds: \d+/g, "time_to_live_seconds: <seconds>");
}

/** Addresses, samples and records differ by where and when they are asked for. */
const COMPARED_BY_SUCCESS: ReadonlySet<string> = new Set([
  "build_template",
  "download_url",
  "get_logs",
  "get_metrics",
  "get_sandbox_url",
  "list_templates",
  // Where to get the interpreter depends on the service.
  "run_code",
]);

/** Calls every tool at least once, and some of them wrongly. */
async function playEveryTool(host: TestClient, name: string): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  const call = async (tool: string, input: Record<string, unknown>) => {
    const { isError, text, fields } = await host.call(tool, input);
    const shown = COMPARED_BY_SUCCESS.has(tool) ? "" : settled(text);
    outcomes.push({ tool, isError, text: shown });
    return { text, fields };
  };
  const made = await call("create_sandbox", { metadata: [{ name: "run", value: name }] });
  const id = String(made.fields["sandbox_id"]);
  const inside = async (tool: string, input: Record<string, unknown> = {}) =>
    call(tool, { sandbox_id: id, ...input });
  await call("list_sandboxes", { metadata: [{ name: "run", value: name }] });
  await inside("get_sandbox");
  await inside("write_file", { path: "a.txt", content: "one\n" });
  await inside("write_file", { path: "b.txt", content: "two\n" });
  await inside("edit_file", { path: "b.txt", old_string: "two", new_string: "three" });
  await inside("edit_file", { path: "b.txt", old_string: "absent", new_string: "" });
  await inside("compose_files", { sources: ["a.txt", "b.txt"], destination: "c.txt" });
  await inside("read_file", { path: "c.txt" });
  await inside("read_file", { path: "absent.txt" });
  await inside("run_code", { code: "1" });
  await inside("make_directory", { path: "d" });
  await inside("move_path", { source: "c.txt", destination: "d/c.txt" });
  await inside("stat_path", { path: "d/c.txt" });
  await inside("list_directory", { path: "d" });
  await inside("search_files", { path: "d", pattern: "three" });
  await inside("download_url", { path: "d/c.txt" });
  const watch = await inside("watch_path", { path: "d", wait_seconds: 0 });
  const watcher = /watcher_id: (\S+)/.exec(watch.text)?.[1];
  await inside("remove_path", { path: "d/c.txt" });
  await inside("watch_path", { watcher_id: watcher, wait_seconds: 10, close: true });
  await inside("run_process", { cmd: "echo out; echo err >&2; exit 3" });
  await inside("run_process", { cmd: "true", cwd: "/absent" });
  const input = { cmd: "cat", args: [], keep_stdin_open: true, wait_seconds: 0 };
  const started = await inside("run_process", input);
  const processId = /process_id: (p_\d+)/.exec(started.text)?.[1] ?? "";
  await inside("list_processes");
  await inside("send_input", { process_id: processId, data: "typed\n", close: true });
  // Beyond what it says there is only its end to wait for.
  const end = { process_id: processId, cursor: "typed\n".length, wait_seconds: 10 };
  await inside("get_process_output", end);
  await inside("get_process_output", { process_id: processId });
  const sleeping = await inside("run_process", { cmd: "sleep", args: ["99"], wait_seconds: 0 });
  const sleeperId = /process_id: (p_\d+)/.exec(sleeping.text)?.[1] ?? "";
  await inside("send_signal", { process_id: sleeperId, signal: "SIGKILL" });
  await inside("get_sandbox_url", { port: 8_000 });
  await inside("get_metrics");
  await inside("get_logs");
  await inside("set_timeout", { timeout_seconds: 600 });
  const taken = await inside("snapshot", { name: `snap-${name}` });
  const snapshotId = String(taken.fields["snapshot_id"]);
  await call("get_template", { template: snapshotId });
  await call("list_templates", {});
  const steps = [{ type: "env", value: "A=b" }];
  await call("build_template", { name: `built-${name}`, steps });
  await call("list_snapshots", { sandbox_id: id });
  const forked = await inside("fork_sandbox");
  const [, copyId = ""] = /"sandbox_id":"(\w+)"/.exec(forked.text) ?? [];
  await call("run_process", { sandbox_id: copyId, cmd: "ls -A d; cat b.txt" });
  await call("kill_sandbox", { sandbox_id: copyId });
  await inside("pause_sandbox");
  await inside("run_process", { cmd: "true" });
  await inside("connect_sandbox");
  await inside("kill_sandbox");
  await inside("run_process", { cmd: "true" });
  await call("delete_snapshot", { snapshot_id: snapshotId });
  return outcomes;
}

test("every tool has the same outcome on a remote service over TLS as beside it", async () => {
  await using serve = await startSecureServe();
  await using remote = await startRemote(serve);
  await using beside = await startBeside(serve);
  const { tools } = await remote.client.listTools();
  const far = await playEveryTool(remote, "far");
  const near = await playEveryTool(beside, "near");
  expect(
    far.map((outcome) => ({ ...outcome, text: outcome.text.replaceAll("far", "near") })),
  ).toEqual(near);
  const called = new Set(far.map(({ tool }) => tool));
  expect(tools.map(({ name }) => name).filter((name) => !called.has(name))).toEqual([]);
  expect(JSON.stringify([far, near])).not.toContain(serve.apiKey);
  const failed = far.filter(({ isError }) => isError).map(({ tool }) => tool);
  expect(failed).toEqual([
    "edit_file",
    "read_file",
    "run_code",
    "run_process",
    "run_process",
    "run_process",
  ]);
});

test("links and ports of a sandbox on a remote service are reached from outside", async () => {
  await using serve = await startServe(["--pool", "0"]);
  await using host = await startRemoteByAddress(serve);
  const { fields } = await host.call("create_sandbox", {});
  const sandbox = { sandbox_id: fields["sandbox_id"] };
  await host.call("write_file", { ...sandbox, path: "page.html", content: "hello" });
  const link = await host.call("download_url", { ...sandbox, path: "page.html" });
  const file = await fetch(String(link.fields["url"]));
  expect([file.status, await file.text()]).toEqual([200, "hello"]);
  const cmd = "python3 -m http.server 8000";
  await host.call("run_process", { ...sandbox, cmd, wait_seconds: 0 });
  const address = (await host.call("get_sandbox_url", { ...sandbox, port: 8_000 })).fields;
  const list = Array.isArray(address["headers"]) ? address["headers"] : [];
  const headers = list.map((header: { name: string; value: string }): [string, string] => [
    header.name,
    header.value,
  ]);
  const base = String(address["base"] ?? address["url"]);
  const page = async () => {
    const reply = await fetch(`${base}/page.html`, { headers });
    return [reply.status, await reply.text()];
  };
  await expect.poll(page).toEqual([200, "hello"]);
  await host.call("kill_sandbox", sandbox);
});

/**
 * Looks wherever a program may look, as root of the sandbox, for two words: the key, and one that
 * is put into a file and must be found. Both come turned, or the search would find itself.
 */
const SEARCH = [
  'back() { echo "$1" | tr a-z n-za-m; }',
  'back "$PLANTED" > /tmp/planted',
  '(back "$PLANTED"; back "$KEY") | grep -rslaFf - /proc/[0-9]*/environ /proc/[0-9]*/cmdline ' +
    "/etc /home /root /tmp /run /var /opt",
].join("; ");

/** Each letter 13 places on, so that turning twice gives the text back. */
function turn(text: string): string {
  return text.replaceAll(/[a-z]/g, (letter) => {
    const place = (letter.codePointAt(0) ?? 0) - 97;
    return String.fromCodePoint(((place + 13) % 26) + 97);
  });
}

test("the key of a remote service reaches no sandbox, no result and no log", async () => {
  await using serve = await startSecureServe();
  const logFile = join(serve.home, "client.log");
  const flags = ["--toolsets", "all", "--log-level", "trace", "--log-file", logFile];
  await using host = await startMcpClient(flags, remoteByDomain(serve));
  const { fields } = await host.call("create_sandbox", { timeout_seconds: 60 });
  const sandbox = { sandbox_id: String(fields["sandbox_id"]) };
  const env = [
    { name: "KEY", value: turn(serve.apiKey) },
    { name: "PLANTED", value: turn("planted-word") },
  ];
  const search = await host.call("run_process", { ...sandbox, cmd: SEARCH, user: "root", env });
  expect(search.text).toContain("--- stdout\n/tmp/planted\n--- end");
  const found = [
    search,
    await host.call("get_sandbox", sandbox),
    await host.call("get_logs", { ...sandbox, min_level: "debug" }),
    await host.call("create_sandbox", { template: "absent" }),
    await host.call("get_sandbox_url", { ...sandbox, port: 80 }),
    await host.call("download_url", { ...sandbox, path: "x" }),
    await host.call("kill_sandbox", sandbox),
  ];
  const log = await readFile(logFile, "utf8");
  expect(log).toContain('"op":"tool.run_process"');
  const said = JSON.stringify(found) + log + serve.program.stderr();
  expect(said).not.toContain(serve.apiKey);
});
