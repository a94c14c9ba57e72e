/** The endpoint `/mcp` of `serve`: it speaks to this service like any client, for each team apart. */

import type { IncomingMessage } from "node:http";
import { createService } from "../../client/service.ts";
import { sha256Hex } from "../../common/hash.ts";
import type { Logger } from "../../common/log.ts";
import type { Config } from "../../config.ts";
import { createConformanceFixtures } from "../../dev/conformance-fixtures.ts";
import { bearerOf, startMcpHttp, type McpHttp } from "../../mcp/http/http.ts";
import { selectTools } from "../../mcp/selection.ts";
import { startMcpState } from "../../mcp/state.ts";
import { TOOLS } from "../../mcp/tools/index.ts";
import type { KeyCheck } from "../../sandboxes/keys.ts";
import { DEFAULT_TEAM } from "../../store/store.ts";
import { VERSION } from "../program/command.ts";
import type { PrivateListener } from "../service/embedded-service.ts";
import { localSpoolFolder } from "../service/spool-folders.ts";

export interface ServeMcpOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly listener: PrivateListener;
  readonly keys: KeyCheck;
  /** Where others reach this service; without it, at the hosts of its domain, over TLS. */
  readonly publicUrl: string | undefined;
}

/** Starts it; what a team captured, watches and logs is kept apart from that of every other. */
export function startServeMcp(options: ServeMcpOptions): McpHttp {
  const { keys, log } = options;
  const endpoints = new Map<string, McpHttp>();
  const ends = new Set<Promise<void>>();

  /** One for each team that has called; the default team's refuses requests without a key. */
  function endpointOf(request: IncomingMessage): McpHttp {
    const team = keys.teamOf(bearerOf(request) ?? "") ?? DEFAULT_TEAM;
    const known = endpoints.get(team);
    if (known !== undefined) return known;
    endUnused();
    const endpoint = startEndpoint(options, team);
    endpoints.set(team, endpoint);
    return endpoint;
  }

  /** Teams come and go: there is no client of one whose last key was revoked. */
  function endUnused(): void {
    const used = new Set([DEFAULT_TEAM, ...keys.teams()]);
    for (const [team, endpoint] of endpoints) {
      if (used.has(team)) continue;
      endpoints.delete(team);
      const end = endQuietly(endpoint).finally(() => ends.delete(end));
      ends.add(end);
    }
  }

  async function endQuietly(endpoint: McpHttp): Promise<void> {
    try {
      await endpoint[Symbol.asyncDispose]();
    } catch (error) {
      log.warn({ op: "mcp.team", err: error }, "endpoint of a team did not end well");
    }
  }

  return {
    handle: (request, response) => endpointOf(request).handle(request, response),
    leave() {
      for (const endpoint of endpoints.values()) endpoint.leave();
    },
    async [Symbol.asyncDispose]() {
      await using stack = new AsyncDisposableStack();
      for (const endpoint of endpoints.values()) stack.use(endpoint);
      await Promise.all(ends);
    },
  };
}

/** @throws SandboxError invalid_argument for tools that no endpoint could offer */
export function requireTools({ tools }: Config): void {
  selectTools(TOOLS, tools);
}

function startEndpoint(
  { config, log, listener, keys, publicUrl }: ServeMcpOptions,
  team: string,
): McpHttp {
  const stack = new AsyncDisposableStack();
  const { domain } = config;
  const apiKey = team === DEFAULT_TEAM ? listener.apiKey : keys.issue(team);
  const service = stack.use(createService({ ...listener, apiKey, publicUrl, domain }));
  // A sandbox made over HTTP outlives the connection; its time to live ends it.
  const spoolFolder = localSpoolFolder(config.home, team);
  const state = stack.use(
    startMcpState({ service: () => service, log, spoolFolder, onExit: () => "leave" }),
  );
  const http = stack.use(
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
  return {
    handle: (request, response) => http.handle(request, response),
    leave: () => http.leave(),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Tells the holders of different keys apart without keeping a key. */
function principalOf(token: string): string {
  return sha256Hex(token);
}
