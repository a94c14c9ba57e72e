/** Hosts without any library: JSON-RPC lines, written and read as they are, in each era. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { z } from "../../../src/common/schema.ts";
import { toReply } from "../mcp/tool-reply.ts";
import type { TestServe } from "../serve.ts";
import { LOG_TEMPLATE, stdioCommand, textOf, type Host, type HostKind } from "./host.ts";

type Era = "legacy" | "modern";
type Fields = Readonly<Record<string, unknown>>;

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Fields;
  readonly result?: Fields;
  readonly error?: { readonly code: number; readonly message: string };
}

const MODERN_META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};
const CLIENT = { name: "raw-host", version: "1.0.0" };

/** Lines to and from the program; a line that is no message fails the next request. */
function openLines(serve: TestServe, era: Era) {
  const { command, args, env } = stdioCommand(serve);
  const child = spawn(command, args, { env, stdio: ["pipe", "pipe", "inherit"] });
  const exit = once(child, "exit");
  const waiting = new Map<number, PromiseWithResolvers<Fields>>();
  const listeners = new Set<(message: Message) => void>();
  let lastId = 0;
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message: Message = JSON.parse(line);
    const pending = message.id === undefined ? undefined : waiting.get(message.id);
    if (message.error !== undefined) pending?.reject(message.error);
    else if (message.result !== undefined) pending?.resolve(message.result);
    else for (const listen of listeners) listen(message);
  });
  const write = (message: object) =>
    void child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

  function send(method: string, params: Fields, meta: Fields = {}) {
    lastId += 1;
    const id = lastId;
    const pending = Promise.withResolvers<Fields>();
    waiting.set(id, pending);
    const _meta = { ...(era === "modern" && MODERN_META), ...meta };
    write({ id, method, params: { ...params, _meta } });
    return { id, reply: pending.promise };
  }
  return {
    listeners,
    write,
    send,
    async end() {
      child.stdin.end();
      await exit;
    },
  };
}

type Lines = ReturnType<typeof openLines>;

async function callTool(lines: Lines, ...[name, input, settings = {}]: Parameters<Host["call"]>) {
  const { onProgress, signal } = settings;
  const progressToken = `${name}-${Math.random()}`;
  const listen = ({ method, params }: Message) => {
    if (method !== "notifications/progress" || params?.["progressToken"] !== progressToken) return;
    onProgress?.({ progress: Number(params["progress"]), message: String(params["message"]) });
  };
  lines.listeners.add(listen);
  const meta = onProgress === undefined ? {} : { progressToken };
  const { id, reply } = lines.send("tools/call", { name, arguments: input }, meta);
  const cancelled = Promise.withResolvers<never>();
  const cancel = () => {
    lines.write({ method: "notifications/cancelled", params: { requestId: id } });
    cancelled.reject(new Error("aborted"));
  };
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    return toReply(await Promise.race([reply, cancelled.promise]));
  } finally {
    lines.listeners.delete(listen);
  }
}

async function follow(lines: Lines, era: Era, ...[uri, tell]: Parameters<Host["follow"]>) {
  lines.listeners.add(({ method, params }) => {
    if (method === "notifications/resources/updated") tell(String(params?.["uri"]));
  });
  if (era === "legacy") {
    await lines.send("resources/subscribe", { uri }).reply;
    return {
      async [Symbol.asyncDispose]() {
        await lines.send("resources/unsubscribe", { uri }).reply;
      },
    };
  }
  const acknowledged = Promise.withResolvers<void>();
  lines.listeners.add(({ method }) => {
    if (method === "notifications/subscriptions/acknowledged") acknowledged.resolve();
  });
  const notifications = { resourceSubscriptions: [uri] };
  const { id } = lines.send("subscriptions/listen", { notifications });
  await acknowledged.promise;
  return {
    async [Symbol.asyncDispose]() {
      lines.write({ method: "notifications/cancelled", params: { requestId: id } });
      // Its answer shows that the cancellation was read before it.
      await lines.send("tools/list", {}).reply;
    },
  };
}

function listOf(result: unknown, name: string): readonly unknown[] {
  const list = z.record(z.string(), z.unknown()).parse(result)[name];
  return z.array(z.unknown()).parse(list);
}

const toolSchema = z.looseObject({ name: z.string() });
const resourceSchema = z.looseObject({ uri: z.string() });

function asHost(lines: Lines, era: Era): Host {
  const ask = (method: string, params: Fields) => lines.send(method, params).reply;
  return {
    listTools: async () =>
      listOf(await ask("tools/list", {}), "tools").map((tool) => toolSchema.parse(tool)),
    call: (...parameters) => callTool(lines, ...parameters),
    listResources: async () =>
      listOf(await ask("resources/list", {}), "resources").map(
        (resource) => resourceSchema.parse(resource).uri,
      ),
    readResource: async (uri) => textOf(listOf(await ask("resources/read", { uri }), "contents")),
    async completeSandboxId(value) {
      const argument = { name: "sandbox_id", value };
      const { completion } = await ask("completion/complete", { ref: LOG_TEMPLATE, argument });
      return listOf(completion, "values").map(String);
    },
    follow: (...parameters) => follow(lines, era, ...parameters),
    [Symbol.asyncDispose]: () => lines.end(),
  };
}

export const RAW_HOSTS: readonly HostKind[] = (["legacy", "modern"] as const).map((era) => ({
  name: `JSON-RPC lines, ${era}`,
  async start(serve: TestServe) {
    const lines = openLines(serve, era);
    if (era === "legacy") {
      const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: CLIENT };
      await lines.send("initialize", params).reply;
      lines.write({ method: "notifications/initialized" });
    }
    return asHost(lines, era);
  },
}));
