/**
 * Who answers a request: decided by host, headers and path alone, for requests and upgrades alike.
 * What is not plainly ours is refused; a page of another site can send anything but our Host.
 */

import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import {
  parsePort,
  parseSandboxHost,
  parseSandboxId,
  withoutPort,
  type SandboxAddress,
} from "../wire/address.ts";
import { faultOfConnection } from "../wire/connection.ts";
import { ENVD_PORT, SANDBOX_ID_HEADER, SANDBOX_PORT_HEADER } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";

export type Destination =
  | { readonly kind: "refused"; readonly message: string }
  | {
      readonly kind: "gateway";
      readonly address: SandboxAddress;
      /** Whether the host itself names the sandbox: such a host is an origin of its own. */
      readonly hasOwnHost: boolean;
    }
  /** A file or an RPC of a sandbox that nothing names. */
  | { readonly kind: "unaddressed" }
  | { readonly kind: "mcp" }
  | { readonly kind: "health" }
  | { readonly kind: "metrics" }
  /** A page of another site asks, whatever it knows: no browser may be led to a listener of ours. */
  | { readonly kind: "foreign-page" }
  /** A host looks for a way to log in, which there is not: only a key. */
  | { readonly kind: "login-probe" }
  | { readonly kind: "control" };

export interface RequestHead {
  /** As sent, with its query. */
  readonly target: string;
  /** Every value of the header. */
  readonly hosts: readonly string[];
  readonly origins: readonly string[];
  readonly sandboxIds: readonly string[];
  readonly sandboxPorts: readonly string[];
}

/** Who answers a request; first of all, it must be one request to every reader. */
export function dispatchRequest(request: IncomingMessage, domain: string): Destination {
  const fault = faultOfConnection(request);
  return fault === undefined ? dispatch(readHead(request), domain) : refuse(fault);
}

/**
 * Who answers an upgrade. One with a body is refused: where the body ends and the other protocol
 * begins, the client and the service inside would have to agree.
 */
export function dispatchUpgrade(request: IncomingMessage, domain: string): Destination {
  const { "content-length": length = "0", "transfer-encoding": coding } = request.headers;
  if (Number(length) !== 0 || coding !== undefined) return refuse("Invalid upgrade: it has a body");
  return dispatchRequest(request, domain);
}

function readHead(request: IncomingMessage): RequestHead {
  const headers = request.headersDistinct;
  return {
    target: request.url ?? "",
    hosts: headers.host ?? [],
    origins: headers.origin ?? [],
    sandboxIds: headers[SANDBOX_ID_HEADER] ?? [],
    sandboxPorts: headers[SANDBOX_PORT_HEADER] ?? [],
  };
}

