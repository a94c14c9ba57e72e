/** The demo: the main job of the product, step by step, by an independent MCP client. */

import { isDeepStrictEqual } from "node:util";
import { takeCensus } from "../support/census.ts";
import { startMcpClient, type TestClient } from "../support/mcp-client.ts";
import { mainJob } from "./main-job.ts";
import { createSteps } from "./steps.ts";

const before = await takeCensus();
const steps = createSteps();
let client: TestClient | undefined;
await steps.run("start the server over stdio", async () => {
  client = await startMcpClient(["--toolsets", "all"]);
});
if (client !== undefined) {
  const connected = client;
  await mainJob(connected, steps);
  await steps.run("end the session", async () => connected[Symbol.asyncDispose]());
}
await steps.run("nothing is left on the machine", async () => {
  const after = await takeCensus();
  if (isDeepStrictEqual(after, before)) return;
  const known = new Set(Object.values(before).flat());
  const left = Object.values(after)
    .flat()
    .filter((entry) => !known.has(entry));
  throw new Error(`left: ${left.join(", ")}`);
});
process.exitCode = steps.report();
