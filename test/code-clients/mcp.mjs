/**
 * An agent's analysis through MCP alone: a table of 200,000 rows made in the sandbox, cleaned, three
 * plots, a regression and a workbook by link. Arguments: the program, the home, and a folder for the
 * three plots (docs/gallery, where they are committed as this run made them).
 */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const say = (line) => process.stdout.write(`${line}\n`);
const [program, home, gallery] = process.argv.slice(2);
const transport = new StdioClientTransport({
  command: process.execPath,
  args: [program, "stdio", "--home", home],
  env: { PATH: process.env.PATH, HOME: process.env.HOME },
  stderr: "inherit",
});
const client = new Client({ name: "analysis", version: "1.0.0" });
await client.connect(transport);

async function call(name, input, options = {}) {
  const startedAtMs = performance.now();
  const { content, isError } = await client.callTool({ name, arguments: input }, undefined, {
    timeout: 180_000,
    ...options,
  });
  const text = content
    .filter(({ type }) => type === "text")
    .map((part) => part.text)
    .join("\n");
  const images = content.filter(({ type }) => type === "image");
  say(`     ${name} ${Math.round(performance.now() - startedAtMs)} ms`);
  return { text, images, isError: isError === true };
}

const plain = await call("create_sandbox", {});
const plainId = /sandbox_id: (\S+)/.exec(plain.text)[1];
const none = await call("run_code", { sandbox_id: plainId, code: "1" });
assert.ok(none.isError);
assert.match(
  none.text,
  /failed_precondition: this sandbox has no code interpreter.*template="code-interpreter"/,
);
await call("kill_sandbox", { sandbox_id: plainId });

const made = await call("create_sandbox", { template: "code-interpreter", timeout_seconds: 600 });
assert.match(made.text, /memory_mb: 2048/);
const sandbox_id = /sandbox_id: (\S+)/.exec(made.text)[1];
const run = (code, more = {}) => call("run_code", { sandbox_id, code, ...more });

const table = await run(`import numpy as np, pandas as pd
rng = np.random.default_rng(7)
n = 200_000
x = rng.normal(50, 12, n)
frame = pd.DataFrame({"hours": x, "score": 3 * x + 20 + rng.normal(0, 15, n), "team": rng.choice(list("abc"), n)})
frame.loc[rng.choice(n, 2_000, replace=False), "hours"] = np.nan
frame.to_csv("scores.csv", index=False)
len(pd.read_csv("scores.csv"))`);
assert.match(table.text, /status: ok[\s\S]*200000/);
const cleaned = await run(`frame = pd.read_csv("scores.csv").dropna()
print(frame.describe().round(1))
len(frame)`);
assert.match(cleaned.text, /198000/);
const plots = await run(`import matplotlib.pyplot as plt
size = {"figsize": (4, 2.6), "dpi": 80}
fig, ax = plt.subplots(**size); ax.hist(frame.score, bins=60, color="#4477aa"); ax.set_title("scores"); ax.set_xlabel("points")
fig, ax = plt.subplots(**size); frame.groupby("team").score.mean().plot.bar(ax=ax, color=["#4477aa", "#ee6677", "#228833"]); ax.set_title("mean by team")
fig, ax = plt.subplots(**size); part = frame.sample(800, random_state=1); ax.scatter(part.hours, part.score, s=4, color="#4477aa"); ax.set_title("score by hours")
plt.show()`);
assert.equal(plots.images.length, 3, plots.text);
for (const [index, { data, mimeType }] of plots.images.entries()) {
  assert.equal(mimeType, "image/png");
  if (gallery !== undefined)
    writeFileSync(
      join(gallery, `${["histogram", "bars", "scatter"][index]}.png`),
      Buffer.from(data, "base64"),
    );
}
const fit = await run(`from sklearn.linear_model import LinearRegression
model = LinearRegression().fit(frame[["hours"]], frame.score)
round(float(model.coef_[0]), 1), round(float(model.intercept_))`);
assert.match(fit.text, /\(3\.0, (?:19|20|21)\)/);
const book = await run(
  `frame.groupby("team").agg(["mean", "count"]).to_excel("scores.xlsx"); "written"`,
);
assert.match(book.text, /written/);
const link = await call("download_url", { sandbox_id, path: "/home/user/scores.xlsx" });
const file = await fetch(/https?:\/\/\S+/.exec(link.text)[0]);
assert.equal(Buffer.from(await file.arrayBuffer()).toString("latin1", 0, 2), "PK");

