/** A sandbox service, embedded or remote: its control API and the sandboxes behind it. */

import { Agent } from "undici";
import { createSystemClock, type Clock } from "../common/clock.ts";
import type { OutboundProxy } from "../common/outbound-proxy.ts";
import {
  formatSandboxHost,
  parseSandboxId,
  withoutPort,
  type SandboxAddress,
} from "../wire/address.ts";
import { ENVD_PORT, SANDBOX_ID_HEADER, SANDBOX_PORT_HEADER } from "../wire/headers.ts";
import { signFile } from "../wire/signature.ts";
import { createAccessTable, rememberAccess, renewExpiry } from "./access-table.ts";
import type { Access, AccessSource, OnTimeout } from "./access.ts";
import { createControl, type Control } from "./control.ts";
import { startDirectConnections, type FindRun } from "./direct-connection.ts";
import { createEnvd, type Sandbox } from "./envd.ts";
import { hostConnector } from "./host-connector.ts";
import type { Connection } from "./http.ts";
import { interimLimit } from "./interim-limit.ts";
import { createServiceTime, sameTime } from "./service-time.ts";
import { socketConnector } from "./socket-connector.ts";

export interface ServiceOptions {
  /** Base of the control API, such as `http://localhost` or `https://api.e2b.app`. */
  readonly url: string;
  readonly apiKey: string;
  /** Unix socket through which control API and gateway are reached, whatever the URL's host. */
  readonly socketPath?: string | undefined;
  /** That of this machine; undefined where addresses with TLS are reached by themselves. */
  readonly proxy?: OutboundProxy | undefined;
  /** One base URL for all sandboxes, which headers tell apart. */
  readonly sandboxUrl?: string | undefined;
  /** Domain of gateway hosts; a sandbox's own domain goes before it. */
  readonly domain?: string | undefined;
  /**
   * Where other programs reach the service behind the unix socket, for links:
   * `http://127.0.0.1:3490`; without it, at the hosts of the domain, over TLS.
   */
  readonly publicUrl?: string | undefined;
  /** Opens such an address at the first use, if the service has none before. */
  readonly openPublic?: (() => Promise<PublicAddress>) | undefined;
  /** Where the service is this process: finds its running sandboxes, for direct connections. */
  readonly findRun?: FindRun | undefined;
  readonly clock?: Clock;
}

/** Where a service is reached on its own machine, until the session ends. */
export interface PublicAddress {
  readonly publicUrl: string;
  readonly domain: string;
}

export interface DownloadLink {
  readonly url: string;
  /** False for a sandbox that asks for no token: nothing in the link ends it. */
  readonly isSigned: boolean;
  /** Whether it works on this machine alone and ends with the session. */
  readonly isOfSession: boolean;
}

export interface DownloadOptions {
  readonly path: string;
  readonly user?: string | undefined;
  /** Unix seconds. */
  readonly expiration: number;
}

/** Where a port of a sandbox is reached. */
export interface PortAddress {
  readonly url: string;
  /** Required in every request where the hostname does not name the sandbox. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Another base for callers that cannot resolve the hostname; it needs the headers. */
  readonly base?: string;
  /** Whether it is reached on this machine alone and ends with the session. */
  readonly isOfSession: boolean;
}

