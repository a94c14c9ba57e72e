/** A host, our server and a whole service on the `bare` engine, with one sandbox. */

import { join } from "node:path";
import { createService, type Service } from "../../../src/client/service.ts";
import { createSystemClock, type Clock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState, type McpState } from "../../../src/mcp/state.ts";
import { startTestService, type TestService } from "../service.ts";
import { startMcpHost, type McpHost } from "./mcp-host.ts";
import { toReply, type ToolReply } from "./tool-reply.ts";

export interface CallSettings {
  readonly signal?: AbortSignal;
  /** Asks for progress. */
  readonly onprogress?: (progress: { progress: number; message?: string | undefined }) => void;
}

export interface McpWorld extends AsyncDisposable {
  readonly service: Service;
  readonly test: TestService;
  readonly state: McpState;
  readonly host: McpHost;
  /** A folder in which sandboxes may write: the `bare` engine has no other walls. */
  readonly folder: string;
  /** Calls a tool, as a host does. */
  call(
    tool: string,
    input: Readonly<Record<string, unknown>>,
    settings?: CallSettings,
  ): Promise<ToolReply>;
  /** The id of a new sandbox. */
  createSandbox(): Promise<string>;
}

/**
 * Starts everything between a host and a sandbox, all of it on one clock. With `reach`, the service
 * is another one for the server, which reaches it at the address that it returns.
 */
export async function startMcpWorld(
  clock: Clock = createSystemClock(),
  reach?: (test: TestService) => string,
): Promise<McpWorld> {
  await using stack = new AsyncDisposableStack();
  const test = stack.use(await startTestService({ clock }));
  const { url, socketPath, apiKey } = test.embedded;
  const remote = reach?.(test);
  const address = remote === undefined ? { url, socketPath } : { url: remote, sandboxUrl: remote };
  const service = stack.use(createService({ ...address, apiKey, clock }));
  const log = createSilentLog();
  const spoolFolder = join(test.home, "spool");
  const state = stack.use(
    startMcpState({ service: () => service, log, clock, spoolFolder, onExit: () => "kill" }),
  );
  const host = stack.use(await startMcpHost(state));

  const call: McpWorld["call"] = async (name, input, settings = {}) => {
    const reply = await host.client.callTool({ name, arguments: { ...input } }, undefined, {
      ...settings,
    });
    return toReply(reply);
  };
  const owned = stack.move();
  return {
    service,
    test,
    state,
    host,
    folder: join(test.home, "work"),
    call,
    async createSandbox() {
      const { fields, text } = await call("create_sandbox", {});
      const id = fields["sandbox_id"];
      if (typeof id !== "string") throw new Error(`no sandbox: ${text}`);
      return id;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The outcome of a call as a test reads it. */
