/** What answers the calls of a stdio server. It is loaded once the host has the list of tools. */

import type { Logger } from "../../common/log.ts";
import type { Config } from "../../config.ts";
import { selectTools, whenReady } from "../../mcp/selection.ts";
import { startMcpState } from "../../mcp/state.ts";
import type { StdioServer } from "../../mcp/stdio/stdio-connection.ts";
import { TOOLS } from "../../mcp/tools/index.ts";
import { VERSION } from "../program/command.ts";
import type { DeferredService } from "../service/deferred-service.ts";
import { spoolFolderOf } from "../service/spool-folders.ts";

export interface StdioServerOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly late: DeferredService;
  /** Owns what is made. */
  readonly stack: AsyncDisposableStack;
}

/** Nothing of the service is used before the first call. */
export function openStdioServer({ config, log, late, stack }: StdioServerOptions): StdioServer {
  const state = stack.use(
    startMcpState({
      service: () => late.current(),
      log,
      onExit: () => late.onExit(),
      spoolFolder: late.isAbsent() ? undefined : spoolFolderOf(config),
    }),
  );
  const tools = whenReady(selectTools(TOOLS, config.tools), async () => late.ready());
  return { state, tools, version: VERSION };
}
