/** A day's work in small: tasks of an agent, each done with nothing but what the tools return. */

import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestHome, type TestHome } from "../support/home.ts";
import { finish, startAgentSession } from "../support/mcp/agent-session.ts";
import { createAgent, read, sandboxOf, type Agent } from "../support/mcp/agent.ts";
import { startMcpClient } from "../support/mcp/mcp-client.ts";
import { startServe } from "../support/serve.ts";

/** One after the other in it, as an agent of many days does; a first start of a home takes a second. */
let home: TestHome;

beforeAll(async () => {
  home = await openTestHome();
});
afterAll(() => home[Symbol.asyncDispose]());

const startAgent = async () => startAgentSession(home.path);

test("a failing Python test is found, fixed by edit_file, and passes", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const source = "def double(number):\n    return number + number + 1\n";
  await agent.do("write_file", { ...sandbox, path: "work/double.py", content: source });
  const check = "import double\nassert double.double(2) == 4, double.double(2)\n";
  await agent.do("write_file", { ...sandbox, path: "work/check.py", content: check });
  const run = { ...sandbox, cmd: "python3 check.py", cwd: "/home/user/work" };
  const failed = await agent.do("run_process", run);
  expect(read(failed, /exit_code: (\d+)/)).toBe("1");
  expect(failed).toContain("AssertionError: 5");
  const wrong = read(
    await agent.do("read_file", { ...sandbox, path: "work/double.py" }),
    /(return .*)/,
  );
  const edit = { path: "work/double.py", old_string: wrong, new_string: "return number + number" };
  await agent.do("edit_file", { ...sandbox, ...edit });
  expect(read(await agent.do("run_process", run), /exit_code: (\d+)/)).toBe("0");
});

test("a small C project is built, tested and fixed", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const files = {
    "sum.c": "int sum(int a, int b) { return a - b; }\n",
    "test.c":
      '#include <stdio.h>\nint sum(int, int);\nint main(void) { printf("%d\\n", sum(2, 3)); return sum(2, 3) == 5 ? 0 : 1; }\n',
    Makefile:
      "check: test\n\t./test\ntest: test.c sum.c\n\tcc -Wall -Werror -o test test.c sum.c\n",
  };
  for (const [name, content] of Object.entries(files)) {
    await agent.do("write_file", { ...sandbox, path: `project/${name}`, content });
  }
  const run = { ...sandbox, cmd: "make check", cwd: "/home/user/project", wait_seconds: 50 };
  const failed = await agent.do("run_process", run);
  expect([read(failed, /exit_code: (\d+)/), failed]).toEqual([
    "2",
    expect.stringContaining("\n-1\n"),
  ]);
  const edit = { path: "project/sum.c", old_string: "a - b", new_string: "a + b" };
  await agent.do("edit_file", { ...sandbox, ...edit });
  const passed = await agent.do("run_process", run);
  expect([read(passed, /exit_code: (\d+)/), passed]).toEqual([
    "0",
    expect.stringContaining("\n5\n"),
  ]);
});

test("a question is answered by a REPL, one call a turn, and its mistake is fixed", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const data = { path: "sales.csv", content: "north,3\nsouth,5\nnorth,4\n" };
  await agent.do("write_file", { ...sandbox, ...data });
  const repl = { ...sandbox, cmd: "python3", args: ["-q"], pty: true, wait_seconds: 2 };
  const opened = await agent.do("run_process", repl);
  expect(opened).toContain(">>> ");
  const process = { ...sandbox, process_id: read(opened, /process_id: (p_\d+)/) };
  const ask = (line: string) =>
    agent.do("send_input", { ...process, data: `${line}\n`, wait_seconds: 20 });
  await ask("rows = [line.split(',') for line in open('sales.csv')]");
  const failed = await ask("sum(amount for name, amount in rows if name == 'north')");
  expect(read(failed, /(TypeError): /)).toBe("TypeError");
  const fixed = await ask("sum(int(amount) for name, amount in rows if name == 'north')");
  expect(read(fixed, /^(\d+)$/m)).toBe("7");
  const ended = await agent.do("send_input", {
    ...process,
    data: "",
    close: true,
    wait_seconds: 20,
  });
  expect(read(ended, /exit_code: (\d+)/)).toBe("0");
});