const INVALID_HOST = "Invalid host";
const HOST_PATTERN = /^(?:\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?$/i;
const MAX_PORT = 65_535;

export function dispatch(head: RequestHead, domain: string): Destination {
  const [host = ""] = head.hosts;
  if (head.hosts.length !== 1 || !isHost(host)) return refuse(INVALID_HOST);
  // An absolute target would name a second host.
  if (!head.target.startsWith("/")) return refuse("Invalid request target");
  const name = withoutPort(host).toLowerCase();
  const site = withoutPort(domain).toLowerCase();
  const isShared = isLoopbackName(name) || name === `sandbox.${site}`;
  if (!isShared && name !== site && name !== `api.${site}`) return byLabel(name, host, domain);
  const isAddressed = head.sandboxIds.length + head.sandboxPorts.length > 0;
  const destination = isShared && isAddressed ? byHeaders(head) : byPath(head.target);
  if (!isForOwnPagesAlone(destination, head.target)) return destination;
  return head.origins.every((origin) => isOwnOrigin(origin, host))
    ? destination
    : { kind: "foreign-page" };
}

function isHost(host: string): boolean {
  const parts = HOST_PATTERN.exec(host);
  return parts !== null && Number(parts[1] ?? 0) <= MAX_PORT;
}

/** What pages of other sites may not even ask; those of a sandbox have hosts of their own. */
const OWN_PAGES_ALONE: ReadonlySet<Destination["kind"]> = new Set(["control", "mcp", "metrics"]);

/** A file that neither an address nor a signature names needs no secret: it may be of an open sandbox. */
function isForOwnPagesAlone({ kind }: Destination, target: string): boolean {
  if (kind !== "unaddressed") return OWN_PAGES_ALONE.has(kind);
  return !new URLSearchParams(target.split("?").slice(1).join("?")).has("signature");
}

/** Host and port must be those that were asked; the names of loopback are one. */
function isOwnOrigin(origin: string, host: string): boolean {
  const site = /^https?:\/\/([^/@]+)$/i.exec(origin)?.[1] ?? "";
  return site !== "" && (isSame(site, host) || isSame(toLocalhost(site), toLocalhost(host)));
}

function isSame(left: string, right: string): boolean {
  return left.toLowerCase() === right.toLowerCase();
}

function toLocalhost(site: string): string {
  return site.replace(/^(?:127\.0\.0\.1|\[::1\])(?=$|:)/, "localhost");
}

/** A name that no site on the network can have. */
function isLoopbackName(name: string): boolean {
  return name === "localhost" || isIP(name.replaceAll(/[[\]]/g, "")) !== 0;
}

function byLabel(name: string, host: string, domain: string): Destination {
  const address = parseSandboxHost(host, domain);
  if (address !== undefined) return { kind: "gateway", address, hasOwnHost: true };
  const site = withoutPort(domain).toLowerCase();
  if (!name.endsWith(`.${site}`)) return refuse(INVALID_HOST);
  const label = name.slice(0, -site.length - 1);
  const dash = label.indexOf("-");
  if (dash === -1 || label.includes(".")) return refuse(INVALID_HOST);
  const isPortGood = parsePort(label.slice(0, dash)) !== undefined;
  return refuse(isPortGood ? MESSAGES.invalidSandboxId : "Invalid sandbox port");
}

function byHeaders({ target, sandboxIds, sandboxPorts }: RequestHead): Destination {
  const [id] = sandboxIds;
  const [port] = sandboxPorts;
  if (id === undefined || port === undefined) return refuse("missing header");
  const sandboxId = sandboxIds.length === 1 ? parseSandboxId(id) : undefined;
  if (sandboxId === undefined) return refuse(MESSAGES.invalidSandboxId);
  const number = sandboxPorts.length === 1 ? parsePort(port) : undefined;
  if (number === undefined) return refuse("Invalid sandbox port");
  // Python clients up to 2.25 name the daemon in this call of the control API, which no daemon has.
  if (number === ENVD_PORT && target === `/sandboxes/${id}/connect`) return byPath(target);
  return { kind: "gateway", address: { sandboxId, port: number }, hasOwnHost: false };
}

const SERVICE_PREFIXES = ["/filesystem.Filesystem/", "/process.Process/"];

/** Where MCP hosts look for a server that issues tokens, and where they would register with it. */
const LOGIN_PATTERN = /^(?:\/mcp)?(?:\/\.well-known\/|\/(?:register|authorize|token)$)/;

function byPath(target: string): Destination {
  const [path = ""] = target.split("?", 1);
  if (path === "/files" || path.startsWith("/files/")) return { kind: "unaddressed" };
  if (SERVICE_PREFIXES.some((prefix) => path.startsWith(prefix))) return { kind: "unaddressed" };
  if (path === "/mcp") return { kind: "mcp" };
  if (path === "/health") return { kind: "health" };
  if (path === "/metrics") return { kind: "metrics" };
  if (LOGIN_PATTERN.test(path)) return { kind: "login-probe" };
  return { kind: "control" };
}

function refuse(message: string): Destination {
  return { kind: "refused", message };
}
