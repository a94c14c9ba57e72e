/**
 * The published JavaScript client against a service, unmodified: every method of its sandbox, each
 * language, streaming, errors, interrupts, pictures by their pixels, charts and data by their values.
 * Arguments: the module of the client, the URL of the service. The key is in E2B_API_KEY.
 */

import assert from "node:assert/strict";
import { inflateSync } from "node:zlib";

const say = (line) => process.stdout.write(`${line}\n`);
const [module, url] = process.argv.slice(2);
const { Sandbox, default: Same, E2B } = await import(module);
const options = { apiUrl: url, sandboxUrl: url, timeoutMs: 300_000 };
const LIMIT = { timeoutMs: 120_000, requestTimeoutMs: 60_000 };

const paeth = (a, b, c) => {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
};

/** Rows of bytes of an 8-bit PNG, four or three channels a pixel. */
function decodePng(bytes) {
  const [width, height, channels] = [
    bytes.readUInt32BE(16),
    bytes.readUInt32BE(20),
    bytes[25] === 6 ? 4 : 3,
  ];
  const parts = [];
  for (let at = 8; at < bytes.length; at += 12 + bytes.readUInt32BE(at)) {
    if (bytes.toString("latin1", at + 4, at + 8) !== "IDAT") continue;
    parts.push(bytes.subarray(at + 8, at + 8 + bytes.readUInt32BE(at)));
  }
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  const pixels = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (stride + 1)];
    for (let x = 0; x < stride; x += 1) {
      const at = y * stride + x;
      const left = x >= channels ? pixels[at - channels] : 0;
      const up = y > 0 ? pixels[at - stride] : 0;
      const corner = x >= channels && y > 0 ? pixels[at - stride - channels] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      pixels[at] = raw[y * (stride + 1) + 1 + x] + guess;
    }
  }
  const count = (...color) => {
    let sum = 0;
    for (let at = 0; at < pixels.length; at += channels) {
      if (color.every((value, index) => pixels[at + index] === value)) sum += 1;
    }
    return sum;
  };
  return { width, height, count };
}

const tests = [];
const test = (name, run) => tests.push({ name, run });
let sandbox;
const text = async (code, more = {}) => (await sandbox.runCode(code, { ...LIMIT, ...more })).text;

