/** One running service: store, engine, sandboxes, control API, gateway and listener. */

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { FindRun } from "../../client/direct-connection.ts";
import type { PublicAddress } from "../../client/service.ts";
import { createSystemClock, type Clock } from "../../common/clock.ts";
import { proveLife } from "../../common/listening.ts";
import type { Logger } from "../../common/log.ts";
import type { ContainerLimits, Engine } from "../../engine/engine.ts";
import { holdLock } from "../../engine/host/lock.ts";
import type { Trust } from "../../engine/templates/trust.ts";
import { startListener } from "../../listener/listener.ts";
import type { ListenAddress } from "../../listener/open-server.ts";
import type { TlsIdentity } from "../../listener/tls.ts";
import type { McpHttp } from "../../mcp/http/http.ts";
import { createKeyCheck, type KeyCheck } from "../../sandboxes/keys.ts";
import {
  controlSocketPath,
  lifeSocketPath,
  markKept,
} from "../../sandboxes/reclaim/instance-folder.ts";
import { requireKnownContent } from "../../sandboxes/reclaim/lost-database.ts";
import { startSandboxes, type Sandboxes, type PassedOptions } from "../../sandboxes/sandboxes.ts";
import type { BuiltInTemplate } from "../../sandboxes/templates/built-ins.ts";
import { openStore } from "../../store/sqlite.ts";
import { DEFAULT_TEAM, type Store } from "../../store/store.ts";
import { withPublicPort } from "../../wire/address.ts";
import { claimInstance, holdInstance, INSTANCE_LOCK, leaveInstance } from "./instance.ts";
import { createLoopbackGateway } from "./loopback-gateway.ts";
import { hasProxy } from "./serve-address.ts";
import { createDeferredHandlers } from "./service-handlers.ts";

const INSTANCE_BYTES = 4;

/** How the service is reached from within this process. */
export interface PrivateListener {
  /** Names the service in requests; the socket decides where they go. */
  readonly url: string;
  readonly socketPath: string;
  readonly apiKey: string;
  readonly findRun: FindRun;
}

export interface EmbeddedServiceOptions extends PassedOptions {
  /** Absolute path; made when it is missing. */
  readonly home: string;
  /**
   * A fixed name makes an instance that finds its sandboxes again and that runs once at a time;
   * undefined makes one of its own with a random name.
   */
  readonly instance: string | undefined;
  readonly engine: Engine;
  readonly limits: ContainerLimits;
  readonly maxSandboxes: number;
  /** Undefined: what the shares of the other teams leave. */
  readonly maxSandboxesPerTeam?: number | undefined;
  /** Sandboxes that are kept started for creates to come. */
  readonly poolSize: number;
  /** The certificates of this machine and variables for every sandbox. */
  readonly trust?: Trust | undefined;
  readonly environment?: Readonly<Record<string, string>> | undefined;
  readonly builtIns: readonly BuiltInTemplate[];
  /** Whether the built-in `host` may be used, and stands in for a `base` that was not built. */
  readonly allowHostTemplate: boolean;
  /** Gateway hosts are `{port}-{sandboxID}.<domain>`. */
  readonly domain: string;
  /** Addresses besides the private socket. */
  readonly tcp: readonly {
    readonly host: string;
    readonly port: number;
    readonly tls?: TlsIdentity | undefined;
  }[];
  /** Keys accepted besides the stored ones. */
  readonly apiKeys: readonly string[];
  /** What happens to the sandboxes at the end. */
  readonly onExit: "kill" | "leave";
  /** Whether `GET /metrics` tells metrics of the service. */
  readonly hasMetrics?: boolean;
  /** Milliseconds that requests under way have at the end; a moment by default. */
  readonly graceMs?: number;
  /** Ends the wait for an earlier process of this name. */
  readonly signal?: AbortSignal;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Makes the handler of `/mcp`; it may call the service through the private listener. */
  readonly startMcp?: (
    listener: PrivateListener,
    keys: KeyCheck,
    ports: readonly number[],
  ) => Promise<McpHttp>;
}

export interface EmbeddedService extends PrivateListener, AsyncDisposable {
  readonly instance: string;
  /** The chosen port of each TCP address, in order. */
  readonly ports: readonly number[];
  readonly store: Store;
  readonly sandboxes: Sandboxes;
  /** Opens the gateway on loopback, once; it ends with the service. */
  readonly openPublic: () => Promise<PublicAddress>;
}

