/** A connection over stdio to a server in this process, message by message. */

import { PassThrough } from "node:stream";
import { expect } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState, type McpState } from "../../../src/mcp/state.ts";
import { answersFor } from "../../../src/mcp/stdio/opening-answers.ts";
import { serveMcpStdio, type StdioEnd } from "../../../src/mcp/stdio/stdio.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";

export type Message = Readonly<Record<string, unknown>>;

export interface Connection extends AsyncDisposable {
  readonly state: McpState;
  readonly stdin: PassThrough;
  readonly stdout: PassThrough;
  readonly ended: Promise<StdioEnd>;
  /** Every line of stdout, parsed; a line that is no JSON fails the test. */
  readonly messages: readonly Message[];
  /** Every line that was an array. */
  readonly batches: readonly (readonly Message[])[];
  send(message: object): void;
  /** The answer to a request. */
  answer(id: string | number): Promise<Message>;
  /** Ends it from inside. */
  stop(): void;
  setParent(pid: number): void;
}

function isMessage(value: unknown): value is Message {
  return typeof value === "object" && value !== null;
}

const { initialize, tools } = answersFor({ toolset: "all", isReadOnly: false });
/** As they would be recorded of the version below. */
const ANSWERS = {
  initialize: {
    ...initialize,
    serverInfo: { name: "sandbox-mcp", title: "Sandboxes", version: "0.0.0" },
  },
  tools,
};

/** A service that nobody answers for: the protocol itself needs none. */
export function connect(protocol: "auto" | "legacy" = "auto"): Connection {
  const service = createService({ url: "http://127.0.0.1:9", apiKey: "none" });
  const state = startMcpState({
    service: () => service,
    log: createSilentLog(),
    onExit: () => "leave",
  });
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const controller = new AbortController();
  let parent = 4_711;
  const messages: Message[] = [];
  const batches: Message[][] = [];
  let rest = "";
  stdout.on("data", (chunk: Buffer) => {
    const lines = (rest + chunk.toString("utf8")).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const message: unknown = JSON.parse(line);
      if (Array.isArray(message)) batches.push(message.filter((each) => isMessage(each)));
      else if (isMessage(message)) messages.push(message);
    }
  });
  const ended = serveMcpStdio({
    open: async () => ({ state, tools: TOOLS, version: "0.0.0" }),
    answers: ANSWERS,
    protocol,
    stdin,
    stdout,
    signal: controller.signal,
    parentPid: () => parent,
  });
  return {
    state,
    stdin,
    stdout,
    ended,
    messages,
    batches,
    send: (message) => void stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`),
    async answer(id) {
      await expect.poll(() => messages.some((message) => message["id"] === id)).toBe(true);
      return messages.find((message) => message["id"] === id) ?? {};
    },
    stop: () => controller.abort(),
    setParent: (pid) => {
      parent = pid;
    },
    async [Symbol.asyncDispose]() {
      controller.abort();
      await ended;
      await state[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
    },
  };
}

export const INITIALIZE = {
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "test", version: "1" },
  },
};