test("state, the last value, the count", async () => {
  const before = await sandbox.runCode("x = 20\nprint('hi')", LIMIT);
  assert.deepEqual(before.logs, { stdout: ["hi\n"], stderr: [] });
  const after = await sandbox.runCode("x + 1", LIMIT);
  assert.equal(after.text, "21");
  assert.equal(after.executionCount, before.executionCount + 1);
  assert.equal(await text("'quoted'"), "quoted");
});
test("callbacks as it streams", async () => {
  const seen = [];
  const note = (kind) => (message) =>
    void seen.push([kind, message.line ?? message.text ?? message.name, Date.now()]);
  const startedAtMs = Date.now();
  await sandbox.runCode(
    "import sys,time\nprint('a')\ntime.sleep(1)\nprint('b', file=sys.stderr)\ntime.sleep(.3)\ndisplay(7)\n1/0",
    {
      ...LIMIT,
      onStdout: note("out"),
      onStderr: note("err"),
      onResult: note("result"),
      onError: note("error"),
    },
  );
  assert.deepEqual(
    seen.map(([kind, value]) => [kind, value]),
    [
      ["out", "a\n"],
      ["err", "b\n"],
      ["result", "7"],
      ["error", "ZeroDivisionError"],
    ],
  );
  assert.ok(
    seen[0][2] - startedAtMs < 1_000 || seen[1][2] - seen[0][2] > 500,
    "the first line comes before the cell ends",
  );
});
test("languages and their names", async () => {
  assert.equal(
    await text("const n = await Promise.resolve(6); n * 7", { language: "javascript" }),
    "42",
  );
  assert.equal(await text("n + 1", { language: "js" }), "7");
  assert.equal(await text("const t: { x: number } = { x: 2 }; t.x", { language: "ts" }), "2");
  assert.equal(await text("enum E { A = 4 }; E.A", { language: "typescript" }), "4");
  const bash = await sandbox.runCode("echo $((6 * 7)); cd /tmp; pwd", {
    ...LIMIT,
    language: "bash",
  });
  assert.equal(bash.logs.stdout.join(""), "42\n/tmp\n");
  await assert.rejects(sandbox.runCode("1", { ...LIMIT, language: "java" }), /400/);
});
test("contexts: create, list, run, restart, remove", async () => {
  const context = await sandbox.createCodeContext({ cwd: "/tmp" });
  assert.equal(context.cwd, "/tmp");
  assert.equal(context.language, "python");
  assert.equal(await text("import os; y = 1; os.getcwd()", { context }), "/tmp");
  assert.ok((await sandbox.listCodeContexts()).some(({ id }) => id === context.id));
  await sandbox.restartCodeContext(context);
  assert.equal((await sandbox.runCode("y", { ...LIMIT, context })).error.name, "NameError");
  await sandbox.removeCodeContext(context.id);
  await assert.rejects(sandbox.runCode("1", { ...LIMIT, context }), /not found/);
  await assert.rejects(sandbox.runCode("1", { context, language: "python" }), /both/);
});
test("errors have name, value and traceback", async () => {
  const { error } = await sandbox.runCode("def f():\n  raise ValueError('bad')\nf()", LIMIT);
  assert.equal(error.name, "ValueError");
  assert.equal(error.value, "bad");
  assert.match(error.traceback, /ValueError/);
});
test("variables of the sandbox and of a call", async () => {
  assert.equal(await text("import os; os.environ['OF_SANDBOX']"), "one");
  assert.equal(await text("process.env.OF_SANDBOX", { language: "js" }), "one");
  assert.equal(await text("os.environ['E2B_SANDBOX_ID']"), sandbox.sandboxId);
  assert.equal(
    await text("os.environ['A'] + os.environ['OF_SANDBOX']", {
      envs: { A: "b", OF_SANDBOX: "two" },
    }),
    "btwo",
  );
  assert.equal(await text("os.environ.get('A', '') + os.environ['OF_SANDBOX']"), "one");
});
test("a timeout leaves and interrupts", async () => {
  await assert.rejects(
    sandbox.runCode("keep = 5\nwhile True: pass", { timeoutMs: 1_500 }),
    /timed out/i,
  );
  assert.equal(await text("keep"), "5");
});
test("a cell that awaits is interrupted at once, again and again", async () => {
  const code = "import asyncio\nkept = 6\nawait asyncio.sleep(100)";
  for (let turn = 0; turn < 3; turn += 1) {
    await assert.rejects(sandbox.runCode(code, { timeoutMs: 1_000 }), /timed out/i);
  }
  assert.equal(await text("kept"), "6");
});
test("output: in its order, of forks, of half a character, none of an earlier cell", async () => {
  const many = await sandbox.runCode("for i in range(2_000): display(i)", LIMIT);
  assert.deepEqual(
    many.results.map((result) => result.text),
    Array.from({ length: 2_000 }, (_, index) => String(index)),
  );
  const fork = `import os
child = os.fork()
print("of the fork" if child == 0 else "of the cell")
if child: os.waitpid(child, 0); import time; time.sleep(0.5)`;
  const printed = (await sandbox.runCode(fork, LIMIT)).logs.stdout.join("");
  assert.ok(printed.includes("of the fork\n") && printed.includes("of the cell\n"), printed);
  const half = await sandbox.runCode("print('\\ud83d')", LIMIT);
  assert.deepEqual([half.logs.stderr, half.logs.stdout.join("").length], [[], 2]);
  await sandbox.runCode(
    "import threading, time\ndef late(): time.sleep(0.3); print('late')\nthreading.Thread(target=late).start()",
    LIMIT,
  );
  await new Promise((done) => setTimeout(done, 1_000));
  assert.deepEqual((await sandbox.runCode("1", LIMIT)).logs.stdout, []);
});
test("a data frame by its values", async () => {
  const { results } = await sandbox.runCode(
    "import pandas as pd\npd.DataFrame({'n': [1, 2], 's': ['a', None], 't': pd.to_datetime(['2024-01-02', None]), 'f': [0.5, float('nan')]})",
    LIMIT,
  );
  assert.deepEqual(results[0].data, {
    n: [1, 2],
    s: ["a", null],
    t: ["2024-01-02T00:00:00", null],
    f: [0.5, null],
  });
  assert.ok(results[0].html.includes("<table"));
  assert.deepEqual(results[0].formats().toSorted(), ["data", "html"]);
});
test("a plot by its pixels", async () => {
  const { results } = await sandbox.runCode(
    `import matplotlib.pyplot as plt
fig = plt.figure(figsize=(4, 2), dpi=100)
ax = fig.add_axes([0, 0, 1, 1]); ax.axis("off"); ax.set_xlim(0, 4); ax.set_ylim(0, 2)
ax.bar([0.5, 2.5], [1, 2], width=1, color=["#ff0000", "#0000ff"])
%config InlineBackend.print_figure_kwargs = {"bbox_inches": None}
plt.show()`,
    LIMIT,
  );
  const { width, height, count } = decodePng(Buffer.from(results[0].png, "base64"));
  assert.deepEqual([width, height], [400, 200]);
  assert.ok(Math.abs(count(255, 0, 0) - 10_000) < 400, `red ${count(255, 0, 0)}`);
  assert.ok(Math.abs(count(0, 0, 255) - 20_000) < 600, `blue ${count(0, 0, 255)}`);
});
const chartOf = async (code) =>
  (
    await sandbox.runCode(
      `import matplotlib.pyplot as plt\nplt.close("all")\nfig, ax = plt.subplots()\n${code}\nax.set_title("T")\nplt.show()`,
      LIMIT,
    )
  ).results[0].chart;
