/** `stdio`: the MCP server for one host, over the service that the configuration names. */

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createService, type Service } from "../client/service.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { Config } from "../config.ts";
import { selectTools } from "../mcp/selection.ts";
import { startMcpState } from "../mcp/state.ts";
import { serveMcpStdio } from "../mcp/stdio.ts";
import type { Tool } from "../mcp/tool.ts";
import { TOOLS } from "../mcp/tools/index.ts";
import { withoutService } from "../mcp/unserved.ts";
import { doorPath, isAlive } from "../sandboxes/reclaim.ts";
import { findAddress } from "./address.ts";
import type { CommandContext } from "./command.ts";
import { VERSION } from "./help.ts";
import { startLocal } from "./local.ts";
import { SERVE_INSTANCE } from "./serve.ts";
import { listenForStops } from "./stops.ts";

const EXIT_OK = 0;
const DEFAULT_REMOTE_DOMAIN = "e2b.app";
/** One agent starts its sandboxes one after the other. */
const DEFAULT_POOL = 1;

export async function runStdio({ config, log }: CommandContext): Promise<number> {
  using stops = listenForStops();
  await using stack = new AsyncDisposableStack();
  const selected = selectTools(TOOLS, config.tools);
  const { service, onExit, tools } = canServe(config)
    ? { ...(await openService(config, log, stack)), tools: selected }
    : openNoService(selected, stack);
  const state = stack.use(startMcpState({ service, log, onExit }));
  const end = await serveMcpStdio({
    state,
    tools,
    version: VERSION,
    protocol: config.protocol,
    stdin: process.stdin,
    stdout: process.stdout,
    signal: stops.signal,
    parentPid: () => process.ppid,
  });
  log.info({ op: "stdio", end }, "session over");
  // Whatever the host still sends must not keep the process alive.
  process.stdin.destroy();
  return EXIT_OK;
}

/** Containers are a thing of Linux. */
function canServe(config: Config): boolean {
  return config.engine === "remote" || process.platform === "linux";
}

/** A server that starts all the same: the tools themselves say what is missing. */
function openNoService(selected: readonly Tool[], stack: AsyncDisposableStack) {
  // Nothing is ever sent to it.
  const service = stack.use(createService({ url: "http://localhost", apiKey: "" }));
  const tools = withoutService(selected, {
    reason: `sandboxes run on Linux only, this is ${process.platform}`,
    hint:
      "Tell the user the two ways on: set E2B_API_KEY to the key of an E2B-compatible service, " +
      "or run `npx -y sandbox-mcp serve` on a Linux machine or VM and set E2B_API_URL, " +
      "E2B_SANDBOX_URL and E2B_API_KEY to what it prints.",
  });
  return { service, onExit: "leave" as const, tools };
}

interface OpenService {
  readonly service: Service;
  /** What the MCP server itself does with the sandboxes that it made. */
  readonly onExit: "kill" | "leave";
}

async function openService(
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
  const { url, socketPath, apiKey } = local;
  // The embedded service ends with this process, and its sandboxes with it.
  return { service: stack.use(createService({ url, socketPath, apiKey })), onExit: "leave" };
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