test("a name that is used everywhere is found by search_files and renamed", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  for (const name of ["one", "two"]) {
    const content = `def ${name}():\n    return old_name(1)\n`;
    await agent.do("write_file", { ...sandbox, path: `project/${name}.py`, content });
  }
  const search = { ...sandbox, path: "project", glob: "*.py", pattern: String.raw`\bold_name\(` };
  const found = await agent.do("search_files", search);
  const files = [...found.matchAll(/^file: (\S+)\n2: /gm)].map(([, file]) => file);
  expect(files).toHaveLength(2);
  for (const path of files) {
    const edit = { path, old_string: "old_name", new_string: "new_name" };
    await agent.do("edit_file", { ...sandbox, ...edit });
  }
  expect(await agent.do("search_files", search)).toMatch(/^0 matching lines/);
});

test.for(["ripgrep", "grep"])(
  "a search of everything by %s leaves endless files out",
  async (by) => {
    await using started = await startAgent();
    const { agent } = started;
    const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
    const marker = { ...sandbox, path: "/etc/dev/marker.conf", content: "a marker\n" };
    await agent.do("write_file", { ...marker, user: "root" });
    if (by === "grep")
      await agent.do("remove_path", { ...sandbox, path: "/usr/bin/rg", user: "root" });
    // A device that a runtime mounts is listed as a file.
    const glob = "{full,pagemap,marker.conf}";
    const found = await agent.do("search_files", { ...sandbox, path: "/", glob, pattern: "a m" });
    expect(found).toMatch(
      /^1 matching lines in 1 files below \/ \|.* not searched: \.git, node_modules, \/dev, \/proc, \/sys \| [^]*\nfile: \/etc\/dev\/marker\.conf\n1: a marker\n/,
    );
  },
);

test("a build longer than one wait is followed to its end by bounded waits", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const cmd = "for step in 1 2 3 4 5; do echo step $step; sleep 1; done; exit 7";
  const first = await agent.do("run_process", { ...sandbox, cmd, wait_seconds: 1 });
  expect(first).toContain("status: running");
  const replies = await finish(agent, first, sandbox);
  expect(read(replies.at(-1) ?? "", /exit_code: (\d+)/)).toBe("7");
  const steps = [...replies.join("\n").matchAll(/^step (\d)$/gm)].map(([, step]) => step);
  expect(steps).toEqual(["1", "2", "3", "4", "5"]);
});

test("an expired sandbox is replaced by following the error alone", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", { timeout_seconds: 1 }));
  const work = { cmd: "echo done" };
  const said = async () => (await agent.ask("run_process", { ...sandbox, ...work })).text;
  await expect.poll(said, { interval: 500 }).toMatch(/^not_found: /);
  const next = read(await said(), /Call (create_sandbox)/);
  const fresh = sandboxOf(await agent.do(next, {}));
  expect(await agent.do("run_process", { ...fresh, ...work })).toContain("\ndone\n");
});

test("copies of a sandbox go different ways and are compared", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  await agent.do("write_file", { ...sandbox, path: "data.txt", content: "3\n1\n2\n" });
  const copies = await agent.do("fork_sandbox", { ...sandbox, count: 2 });
  const ids = [...copies.matchAll(/"sandbox_id":"([a-z0-9]+)"/g)].map(([, id]) => id);
  const results = await Promise.all(
    ["sort", "sort -r"].map((sort, index) =>
      agent.do("run_process", { sandbox_id: ids[index], cmd: `${sort} data.txt | tr '\\n' ,` }),
    ),
  );
  expect(results.map((text) => read(text, /--- stdout\n(.*)\n/))).toEqual(["1,2,3,", "3,2,1,"]);
});

test("a change that a watch tells is built", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  await agent.do("make_directory", { ...sandbox, path: "src" });
  const watch = await agent.do("watch_path", { ...sandbox, path: "src", wait_seconds: 0 });
  const watcher = { ...sandbox, watcher_id: read(watch, /watcher_id: (\S+)/) };
  await agent.do("write_file", { ...sandbox, path: "src/page.txt", content: "new" });
  const events = await agent.do("watch_path", { ...watcher, wait_seconds: 20 });
  const name = read(events, /(?:create|write) (\S+)/);
  const cmd = `tr a-z A-Z < src/${name} > built.txt && cat built.txt`;
  expect(await agent.do("run_process", { ...sandbox, cmd })).toContain("\nNEW\n");
  await agent.do("watch_path", { ...watcher, wait_seconds: 0, close: true });
});