test("charts by their fields", async () => {
  const line = await chartOf(
    "ax.plot([1, 2], [3, 4], label='L'); ax.set_xlabel('time (s)'); ax.set_ylabel('way')",
  );
  const { type, title, x_label, x_unit, y_label, elements, x_scale } = line;
  assert.deepEqual(
    { type, title, x_label, x_unit, y_label, elements, x_scale },
    {
      type: "line",
      title: "T",
      x_label: "time (s)",
      x_unit: "s",
      y_label: "way",
      x_scale: "linear",
      elements: [
        {
          label: "L",
          points: [
            [1, 3],
            [2, 4],
          ],
        },
      ],
    },
  );
  assert.equal(line.x_ticks.length, line.x_tick_labels.length);
  const scatter = await chartOf(
    "import datetime\nax.scatter([datetime.datetime(2024, 1, d) for d in (1, 2)], [5, 6])",
  );
  assert.equal(scatter.type, "scatter");
  assert.equal(scatter.x_scale, "datetime");
  assert.deepEqual(scatter.elements[0].points, [
    ["2024-01-01T00:00:00", 5],
    ["2024-01-02T00:00:00", 6],
  ]);
  const bar = await chartOf("ax.bar(['a', 'b'], [1, 2], label='G')");
  assert.deepEqual(bar.elements, [
    { label: "a", group: "G", value: 1 },
    { label: "b", group: "G", value: 2 },
  ]);
  const pie = await chartOf("ax.pie([1, 3], labels=['p', 'q'])");
  assert.deepEqual(
    pie.elements.map(({ label, angle }) => [label, Math.round(angle)]),
    [
      ["p", 90],
      ["q", 270],
    ],
  );
  const box = await chartOf("ax.boxplot([[1, 2, 3, 4, 20]], labels=['v'])");
  assert.deepEqual(box.elements, [
    { label: "v", min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 4, outliers: [20] },
  ]);
  const several = await chartOf(
    "plt.close(fig); fig, (ax, other) = plt.subplots(1, 2)\nfig.suptitle('S'); ax.plot([1], [1]); other.bar(['a'], [1])",
  );
  assert.deepEqual(
    [several.type, several.title, several.elements.map(({ type: kind }) => kind)],
    ["superchart", "S", ["line", "bar"]],
  );
});
const displayOf = (name, value) =>
  `from IPython.display import *\ndisplay(${name}(${JSON.stringify(value)}))`;
