/** `stdio`: the MCP server for one host, over the service that the configuration names. */

import { selectTools, whenReady } from "../mcp/selection.ts";
import { startMcpState } from "../mcp/state.ts";
import { serveMcpStdio } from "../mcp/stdio.ts";
import { TOOLS } from "../mcp/tools/index.ts";
import { VERSION, type CommandContext } from "./command.ts";
import { createDeferredService } from "./deferred-service.ts";
import { isKnownToWork } from "./engine.ts";
import { spoolFolderOf } from "./home.ts";
import { EXIT_BROKEN, listenForStopSignals, startLastResort } from "./process-end.ts";

const EXIT_OK = 0;
const EXIT_UNAVAILABLE = 69;
/** For a host that asks for nothing after the handshake. */
const IDLE_MS = 2_000;

export async function runStdio({ config, log }: CommandContext): Promise<number> {
  using stops = listenForStopSignals();
  using lastResort = startLastResort(log);
  await using stack = new AsyncDisposableStack();
  const selected = selectTools(TOOLS, config.tools);
  const late = stack.use(createDeferredService(config, log));
  // What may fail does so before a host is answered.
  if (!(await isKnownToWork(config))) await late.begin();
  const begin = (): void => {
    // A failure is told to `ready` and by the signal below.
    late.begin().catch(() => undefined);
  };
  const state = stack.use(
    startMcpState({
      service: () => late.current(),
      log,
      onExit: () => late.onExit(),
      spoolFolder: late.isAbsent() ? undefined : spoolFolderOf(config),
    }),
  );
  const idle = setTimeout(begin, IDLE_MS);
  stack.defer(() => clearTimeout(idle));
  const end = await serveMcpStdio({
    state,
    tools: whenReady(selected, async () => late.ready()),
    version: VERSION,
    protocol: config.protocol,
    stdin: process.stdin,
    stdout: process.stdout,
    signal: AbortSignal.any([stops.signal, late.failed, lastResort.signal]),
    parentPid: () => process.ppid,
    onListed: begin,
  });
  log.info({ op: "stdio", end }, "session over");
  // Whatever the host still sends must not keep the process alive.
  process.stdin.destroy();
  late.failed.throwIfAborted();
  if (lastResort.signal.aborted) return EXIT_BROKEN;
  return late.isAbsent() ? EXIT_UNAVAILABLE : EXIT_OK;
}
