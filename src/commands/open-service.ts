/** The service that a stdio server speaks to: a remote one, a running `serve`, its own, or none. */

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createService, type Service } from "../client/service.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { Config } from "../config.ts";
import { doorPath, isAlive } from "../sandboxes/reclaim.ts";
import { findAddress } from "./address.ts";
import { startLocal } from "./local.ts";
import { SERVE_INSTANCE } from "./serve.ts";

const DEFAULT_REMOTE_DOMAIN = "e2b.app";
/** One agent starts its sandboxes one after the other. */
const DEFAULT_POOL = 1;

export interface OpenService {
  readonly service: Service;
  /** What the MCP server itself does with the sandboxes that it made. */
  readonly onExit: "kill" | "leave";
  /** Why there is no service after all; nothing may be sent to it then. */
  readonly absence?: Absence;
}

/** What a tool says where no sandbox can run. */
export interface Absence {
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
): Promise<OpenService> {
  if (config.engine === "remote") {
    const service = stack.use(createRemoteService(config));
    return { service, onExit: config.onExit ?? "leave" };
  }
  if (await isAlive(config.home, SERVE_INSTANCE)) {
    const service = stack.use(await createRunningService(config));
    return { service, onExit: config.onExit ?? "leave" };
  }
  if (process.platform !== "linux") {
    return openNothing(stack, {
      reason: `sandboxes run on Linux only, this is ${process.platform}`,
      hint: `Tell the user the two ways on: ${ELSEWHERE}`,
    });
  }
  try {
    return await openLocal(config, log, stack);
  } catch (error) {
    // What the user asked for by name must work; else a host gets tools that say what is missing.
    if (!isAbsence(error) || config.runtime !== "auto") throw error;
    const hint = `Tell the user the ways on: here, ${error.hint}; or elsewhere: ${ELSEWHERE}`;
    return openNothing(stack, { reason: error.message, hint });
  }
}

const ELSEWHERE =
  "set E2B_API_KEY to the key of an E2B-compatible service, or run " +
  "`npx -y sandbox-mcp serve` on a Linux machine or VM and set E2B_API_URL, " +
  "E2B_SANDBOX_URL and E2B_API_KEY to what it prints.";

function isAbsence(error: unknown): error is SandboxError {
  return error instanceof SandboxError && error.code === "unavailable";
}

function openNothing(stack: AsyncDisposableStack, absence: Absence): OpenService {
  const service = stack.use(createService({ url: "http://localhost", apiKey: "" }));
  return { service, onExit: "leave", absence };
}

async function openLocal(
  config: Config,
  log: Logger,
  stack: AsyncDisposableStack,
): Promise<OpenService> {
  const local = stack.use(
    await startLocal(config, log, {
      instance: undefined,
      tcp: [],
      apiKeys: [],
      onExit: config.onExit ?? "kill",
      poolSize: config.pool ?? DEFAULT_POOL,
      allowHostTemplate: config.allowHostTemplate ?? true,
    }),
  );
  const { url, socketPath, apiKey, findRun } = local;
  const service = stack.use(createService({ url, socketPath, apiKey, findRun }));
  // The embedded service ends with this process, and its sandboxes with it.
  return { service, onExit: "leave" };
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

/** A running `serve` of the same home and user. */
async function createRunningService(config: Config): Promise<Service> {
  const socketPath = doorPath(config.home, SERVE_INSTANCE);
  const apiKey = await readFile(join(dirname(socketPath), "token"), "utf8");
  const address = await findAddress(config.home, SERVE_INSTANCE);
  return createService({ url: "http://localhost", socketPath, apiKey, ...address });
}
