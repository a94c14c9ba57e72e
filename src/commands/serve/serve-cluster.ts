/** `serve --engine kubernetes`: one of several equal fronts; every sandbox is a Pod. */

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { findCluster } from "../../cluster/api/address.ts";
import { createClusterApi } from "../../cluster/api/api.ts";
import { awaitRights } from "../../cluster/await-rights.ts";
import { startClusterKeys } from "../../cluster/keys.ts";
import { startPodSandboxes, type PodSandboxesOptions } from "../../cluster/pod-sandboxes.ts";
import { anySignal } from "../../common/any-signal.ts";
import { createSystemClock } from "../../common/clock.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import { removeTree } from "../../common/remove-tree.ts";
import type { Config } from "../../config.ts";
import { startListener } from "../../listener/listener.ts";
import { createKeyCheck, newKey } from "../../sandboxes/keys.ts";
import { controlSocketPath } from "../../sandboxes/reclaim/instance-folder.ts";
import { removeDeadFronts } from "../../sandboxes/reclaim/reclaim.ts";
import { withPublicPort } from "../../wire/address.ts";
import { openHome } from "../home/home.ts";
import { EXIT_OK } from "../program/command.ts";
import {
  EXIT_BROKEN,
  hasTerminal,
  listenForStopSignals,
  startLastResort,
} from "../program/process-end.ts";
import type { PrivateListener } from "../service/embedded-service.ts";
import { clientUrl, hasProxy, listenerUrl } from "../service/serve-address.ts";
import { createDeferredHandlers } from "../service/service-handlers.ts";
import { readPodTemplate } from "./pod-template-file.ts";
import { startServeMcp } from "./serve-mcp.ts";
import { openServeTls } from "./serve-tls.ts";

const GRACE_MS = 8_000;
const ID_BYTES = 4;
/** Names of Leases end at 63 characters. */
const MAX_HOST_CHARACTERS = 40;

export async function serveCluster(config: Config, log: Logger): Promise<number> {
  requireSettings(config);
  using stops = listenForStopSignals({ hangsUp: hasTerminal() });
  using lastResort = startLastResort(log);
  let started: Front;
  try {
    await openHome(config.home, stops.signal);
    started = await startFront({ config, log, signal: stops.signal });
  } catch (error) {
    if (stops.signal.aborted && hasErrorCode(error, "canceled")) return EXIT_OK;
    throw error;
  }
  await using front = started;
  const url = listenerUrl(front.scheme, config.host, front.port);
  log.info({ op: "serve", url, engine: "kubernetes" }, "listening");
  process.stdout.write(`listening on ${url}\n`);
  const end = anySignal([stops.signal, lastResort.signal]);
  if (!end.aborted) await once(end, "abort");
  log.info({ op: "serve" }, "stopping");
  return lastResort.signal.aborted ? EXIT_BROKEN : EXIT_OK;
}

export interface FrontOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** In the place of what the configuration says, in tests. */
  readonly registry?: Partial<PodSandboxesOptions>;
}

export interface Front extends AsyncDisposable {
  readonly port: number | undefined;
  readonly scheme: "http" | "https";
}

/** Starts a front; its listener answers 503 until everything else is started. */
export async function startFront(options: FrontOptions): Promise<Front> {
  const { config, log, signal, registry } = options;
  await using stack = new AsyncDisposableStack();
  const clock = createSystemClock();
  const tls = await openServeTls(config, { log, signal });
  const scheme: "http" | "https" = tls === undefined ? "http" : "https";
  const name = frontName(config);
  await removeDeadFronts(config.home, ({ name: instance, error }) =>
    log.error({ op: "reclaim", instance, err: error }, "folder of a dead front stays"),
  );
  const address = await openPrivateAddress(config.home, stack);
  const late = createDeferredHandlers();
  const { host, domain } = config;
  const listener = await startListener({
    addresses: [
      { kind: "unix", path: address.socketPath },
      { kind: "tcp", host, port: config.port, tls: tls?.identity },
    ],
    domain,
    handlers: late.handlers,
    graceMs: GRACE_MS,
    log,
  });
  const closeListener = () => listener[Symbol.asyncDispose]();
  stack.defer(closeListener);
  const api = stack.use(createClusterApi(await findCluster(config.cluster)));
  const stored = stack.use(await awaitRights(async () => startClusterKeys(api, log), signal));
  const keys = createKeyCheck(stored, [address.apiKey, ...[config.apiKey ?? []].flat()]);
  const sandboxes = stack.use(
    await startPodSandboxes({
      ...toRegistryOptions(config),
      api,
      clock,
      log,
      signal,
      name,
      teams: () => stored.keys.teams(),
      podTemplate: await readPodTemplate(config),
      ...registry,
    }),
  );
  const [port] = listener.ports;
  const own: PrivateListener = { ...address, findRun: (id) => sandboxes.locate(id) };
  const publicUrl = clientUrl(config, scheme, port);
  const mcp = stack.use(startServeMcp({ config, log, listener: own, keys, publicUrl }));
  late.open({
    sandboxes,
    keys,
    mcp,
    domain: withPublicPort(domain, scheme, port),
    hasTlsProxy: hasProxy(domain, port),
    maxSandboxes: config.maxSandboxes,
    hasMetrics: config.hasMetrics,
    clock,
    log,
  });
  stack.defer(closeListener);
  stack.defer(() => mcp.leave());
  const owned = stack.move();
  return { port, scheme, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** @throws SandboxError failed_precondition */
function requireSettings(config: Config): void {
  if (config.apiKey === undefined) {
    throw new SandboxError("failed_precondition", "a front of a cluster has no API key", {
      hint: "set SANDBOX_MCP_API_KEY, the same for every front",
    });
  }
  if (config.isConformance) {
    throw new SandboxError("failed_precondition", "--conformance needs the engine of one machine");
  }
  if (config.cluster.images.length === 0) {
    throw new SandboxError("failed_precondition", "no image is named for the template base", {
      hint: "name it by --pod-images base=IMAGE; docs/kubernetes.md says how to make one",
    });
  }
}

function toRegistryOptions(config: Config) {
  const { limits, maxSandboxes, maxSandboxesPerTeam, requireIsolation, cluster } = config;
  const base =
    config.pool === undefined || config.pool === 0 ? [] : [{ template: "base", size: config.pool }];
  return {
    limits,
    maxSandboxes,
    maxSandboxesPerTeam,
    requireLevel: requireIsolation,
    images: cluster.images,
    pool: [...base, ...config.poolTemplates],
    egress: cluster.egress,
    snapshotSettings: cluster.snapshots,
    volumeSettings: cluster.volumes && { ...cluster.volumes, sizeMb: config.volumeMb },
  };
}

/** A name for its Lease, with what tells its Pod to people. */
function frontName({ cluster: { hostname = "front" } }: Config): string {
  const host = hostname
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]/g, "-")
    .slice(0, MAX_HOST_CHARACTERS);
  return `f-${host}-${randomBytes(ID_BYTES).toString("hex")}`;
}

/** The socket over which the MCP server of this process calls it; its directory ends with the stack. */
async function openPrivateAddress(home: string, stack: AsyncDisposableStack) {
  const socketPath = controlSocketPath(home, randomBytes(ID_BYTES).toString("hex"));
  const directory = dirname(socketPath);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  stack.defer(() => removeTree(directory));
  return { url: "http://localhost", socketPath, apiKey: newKey() };
}
