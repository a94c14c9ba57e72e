/** One MCP server per connection: the tools and the log resource on the SDK. Cheap to make. */

import { McpServer, ResourceNotFoundError, type ServerContext } from "@modelcontextprotocol/server";
import { anySignal } from "../common/any-signal.ts";
import { errorText, hasErrorCode, SandboxError } from "../common/errors.ts";
import { asOperation } from "../common/operation.ts";
import { toListedSchema } from "../common/schema.ts";
import { timeLimit } from "../output/capture.ts";
import { parseSandboxId } from "../wire/address.ts";
import { acceptArguments } from "./arguments.ts";
import { instructionsFor } from "./instructions.ts";
import { changesOf, createChangeCheck, readLog, registerLogs } from "./logs/log-resources.ts";
import { refuseMalformedParams } from "./param-faults.ts";
import { MAX_IMAGE_BYTES } from "./pictures/image.ts";
import { explain, explainStarted, goneError } from "./replies/error-hints.ts";
import { timeLeft } from "./replies/facts.ts";
import { startHeartbeat } from "./replies/heartbeat.ts";
import type { SendProgress } from "./replies/progress.ts";
import {
  errorReply,
  toCallReply,
  withTimeLeft,
  type CallReply,
  type Reply,
} from "./replies/respond.ts";
import { reword } from "./replies/reword.ts";
import type { McpState } from "./state.ts";
import { listedOutput, type Suggest, type Tool, type ToolContext } from "./tool.ts";
import { createChangeSender } from "./watch/change-sender.ts";

export interface McpServerOptions {
  readonly state: McpState;
  readonly tools: readonly Tool[];
  /** Of the program. */
  readonly version: string;
  readonly era: "legacy" | "modern";
  readonly transport: "stdio" | "http";
  /**
   * Whether the connection lasts, so that notifications can be sent over it; otherwise it carries
   * one request, and the transport sends notifications by other means.
   */
  readonly isLasting: boolean;
  /** Identifies the caller. */
  readonly principal: string;
  /** Only for a conformance run. */
  readonly extension?: ServerExtension | undefined;
}

/** What is added to every server of a conformance run. */
export interface ServerExtension {
  /** Refuses state that a client carried and changed, by throwing. */
  verifyState(state: string, ctx: ServerContext): Promise<unknown>;
  /** Resources besides the logs that can be subscribed to. */
  readonly subscribableUris: ReadonlySet<string>;
  register(server: McpServer): void;
}

const TOOL_LIST_TTL_MS = 300_000;

export function createMcpServer(options: McpServerOptions): McpServer {
  const { extension } = options;
  const server = new McpServer(
    { name: "sandbox-mcp", title: "Sandboxes", version: options.version },
    {
      capabilities: {
        tools: { listChanged: false },
        resources: { subscribe: true, listChanged: true },
        completions: {},
        logging: {},
        ...(extension !== undefined && { prompts: { listChanged: false } }),
      },
      ...(extension !== undefined && {
        requestState: {
          verify: (state: string, ctx: ServerContext) => extension.verifyState(state, ctx),
        },
      }),
      instructions: instructionsFor(options.tools.map(({ name }) => name)),
      cacheHints: { "tools/list": { ttlMs: TOOL_LIST_TTL_MS, cacheScope: "public" } },
    },
  );
  for (const tool of options.tools) registerTool(server, tool, options);
  registerLogs(server, options.state, extension === undefined);
  tellChanges(server, options);
  extension?.register(server);
  refuseMalformedParams(server);
  return server;
}

function registerTool(server: McpServer, tool: Tool, options: McpServerOptions): void {
  const { name, title, description, input, annotations } = tool;
  const output = listedOutput(tool);
  const config = { title, description, inputSchema: acceptArguments(input), annotations };
  const { clock } = options.state;
  const call = async (input_: Record<string, unknown>, ctx: ServerContext) => {
    const { signal } = ctx.mcpReq;
    await using heartbeat = startHeartbeat({ send: progressOf(ctx), clock, signal });
    return await callTool(tool, input_, toContext(ctx, heartbeat.send, options));
  };
  if (output === undefined) server.registerTool(name, config, call);
  else server.registerTool(name, { ...config, outputSchema: toListedSchema(output) }, call);
}

/** Runs a tool; every failure becomes a reply, and every call one line of the log. */
async function callTool(
  tool: Tool,
  input: Record<string, unknown>,
  context: ToolContext,
): Promise<CallReply> {
  const startedAtMs = context.clock.elapsed();
  const { sandbox_id: given } = input;
  // The deprecated client suffix of an id is dropped, so that a sandbox has one name only.
  const sandboxId = typeof given === "string" ? (parseSandboxId(given) ?? given) : undefined;
  const finish = (outcome: string, error?: SandboxError): void => {
    const durationMs = Math.round(context.clock.elapsed() - startedAtMs);
    const fault = error === undefined ? {} : { code: error.code, err: error };
    const line = { op: `tool.${tool.name}`, outcome, durationMs, sandboxId, ...fault };
    if (error?.code === "internal") context.log.error(line, line.op);
    else context.log.info(line, line.op);
  };
  try {
    const plain = sandboxId === undefined ? input : { ...input, sandbox_id: sandboxId };
    const reply = await asOperation(`tool.${tool.name}`, async () => {
      if (sandboxId !== undefined) await renewExpiry(sandboxId, context);
      return tool.handler(plain, context);
    });
    if (reply.error === undefined) {
      finish("ok");
      const note = noteFor(context, sandboxId ?? madeBy(reply));
      return toCallReply(withTimeLeft(reply, note), tool.output !== undefined);
    }
    finish("error", reply.error);
    const explained = await explainStarted(reply.error, sandboxId, context);
    return errorReply(explained, { partial: reply.text, note: noteFor(context, sandboxId) });
  } catch (error) {
    const failure = toFailure(error, context.signal);
    finish(failure.code === "canceled" ? "canceled" : "error", failure);
    const explained = await explain(failure, sandboxId, context);
    return errorReply(explained, { note: noteFor(context, sandboxId) });
  }
}

