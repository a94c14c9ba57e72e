/** `stdio`: the MCP server for one host, over the service that the configuration names. */

import { anySignal } from "../../common/any-signal.ts";
import { hasErrorCode } from "../../common/errors.ts";
import { isTaken } from "../../common/output-faults.ts";
import { readAhead } from "../../mcp/processes/read-ahead.ts";
import { answersFor } from "../../mcp/stdio/opening-answers.ts";
import { serveMcpStdio, type StdioEnd } from "../../mcp/stdio/stdio.ts";
import { EXIT_OK, EXIT_UNAVAILABLE, type CommandContext } from "../program/command.ts";
import { EXIT_BROKEN, listenForStopSignals, startLastResort } from "../program/process-end.ts";
import { createDeferredService, type DeferredService } from "../service/deferred-service.ts";
import { isKnownToWork } from "../service/engine.ts";

/** For a host that asks for nothing after the handshake. */
const IDLE_MS = 2_000;

/** A host that has closed stdin may still read; one that sent a signal waits for the end alone. */
const READ_MS = { closed: 60_000, told: 2_000 } as const;

export async function runStdio(context: CommandContext): Promise<number> {
  const { code, end } = await serveHost(context);
  const patienceMs = end === "stdin closed" ? READ_MS.closed : READ_MS.told;
  // What is not read keeps a process alive.
  if (!(await isTaken(process.stdout, patienceMs))) process.exit(code);
  return code;
}

interface Ended {
  readonly code: number;
  readonly end: StdioEnd;
}

async function serveHost({ config, log }: CommandContext): Promise<Ended> {
  using stops = listenForStopSignals();
  using lastResort = startLastResort(log);
  await using stack = new AsyncDisposableStack();
  const answers = answersFor(config.tools);
  const gone = new AbortController();
  const late = stack.use(
    createDeferredService(config, log, anySignal([stops.signal, gone.signal])),
  );
  // Whatever the host still sends must not keep the process alive, nor where serving it failed.
  stack.defer(() => {
    process.stdin.destroy();
  });
  const stdin = readAhead(process.stdin, READ_MS.closed);
  // What may fail does so before a host is answered; a home that cannot be read is refused by its start.
  if (!(await isKnownToWork(config).catch(() => false))) {
    const end = await beginFirst(late, { gone, stop: stops.signal });
    if (end !== undefined) return { code: EXIT_OK, end };
  }
  const begin = (): void => {
    // A failure is told to `ready` and by `failed` below.
    late.begin().catch(() => undefined);
  };
  const idle = setTimeout(begin, IDLE_MS);
  stack.defer(() => clearTimeout(idle));
  const end = await serveMcpStdio({
    answers,
    async open() {
      const { openStdioServer } = await import("./stdio-server.ts");
      return openStdioServer({ config, log, late, stack });
    },
    protocol: config.protocol,
    stdin,
    stdout: process.stdout,
    signal: anySignal([stops.signal, lastResort.signal]),
    failed: late.failed,
    parentPid: () => process.ppid,
    onListed: begin,
  });
  log.info({ op: "stdio", end }, "session over");
  late.failed.throwIfAborted();
  if (lastResort.signal.aborted) return { code: EXIT_BROKEN, end };
  return { code: late.isAbsent() ? EXIT_UNAVAILABLE : EXIT_OK, end };
}

/**
 * Starts the service before the host is answered. A host that closes stdin meanwhile waits for no other
 * process; returns why the session is over then.
 */
async function beginFirst(
  late: DeferredService,
  { gone, stop }: { readonly gone: AbortController; readonly stop: AbortSignal },
): Promise<StdioEnd | undefined> {
  const onEnd = () => gone.abort();
  process.stdin.once("end", onEnd).once("close", onEnd);
  // It may have ended before.
  if (process.stdin.readableEnded || process.stdin.destroyed) onEnd();
  try {
    await late.begin();
    return undefined;
  } catch (error) {
    if (!hasErrorCode(error, "canceled")) throw error;
    if (gone.signal.aborted) return "stdin closed";
    if (stop.aborted) return "stopped";
    throw error;
  } finally {
    process.stdin.off("end", onEnd).off("close", onEnd);
  }
}
