/** `serve`: one HTTP listener with the control API and the gateway, until it is told to stop. */

import { once } from "node:events";
import { join } from "node:path";
import { anySignal } from "../../common/any-signal.ts";
import { createSystemClock } from "../../common/clock.ts";
import { SandboxError } from "../../common/errors.ts";
import { isDiscarded } from "../../common/output-faults.ts";
import type { Config } from "../../config.ts";
import { createKey, listKeys } from "../../sandboxes/keys.ts";
import { openStore } from "../../store/sqlite.ts";
import type { Store } from "../../store/store.ts";
import { withPublicPort } from "../../wire/address.ts";
import { openHome } from "../home/home.ts";
import { commandLine } from "../program/command-line.ts";
import { EXIT_OK, type CommandContext } from "../program/command.ts";
import {
  EXIT_BROKEN,
  hasTerminal,
  listenForStopSignals,
  startLastResort,
} from "../program/process-end.ts";
import { showProgressOn } from "../program/show-progress.ts";
import { startLocal } from "../service/local-service.ts";
import {
  clientUrl,
  publishAddress,
  listenerUrl,
  reachableUrl,
  SERVE_INSTANCE,
} from "../service/serve-address.ts";
import { requireTools, startServeMcp } from "./serve-mcp.ts";
import { clientLines, openServeTls } from "./serve-tls.ts";

/** Who stops a service waits ten seconds, as supervisors do. */
const GRACE_MS = 8000;
const DEFAULT_POOL = 2;
const KEY_UNUSED =
  "serve runs sandboxes on this machine; E2B_API_KEY in its environment is not used";

export async function runServe({ config, log }: CommandContext): Promise<number> {
  if (config.engine === "remote") {
    throw new SandboxError("failed_precondition", "serve runs sandboxes on this machine only", {
      hint: "leave out --engine remote",
    });
  }
  requireTools(config);
  if (config.engine === "kubernetes") {
    const { serveCluster } = await import("./serve-cluster.ts");
    return serveCluster(config, log);
  }
  if (config.isConformance && !isLoopback(config.host)) {
    const message = `--conformance on ${config.host}, which is no loopback address`;
    throw new SandboxError("invalid_argument", message, { hint: "it lets everybody in" });
  }
  if (config.remote !== undefined) process.stderr.write(`sandbox-mcp: ${KEY_UNUSED}\n`);
  using stops = listenForStopSignals({ hangsUp: hasTerminal() });
  using lastResort = startLastResort(log);
  await openHome(config.home, stops.signal);
  const tls = await openServeTls(config, { log, signal: stops.signal });
  const scheme = tls === undefined ? "http" : "https";
  requireKey(config);
  const { host } = config;
  await using service = await startLocal(config, log, {
    instance: SERVE_INSTANCE,
    tcp: [{ host, port: config.port, tls: tls?.identity }],
    apiKeys: config.apiKey === undefined ? [] : [config.apiKey],
    onExit: config.onExit ?? "leave",
    graceMs: GRACE_MS,
    signal: stops.signal,
    hasMetrics: config.hasMetrics,
    poolSize: config.pool ?? DEFAULT_POOL,
    pauseToDisk: config.pauseToDisk,
    allowHostTemplate: config.allowHostTemplate ?? false,
    showBuild: showProgressOn(process.stderr, "building the base template"),
    startMcp: (listener, keys, [chosen]) => {
      const publicUrl = clientUrl(config, scheme, chosen);
      return Promise.resolve(startServeMcp({ config, log, listener, keys, publicUrl }));
    },
  });
  const hasKey = config.apiKey !== undefined || makeFirstKey(service.store);
  const [port] = service.ports;
  const url = listenerUrl(scheme, host, port);
  const { domain } = config;
  const address = { publicUrl: reachableUrl(scheme, host, port), domain };
  await using stack = new AsyncDisposableStack();
  stack.use(await publishAddress(config.home, SERVE_INSTANCE, address));
  log.info({ op: "serve", url, instance: service.instance }, "listening");
  process.stdout.write(`listening on ${url}\n`);
  if (!hasKey) {
    const text = `no API key yet, standard error is discarded: ${commandLine(config, "key create NAME")}`;
    log.warn({ op: "serve" }, "no API key yet, and standard error is discarded");
    process.stdout.write(`${text}\n`);
  }
  if (tls?.authorityPath !== undefined) {
    const lines = clientLines(withPublicPort(domain, scheme, port), tls.authorityPath);
    process.stdout.write(`${lines.join("\n")}\n`);
  }
  const end = anySignal([stops.signal, lastResort.signal]);
  if (!end.aborted) await once(end, "abort");
  log.info({ op: "serve" }, "stopping");
  return lastResort.signal.aborted ? EXIT_BROKEN : EXIT_OK;
}

/** @throws SandboxError failed_precondition for a service without a key that others can reach. */
function requireKey(config: Config): void {
  if (config.apiKey !== undefined || isLoopback(config.host)) return;
  using store = openStore({ path: join(config.home, "state.db") });
  if (listKeys(store).length > 0) return;
  throw new SandboxError("failed_precondition", `${config.host} is no loopback address`, {
    hint: `make a key first: ${commandLine(config, "key create NAME")}`,
  });
}

/**
 * A key for a service that has none. It is shown before it is stored: if the process ends in between,
 * the next start makes another one. Where no user would see it, a later start makes it.
 * @returns whether there is a key
 */
function makeFirstKey(store: Store): boolean {
  return store.transaction(() => {
    if (listKeys(store).length > 0) return true;
    if (isDiscarded(process.stderr.fd)) return false;
    const { key } = createKey(store, createSystemClock(), { name: "first" });
    process.stderr.write(`sandbox-mcp: new API key, shown once: ${key}\n`);
    return true;
  });
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.[0-9.]+$/.test(host);
}
