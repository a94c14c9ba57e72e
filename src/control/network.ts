/** Checks of the network object of a request. */

import { SandboxError } from "../common/errors.ts";
import { checkEgress } from "../sandboxes/egress.ts";
import type { Network } from "../wire/control.ts";
import { ENVD_PORT } from "../wire/headers.ts";

const MAX_HTTPS_PORTS = 128;
const MAX_PORT = 65_535;
const HOST_PATTERN = /^[a-z0-9.${}_-]{1,253}(?::(?:[0-9]{1,5}|\$\{PORT\}))?$/i;
// eslint-disable-next-line no-control-regex -- the range is the definition of ASCII
const ASCII_PATTERN = /^[\x00-\x7F]*$/;

/** @throws SandboxError invalid_argument for a faulty entry, permission_denied for a proxy. */
export function checkNetwork(network: Omit<Network, "allowPublicTraffic">): void {
  checkEgressRules(network, "network.egressProxy");
  checkHttpsPorts(network.httpsPorts ?? []);
  if (network.maskRequestHost !== undefined) checkMaskedHost(network.maskRequestHost);
}

/**
 * Checks what a sandbox may reach.
 * @throws SandboxError invalid_argument for a faulty entry, permission_denied for a proxy.
 */
export function checkEgressRules(
  rules: Pick<Network, "allowOut" | "denyOut" | "rules" | "egressProxy">,
  proxyField: string,
): void {
  if (rules.rules !== undefined) {
    refuse("Network transform rules are not available for your team.");
  }
  if (rules.egressProxy !== undefined && rules.egressProxy !== null) {
    throw new SandboxError(
      "permission_denied",
      `Egress proxy (${proxyField}) is not enabled for this team.`,
    );
  }
  checkEgress(rules);
}

function checkHttpsPorts(ports: readonly number[]): void {
  if (ports.length > MAX_HTTPS_PORTS) {
    refuse(`HTTPS ports can have at most ${MAX_HTTPS_PORTS} entries.`);
  }
  for (const [index, port] of ports.entries()) {
    if (port < 1 || port > MAX_PORT)
      refuse(`HTTPS port must be between 1 and ${MAX_PORT}: ${port}`);
    if (ports.indexOf(port) !== index) refuse(`HTTPS port ${port} is specified more than once.`);
    if (port === ENVD_PORT) {
      refuse(`HTTPS backend routing is not supported for reserved port ${ENVD_PORT}`);
    }
  }
}

function checkMaskedHost(host: string): void {
  if (!ASCII_PATTERN.test(host)) {
    refuse(`mask request host '${host}' is not ASCII. Please use ASCII characters only.`);
  }
  if (!HOST_PATTERN.test(host)) refuse(`mask request host is not valid: ${host}`);
}

function refuse(message: string): never {
  throw new SandboxError("invalid_argument", message);
}