const failed = await run("pd.DataFrame({'a': [1]})['b']");
assert.match(
  failed.text,
  /status: error .?KeyError[\s\S]*frames of libraries left out[\s\S]*KeyError: 'b'/,
);
assert.ok(!failed.text.includes("/usr/lib"), failed.text);
const many = await run(
  "for _ in range(6): plt.figure(figsize=(1, 1)); plt.plot([1, 2])\nplt.show()",
);
assert.equal(many.images.length, 4);
assert.match(
  many.text,
  /2 more pictures are named in the output[\s\S]*\[png: \/tmp\/run_code\/\S+\.png\]/,
);
await run("v = 1", { context: "other" });
assert.match((await run("v + 1", { context: "other" })).text, /2/);
// A style and a font that is not there, of which one line tells, with text in scripts of East Asia.
const scripts = await run(`import seaborn; seaborn.set_theme()
plt.rcParams["font.sans-serif"] = ["SimHei"]
plt.figure(); plt.title("汉字 日本語 한국어 😀"); plt.xlabel("销售额"); plt.show()`);
assert.equal(scripts.images.length, 1, scripts.text);
assert.doesNotMatch(scripts.text, /missing from current font/);
assert.equal(scripts.text.match(/^findfont: .*SimHei/gm)?.length, 1, scripts.text);
// As a script does: its picture is shown, and its file written.
const script = await run(
  `import matplotlib; matplotlib.use("Agg")
import matplotlib.pyplot as plt, os
plt.plot([1, 2]); plt.show(); plt.savefig("a.png"); plt.show()
print(os.path.getsize("a.png") > 5_000)`,
  { context: "script" },
);
assert.equal(script.images.length, 1, script.text);
assert.match(script.text, /True/);
const chart = await run("import plotly.express as px; px.bar(x=['a', 'b'], y=[3, 4])");
assert.match(chart.text, /\[html: \/tmp\/run_code\/\S+\.html\]/);
const imported =
  await run(`import aiohttp, bs4, docx, imageio, networkx, openpyxl, pypdf, pytest, scipy
import sklearn, statsmodels.api, sympy, tqdm, xarray, xlrd
print(pd.DataFrame({"a": [1]}).to_markdown())`);
assert.match(imported.text, /\|---:\|----:\|/);
assert.match((await run("'v' in globals()")).text, /False/);
assert.match((await run("const t: number = 41; t + 1", { language: "typescript" })).text, /42/);
assert.match((await run("echo $((6 * 7))", { language: "bash" })).text, /42/);
const slow = await run("import time\nprint('begun')\ntime.sleep(4)\nprint('done')\n'value'", {
  wait_seconds: 1,
});
const process_id = /process_id: (p_\d+)/.exec(slow.text)[1];
assert.match(slow.text, /status: running/);
let last = slow.text;
let rest = last;
while (last.includes("status: running")) {
  const cursor = Number(/next_cursor: (\d+)/.exec(last)[1]);
  const more = { sandbox_id, process_id, wait_seconds: 30, cursor };
  last = (await call("get_process_output", more)).text;
  rest += last;
}
assert.match(rest, /value/);
const late = await run("kept = 3\nwhile True: pass", { timeout_seconds: 2 });
assert.match(late.text, /interrupted at timeout_seconds/);
assert.match((await run("kept")).text, /3/);
const seen = [];
const onprogress = ({ message }) => void seen.push(message);
await call(
  "run_code",
  { sandbox_id, code: "import time\nfor i in range(3): print('p', i); time.sleep(1.2)" },
  { onprogress },
);
assert.ok(
  seen.some((message) => /output: p/.test(message)),
  String(seen),
);
const leave = new AbortController();
const left = call(
  "run_code",
  { sandbox_id, code: "kept = 4\nwhile True: pass" },
  { signal: leave.signal },
);
setTimeout(() => leave.abort(), 2_000);
await assert.rejects(left);
assert.match((await run("kept")).text, /4/);
await call("kill_sandbox", { sandbox_id });
await client.close();
say("ok   analysis through MCP");