test("rich results by their types", async () => {
  for (const [name, value, field] of [
    ["HTML", "<b>", "html"],
    ["Markdown", "# a", "markdown"],
    ["Latex", "$x$", "latex"],
    ["SVG", "<svg xmlns='http://www.w3.org/2000/svg'/>", "svg"],
    ["Javascript", "1", "javascript"],
  ]) {
    const { results } = await sandbox.runCode(displayOf(name, value), LIMIT);
    assert.ok(results[0][field].includes(value.slice(0, 4)), field);
  }
  const json = await sandbox.runCode("from IPython.display import JSON\nJSON({'a': 1})", LIMIT);
  assert.deepEqual(json.results[0].json, { a: 1 });
});
test("20 runs in 4 contexts", async () => {
  const contexts = await Promise.all([1, 2, 3, 4].map(() => sandbox.createCodeContext()));
  const runs = Array.from({ length: 20 }, (_, index) =>
    text(`v = ${index}\nimport time; time.sleep(.05)\nv`, { context: contexts[index % 4] }),
  );
  assert.deepEqual(
    await Promise.all(runs),
    runs.map((_, index) => String(index)),
  );
  await Promise.all(contexts.map((context) => sandbox.removeCodeContext(context)));
});
test("a cell after exit() runs in a new kernel, and is told so", async () => {
  const context = await sandbox.createCodeContext();
  const run = (code) => sandbox.runCode(code, { ...LIMIT, context });
  assert.equal((await run("kept = 1; exit()")).error, undefined);
  const { error, logs } = await run("kept");
  assert.equal(error.name, "NameError");
  assert.match(
    logs.stderr.join(""),
    /the kernel exited since the last cell; its variables are gone/,
  );
  await sandbox.removeCodeContext(context);
});
test("hostile cells end themselves alone", async () => {
  const other = await sandbox.createCodeContext();
  await sandbox.runCode("kept = 1", { ...LIMIT, context: other });
  const died = async (code) => (await sandbox.runCode(code, LIMIT)).error;
  assert.equal((await died("import os; os.closerange(3, 1000)")).name, "KernelDied");
  assert.equal((await died("import os, signal; os.kill(os.getpid(), 9)")).name, "KernelDied");
  assert.equal((await died("import os; os.kill(os.getppid(), 9)")).name, "PermissionError");
  assert.match(
    (await died("b = bytearray(8 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1")).name,
    /KernelDied|MemoryError/,
  );
  const big = await sandbox.runCode(
    "import os, base64\ndisplay({'image/png': base64.b64encode(os.urandom(10_000_000)).decode()}, raw=True)",
    LIMIT,
  );
  assert.equal(Buffer.from(big.results[0].png, "base64").length, 10_000_000);
  const endless = sandbox.runCode("while True: print('x' * 1000)", { timeoutMs: 2_000 });
  await assert.rejects(endless, /timed out/i);
  assert.equal(await text("1 + 1"), "2");
  await sandbox.runCode(
    "import os\nfor _ in range(2000):\n  try:\n    if os.fork() == 0: import time; time.sleep(30); os._exit(0)\n  except OSError: break",
    LIMIT,
  );
  assert.equal(await text("kept", { context: other }), "1");
  await sandbox.removeCodeContext(other);
});
test("the same client by its other names", async () => {
  assert.equal(Same, Sandbox);
  const bound = new E2B(options);
  const again = await bound.Sandbox.connect(sandbox.sandboxId, options);
  assert.equal((await again.runCode("1", LIMIT)).text, "1");
});

sandbox = await Sandbox.create({ ...options, envs: { OF_SANDBOX: "one" } });
{
  const startedAtMs = performance.now();
  await sandbox.runCode("1", LIMIT);
  const firstMs = performance.now() - startedAtMs;
  const warm = [];
  for (let turn = 0; turn < 30; turn += 1) {
    const atMs = performance.now();
    await sandbox.runCode("1", LIMIT);
    warm.push(performance.now() - atMs);
  }
  const median = warm.toSorted((left, right) => left - right)[15];
  const figures = `first cell ${firstMs.toFixed(1)} ms, warm cell ${median.toFixed(1)} ms (median of 30)`;
  say(`     ${figures}`);
}
let failures = 0;
for (const { name, run } of tests) {
  const startedAtMs = performance.now();
  try {
    await run();
    say(`ok   ${name} (${Math.round(performance.now() - startedAtMs)} ms)`);
  } catch (error) {
    failures += 1;
    say(`FAIL ${name}: ${error.stack}`);
  }
}
await sandbox.kill();
process.exit(failures === 0 ? 0 : 1);
