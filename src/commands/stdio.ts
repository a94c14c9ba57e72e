/** `stdio`: the MCP server for one host, over the service that the configuration names. */

import { selectTools } from "../mcp/selection.ts";
import { startMcpState } from "../mcp/state.ts";
import { serveMcpStdio } from "../mcp/stdio.ts";
import { TOOLS } from "../mcp/tools/index.ts";
import { withoutService } from "../mcp/unserved.ts";
import type { CommandContext } from "./command.ts";
import { VERSION } from "./help.ts";
import { openService } from "./open-service.ts";
import { spoolFolderOf } from "./spool-folder.ts";
import { listenForStops } from "./stops.ts";

const EXIT_OK = 0;
const EXIT_UNAVAILABLE = 69;

export async function runStdio({ config, log }: CommandContext): Promise<number> {
  using stops = listenForStops();
  await using stack = new AsyncDisposableStack();
  const selected = selectTools(TOOLS, config.tools);
  const { service, onExit, absence } = await openService(config, log, stack);
  // A server that starts all the same: the tools themselves say what is missing.
  const tools = absence === undefined ? selected : withoutService(selected, absence);
  if (absence !== undefined) {
    const line = `sandbox-mcp: ${absence.reason}: ${absence.hint}`.replaceAll("\n", " ");
    process.stderr.write(`${line}\n`);
  }
  const spoolFolder = absence === undefined ? spoolFolderOf(config) : undefined;
  const state = stack.use(startMcpState({ service, log, onExit, spoolFolder }));
  const end = await serveMcpStdio({
    state,
    tools,
    version: VERSION,
    protocol: config.protocol,
    stdin: process.stdin,
    stdout: process.stdout,
    signal: stops.signal,
    parentPid: () => process.ppid,
  });
  log.info({ op: "stdio", end }, "session over");
  // Whatever the host still sends must not keep the process alive.
  process.stdin.destroy();
  return absence === undefined ? EXIT_OK : EXIT_UNAVAILABLE;
}
