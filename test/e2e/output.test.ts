/** Output that is much, that nobody reads, or whose server dies: all of it is there, or a mark is. */

import { createHash, type Hash } from "node:crypto";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import { openTestHome } from "../support/home.ts";
import { createAgent, read, sandboxOf, type Agent } from "../support/mcp/agent.ts";
import { startMcpClient } from "../support/mcp/mcp-client.ts";
import { openRawStdio } from "../support/mcp/raw-stdio.ts";
import { startProgram } from "../support/program.ts";
import { startServe } from "../support/serve.ts";

const MIB = 1024 * 1024;

interface ProcessHandle {
  readonly sandbox_id: string;
  readonly process_id: string;
}

/** Follows the cursors of the replies to the end; gives each page of stdout away. */
async function pageThrough(
  agent: Agent,
  process: ProcessHandle,
  take: (text: string) => void,
): Promise<void> {
  let cursor = 0;
  for (;;) {
    const input = { ...process, cursor, stream: "stdout", max_bytes: 200_000, wait_seconds: 10 };
    const text = await agent.do("get_process_output", input);
    const from = text.indexOf("--- stdout\n");
    if (from !== -1) take(text.slice(from + "--- stdout\n".length, text.lastIndexOf("--- end")));
    const next = Number(read(text, /next_cursor: (\d+)/));
    if (!text.includes("bytes more") && !text.startsWith("status: running")) return;
    cursor = next;
  }
}

async function hashOf(agent: Agent, process: ProcessHandle): Promise<string> {
  const hash: Hash = createHash("sha256");
  await pageThrough(agent, process, (text) => void hash.update(text));
  return hash.digest("hex");
}

/** What a process holds at most from here on, beyond what it holds now. */
async function measureGrowth(pid: number): Promise<() => Promise<number>> {
  await writeFile(`/proc/${pid}/clear_refs`, "5");
  const status = async (name: string) => {
    const text = await readFile(`/proc/${pid}/status`, "utf8");
    return Number(read(text, new RegExp(`${name}:\\s+(\\d+)`))) * 1024;
  };
  const before = await status("VmRSS");
  return async () => (await status("VmHWM")) - before;
}

function numbersOf(text: string): number[] {
  return [...text.matchAll(/^line (\d+)$/gm)].map(([, number]) => Number(number));
}

/** 104 MB of lines that are all different. */
const LINES = 12_800_000;

test("a log of 100 MB is paged by its cursor, and the server does not grow for it", async () => {
  await using home = await openTestHome();
  await using client = await startMcpClient(["--home", home.path]);
  const agent = createAgent(client);
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const sum = await agent.do("run_process", {
    ...sandbox,
    cmd: `seq 1 ${LINES} > lines; sha256sum lines; wc -c < lines`,
    wait_seconds: 50,
  });
  const growth = await measureGrowth(client.pid);
  const started = await agent.do("run_process", {
    ...sandbox,
    cmd: "cat",
    args: ["lines"],
    wait_seconds: 50,
  });
  const whileTaken = await growth();
  const process = { ...sandbox, process_id: read(started, /process_id: (p_\d+)/) };
  expect(await hashOf(agent, process)).toBe(read(sum, /([0-9a-f]{64})/));
  expect(Number(read(sum, /\n(\d+)\n/))).toBeGreaterThan(100_000_000);
  // Half of what went through: a collector that gets no processor lags behind. The bench has the
  // figure of a machine that is not busy.
  expect(whileTaken).toBeLessThan(64 * MIB);
});

