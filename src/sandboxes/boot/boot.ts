/** From a started container to a sandbox that answers: the daemon is told who it serves. */

import { join } from "node:path";
import type { Duplex } from "node:stream";
import { anySignal } from "../../common/any-signal.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import type { Container, ContainerSpec } from "../../engine/engine.ts";
import { withTrust } from "../../engine/templates/trust.ts";
import type { BuildRecord, SandboxRecord } from "../../store/store.ts";
import type { InitRequest } from "../../wire/files.ts";
import { toDisk, toLayers } from "../builds/layer-folders.ts";
import type { Folders, Services } from "../context.ts";
import { egressOf } from "../egress.ts";
import { openEnvironment } from "../secrets.ts";
import { volumeDirectory } from "../volumes/volumes.ts";
import { callDaemon, type DaemonCall } from "./daemon-call.ts";

/**
 * A daemon that does not answer within this time is taken for broken. The first call waits for its
 * start, which takes tens of seconds where many start at once beside other work.
 */
const INIT_TIMEOUT_MS = 40_000;
const HEALTH_TIMEOUT_MS = 20_000;

export function toSpec(
  context: Folders & Pick<Services, "trust" | "store">,
  record: SandboxRecord,
  build: BuildRecord,
): ContainerSpec {
  const { sandboxId, limits } = record;
  const binds = record.volumeMounts.map(({ path, volumeId }) => ({
    source: volumeDirectory(context, context.store.volumes.get(volumeId) ?? { volumeId }),
    path,
  }));
  return {
    id: sandboxId,
    directory: join(context.directory, sandboxId),
    layers: withTrust(toLayers(context.layersDirectory, build), context.trust),
    ...(build.disk !== undefined && { disk: toDisk(context.layersDirectory, build) }),
    limits,
    hostname: sandboxId,
    ...(build.setup?.isolation !== undefined && { isolation: build.setup.isolation }),
    ...(record.bootId !== "" && { bootId: record.bootId }),
    // A folder comes before what is mounted below it.
    binds: binds.toSorted((left, right) => left.path.length - right.path.length),
    egress: egressOf(record),
  };
}

/** What the daemon of a sandbox is told, at its start and again whenever it starts anew. */
export function toInit(
  context: Pick<Services, "secrets" | "environment" | "clock">,
  record: SandboxRecord,
  build: Pick<BuildRecord, "setup" | "defaultUser" | "defaultWorkdir">,
): InitRequest {
  const { sandboxId, templateId, isSecured, sealedEnvironment, bootId } = record;
  const environment = openEnvironment(context.secrets, sealedEnvironment);
  return {
    ...(isSecured && { accessToken: context.secrets.accessToken(sandboxId) }),
    envVars: {
      ...context.environment,
      ...build.setup?.environment,
      ...environment,
      E2B_SANDBOX: "true",
      E2B_SANDBOX_ID: sandboxId,
      E2B_TEMPLATE_ID: templateId,
      E2B_BOOT_ID: bootId,
    },
    defaultUser: build.defaultUser,
    defaultWorkdir: build.defaultWorkdir,
    timestamp: new Date(context.clock.now()).toISOString(),
  };
}

/**
 * The same without its time, which a daemon compares with that of what it was told before: in memory it
 * was told of another sandbox, maybe by a clock that was ahead, and would stay that one's.
 */
export function toFirstInit(...facts: Parameters<typeof toInit>): InitRequest {
  return { ...toInit(...facts), timestamp: undefined };
}

/**
 * Gives the daemon its token, environment and user; only then does it let anyone in.
 * @throws SandboxError unavailable when it refuses them, deadline_exceeded when it does not answer.
 */
export async function initDaemon(
  container: Pick<Container, "dialControl">,
  init: InitRequest,
  signal: AbortSignal,
): Promise<void> {
  await withinTime(INIT_TIMEOUT_MS, signal, async (bounded) => {
    const socket = await container.dialControl(bounded);
    await callStarting(socket, { method: "POST", path: "/init", body: init }, bounded);
    socket.destroy();
  });
}

/** `/rest` makes the daemon small for a long wait; `/forget` has its log begin anew. */
export async function orderDaemon(
  container: Container,
  path: "/rest" | "/forget",
  signal: AbortSignal,
): Promise<void> {
  await withinTime(INIT_TIMEOUT_MS, signal, async (bounded) => {
    const socket = await container.dialControl(bounded);
    await callDaemon(socket, { method: "POST", path }, bounded);
    socket.destroy();
  });
}

/** Resolves when a client's request would be answered. */
export async function awaitHealth(
  container: Pick<Container, "dialPublic">,
  signal: AbortSignal,
  limitMs = HEALTH_TIMEOUT_MS,
): Promise<void> {
  await withinTime(limitMs, signal, async (bounded) => {
    const socket = await container.dialPublic(bounded);
    await callStarting(socket, { method: "GET", path: "/health" }, bounded);
    socket.destroy();
  });
}

async function callStarting(socket: Duplex, call: DaemonCall, signal: AbortSignal): Promise<void> {
  try {
    await callDaemon(socket, call, signal);
  } catch (error) {
    throw toRefusedStart(error);
  }
}

/** A daemon that refuses what every start asks of it is a fault of its sandbox: another one may start. */
export function toRefusedStart(error: unknown): unknown {
  if (!hasErrorCode(error, "internal")) return error;
  const options = { cause: error, word: "sandbox_create_failed" } as const;
  return new SandboxError("unavailable", error.message, options);
}

/** Does the work with a time limit, of which nothing is left once the work is over. */
async function withinTime(
  limitMs: number,
  signal: AbortSignal,
  work: (bounded: AbortSignal) => Promise<void>,
): Promise<void> {
  const late = new AbortController();
  const reason = new DOMException(`no answer within ${limitMs} ms`, "TimeoutError");
  const timer = setTimeout(() => late.abort(reason), limitMs);
  try {
    await work(anySignal([signal, late.signal]));
  } finally {
    clearTimeout(timer);
  }
}
