/** The service that a stdio server speaks to: a remote one, a running `serve`, its own, or none. */

import { createService, type Service } from "../client/service.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { Config } from "../config.ts";

const DEFAULT_REMOTE_DOMAIN = "e2b.app";

export interface OpenService {
  readonly service: Service;
  /** What the MCP server itself does with the sandboxes that it made. */
  readonly onExit: "kill" | "leave";
}

/** Why there is no service after all, and what a tool says then. */
export interface NoService {
  readonly reason: string;
  readonly hint: string;
}

/**
 * The service for this configuration, owned by the stack.
 * @throws SandboxError failed_precondition for a configuration that cannot hold, unavailable for a
 * runtime that was asked for and does not work.
 */
export async function openService(
  config: Config,
  log: Logger,
  stack: AsyncDisposableStack,
): Promise<OpenService | NoService> {
  if (config.engine === "remote") {
    const service = stack.use(createRemoteService(config));
    return { service, onExit: config.onExit ?? "leave" };
  }
  // Who speaks to a service elsewhere loads nothing of one here.
  const { openLocalService } = await import("./open-local-service.ts");
  return openLocalService(config, log, stack);
}

function createRemoteService(config: Config): Service {
  if (config.remote === undefined) {
    throw new SandboxError("failed_precondition", "the remote engine needs a key", {
      hint: "set E2B_API_KEY, or use --engine local",
    });
  }
  const { apiKey, apiUrl, sandboxUrl, domain = DEFAULT_REMOTE_DOMAIN } = config.remote;
  return createService({ url: apiUrl ?? `https://api.${domain}`, apiKey, sandboxUrl, domain });
}
