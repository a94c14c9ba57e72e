/** Addresses of sandboxes, builds and volumes: identifiers, gateway host labels, template references. */

import { randomInt } from "node:crypto";

const ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";
const ID_CHARACTERS = 20;
/** Identifiers of builds and volumes have this form. */
export const UUID_PATTERN = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Twenty random characters of `[a-z0-9]`: 103 bits. */
export function randomId(): string {
  let id = "";
  for (let index = 0; index < ID_CHARACTERS; index += 1) {
    id += ID_ALPHABET.charAt(randomInt(ID_ALPHABET.length));
  }
  return id;
}

/** A new sandbox identifier: `i` and twenty random characters. */
export function newSandboxId(): string {
  return `i${randomId()}`;
}

const SANDBOX_ID_PATTERN = /^([a-z0-9]{1,64})(?:-[a-z0-9]{1,32})?$/;

/** The identifier without its deprecated client suffix; undefined when it is malformed. */
export function parseSandboxId(text: string): string | undefined {
  return SANDBOX_ID_PATTERN.exec(text)?.[1];
}

const PORT_PATTERN = /^[1-9][0-9]{0,4}$/;
const MAX_PORT = 65_535;

/** A TCP port, 1 to 65,535; undefined when it is malformed. */
export function parsePort(text: string): number | undefined {
  if (!PORT_PATTERN.test(text)) return undefined;
  const port = Number(text);
  return port <= MAX_PORT ? port : undefined;
}

/** A port inside a sandbox, as the gateway addresses it. */
export interface SandboxAddress {
  readonly sandboxId: string;
  readonly port: number;
}

/** The host under which a port of a sandbox is reached, without a scheme. */
export function formatSandboxHost(address: SandboxAddress, domain: string): string {
  return `${address.port}-${address.sandboxId}.${domain}`;
}

/** `{port}-{sandboxID}[-{clientID}].<domain>[:port]` as an address; undefined when it is none. */
export function parseSandboxHost(host: string, domain: string): SandboxAddress | undefined {
  const name = withoutPort(host).toLowerCase();
  const suffix = `.${withoutPort(domain).toLowerCase()}`;
  if (!name.endsWith(suffix)) return undefined;
  const label = name.slice(0, -suffix.length);
  const dash = label.indexOf("-");
  if (dash === -1) return undefined;
  const port = parsePort(label.slice(0, dash));
  const sandboxId = parseSandboxId(label.slice(dash + 1));
  return port === undefined || sandboxId === undefined ? undefined : { sandboxId, port };
}

/** A host without its port; a bracketed IPv6 address keeps its brackets. */
export function withoutPort(host: string): string {
  return host.replace(/:[0-9]{0,5}$/, "");
}

const DEFAULT_PORTS = { http: 80, https: 443 } as const;

/**
 * The domain as clients write it, so that what they build on it is reached: with the port of the
 * listener, unless the domain names one or the scheme implies it.
 */
export function withPublicPort(
  domain: string,
  scheme: keyof typeof DEFAULT_PORTS,
  port: number | undefined,
): string {
  const hasPort = withoutPort(domain) !== domain;
  if (hasPort || port === undefined || port === DEFAULT_PORTS[scheme]) return domain;
  return `${domain}:${port}`;
}

/** `[namespace/]alias[:tag]` or `templateID[:tag]`, in parts. */
export interface TemplateReference {
  readonly namespace?: string;
  readonly alias: string;
  readonly tag?: string;
}

const REFERENCE_PATTERN =
  /^(?:([a-z0-9_-]{1,128})\/)?([a-z0-9_-]{1,128})(?::([a-z0-9_.-]{1,128}))?$/;

/** A template or snapshot reference in parts; undefined when it is malformed. */
export function parseTemplateReference(text: string): TemplateReference | undefined {
  const match = REFERENCE_PATTERN.exec(text.trim().toLowerCase());
  if (match === null) return undefined;
  const [, namespace, alias = "", tag] = match;
  return { ...(namespace && { namespace }), alias, ...(tag && { tag }) };
}
