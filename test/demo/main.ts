/** The demo: the main job of the product, step by step, by an independent MCP client. */

import { takeCensus } from "../support/census.ts";
import { startMcpClient, type TestClient } from "../support/mcp-client.ts";
import { mainJob } from "./main-job.ts";
import { createSteps } from "./steps.ts";

const before = await takeCensus();
const steps = createSteps();
let client: TestClient | undefined;
await steps.run("start the server over stdio", async () => {
  client = await startMcpClient([]);
});
if (client !== undefined) {
  const connected = client;
  await mainJob(connected, steps);
  await steps.run("end the session", async () => connected[Symbol.asyncDispose]());
}
await steps.run("nothing is left on the machine", async () => {
  const after = await takeCensus();
  if (JSON.stringify(after) !== JSON.stringify(before)) {
    throw new Error(`before ${JSON.stringify(before)}\nafter ${JSON.stringify(after)}`);
  }
});
process.exitCode = steps.report();