/**
 * Starts a service; its listener opens first and answers 503 until everything else is started.
 * @throws SandboxError failed_precondition when an instance of this name runs already, or the
 * database of the home was lost, unavailable when an address cannot be opened, or when an earlier
 * process of this name does not end, canceled while it waits for that.
 */
export async function startEmbeddedService(
  options: EmbeddedServiceOptions,
): Promise<EmbeddedService> {
  const { home, log, engine, maxSandboxes, clock = createSystemClock() } = options;
  const instance = options.instance ?? randomBytes(INSTANCE_BYTES).toString("hex");
  await using stack = new AsyncDisposableStack();
  const isNamed = options.instance !== undefined;
  if (isNamed) stack.use(await holdInstance(home, instance, options));
  // The lock is held from the check whether an instance runs until its own listener is open.
  await using claim = isNamed
    ? await holdLock(home, INSTANCE_LOCK, { signal: options.signal })
    : undefined;
  const apiKey = await claimInstance(home, instance);
  // Without a lock of its name: others must not take what it still has while it stops.
  if (!isNamed) stack.use(await proveLife(lifeSocketPath(home, instance)));
  stack.defer(() => leaveInstance(home, instance, isNamed));
  const store = stack.use(openStore({ path: join(home, "state.db") }));
  await requireKnownContent(home, store);
  const keys = createKeyCheck(store, [apiKey, ...options.apiKeys]);
  const socketPath = controlSocketPath(home, instance);
  const address = { url: "http://localhost", socketPath, apiKey };

  const late = createDeferredHandlers();
  const listener = await startListener({
    addresses: toAddresses(options, socketPath),
    domain: options.domain,
    handlers: late.handlers,
    graceMs: options.graceMs,
    log,
  });
  await claim?.[Symbol.asyncDispose]();
  // The listener closes before what handles its requests, although it opened first.
  const closeListener = () => listener[Symbol.asyncDispose]();
  stack.defer(closeListener);

  await markKept(home, instance, options.onExit === "leave");
  const sandboxes = stack.use(
    await startSandboxes({
      ...options,
      ...toTemplateRules(options),
      givenTeams: options.apiKeys.length > 0 ? [DEFAULT_TEAM] : [],
      engine,
      store,
      clock,
      owner: instance,
    }),
  );
  const own: PrivateListener = { ...address, findRun: (id) => sandboxes.locate(id) };
  const mcp = options.startMcp && stack.use(await options.startMcp(own, keys, listener.ports));
  late.open({
    sandboxes,
    keys,
    mcp,
    domain: publicDomain(options, listener.ports[0]),
    hasTlsProxy: hasProxy(options.domain, listener.ports[0]),
    maxSandboxes,
    hasMetrics: options.hasMetrics === true,
    clock,
    log,
  });
  const loopback = stack.use(createLoopbackGateway(late.handlers, log));
  stack.defer(closeListener);
  stack.defer(() => mcp?.leave());
  const owned = stack.move();
  return {
    ...own,
    instance,
    ports: listener.ports,
    store,
    sandboxes,
    openPublic: () => loopback.open(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function toAddresses(options: EmbeddedServiceOptions, path: string): ListenAddress[] {
  const tcp = options.tcp.map((address) => ({ kind: "tcp" as const, ...address }));
  return [{ kind: "unix", path }, ...tcp];
}

/** What clients put below the name of a sandbox; null without an address that others reach. */
function publicDomain({ tcp: [address], domain }: EmbeddedServiceOptions, port?: number) {
  if (address === undefined) return null;
  return withPublicPort(domain, address.tls === undefined ? "http" : "https", port);
}

const HOST_TEMPLATE = "host";

function toTemplateRules({ builtIns, allowHostTemplate }: EmbeddedServiceOptions) {
  if (allowHostTemplate) return { builtIns, fallbacks: { base: HOST_TEMPLATE }, withheld: [] };
  return {
    builtIns: builtIns.filter(({ name }) => name !== HOST_TEMPLATE),
    fallbacks: {},
    withheld: [HOST_TEMPLATE],
  };
}
