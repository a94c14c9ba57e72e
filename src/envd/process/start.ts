/**
 * Start: runs a command, with pipes or on a terminal, and streams what it prints. Only its deadline
 * or a signal ends it.
 */

import type { HandlerContext } from "@connectrpc/connect";
import { SandboxError } from "../../common/errors.ts";
import type { PTY, StartRequest } from "../../gen/process/process_pb.ts";
import { frameSinkOf } from "../../rpc/frame-sink.ts";
import type { ProcessEvent } from "../../rpc/process-events.ts";
import { orAborted, originOf, pathFor, userOf } from "../call.ts";
import { follow } from "./follow.ts";
import { planLaunch } from "./launch.ts";
import type { TerminalSize } from "./process-streams.ts";
import type { ProcessTable } from "./running.ts";

/** @throws SandboxError invalid_argument, unauthenticated, resource_exhausted */
export async function* start(
  request: StartRequest,
  context: HandlerContext,
): AsyncGenerator<{ event: ProcessEvent }> {
  const { process: config } = request;
  if (config === undefined) throw new SandboxError("invalid_argument", "process is missing");
  const origin = originOf(context);
  const { settings, processes, perl, spawner, silence } = origin.daemon;
  const timeoutMs = context.timeoutMs();
  if (timeoutMs !== undefined && timeoutMs <= 0) context.signal.throwIfAborted();
  const user = await userOf(origin);
  const starting = processes.start({
    config,
    launch: planLaunch({
      config,
      user,
      cwd: await pathFor(origin.daemon, user, config.cwd ?? ""),
      globals: settings.current.envVars,
    }),
    tag: request.tag,
    operationId: origin.operationId,
    hasInput: request.stdin ?? true,
    spawner,
    codec: frameSinkOf(context).codec,
    terminal: request.pty && { relay: perl.terminal, silence, size: sizeOf(request.pty) },
    timeoutMs,
    signal: context.signal,
  });
  const { running, subscription } = await orLeft(starting, context.signal);
  yield* follow(running.pid, subscription, context);
}

/** What began goes on when its caller has left meanwhile, without that reader. */
async function orLeft(starting: Starting, signal: AbortSignal): Starting {
  try {
    return await orAborted(starting, signal);
  } catch (error) {
    starting.then(({ subscription }) => subscription.close()).catch(() => undefined);
    throw error;
  }
}

type Starting = ReturnType<ProcessTable["start"]>;

/** Zero stays zero: a terminal without a known size. */
function sizeOf({ size }: PTY): TerminalSize {
  return { cols: size?.cols ?? 0, rows: size?.rows ?? 0 };
}
