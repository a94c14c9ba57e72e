/** What a started daemon does before its sandbox is frozen, so that its first client does not wait for it. */

import type { DaemonClient } from "../../client/daemon-client.ts";
import { anySignal } from "../../common/any-signal.ts";
import { SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import type { Container } from "../../engine/engine.ts";
import type { SandboxRecord } from "../../store/store.ts";
import type { InitRequest } from "../../wire/files.ts";
import type { Services } from "../context.ts";
import { initDaemon, orderDaemon } from "./boot.ts";
import { openDaemon } from "./start-command.ts";

/** The process is killed after the first, and the daemon must have answered within the second. */
const PROCESS_TIMEOUT_MS = 2_000;
const RUN_TIMEOUT_MS = 10_000;

/** A sandbox of the pool whose daemon has been told who it serves. */
export interface NewSandbox {
  readonly container: Container;
  readonly record: SandboxRecord;
  readonly init: InitRequest;
}

/**
 * What runs for the first time takes half of a claim and most of a first process. The daemon gives
 * back the memory of its start, which also drops compiled code, and then starts a process and is told
 * its sandbox again, as its first client will have it do.
 */
export async function warmUp(
  context: Pick<Services, "secrets">,
  { container, record, init }: NewSandbox,
  signal: AbortSignal,
): Promise<void> {
  await orderDaemon(container, "/rest", signal);
  await using daemon = openDaemon(context, container, record);
  await runTrue(daemon, anySignal([signal, signalAfter(RUN_TIMEOUT_MS)]));
  // The sandbox has done nothing yet that a client of it is to be told.
  await orderDaemon(container, "/forget", signal);
  await initDaemon(container, init, signal);
}

async function runTrue(daemon: DaemonClient, signal: AbortSignal): Promise<void> {
  const request = { cmd: "true", args: [], env: {}, hasStdin: false };
  try {
    const events = daemon.process.start(request, { signal, timeoutMs: PROCESS_TIMEOUT_MS });
    while (!(await events.next()).done);
  } catch (error) {
    signal.throwIfAborted();
    // An image may lack the program or the user; a sandbox of it starts all the same.
    if (!(error instanceof SandboxError)) throw error;
  }
}