/** A service; disposal closes every connection and stream. */
export interface Service extends AsyncDisposable {
  readonly control: Control;
  /** Unix milliseconds by the clock of the service, which can be that of another machine. */
  now(): number;
  /**
   * A sandbox that exists, by one control call unless this service knows it already.
   * @throws SandboxError not_found when there is none, invalid_argument for a malformed id.
   */
  attach(sandboxId: string, signal: AbortSignal): Promise<Sandbox>;
  /** Asks for the expiry again where other clients may have moved it since; never rejects. */
  renewExpiry(sandboxId: string): Promise<void>;
  /** When the time of the sandbox is over, as the last reply said, in Unix milliseconds. */
  expiresAtMs(sandboxId: string): number | undefined;
  /** What happens then; undefined where no reply said it. */
  onTimeout(sandboxId: string): OnTimeout | undefined;
  /** Host under which a port of the sandbox is reached; undefined where no domain is known. */
  portHost(sandboxId: string, port: number | "{port}"): string | undefined;
  /**
   * A link by which every holder can read one file until its expiration; undefined where the service
   * has no public address. The file is not checked; the sandbox must be attached.
   * @throws SandboxError unavailable when an address cannot be opened.
   */
  downloadUrl(sandboxId: string, file: DownloadOptions): Promise<DownloadLink | undefined>;
  /**
   * Undefined where the service has no public address.
   * @throws SandboxError unavailable when an address cannot be opened.
   */
  portAddress(sandboxId: string, port: number): Promise<PortAddress | undefined>;
}

/** Connections to one origin: each running process holds one of them. */
const MAX_CONNECTIONS = 512;
/** Domains that serve all their sandboxes under one host. */
const SHARED_HOST_DOMAINS: ReadonlySet<string> = new Set([
  "e2b.app",
  "e2b.dev",
  "e2b.pro",
  "e2b-staging.dev",
]);

/** A service that answers at a URL, or behind a unix socket. */
export function createService(options: ServiceOptions): Service {
  const { socketPath } = options;
  const agent = new Agent({
    connections: MAX_CONNECTIONS,
    allowH2: false,
    connect: socketPath === undefined ? hostConnector(options.proxy) : socketConnector(socketPath),
  });
  const dispatcher = agent.compose(interimLimit());
  const clock = options.clock ?? createSystemClock();
  const connection: Connection = { dispatcher, clock };
  const direct = options.findRun && startDirectConnections(dispatcher, options.findRun);
  const known = createAccessTable(clock);
  const time = socketPath === undefined ? createServiceTime(clock) : sameTime(clock);
  const raw = createControl({ connection, url: options.url, apiKey: options.apiKey, time });
  const control = rememberAccess(raw, known, time);

  function sourceOf(sandboxId: string): AccessSource {
    return {
      sandboxId,
      current: () => known.get(sandboxId) ?? NO_ACCESS,
      async refresh(signal) {
        const before = known.get(sandboxId)?.token;
        await control.get(sandboxId, signal);
        return known.get(sandboxId)?.token !== before;
      },
      isRunning: async (signal) => (await control.get(sandboxId, signal)).state === "running",
    };
  }

  return {
    control,
    now: () => time.now(),
    async attach(text, signal) {
      const sandboxId = parseSandboxId(text) ?? text;
      if (known.get(sandboxId) === undefined) await control.get(sandboxId, signal);
      const baseUrl = envdUrl(options, sandboxId, known.get(sandboxId)?.domain);
      const isOwnDaemon = options.socketPath !== undefined;
      return createEnvd({
        connection: direct === undefined ? connection : { dispatcher: direct.to(sandboxId), clock },
        baseUrl,
        source: sourceOf(sandboxId),
        isOwnDaemon,
      });
    },
    renewExpiry: async (sandboxId) => renewExpiry(sandboxId, { control, known, nowMs: time.now() }),
    expiresAtMs: (sandboxId) => known.get(parseSandboxId(sandboxId) ?? sandboxId)?.expiresAtMs,
    onTimeout: (sandboxId) => known.get(parseSandboxId(sandboxId) ?? sandboxId)?.onTimeout,
    portHost(sandboxId, port) {
      const domain = known.get(sandboxId)?.domain ?? options.domain;
      // Behind one base URL for all sandboxes a sandbox has no hostname.
      if (domain === undefined || options.sandboxUrl !== undefined) return undefined;
      const publicPort = options.publicUrl === undefined ? "" : new URL(options.publicUrl).port;
      return withPort(`${port}-${sandboxId}.${domain}`, publicPort);
    },
    async downloadUrl(sandboxId, file) {
      const reached = { ...options, ...(await options.openPublic?.()) };
      const { token, domain } = known.get(sandboxId) ?? NO_ACCESS;
      const base = directUrl(reached, sandboxId, domain);
      if (base === undefined) return undefined;
      const isOfSession = options.openPublic !== undefined;
      return { url: signedUrl(base, file, token), isSigned: token !== undefined, isOfSession };
    },
    async portAddress(sandboxId, port) {
      const reached = { ...options, ...(await options.openPublic?.()) };
      return portAddress(reached, { sandboxId, port }, known.get(sandboxId)?.domain);
    },
    async [Symbol.asyncDispose]() {
      await direct?.[Symbol.asyncDispose]();
      await agent.destroy();
    },
  };
}

