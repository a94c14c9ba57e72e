/** The demo: the main job of the product, step by step, by an independent MCP client. */

import { isDeepStrictEqual } from "node:util";
import { leftOver, takeCensus } from "../support/census.ts";
import { openTestHome } from "../support/home.ts";
import { startMcpClient, type TestClient } from "../support/mcp/mcp-client.ts";
import { mainJob } from "./main-job.ts";
import { createSteps } from "./steps.ts";

const before = await takeCensus();
// The machine's own home is also that of whoever uses the product on it.
const home = await openTestHome();
const steps = createSteps();
let client: TestClient | undefined;
await steps.run("start the server over stdio", async () => {
  client = await startMcpClient(["--home", home.path, "--toolsets", "all"]);
});
if (client !== undefined) {
  const connected = client;
  await mainJob(connected, steps);
  await steps.run("end the session", async () => connected[Symbol.asyncDispose]());
}
await steps.run("nothing is left on the machine", async () => {
  await home[Symbol.asyncDispose]();
  const after = await takeCensus(home.path);
  if (isDeepStrictEqual(after, before)) return;
  throw new Error(`left: ${leftOver(before, after).join(", ")}`);
});
process.exitCode = steps.report();
