/** A service on this machine for a stdio server: a running `serve`, its own, or none. */

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createService, type Service } from "../client/service.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { Config } from "../config.ts";
import { controlSocketPath, isAlive } from "../sandboxes/reclaim.ts";
import { startLocal } from "./local-service.ts";
import type { NoService, OpenService } from "./open-service.ts";
import { awaitAddress, SERVE_INSTANCE } from "./serve-address.ts";

/** One agent starts its sandboxes one after the other. */
const DEFAULT_POOL = 1;

/** @throws SandboxError as `openService`. */
export async function openLocalService(
  config: Config,
  log: Logger,
  stack: AsyncDisposableStack,
): Promise<OpenService | NoService> {
  const running = await findRunningService(config);
  if (running !== undefined) {
    return { service: stack.use(running), onExit: config.onExit ?? "leave" };
  }
  if (process.platform !== "linux") {
    return {
      reason: `sandboxes run on Linux only, this is ${process.platform}`,
      hint: `Tell the user the two ways on: ${ELSEWHERE}`,
    };
  }
  try {
    return await openLocal(config, log, stack);
  } catch (error) {
    // What the user asked for by name must work; else a host gets tools that say what is missing.
    if (!isAbsence(error) || config.runtime !== "auto") throw error;
    const hint = `Tell the user the ways on: here, ${error.hint}; or elsewhere: ${ELSEWHERE}`;
    return { reason: error.message, hint };
  }
}

const ELSEWHERE =
  "set E2B_API_KEY to the key of an E2B-compatible service, or run " +
  "`npx -y sandbox-mcp serve` on a Linux machine or VM and set E2B_API_URL, " +
  "E2B_SANDBOX_URL and E2B_API_KEY to what it prints.";

function isAbsence(error: unknown): error is SandboxError {
  return error instanceof SandboxError && error.code === "unavailable";
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

/**
 * A running `serve` of the same home and user, once it answers; undefined where there is none, or
 * where it ended while it was starting.
 */
async function findRunningService(config: Config): Promise<Service | undefined> {
  const { home } = config;
  if (!(await isAlive(home, SERVE_INSTANCE))) return undefined;
  const address = await awaitAddress(home, SERVE_INSTANCE);
  if (address === undefined && !(await isAlive(home, SERVE_INSTANCE))) return undefined;
  const socketPath = controlSocketPath(home, SERVE_INSTANCE);
  const apiKey = await readFile(join(dirname(socketPath), "token"), "utf8");
  return createService({ url: "http://localhost", socketPath, apiKey, ...address });
}