async function renewExpiry(sandboxId: string, context: ToolContext): Promise<void> {
  try {
    await context.service.renewExpiry(sandboxId);
  } catch {
    // The service is not open yet: no expiry is known, and the tool waits for it.
  }
}

function noteFor(context: ToolContext, sandboxId: string | undefined): string | undefined {
  return sandboxId === undefined ? undefined : timeLeft(context, sandboxId);
}

/** The sandbox of a reply whose call named none. */
function madeBy({ fields }: Reply): string | undefined {
  const id = fields?.["sandbox_id"];
  return typeof id === "string" ? id : undefined;
}

/** What a handler threw, as SandboxError; any other error is an internal fault. */
function toFailure(error: unknown, signal: AbortSignal): SandboxError {
  if (error instanceof SandboxError) return reword(error);
  if (signal.aborted)
    return new SandboxError("canceled", "the call was cancelled", { cause: error });
  return new SandboxError("internal", `unexpected: ${errorText(error)}`, { cause: error });
}

/** The SDK's context in our own terms. */
function toContext(
  ctx: ServerContext,
  progress: SendProgress | undefined,
  options: McpServerOptions,
): ToolContext {
  const { state, tools, principal } = options;
  const { clock, log } = state;
  let signal: AbortSignal | undefined;
  const suggest: Suggest = (name, sentence) =>
    tools.some((tool) => tool.name === name) ? sentence : "";
  const context: ToolContext = {
    // Made on demand: many calls use no signal.
    get signal() {
      return (signal ??= anySignal([withoutReason(ctx.mcpReq.signal), state.signal]));
    },
    waitLimit: (ms) => timeLimit(clock, ms, anySignal([context.signal, state.leaving.signal])),
    log,
    clock,
    get service() {
      return state.service;
    },
    state,
    principal,
    progress,
    maxImageBytes: MAX_IMAGE_BYTES[options.transport],
    suggest,
    async attach(sandboxId) {
      try {
        const sandbox = await state.service.attach(sandboxId, context.signal);
        state.logs.open(sandbox.id);
        return sandbox;
      } catch (error) {
        const isGone = hasErrorCode(error, "not_found");
        throw isGone
          ? await goneError(sandboxId, { service: state.service, suggest }, error)
          : error;
      }
    },
  };
  return context;
}

/** The reason of a cancellation is any text of the host, which would pass for the fault of a call. */
function withoutReason(signal: AbortSignal): AbortSignal {
  const plain = new AbortController();
  if (signal.aborted) plain.abort();
  else signal.addEventListener("abort", () => plain.abort(), { once: true });
  return plain.signal;
}

function progressOf(ctx: ServerContext): SendProgress | undefined {
  const { _meta: meta, notify } = ctx.mcpReq;
  const progressToken = meta?.progressToken;
  if (progressToken === undefined) return undefined;
  return async (progress, message) => {
    const params = { progressToken, progress, message };
    await notify({ method: "notifications/progress", params });
  };
}

/** Subscriptions of one connection; each host can hold only so many. */
const MAX_SUBSCRIPTIONS = 256;

/** Passes changes of logs on: in the older era those subscribed to, in the newer one all. */
function tellChanges(mcp: McpServer, options: McpServerOptions): void {
  const { state, era, isLasting } = options;
  const { server } = mcp;
  /** By the address that the host gave: the one by which its changes are announced. */
  const subscribed = new Map<string, string>();
  const dropEnded = () => {
    const canChange = createChangeCheck(state);
    for (const [uri, source] of subscribed) {
      if (changesOf(uri) !== undefined && !canChange(source)) subscribed.delete(uri);
    }
  };
  server.setRequestHandler("resources/subscribe", async (request) => {
    const { uri } = request.params;
    if (options.extension?.subscribableUris.has(uri) !== true) await readLog(uri, state);
    // Few hosts unsubscribe from what is gone.
    if (!subscribed.has(uri) && subscribed.size >= MAX_SUBSCRIPTIONS) dropEnded();
    if (!subscribed.has(uri) && subscribed.size >= MAX_SUBSCRIPTIONS)
      throw new ResourceNotFoundError(uri, "too many subscriptions");
    subscribed.set(uri, changesOf(uri) ?? uri);
    return {};
  });
  server.setRequestHandler("resources/unsubscribe", (request) => {
    subscribed.delete(request.params.uri);
    return {};
  });
  if (!isLasting) return;
  const report = (error: unknown) => state.log.debug({ op: "notify", err: error }, "host not told");
  const sender = createChangeSender({
    sendUpdated: (uri) => server.sendResourceUpdated({ uri }),
    sendListChanged: () => server.sendResourceListChanged(),
    onFault: report,
  });
  const stopObserving = state.logs.observe({
    updated(changed) {
      // In the newer era the transport filters by subscription.
      const uris =
        era === "modern"
          ? [changed]
          : [...subscribed].flatMap(([uri, source]) => (source === changed ? [uri] : []));
      for (const uri of uris) sender.updated(uri);
    },
    listChanged: () => sender.listChanged(),
  });
  // The SDK calls this field and knows no listeners.
  // oxlint-disable-next-line unicorn/prefer-add-event-listener
  server.onclose = stopObserving;
}
