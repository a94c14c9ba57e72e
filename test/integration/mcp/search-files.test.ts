/** Search in the files of a sandbox: what is found, what is counted, and what bounds it. */

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { Entry } from "../../../src/client/filesystem.ts";
import type { ProcessRequest } from "../../../src/client/process.ts";
import { SandboxError } from "../../../src/common/errors.ts";
import { searchFiles } from "../../../src/mcp/search/search-files.ts";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";

type Files = Readonly<Record<string, string | Buffer>>;

async function prepare(world: McpWorld, files: Files) {
  const root = join(world.folder, "search");
  for (const [name, content] of Object.entries(files)) {
    const path = join(root, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }
  const sandbox_id = await world.createSandbox();
  const search = (pattern: string, more: object = {}) =>
    world.call("search_files", { sandbox_id, path: root, pattern, ...more });
  return { root, search, sandbox_id };
}

const CODE: Files = {
  "a.ts": "one\nconst alpha = 1;\nthree\n",
  "deep/b.tsx": "x\ny\nalpha()\nz\n",
  "c.py": "ALPHA = 2\n",
  ".hidden": "alpha\n",
  ".git/config": "alpha\n",
  "node_modules/m/index.ts": "alpha\n",
  "data.bin": Buffer.from("alpha\0\n"),
};

test("matches come by file with line numbers, and what was passed over is said", async () => {
  await using world = await startMcpWorld();
  const { root, search } = await prepare(world, CODE);
  const { text } = await search("alpha");
  expect(text).toMatch(
    /^3 matching lines in 3 files below \S+ \| 1 binary files match, not shown \| not searched: \.git, node_modules \| /,
  );
  const files = [...text.matchAll(/^file: (.*)\n(.*)$/gm)].map(([found]) => found);
  expect(new Set(files)).toEqual(
    new Set([
      `file: ${root}/.hidden\n1: alpha`,
      `file: ${root}/a.ts\n2: const alpha = 1;`,
      `file: ${root}/deep/b.tsx\n3: alpha()`,
    ]),
  );
});

test("case, names, context and the path choose", async () => {
  await using world = await startMcpWorld();
  const { root, search } = await prepare(world, CODE);
  expect((await search("(?i)^alpha\\s=")).text).toContain("file: ");
  expect((await search("alpha", { glob: "*.{ts,tsx}" })).text).toMatch(/^2 matching lines in 2/);
  expect((await search("alpha", { glob: "*.tsx", context: 1 })).text).toContain(
    "\n2- y\n3: alpha()\n4- z\n",
  );
  const inside = await search("alpha", { path: `${root}/node_modules` });
  expect(inside.text).toMatch(/^1 matching lines in 1 files .* not searched: \.git \|/);
  expect((await search("alpha", { path: `${root}/c.py` })).text).toMatch(/^0 matching lines/);
  expect((await search("const", { path: `${root}/a.ts`, glob: "*.py" })).text).toMatch(/^1 /);
});

test("the context of a match beyond the limit is not shown", async () => {
  await using world = await startMcpWorld();
  const { search } = await prepare(world, { "a.txt": "alpha\nb\nc\nd\ne\nalpha\n" });
  const { text } = await search("alpha", { limit: 1, context: 1 });
  expect(text).toMatch(/^1 matching lines in 1 files .*there are more/);
  expect(text).toMatch(/\n1: alpha\n2- b\n--- end$/);
});

test("faulty wishes are named", async () => {
  await using world = await startMcpWorld();
  const { search, root } = await prepare(world, CODE);
  const texts = [
    (await search("alpha(")).text,
    (await search("alpha", { path: `${root}/absent` })).text,
    (await search("alpha", { glob: "a/*.ts" })).text,
    (await search("alpha", { user: "nobody-here" })).text,
    (await search("-f/etc/passwd")).text,
  ];
  expect(texts).toEqual([
    expect.stringMatching(/^invalid_argument: (ripgrep|grep) refused: ".*(parenthes|unclosed)/),
    expect.stringMatching(/^not_found: .*Call list_directory/),
    expect.stringContaining("glob"),
    expect.stringMatching(/^unauthenticated|^invalid_argument|^not_found/),
    expect.stringMatching(/^0 matching lines/),
  ]);
});

test("hostile names and lines stay data", async () => {
  await using world = await startMcpWorld();
  const { search } = await prepare(world, {
    "new\nfile: forged\n1: line": "alpha\u001b[31m\u202e\r\n",
    "-e": "alpha\n",
    "a\u0001b": "alpha\n",
    "latin1.txt": Buffer.from("alpha \xe9\n", "latin1"),
  });
  const { text } = await search("alpha");
  expect(text).toMatch(/^4 matching lines in 4 files/);
  expect(text).toMatch(/^file: ".*new\\nfile: forged\\n1: line"$/m);
  expect(text).toMatch(/^file: ".*a\\u0001b"$/m);
  expect(text).toContain("1: alpha\\u001b[31m\\u202e\n");
  expect(text).not.toMatch(/^file: forged/m);
});

test("the end of a line with CRLF is no part of it", async () => {
  await using world = await startMcpWorld();
  const { search } = await prepare(world, { "a.txt": "alpha\r\nbeta\r\r\n" });
  const { text } = await search("a", { context: 1 });
  expect(text).toContain("\n1: alpha\n2: beta\\u000d\n--- end");
});

test.for([
  { pattern: "alpha$", lines: 2 },
  { pattern: "(?i)^ALPHA.?$", lines: 2 },
  { pattern: String.raw`alpha\r`, lines: 1 },
  { pattern: "^$", lines: 1 },
])("the end of a line is found before CRLF, too: $pattern", async ({ pattern, lines }) => {
  await using world = await startMcpWorld();
  const { search } = await prepare(world, { "a.txt": "alpha\r\n\r\nbeta\r\n", "b.txt": "alpha\n" });
  expect((await search(pattern)).text).toMatch(new RegExp(`^${lines} matching lines in `));
});

test.for([
  { pattern: "alpha$", isTold: true },
  { pattern: String.raw`C:\\r$`, isTold: true },
  { pattern: String.raw`alpha\r$`, isTold: false },
  { pattern: String.raw`[\x0D]`, isTold: false },
  { pattern: "alpha\r", isTold: false },
])("CRLF ends a line for ripgrep unless CR is searched: %j", async ({ pattern, isTold }) => {
  await using world = await startMcpWorld();
  const { commands, request } = await withoutRipgrep(world, async () => ROOT);
  await searchFiles({ ...request, pattern, deadline: AbortSignal.timeout(10_000) });
  const [first] = commands;
  expect([first?.cmd, first?.args.includes("--crlf")]).toEqual(["rg", isTold]);
});

test("limit, size and long lines are bounded, and the reply says so", async () => {
  await using world = await startMcpWorld();
  const { search } = await prepare(world, {
    "many.txt": "alpha\n".repeat(5_000),
    "wide/long.txt": `${"x".repeat(3_000_000)}alpha${"y".repeat(3_000_000)}\n`,
    "wide/minified.js": `${"x".repeat(2_000)}alpha${"y".repeat(2_000)}\n`,
  });
  const few = await search("alpha", { glob: "many.txt", limit: 5 });
  expect(few.text).toMatch(/^5 matching lines in 1 files .*there are more: .*limit=5/);
  const full = await search("x*alpha", { glob: "*.js" });
  expect(full.text.length).toBeLessThan(2_000);
  const lines = Array.from({ length: 900 }, () => `alpha ${"z".repeat(300)}\n`).join("");
  const { search: searchMore } = await prepare(world, { "big.txt": lines });
  const big = await searchMore("alpha", { glob: "big.txt", limit: 1_000 });
  expect(big.text).toMatch(/there are more: the search ended where the reply was full/);
  expect(big.text.length).toBeLessThan(60_000);
});

test("a search ends at its deadline, and its program with it", async () => {
  await using world = await startMcpWorld();
  const line = `${"x".repeat(19)}\n`;
  const { root, sandbox_id } = await prepare(world, { "slow.txt": line.repeat(200_000) });
  const request = {
    sandbox: await world.service.attach(sandbox_id, AbortSignal.timeout(10_000)),
    pattern: "(x+x+)+[yz]",
    path: root,
    glob: undefined,
    limit: 10,
    context: 0,
    user: undefined,
  };
  const results = [
    await searchFiles({ ...request, deadline: AbortSignal.abort() }),
    await searchFiles({ ...request, deadline: AbortSignal.timeout(500) }),
  ];
  // Only grep takes long for such a pattern.
  const late = results[1]?.program === "grep" ? "time" : undefined;
  expect(results.map(({ stopped }) => stopped)).toEqual(["time", late]);
  const listed = async () =>
    (await world.call("list_processes", { sandbox_id })).fields["processes"];
  await expect.poll(listed, { timeout: 40_000 }).toEqual([]);
}, 60_000);

const PLACE = {
  sizeBytes: 0,
  mode: 0o755,
  permissions: "",
  owner: "root",
  group: "root",
  modifiedAt: undefined,
  symlinkTarget: undefined,
};
const ROOT: readonly Entry[] = [
  { ...PLACE, name: "bin", path: "/bin", type: "directory", symlinkTarget: "/usr/bin" },
  { ...PLACE, name: "etc", path: "/etc", type: "directory" },
  { ...PLACE, name: "gone", path: "/gone", type: "other", symlinkTarget: "/nowhere" },
  { ...PLACE, name: "notes", path: "/notes", type: "file" },
  { ...PLACE, name: "proc", path: "/proc", type: "directory" },
  { ...PLACE, name: "running", path: "/running", type: "directory", symlinkTarget: "/proc" },
];

/** A sandbox without ripgrep, whose programs are noted and end at once. */
async function withoutRipgrep(world: McpWorld, listDir: () => Promise<readonly Entry[]>) {
  const sandbox_id = await world.createSandbox();
  const real = await world.service.attach(sandbox_id, AbortSignal.timeout(10_000));
  const commands: ProcessRequest[] = [];
  async function* start(request: ProcessRequest, { signal }: { readonly signal: AbortSignal }) {
    signal.throwIfAborted();
    commands.push(request);
    yield { type: "start", pid: 1 } as const;
    const exitCode = request.cmd === "rg" ? 127 : 1;
    yield { type: "end", exitCode, status: "" } as const;
  }
  const process = { ...real.process, start };
  const sandbox = { ...real, process, filesystem: { ...real.filesystem, listDir } };
  const request = { sandbox, pattern: "alpha", path: "/", glob: undefined, limit: 1, context: 0 };
  return { commands, request: { ...request, user: undefined } };
}

test("grep searches no link of the root, as in every other directory", async () => {
  await using world = await startMcpWorld();
  const { commands, request } = await withoutRipgrep(world, async () => ROOT);
  await searchFiles({ ...request, deadline: AbortSignal.timeout(10_000) });
  const places = commands.map(({ cmd, args }) => [cmd, ...args.slice(args.indexOf("--") + 1)]);
  expect(places).toEqual([
    ["rg", "/"],
    ["grep", "/etc", "/notes"],
    ["grep", "/etc", "/notes"],
  ]);
});

test.for([
  ["look-around, including look-ahead and look-behind, is not supported", "PCRE2 with the --pcre2"],
  ["the literal '\"\\n\"' is not allowed in a regex", "multiline mode with the --multiline"],
])("the options that ripgrep advises are not told: %s", async ([reason = "", advice = ""]) => {
  await using world = await startMcpWorld();
  const { request } = await withoutRipgrep(world, async () => ROOT);
  async function* start() {
    const bytes = Buffer.from(`rg: ${reason}\n\nConsider enabling ${advice} flag.\n`);
    yield { type: "start", pid: 1 } as const;
    yield { type: "data", stream: "stderr", bytes } as const;
    yield { type: "end", exitCode: 2, status: "" } as const;
  }
  const sandbox = { ...request.sandbox, process: { ...request.sandbox.process, start } };
  const deadline = AbortSignal.timeout(10_000);
  await expect(searchFiles({ ...request, sandbox, deadline })).rejects.toMatchObject({
    code: "invalid_argument",
    message: `ripgrep refused: ${JSON.stringify(reason)}`,
  });
});

const RECORDS = {
  match: {
    type: "match",
    data: {
      path: { text: "/a" },
      lines: { text: "alpha\n" },
      line_number: 1,
      submatches: [{ start: 0 }],
    },
  },
  end: { type: "end", data: { binary_offset: null } },
  summary: { type: "summary", data: {} },
};

/** What is found where each program prints something and ends with a status. */
async function searchWith(programs: Readonly<Record<string, { out: string; status: number }>>) {
  await using world = await startMcpWorld();
  const { request } = await withoutRipgrep(world, async () => ROOT);
  async function* start({ cmd }: ProcessRequest) {
    const { out, status } = programs[cmd] ?? { out: "", status: 127 };
    yield { type: "start", pid: 1 } as const;
    yield { type: "data", stream: "stdout", bytes: Buffer.from(out) } as const;
    yield { type: "end", exitCode: status, status: "" } as const;
  }
  const sandbox = { ...request.sandbox, process: { ...request.sandbox.process, start } };
  const deadline = AbortSignal.timeout(10_000);
  return await searchFiles({ ...request, path: "/a", sandbox, deadline });
}

const { match, end, summary } = RECORDS;
const WHOLE = [match, end, summary].map((record) => `${JSON.stringify(record)}\n`).join("");
const HALF = [match, end].map((record) => `${JSON.stringify(record)}\n`).join("");
const GREP = { out: "/a\u00001:alpha\n", status: 0 };

test.for([
  { name: "whole", programs: { rg: { out: WHOLE, status: 0 } }, by: "ripgrep", stopped: undefined },
  { name: "killed", programs: { rg: { out: HALF, status: -1 } }, by: "ripgrep", stopped: "end" },
  {
    name: "out of memory",
    programs: { rg: { out: HALF, status: 137 } },
    by: "ripgrep",
    stopped: "end",
  },
  { name: "grep killed", programs: { grep: { ...GREP, status: 137 } }, by: "grep", stopped: "end" },
  {
    name: "no ripgrep",
    programs: { rg: { out: "hi\n", status: 0 }, grep: GREP },
    by: "grep",
    stopped: undefined,
  },
  {
    name: "an empty one",
    programs: { rg: { out: "", status: 1 }, grep: GREP },
    by: "grep",
    stopped: undefined,
  },
])("a search is as complete as its program was: $name", async ({ programs, by, stopped }) => {
  const result = await searchWith(programs);
  expect([result.program, result.matches, result.stopped]).toEqual([by, 1, stopped]);
});

test("a line longer than all output that is read ends a search, which says so", async () => {
  const long = { ...match, data: { ...match.data, lines: { text: "x".repeat(17_000_000) } } };
  const result = await searchWith({ rg: { out: JSON.stringify(long), status: 0 } });
  expect(result).toMatchObject({
    lines: [{ path: "/a", line: undefined, text: "", isMatch: true }],
    stopped: "output",
  });
});

test("a program that is no grep finds nothing, and that is said", async () => {
  const searching = searchWith({ grep: { out: "usage\n", status: 0 } });
  await expect(searching).rejects.toMatchObject({ code: "failed_precondition" });
});

async function* startBusyBox({ cmd }: ProcessRequest) {
  const bytes = Buffer.from("grep: invalid option -- 'Z'\nBusyBox v1.35.0 multi-call binary.\n");
  yield { type: "start", pid: 1 } as const;
  yield { type: "data", stream: "stderr", bytes } as const;
  yield { type: "end", exitCode: cmd === "rg" ? 127 : 2, status: "" } as const;
}

test("the grep of busybox is named as what is missing, not the pattern", async () => {
  await using world = await startMcpWorld();
  const { request } = await withoutRipgrep(world, async () => ROOT);
  const sandbox = {
    ...request.sandbox,
    process: { ...request.sandbox.process, start: startBusyBox },
  };
  const deadline = AbortSignal.timeout(10_000);
  await expect(searchFiles({ ...request, sandbox, deadline })).rejects.toMatchObject({
    code: "failed_precondition",
    message: "the sandbox has no ripgrep, and its grep lacks the option -P",
  });
});

test("a search of the root that ends while its entries are listed is not complete", async () => {
  await using world = await startMcpWorld();
  const late = new AbortController();
  const { request } = await withoutRipgrep(world, () => {
    late.abort();
    return Promise.reject(new SandboxError("canceled", "the call was cancelled"));
  });
  const { stopped, matches } = await searchFiles({ ...request, deadline: late.signal });
  expect({ stopped, matches }).toEqual({ stopped: "time", matches: 0 });
});

test("what cannot be read is counted", async () => {
  await using world = await startMcpWorld();
  const { search } = await prepare(world, {});
  const { text } = await search("alpha", { path: "/proc/self/mem" });
  expect(text).toMatch(/^0 matching lines .* \| 1 paths could not be read \| /);
});
