/**
 * A host and our server before a sandbox whose daemon was replaced: what the service needs for a start
 * is answered as ours does, anything else as the test likes.
 */

import { createServer, type ServerResponse } from "node:http";
import { join, resolve } from "node:path";
import { createService, type Service } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { createBareEngine } from "../engine/bare-engine.ts";
import { listenOnLoopback } from "../loopback.ts";
import { startMcpHost } from "../mcp/mcp-host.ts";
import { toReply, type ToolReply } from "../mcp/tool-reply.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";
import { startTestService, type TestService } from "../service.ts";

const RELAY = resolve(import.meta.dirname, "relay-daemon.ts");

/** Longer than any wait of our own for a daemon. */
const CALL_MS = 180_000;

/** Answers a call to this path; the body of the request has come. */
export type DaemonAnswer = (path: string, response: ServerResponse) => void;

export interface HostileHost extends AsyncDisposable {
  readonly test: TestService;
  readonly service: Service;
  readonly sandboxId: string;
  /** Changes what the daemon answers. */
  answer(next: DaemonAnswer): void;
  /** Calls a tool for the sandbox. */
  call(tool: string, input: object): Promise<ToolReply>;
}

const refuse: DaemonAnswer = (_, response) => void response.destroy();

export async function startHostileHost(): Promise<HostileHost> {
  await using stack = new AsyncDisposableStack();
  let answer = refuse;
  const daemon = stack.use(await startDaemon((path, response) => answer(path, response)));
  const words = [RELAY, String(daemon.port), String(daemon.port)];
  const command: [string, ...string[]] = [process.execPath, ...words];
  const engine = createBareEngine({ command, perlDirectory: PERL_DIRECTORY });
  const test = stack.use(await startTestService({ engine, maxSandboxes: 100 }));
  const service = stack.use(createService(test.embedded));
  const spoolFolder = join(test.home, "spool");
  const settings = { service: () => service, log: createSilentLog(), spoolFolder };
  const state = stack.use(startMcpState({ ...settings, onExit: () => "kill" }));
  const host = stack.use(await startMcpHost(state));
  const call: HostileHost["call"] = async (name, input) =>
    toReply(
      await host.client.callTool({ name, arguments: { ...input } }, undefined, {
        timeout: CALL_MS,
      }),
    );
  const { fields } = await call("create_sandbox", {});
  const sandboxId = String(fields["sandbox_id"]);
  const owned = stack.move();
  return {
    test,
    service,
    sandboxId,
    answer: (next) => void (answer = next),
    call: (tool, input) => call(tool, { sandbox_id: sandboxId, ...input }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** What a start and a pause ask for. */
const HONEST = /^\/(?:init|health|rest|forget)/;

async function startDaemon(answer: DaemonAnswer) {
  const server = createServer((request, response) => {
    const { url = "" } = request;
    response.on("error", () => undefined);
    request.resume().once("end", () => {
      if (HONEST.test(url)) response.writeHead(204).end();
      else if (url.startsWith("/logs")) response.writeHead(200).flushHeaders();
      else answer(url, response);
    });
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    async [Symbol.asyncDispose]() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
    },
  };
}
