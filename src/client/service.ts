/** A sandbox service, embedded or remote: its control API and the sandboxes behind it. */

import { Agent } from "undici";
import { createSystemClock, type Clock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import { formatSandboxHost, parseSandboxId, type SandboxAddress } from "../wire/address.ts";
import type { SandboxBody } from "../wire/control.ts";
import { ENVD_PORT, SANDBOX_ID_HEADER, SANDBOX_PORT_HEADER } from "../wire/headers.ts";
import { signFile } from "../wire/signature.ts";
import type { Access, AccessSource } from "./access.ts";
import { createControl, type Control } from "./control.ts";
import { startDirectConnections, type FindRun } from "./direct-connection.ts";
import { createEnvd, type Sandbox } from "./envd.ts";
import type { Connection } from "./http.ts";

export interface ServiceOptions {
  /** Base of the control API, such as `http://localhost` or `https://api.e2b.app`. */
  readonly url: string;
  readonly apiKey: string;
  /** Unix socket through which control API and gateway are reached, whatever the URL's host. */
  readonly socketPath?: string | undefined;
  /** One base for all traffic to sandboxes, which is told apart by headers alone. */
  readonly sandboxUrl?: string | undefined;
  /** Domain of gateway hosts; a sandbox's own domain goes before it. */
  readonly domain?: string | undefined;
  /**
   * Where others reach the service that a unix socket leads to, for links to hand out: such as
   * `http://127.0.0.1:3490`.
   */
  readonly publicUrl?: string | undefined;
  /** Where the service is this very process: its running sandboxes, to be reached directly. */
  readonly findRun?: FindRun | undefined;
  readonly clock?: Clock;
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
  /** What every request must carry where the host of the URL does not name the sandbox. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Another base for where the host is not known to the name service; it needs the headers. */
  readonly base?: string;
}

/** A service; its end closes every connection and breaks every stream. */
export interface Service extends AsyncDisposable {
  readonly control: Control;
  /**
   * A sandbox that exists, by one control call unless this service knows it already.
   * @throws SandboxError not_found when there is none, invalid_argument for a malformed id.
   */
  attach(sandboxId: string, signal: AbortSignal): Promise<Sandbox>;
  /** When the sandbox ends by itself, as last heard, in Unix milliseconds. */
  expiresAtMs(sandboxId: string): number | undefined;
  /** Host under which a port of the sandbox is reached; undefined where no domain is known. */
  portHost(sandboxId: string, port: number | "{port}"): string | undefined;
  /**
   * A link by which anybody can read one file for a while; undefined where the service has no
   * address that others reach. Neither file nor sandbox is looked at, but it must be attached.
   */
  downloadUrl(sandboxId: string, file: DownloadOptions): string | undefined;
  /** Undefined where the service has no address that others reach. */
  portAddress(sandboxId: string, port: number): PortAddress | undefined;
}

/** Connections to one origin: each running process holds one of them. */
const MAX_CONNECTIONS = 512;
/** Beyond it the sandbox that was used least recently is asked for again when it is needed. */
const MAX_KNOWN_SANDBOXES = 4_096;
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
  const dispatcher = new Agent({
    connections: MAX_CONNECTIONS,
    allowH2: false,
    ...(socketPath !== undefined && { connect: { socketPath } }),
  });
  const clock = options.clock ?? createSystemClock();
  const connection: Connection = { dispatcher, clock };
  const near = options.findRun && startDirectConnections(dispatcher, options.findRun);
  const known = createAccessTable();
  const raw = createControl({ connection, url: options.url, apiKey: options.apiKey });
  const control = rememberAccess(raw, known, clock);

  function sourceOf(sandboxId: string): AccessSource {
    return {
      sandboxId,
      current: () => known.get(sandboxId) ?? NO_ACCESS,
      async refresh(signal) {
        const before = known.get(sandboxId)?.token;
        await control.get(sandboxId, signal);
        return known.get(sandboxId)?.token !== before;
      },
    };
  }

  return {
    control,
    async attach(text, signal) {
      const sandboxId = parseSandboxId(text) ?? text;
      if (known.get(sandboxId) === undefined) await control.get(sandboxId, signal);
      const baseUrl = envdUrl(options, sandboxId, known.get(sandboxId)?.domain);
      const isOurs = options.socketPath !== undefined;
      return createEnvd({
        connection: near === undefined ? connection : { dispatcher: near.to(sandboxId), clock },
        baseUrl,
        source: sourceOf(sandboxId),
        isOurs,
      });
    },
    expiresAtMs: (sandboxId) => known.get(parseSandboxId(sandboxId) ?? sandboxId)?.expiresAtMs,
    portHost(sandboxId, port) {
      const domain = known.get(sandboxId)?.domain ?? options.domain;
      // Behind one base for all sandboxes no host of its own leads to any of them.
      if (domain === undefined || options.sandboxUrl !== undefined) return undefined;
      const publicPort = options.publicUrl === undefined ? "" : new URL(options.publicUrl).port;
      return `${port}-${sandboxId}.${domain}${publicPort === "" ? "" : `:${publicPort}`}`;
    },
    downloadUrl(sandboxId, file) {
      const { token, domain } = known.get(sandboxId) ?? NO_ACCESS;
      const base = directUrl(options, sandboxId, domain);
      return base === undefined ? undefined : signedUrl(base, file, token);
    },
    portAddress: (sandboxId, port) =>
      portAddress(options, { sandboxId, port }, known.get(sandboxId)?.domain),
    async [Symbol.asyncDispose]() {
      await near?.[Symbol.asyncDispose]();
      await dispatcher.destroy();
    },
  };
}

