/** Start of the stdio server to its first tools/list answer, beside a bare Node. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { startProgram } from "../test/support/program.ts";
import { measurePair, timed, type Figure } from "./figure.ts";

const SAMPLES = 15;
const PROTOCOL = "2025-11-25";

export async function measureStart(home: string): Promise<Figure[]> {
  const figure = await measurePair({
    name: "server start to first tools/list answer",
    floorName: "bare node start and end",
    samples: SAMPLES,
    ours: async () => startToList(home),
    floor: async () => timed(async () => once(spawn(process.execPath, ["-e", "0"]), "exit")),
  });
  return [figure];
}

async function startToList(home: string): Promise<number> {
  const startedAt = performance.now();
  await using program = startProgram(["stdio", "--home", home], { SANDBOX_MCP_LOG_LEVEL: "error" });
  const send = (message: object): void => {
    program.child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  };
  const clientInfo = { name: "bench", version: "1" };
  send({
    id: 1,
    method: "initialize",
    params: { protocolVersion: PROTOCOL, capabilities: {}, clientInfo },
  });
  send({ method: "notifications/initialized" });
  send({ id: 2, method: "tools/list" });
  for await (const line of createInterface({ input: program.stdout })) {
    if (/"id":2\b/.test(line)) break;
  }
  const elapsed = performance.now() - startedAt;
  program.child.stdin?.end();
  await program.exited();
  return elapsed;
}
