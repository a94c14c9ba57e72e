/**
 * A data analysis by the published client, in ten calls. With a service on this machine:
 *   npm install @e2b/code-interpreter
 *   E2B_API_KEY=... E2B_API_URL=http://127.0.0.1:3490 E2B_SANDBOX_URL=http://127.0.0.1:3490 \
 *     node data-analysis-sdk.mjs
 */

import { writeFile } from "node:fs/promises";
import { Sandbox } from "@e2b/code-interpreter";

const sandbox = await Sandbox.create();
try {
  await sandbox.runCode(`import numpy as np, pandas as pd
rng = np.random.default_rng(7)
x = rng.normal(50, 12, 200_000)
score = 3 * x + 20 + rng.normal(0, 15, 200_000)
team = rng.choice(list("abc"), 200_000)
pd.DataFrame({"hours": x, "score": score, "team": team}).to_csv("scores.csv", index=False)`);
  await sandbox.runCode("frame = pd.read_csv('scores.csv').dropna()");
  const summary = await sandbox.runCode("frame.describe()");
  process.stdout.write(`${summary.results[0].text}\n`);
  const plots = {
    histogram: "plt.hist(frame.score, bins=60)",
    bars: "frame.groupby('team').score.mean().plot.bar()",
    scatter: "part = frame.sample(800); plt.scatter(part.hours, part.score, s=4)",
  };
  for (const [name, code] of Object.entries(plots)) {
    const cell = `import matplotlib.pyplot as plt\n${code}\nplt.show()`;
    const { results } = await sandbox.runCode(cell);
    process.stdout.write(`${name}: ${results[0].chart?.type}\n`);
    await writeFile(`${name}.png`, Buffer.from(results[0].png, "base64"));
  }
  const fit = await sandbox.runCode(`from sklearn.linear_model import LinearRegression
model = LinearRegression().fit(frame[["hours"]], frame.score)
model.coef_[0], model.intercept_`);
  process.stdout.write(`${fit.text}\n`);
  await sandbox.runCode("frame.groupby('team').agg(['mean', 'count']).to_excel('scores.xlsx')");
  await writeFile("scores.xlsx", await sandbox.files.read("scores.xlsx", { format: "bytes" }));
} finally {
  await sandbox.kill();
}