test("a server is killed while its process writes; the next one reads on, and marks the gap", async () => {
  await using serve = await startServe(["--pool", "0"]);
  const first = await startMcpClient(["--home", serve.home]);
  const agent = createAgent(first);
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const wait = "if [ $i = 280 ]; then until [ -e /tmp/seen ]; do sleep 0.05; done; fi";
  const cmd = `for i in $(seq 0 299); do ${wait}; echo line $i; sleep 0.005; done; exit 9`;
  const started = await agent.do("run_process", { ...sandbox, cmd, wait_seconds: 1 });
  const handle = { ...sandbox, process_id: read(started, /process_id: (p_\d+)/) };
  await using second = await startMcpClient(["--home", serve.home]);
  const next = createAgent(second);
  const log = async () =>
    second.client.readResource({ uri: `sandbox:///${sandbox.sandbox_id}/log` });
  // What a server has in memory alone is lost with it.
  await expect
    .poll(() => next.do("get_process_output", { ...handle, cursor: 0 }))
    .toContain("\nline 0\n");
  await expect.poll(async () => JSON.stringify(await log())).toContain("line 0\\n");
  process.kill(first.pid, "SIGKILL");
  // Its last lines come once the next server watches it.
  await next.do("get_process_output", { ...handle, cursor: 0 });
  await next.do("write_file", { ...sandbox, path: "/tmp/seen", content: "" });
  let text = "";
  await pageThrough(next, handle, (page) => {
    text += page;
  });
  const [before = "", after = "", ...more] = text.split(/\n--- \[… .* missing …\]\n/);
  expect(more).toEqual([]);
  const [known, later] = [numbersOf(before), numbersOf(after)];
  expect(known).toEqual(Array.from({ length: known.length }, (_, index) => index));
  expect(known.length).toBeGreaterThan(0);
  const from = 300 - later.length;
  expect(later).toEqual(Array.from({ length: later.length }, (_, index) => from + index));
  expect(from).toBeGreaterThanOrEqual(known.length);
  expect(await next.do("get_process_output", handle)).toMatch(/^exit_code: 9 \|/);
  await next.do("kill_sandbox", sandbox);
  const { contents } = await log();
  expect(contents).toEqual([
    expect.objectContaining({
      text: expect.stringMatching(/started: [^]*\nline 0\n[^]*watched again[^]*\nline 299\n/),
    }),
  ]);
  await first[Symbol.asyncDispose]();
  await second[Symbol.asyncDispose]();
  const { sockets } = await takeCensus(join(serve.home, "spool"));
  expect(sockets).toEqual([]);
  expect(await readdir(join(serve.home, "spool"))).toEqual(["local"]);
});

test("a host that reads nothing does not hold the process up, and gets the reply in the end", async () => {
  await using serve = await startServe(["--pool", "0"]);
  await using program = startProgram(["stdio", "--home", serve.home]);
  const { stdin } = program.child;
  if (stdin === null) throw new Error("no stdin");
  const host = openRawStdio(stdin, program.stdout);
  await host.initialize();
  await using client = await startMcpClient(["--home", serve.home]);
  const agent = createAgent(client);
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  // More replies than its pipe holds are on their way to the host when it stops reading.
  program.stdout.pause();
  const flood = { ...sandbox, cmd: "seq 1 30000", max_output_bytes: 200_000 };
  const replies = Array.from({ length: 4 }, () =>
    host.request("tools/call", { name: "run_process", arguments: flood }),
  );
  const cmd = "seq 1 1000000; touch done";
  const last = host.request("tools/call", {
    name: "run_process",
    arguments: { ...sandbox, cmd, wait_seconds: 50 },
    _meta: { progressToken: 1 },
  });
  await expect
    .poll(async () => (await agent.ask("stat_path", { ...sandbox, path: "done" })).isError, {
      timeout: 30_000,
    })
    .toBe(false);
  program.stdout.resume();
  const text = JSON.stringify(await last);
  expect(text).toMatch(/exit_code: 0 .*stdout 6.9 MB/);
  await Promise.all(replies);
  const handle = { ...sandbox, process_id: read(text, /process_id: (p_\d+)/) };
  const wanted = createHash("sha256");
  for (let line = 1; line <= 1_000_000; line += 1) wanted.update(`${line}\n`);
  // Another server of the same home reads what this one took.
  expect(await hashOf(agent, handle)).toBe(wanted.digest("hex"));
  await agent.do("kill_sandbox", sandbox);
});

test("with a remote service output outlives server and sandbox too, for the same key", async () => {
  await using serve = await startServe(["--pool", "0"]);
  await using home = await openTestHome();
  const environment = {
    E2B_API_KEY: serve.apiKey,
    E2B_API_URL: serve.url,
    E2B_SANDBOX_URL: serve.url,
  };
  const first = await startMcpClient(["--home", home.path], environment);
  const agent = createAgent(first);
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const sum = await agent.do("run_process", { ...sandbox, cmd: "seq 1 400000 | sha256sum" });
  const started = await agent.do("run_process", { ...sandbox, cmd: "seq 1 400000" });
  const handle = { ...sandbox, process_id: read(started, /process_id: (p_\d+)/) };
  await agent.do("kill_sandbox", sandbox);
  await first[Symbol.asyncDispose]();
  await using second = await startMcpClient(["--home", home.path], environment);
  expect(await hashOf(createAgent(second), handle)).toBe(read(sum, /([0-9a-f]{64})/));
  await using stranger = await startMcpClient(["--home", home.path], {
    ...environment,
    E2B_API_KEY: `e2b_${"0".repeat(40)}`,
  });
  const refused = await createAgent(stranger).ask("get_process_output", handle);
  expect([refused.isError, refused.text]).toEqual([
    true,
    expect.stringMatching(/^unauthenticated/),
  ]);
});