const NO_ACCESS: Access = { token: undefined, domain: undefined, expiresAtMs: undefined };

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
  if (options.socketPath !== undefined || domain === undefined) return undefined;
  return `https://${formatSandboxHost({ sandboxId, port: ENVD_PORT }, domain)}`;
}

/** Where a port is reached: by a host of its own, by headers, or both. */
function portAddress(
  options: ServiceOptions,
  address: SandboxAddress,
  ownDomain: string | undefined,
): PortAddress | undefined {
  const headers = {
    [SANDBOX_ID_HEADER]: address.sandboxId,
    [SANDBOX_PORT_HEADER]: String(address.port),
  };
  if (options.sandboxUrl !== undefined) {
    return { url: new URL(options.sandboxUrl).origin, headers };
  }
  const domain = ownDomain ?? options.domain;
  if (domain === undefined) return undefined;
  const host = formatSandboxHost(address, domain);
  if (options.publicUrl !== undefined) {
    const { protocol, port, origin } = new URL(options.publicUrl);
    const url = `${protocol}//${host}${port === "" ? "" : `:${port}`}`;
    return { url, headers, base: origin };
  }
  return options.socketPath === undefined ? { url: `https://${host}` } : undefined;
}

/** A sandbox without a token is open to everybody, so its links need no signature. */
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

interface AccessTable {
  get(sandboxId: string): Access | undefined;
  set(sandboxId: string, access: Access): void;
  delete(sandboxId: string): void;
}

/** The sandboxes that were used last. */
function createAccessTable(): AccessTable {
  const table = new Map<string, Access>();
  return {
    get: (sandboxId) => table.get(sandboxId),
    set(sandboxId, access) {
      table.delete(sandboxId);
      table.set(sandboxId, access);
      const oldest = table.size > MAX_KNOWN_SANDBOXES ? table.keys().next().value : undefined;
      if (oldest !== undefined) table.delete(oldest);
    },
    delete: (sandboxId) => void table.delete(sandboxId),
  };
}

/** The control API, with what its replies say about access kept in a table. */
function rememberAccess(control: Control, known: AccessTable, clock: Clock): Control {
  function remember(body: SandboxBody, timeoutSeconds: number | undefined): void {
    const seconds = timeoutSeconds ?? 0;
    const before = known.get(body.sandboxID)?.expiresAtMs ?? 0;
    const after = clock.now() + seconds * 1_000;
    known.set(body.sandboxID, {
      token: body.envdAccessToken ?? undefined,
      domain: body.domain ?? undefined,
      // A connect never shortens a life.
      expiresAtMs: timeoutSeconds === undefined ? undefined : Math.max(before, after),
    });
  }
  return {
    ...control,
    async create(request, signal) {
      const body = await control.create(request, signal);
      remember(body, request.timeout);
      return body;
    },
    async connect(sandboxId, timeoutSeconds, signal) {
      const reply = await control.connect(sandboxId, timeoutSeconds, signal);
      remember(reply.sandbox, timeoutSeconds);
      return reply;
    },
    async get(sandboxId, signal) {
      const body = await control.get(sandboxId, signal).catch((error: unknown) => {
        if (error instanceof SandboxError && error.code === "not_found") known.delete(sandboxId);
        throw error;
      });
      const endAtMs = Date.parse(body.endAt);
      known.set(body.sandboxID, {
        token: body.envdAccessToken ?? undefined,
        domain: body.domain ?? undefined,
        // The life of a paused sandbox does not run out.
        expiresAtMs: Number.isNaN(endAtMs) || body.state === "paused" ? undefined : endAtMs,
      });
      return body;
    },
    async setTimeout(sandboxId, timeoutSeconds, signal) {
      await control.setTimeout(sandboxId, timeoutSeconds, signal);
      const access = known.get(sandboxId);
      // Only the service knows the time that counts.
      if (access !== undefined) known.set(sandboxId, { ...access, expiresAtMs: undefined });
    },
    async pause(sandboxId, keepsMemory, signal) {
      const wasRunning = await control.pause(sandboxId, keepsMemory, signal);
      const access = known.get(sandboxId);
      if (access !== undefined) known.set(sandboxId, { ...access, expiresAtMs: undefined });
      return wasRunning;
    },
    async fork(sandboxId, wish, signal) {
      const results = await control.fork(sandboxId, wish, signal);
      for (const { sandbox } of results) {
        if (sandbox !== undefined) remember(sandbox, wish.timeout);
      }
      return results;
    },
    async kill(sandboxId, signal) {
      const wasThere = await control.kill(sandboxId, signal);
      known.delete(sandboxId);
      return wasThere;
    },
  };
}
