/** The start and ready commands of a template: run in a sandbox before it is handed out. */

import { setTimeout as delay } from "node:timers/promises";
import { openDaemonClient, type DaemonClient } from "../../client/daemon-client.ts";
import type { ProcessEvent } from "../../client/process.ts";
import { anySignal } from "../../common/any-signal.ts";
import { createBackoff } from "../../common/backoff.ts";
import { SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { step } from "../../common/steps.ts";
import type { Container } from "../../engine/engine.ts";
import type { BuildRecord, SandboxRecord, TemplateSetup } from "../../store/store.ts";
import type { Services } from "../context.ts";
import { withReadyPrograms } from "./ready-programs.ts";

/** Clients wait a minute for a sandbox; they are told before. */
const START_LIMIT_MS = 45_000;
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 2_000;

export type Commands = Pick<TemplateSetup, "startCommand" | "readyCommand">;

export interface StartTerms {
  readonly signal: AbortSignal;
  /** The time for both commands together. */
  readonly limitMs: number;
  /** Gets what both commands write, until the sandbox is ready. */
  readonly onOutput?: (bytes: Uint8Array) => void;
}

/** Whether a sandbox of this build has anything to run at its start. */
export function hasCommands({ setup }: BuildRecord): boolean {
  return setup !== undefined && (setup.startCommand !== "" || setup.readyCommand !== "");
}

/**
 * Runs the commands of a build in a sandbox whose daemon answers, for the first time or after a
 * boot. Resolves at once where there are none.
 * @throws SandboxError unavailable when the start command fails, deadline_exceeded when the ready
 * command does not succeed in time.
 */
export async function startTemplateService(
  context: Pick<Services, "secrets">,
  sandbox: {
    readonly container: Pick<Container, "dialPublic">;
    readonly record: SandboxRecord;
    readonly build: BuildRecord;
  },
  signal: AbortSignal,
): Promise<void> {
  const { container, record, build } = sandbox;
  if (build.setup === undefined || !hasCommands(build)) return;
  await using daemon = openDaemon(context, container, record);
  await runCommands(daemon, build.setup, { signal, limitMs: START_LIMIT_MS });
  await step("start.ready");
}

/** The daemon of a sandbox, called as one of its clients. */
export function openDaemon(
  { secrets }: Pick<Services, "secrets">,
  container: Pick<Container, "dialPublic">,
  { sandboxId, isSecured }: SandboxRecord,
): DaemonClient {
  return openDaemonClient({
    sandboxId,
    token: isSecured ? secrets.accessToken(sandboxId) : undefined,
    dial: (signal) => container.dialPublic(signal),
  });
}

/**
 * Starts the one and waits for the other; the started program stays when this resolves.
 * @throws SandboxError as `startTemplateService`.
 */
export async function runCommands(
  daemon: DaemonClient,
  commands: Commands,
  terms: StartTerms,
): Promise<void> {
  const late = signalAfter(terms.limitMs);
  // Leaves the output of the start command, which goes on without a reader.
  const leave = new AbortController();
  const signal = anySignal([terms.signal, late, leave.signal]);
  const bounded = { ...terms, signal };
  try {
    if (commands.startCommand === "") await awaitReady(daemon, commands, bounded);
    else await startAndWait(daemon, commands, bounded);
  } catch (error) {
    if (!late.aborted || terms.signal.aborted) throw error;
    const seconds = Math.round(terms.limitMs / 1000);
    throw new SandboxError(
      "deadline_exceeded",
      `the template's ready command did not succeed within ${seconds} s`,
      { cause: error },
    );
  } finally {
    leave.abort();
  }
}

/** A start command that ends well, as one that makes a daemon does, is no failure. */
async function startAndWait(
  daemon: DaemonClient,
  commands: Commands,
  terms: StartTerms,
): Promise<void> {
  const events = openShell(daemon, commands.startCommand, terms);
  // Its first event says that it has started.
  await events.next();
  const ended = readToEnd(events, terms).then(({ exitCode, status }) => {
    if (exitCode === 0) return;
    const how = exitCode > 0 ? `exit code ${exitCode}` : status;
    throw new SandboxError("unavailable", `the template's start command ended with ${how}`);
  });
  const ready = awaitReady(daemon, commands, terms);
  // Both end with the signal; the outcome of the later one is not used.
  void Promise.allSettled([ended, ready]);
  await Promise.race([ready, ended.then(() => ready)]);
}

/** Resolves when the ready command has succeeded; at once without one. */
async function awaitReady(
  daemon: DaemonClient,
  { readyCommand }: Commands,
  terms: StartTerms,
): Promise<void> {
  if (readyCommand === "") return;
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
  const command = withReadyPrograms(readyCommand);
  for (;;) {
    if ((await runShell(daemon, command, terms)) === 0) return;
    await delay(backoff.next(), undefined, { signal: terms.signal });
  }
}

/** As the default user of the sandbox, in its work folder, as every command of a client. */
function openShell(
  daemon: DaemonClient,
  command: string,
  { signal }: StartTerms,
): AsyncGenerator<ProcessEvent, void> {
  const request = { cmd: "/bin/bash", args: ["-l", "-c", command], env: {}, hasStdin: false };
  return daemon.process.start(request, { signal });
}

async function runShell(daemon: DaemonClient, command: string, terms: StartTerms): Promise<number> {
  return (await readToEnd(openShell(daemon, command, terms), terms)).exitCode;
}

interface Ended {
  readonly exitCode: number;
  /** Such as `signal: killed`. */
  readonly status: string;
}

async function readToEnd(
  events: AsyncGenerator<ProcessEvent, void>,
  { onOutput }: StartTerms,
): Promise<Ended> {
  let ended: Ended = { exitCode: -1, status: "no exit code" };
  for await (const event of events) {
    if (event.type === "data") onOutput?.(event.bytes);
    if (event.type === "end") ended = event;
  }
  return ended;
}
