/** Start of the stdio server to its first tools/list answer, and what one call costs that does nothing. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { startMcpClient } from "../test/support/mcp/mcp-client.ts";
import { PROGRAM } from "../test/support/program.ts";
import type { BenchContext } from "./context.ts";
import { atMost, compare, timed, type Contestant, type MissingPeer, type Row } from "./figure.ts";
import { createSandbox, killSandbox, openPeer, startToList } from "./hosts.ts";
import type { Found } from "./peers.ts";

const ONE_TOOL = join(import.meta.dirname, "one-tool.ts");
const START = { samples: 30, budgetMs: 20_000 };
const CALLS = { samples: 200, budgetMs: 10_000 };

export async function measureStart({ home, peers }: BenchContext): Promise<Row[]> {
  const row = await compare({
    ...START,
    id: "start",
    name: "server start to first tools/list",
    ours: async () => startToList([PROGRAM, "stdio", "--home", home]),
    floor: bareNode(),
    peers: [
      { name: "one-tool server, same SDK, unbundled", run: async () => startToList([ONE_TOOL]) },
      startOf("filesystem server", peers.npm.filesystem, ["/tmp"]),
    ],
    judge: ({ ratio }) => [atMost(2.5, ratio)],
  });
  return [row];
}

/** A node that does nothing, from start to end. */
export function bareNode(): Contestant {
  return {
    name: "bare node",
    run: async () => timed(async () => once(spawn(process.execPath, ["-e", "0"]), "exit")),
  };
}

function startOf(name: string, found: Found, args: readonly string[]): Contestant | MissingPeer {
  if ("missing" in found) return { name, ...found };
  return { name, run: async () => startToList([found.path, ...args]) };
}

export async function measureCalls({ home }: BenchContext): Promise<Row[]> {
  await using client = await startMcpClient(["--home", home, "--pool", "0"]);
  await using bare = await openPeer([ONE_TOOL]);
  const sandbox = await createSandbox(client);
  const started = await client.call("run_process", { sandbox_id: sandbox, cmd: "true" });
  const process = { process_id: /process_id: (\S+)/.exec(started.text)?.[1] ?? "" };
  const input = { sandbox_id: sandbox, ...process };
  try {
    const row = await compare({
      ...CALLS,
      id: "call",
      name: "no-op MCP call",
      ours: async () => timed(async () => client.call("get_process_output", input)),
      floor: {
        name: "one-tool server, same SDK",
        run: async () => timed(async () => bare.call("nothing", process)),
      },
      judge: ({ ratio }) => [atMost(1.5, ratio)],
    });
    return [row];
  } finally {
    await killSandbox(client, sandbox);
  }
}