test("two sandboxes pass a result on through their client", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const one = sandboxOf(await agent.do("create_sandbox", {}));
  const other = sandboxOf(await agent.do("create_sandbox", {}));
  await agent.do("run_process", { ...one, cmd: "seq 1 5 > numbers.txt" });
  const text = await agent.do("read_file", { ...one, path: "numbers.txt" });
  const content = read(text, /--- content\n([^]*?)--- end/);
  await agent.do("write_file", { ...other, path: "numbers.txt", content });
  const cmd = "python3 -c 'print(sum(map(int, open(\"numbers.txt\"))))'";
  expect(await agent.do("run_process", { ...other, cmd })).toContain("\n15\n");
});

const PART_BYTES = 2_000_000;
const PARTS = 25;

test("a file of 50 MB goes in by parts, is composed, and comes out by parts and by its link", async () => {
  await using serve = await startServe(["--pool", "0"]);
  await using client = await startMcpClient(["--toolsets", "all", "--home", serve.home]);
  const agent = createAgent(client);
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const hash = createHash("sha256");
  const sources: string[] = [];
  for (let part = 0; part < PARTS; part += 1) {
    const content = `${part} `.repeat(PART_BYTES).slice(0, PART_BYTES);
    hash.update(content);
    const path = `parts/${part}`;
    sources.push(path);
    await agent.do("write_file", { ...sandbox, path, content });
  }
  const wanted = hash.digest("hex");
  await agent.do("compose_files", { ...sandbox, sources, destination: "whole" });
  const sum = await agent.do("run_process", { ...sandbox, cmd: "sha256sum whole" });
  expect(read(sum, /--- stdout\n(\S+)/)).toBe(wanted);
  const link = read(await agent.do("download_url", { ...sandbox, path: "whole" }), /url: (\S+)/);
  const linked = Buffer.from(await (await fetch(link)).arrayBuffer());
  const joined = await readByParts(agent, { ...sandbox, path: "whole" });
  const found = [linked, joined].map((bytes) => [
    bytes.length,
    createHash("sha256").update(bytes).digest("hex"),
  ]);
  expect(found).toEqual([
    [PARTS * PART_BYTES, wanted],
    [PARTS * PART_BYTES, wanted],
  ]);
  await agent.do("kill_sandbox", sandbox);
});

/** A whole file, each part from where the last reply said that the next one begins. */
async function readByParts(agent: Agent, file: object): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let offset: number | undefined = 0; offset !== undefined;) {
    const wish = { ...file, offset, limit: 200_000, encoding: "base64" };
    const text = await agent.do("read_file", wish);
    parts.push(Buffer.from(read(text, /--- content\n(\S+)\n--- end/), "base64"));
    const next = /next_offset: (\d+)/.exec(text)?.[1];
    offset = next === undefined ? undefined : Number(next);
  }
  return Buffer.concat(parts);
}

test("a page is served and fetched under the address that the tools tell", async () => {
  await using serve = await startServe(["--pool", "0"]);
  await using client = await startMcpClient(["--toolsets", "all", "--home", serve.home]);
  const agent = createAgent(client);
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  await agent.do("write_file", { ...sandbox, path: "page.html", content: "hello" });
  const server = { cmd: "python3 -m http.server 8000", wait_seconds: 0 };
  await agent.do("run_process", { ...sandbox, ...server });
  const told = await agent.do("get_sandbox_url", { ...sandbox, port: 8_000 });
  const list: { name: string; value: string }[] = JSON.parse(read(told, /^headers: (.*)$/m));
  const headers = list.map(({ name, value }): [string, string] => [name, value]);
  const page = async () => {
    const reply = await fetch(`${read(told, /^base: (\S+)$/m)}/page.html`, { headers });
    return [reply.status, await reply.text()];
  };
  await expect.poll(page).toEqual([200, "hello"]);
  await agent.do("kill_sandbox", sandbox);
});
