/** A host and our server before a foreign service, each of whose replies the test chooses. */

import type { ServerResponse } from "node:http";
import { createService } from "../../../src/client/service.ts";
import { createSystemClock, type Clock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState, type McpState } from "../../../src/mcp/state.ts";
import { SANDBOX_DETAIL } from "../control/sandbox-detail.ts";
import {
  answerJson,
  startRecorder,
  type RecordedRequest,
  type Recorder,
} from "../network/recorder.ts";
import { startMcpHost, type McpHost } from "./mcp-host.ts";
import type { CallSettings } from "./mcp-sandbox.ts";
import { toReply, type ToolReply } from "./tool-reply.ts";

export interface ForeignHost extends AsyncDisposable {
  readonly recorder: Recorder;
  readonly state: McpState;
  readonly host: McpHost;
  /** Calls a tool for the one sandbox of the service, or with `sandbox_id: undefined` for none. */
  call(tool: string, input: object, settings?: CallSettings): Promise<ToolReply>;
}

/** Answers a request of the control API or of the daemon. */
export type ForeignAnswer = (request: RecordedRequest, response: ServerResponse) => void;

/** Starts them; the service answers for its sandbox by itself. The clock is that of our server. */
export async function startForeignHost(
  answer: ForeignAnswer,
  clock: Clock = createSystemClock(),
  detail: typeof SANDBOX_DETAIL = SANDBOX_DETAIL,
): Promise<ForeignHost> {
  await using stack = new AsyncDisposableStack();
  const recorder = stack.use(
    await startRecorder((request, response) => {
      if (request.method !== "GET" || request.url !== `/sandboxes/${SANDBOX_DETAIL.sandboxID}`) {
        return answer(request, response);
      }
      return answerJson(response, 200, { body: detail });
    }),
  );
  const address = { url: recorder.url, sandboxUrl: recorder.url, domain: "e2b.app" };
  const service = stack.use(createService({ ...address, apiKey: "secret-key", clock }));
  const log = createSilentLog();
  const state = stack.use(
    startMcpState({ service: () => service, log, clock, onExit: () => "leave" }),
  );
  const host = stack.use(await startMcpHost(state));
  const owned = stack.move();
  return {
    recorder,
    state,
    host,
    async call(name, input, settings = {}) {
      const given = { sandbox_id: SANDBOX_DETAIL.sandboxID, ...input };
      const fields = Object.entries(given).filter(([, value]) => value !== undefined);
      const call = { name, arguments: Object.fromEntries(fields) };
      return toReply(await host.client.callTool(call, undefined, { ...settings }));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