const NO_ACCESS: Access = {
  token: undefined,
  domain: undefined,
  expiresAtMs: undefined,
  onTimeout: undefined,
};

/** Where the daemon of a sandbox answers. */
function envdUrl(
  options: ServiceOptions,
  sandboxId: string,
  ownDomain: string | undefined,
): string {
  if (options.sandboxUrl !== undefined) return options.sandboxUrl.replace(/\/+$/, "");
  if (options.socketPath !== undefined) return new URL(options.url).origin;
  const domain = ownDomain ?? options.domain;
  if (domain === undefined) return new URL(options.url).origin;
  if (SHARED_HOST_DOMAINS.has(domain)) return `https://sandbox.${domain}`;
  return `https://${formatSandboxHost({ sandboxId, port: ENVD_PORT }, domain)}`;
}

/** Where a sandbox is reached without headers, as a browser would. */
function directUrl(
  options: ServiceOptions,
  sandboxId: string,
  ownDomain: string | undefined,
): string | undefined {
  if (options.sandboxUrl !== undefined) return new URL(options.sandboxUrl).origin;
  if (options.publicUrl !== undefined) return new URL(options.publicUrl).origin;
  const domain = ownDomain ?? options.domain;
  return domain && toTlsUrl({ sandboxId, port: ENVD_PORT }, domain);
}

/** The domain of a service may name its port already. */
function withPort(host: string, port: string): string {
  return port === "" || withoutPort(host) !== host ? host : `${host}:${port}`;
}

/** Where a port is reached: by its own hostname, by headers, or both. */
function portAddress(
  options: ServiceOptions,
  address: SandboxAddress,
  ownDomain: string | undefined,
): PortAddress | undefined {
  const isOfSession = options.openPublic !== undefined;
  const headers = {
    [SANDBOX_ID_HEADER]: address.sandboxId,
    [SANDBOX_PORT_HEADER]: String(address.port),
  };
  if (options.sandboxUrl !== undefined) {
    return { url: new URL(options.sandboxUrl).origin, headers, isOfSession };
  }
  const domain = ownDomain ?? options.domain;
  if (domain === undefined) return undefined;
  if (options.publicUrl !== undefined) {
    const { protocol, port, origin } = new URL(options.publicUrl);
    const url = `${protocol}//${withPort(formatSandboxHost(address, domain), port)}`;
    return { url, headers, base: origin, isOfSession };
  }
  return { url: toTlsUrl(address, domain), isOfSession };
}

/** Without the port that TLS has by itself. */
function toTlsUrl(address: SandboxAddress, domain: string): string {
  return new URL(`https://${formatSandboxHost(address, domain)}`).origin;
}

/** A sandbox without a token is public, so its links need no signature. */
function signedUrl(base: string, file: DownloadOptions, token: string | undefined): string {
  const { path, user, expiration } = file;
  const query = new URLSearchParams({ path, ...(user !== undefined && { username: user }) });
  if (token !== undefined) {
    const signed = { path, operation: "read", username: user ?? "", expiration } as const;
    query.set("signature", signFile(signed, token));
    query.set("signature_expiration", String(expiration));
  }
  return `${base}/files?${query.toString()}`;
}
