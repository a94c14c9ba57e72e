/** The endpoint `/mcp` of `serve`: it speaks to this service like any client, for each team apart. */

import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { createService } from "../client/service.ts";
import type { Logger } from "../common/log.ts";
import type { Config } from "../config.ts";
import { createConformanceFixtures } from "../dev/conformance-fixtures.ts";
import { bearerOf, startMcpHttp, type McpHttp } from "../mcp/http.ts";
import { selectTools } from "../mcp/selection.ts";
import { startMcpState } from "../mcp/state.ts";
import { TOOLS } from "../mcp/tools/index.ts";
import type { KeyCheck } from "../sandboxes/keys.ts";
import { DEFAULT_TEAM } from "../store/store.ts";
import { VERSION } from "./command.ts";
import type { PrivateListener } from "./embedded-service.ts";
import { localSpoolFolder } from "./spool-folders.ts";

export interface ServeMcpOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly listener: PrivateListener;
  readonly keys: KeyCheck;
  /** Where others reach this service. */
  readonly publicUrl: string;
}

/** Starts it; what a team captured, watches and logs is kept apart from that of every other. */
export function startServeMcp(options: ServeMcpOptions): McpHttp {
  const stack = new AsyncDisposableStack();
  const endpoints = new Map<string, McpHttp>();

  /** One for each team that has called; the default team's refuses requests without a key. */
  function endpointOf(request: IncomingMessage): McpHttp {
    const team = options.keys.teamOf(bearerOf(request) ?? "") ?? DEFAULT_TEAM;
    const known = endpoints.get(team);
    if (known !== undefined) return known;
    const endpoint = startEndpoint(options, team, stack);
    endpoints.set(team, endpoint);
    return endpoint;
  }

  return {
    handle: (request, response) => endpointOf(request).handle(request, response),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** @throws SandboxError invalid_argument for tools that no endpoint could offer */
export function requireTools({ tools }: Config): void {
  selectTools(TOOLS, tools);
}

function startEndpoint(
  { config, log, listener, keys, publicUrl }: ServeMcpOptions,
  team: string,
  stack: AsyncDisposableStack,
): McpHttp {
  const { domain } = config;
  const apiKey = team === DEFAULT_TEAM ? listener.apiKey : keys.issue(team);
  const service = stack.use(createService({ ...listener, apiKey, publicUrl, domain }));
  // A sandbox made over HTTP outlives the connection; its time to live ends it.
  const spoolFolder = localSpoolFolder(config.home, team);
  const state = stack.use(
    startMcpState({ service: () => service, log, spoolFolder, onExit: () => "leave" }),
  );
  return stack.use(
    startMcpHttp({
      state,
      tools: selectTools(TOOLS, config.tools),
      version: VERSION,
      protocol: config.protocol,
      authenticate: (token) =>
        Promise.resolve(keys.teamOf(token) === team ? principalOf(token) : undefined),
      conformance: config.isConformance ? createConformanceFixtures() : undefined,
    }),
  );
}

/** Tells the holders of different keys apart without keeping a key. */
function principalOf(token: string): string {
  return createHash("sha256").update(token, "utf8").digest("hex");
}
