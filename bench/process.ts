/** Creating a sandbox and running processes in it through MCP, beside plain spawns. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { startMcpClient, type TestClient } from "../test/support/mcp-client.ts";
import { measurePair, timed, type Figure } from "./figure.ts";

const CREATE_SAMPLES = 15;
const RUN_SAMPLES = 50;

export async function measureProcesses(home: string): Promise<Figure[]> {
  await using client = await startMcpClient(["--home", home]);
  const create = await measurePair({
    name: "create_sandbox, cold",
    floorName: "bare node start and end",
    samples: CREATE_SAMPLES,
    ours: async () => createAndKill(client),
    floor: async () => timed(async () => once(spawn(process.execPath, ["-e", "0"]), "exit")),
  });
  const sandbox = await createSandbox(client);
  const run = await measurePair({
    name: "run_process of true",
    floorName: "plain spawn of true",
    samples: RUN_SAMPLES,
    ours: async () =>
      timed(async () => client.call("run_process", { sandbox_id: sandbox, cmd: "true", args: [] })),
    floor: async () => timed(async () => once(spawn("true"), "exit")),
  });
  const firstByte = await measurePair({
    name: "first byte of output",
    floorName: "first byte of a plain spawn",
    samples: RUN_SAMPLES,
    ours: async () => firstProgress(client, sandbox),
    floor: async () => timed(async () => once(spawn("echo", ["x"]).stdout, "data")),
  });
  await client.call("kill_sandbox", { sandbox_id: sandbox });
  return [create, run, firstByte];
}

async function createSandbox(client: TestClient): Promise<string> {
  const reply = await client.call("create_sandbox", {});
  if (reply.isError) throw new Error(reply.text);
  return String(reply.fields["sandbox_id"]);
}

async function createAndKill(client: TestClient): Promise<number> {
  let sandbox = "";
  const elapsed = await timed(async () => {
    sandbox = await createSandbox(client);
  });
  await client.call("kill_sandbox", { sandbox_id: sandbox });
  return elapsed;
}

/** Milliseconds until the progress notification that shows the first output. */
async function firstProgress(client: TestClient, sandbox: string): Promise<number> {
  const startedAt = performance.now();
  let firstAt: number | undefined;
  await client.call(
    "run_process",
    { sandbox_id: sandbox, cmd: "echo", args: ["x"] },
    {
      onProgress: () => {
        firstAt ??= performance.now();
      },
    },
  );
  return (firstAt ?? performance.now()) - startedAt;
}
