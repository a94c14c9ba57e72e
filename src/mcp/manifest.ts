/** The manifest: what a server lists to a client, in a stable form that can be committed. */

import { InMemoryTransport, type JSONRPCMessage } from "@modelcontextprotocol/server";
import { withDeadline } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import { z } from "../common/schema.ts";
import { createMcpServer } from "./server.ts";
import type { McpState } from "./state.ts";
import type { Tool } from "./tool.ts";

/** Revisions that this server speaks: the newest of each era, and what older hosts ask for. */
const PROTOCOL_VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const ANSWER_TIMEOUT_MS = 5_000;
/** English prose and JSON take about four bytes per token. */
const BYTES_PER_TOKEN = 4;

const listedToolSchema = z.looseObject({
  name: z.string(),
  title: z.string(),
  description: z.string(),
  inputSchema: z.record(z.string(), z.unknown()),
  outputSchema: z.record(z.string(), z.unknown()).optional(),
  annotations: z.record(z.string(), z.unknown()),
});

const answerSchema = z.object({
  tools: z.array(listedToolSchema).optional(),
  resourceTemplates: z.array(z.record(z.string(), z.unknown())).optional(),
});

export interface ManifestOptions {
  readonly state: McpState;
  /** All tools, whatever the configuration selects. */
  readonly tools: readonly Tool[];
  readonly version: string;
}

/** The manifest as it is written to `tools.manifest.json`, with a final newline. */
export async function renderManifest(options: ManifestOptions): Promise<string> {
  const { state, tools, version } = options;
  const server = createMcpServer({
    state,
    tools,
    version,
    era: "legacy",
    transport: "stdio",
    isLasting: false,
    principal: "manifest",
  });
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const client = new Asker(ours);
  await server.connect(theirs);
  try {
    await client.ask("initialize", {
      protocolVersion: PROTOCOL_VERSIONS[1],
      capabilities: {},
      clientInfo: { name: "manifest", version },
    });
    const { tools: listed = [] } = await client.ask("tools/list", {});
    const { resourceTemplates = [] } = await client.ask("resources/templates/list", {});
    return format({ version, listed, resourceTemplates, tools });
  } finally {
    await server.close();
  }
}

type Answer = z.infer<typeof answerSchema>;

/** A minimal client: one request at a time. */
class Asker {
  readonly #transport: InMemoryTransport;
  #lastId = 0;

  constructor(transport: InMemoryTransport) {
    this.#transport = transport;
  }

  async ask(method: string, params: Record<string, unknown>): Promise<Answer> {
    this.#lastId += 1;
    const id = this.#lastId;
    const { promise, resolve } = Promise.withResolvers<JSONRPCMessage>();
    // The SDK calls this field and knows no listeners.
    // oxlint-disable-next-line unicorn/prefer-add-event-listener
    this.#transport.onmessage = (message) => {
      if ("id" in message && message.id === id) resolve(message);
    };
    await this.#transport.send({ jsonrpc: "2.0", id, method, params });
    const late = () => new SandboxError("internal", `no answer to ${method}`);
    const message = await withDeadline(promise, ANSWER_TIMEOUT_MS, late);
    if ("result" in message) return answerSchema.parse(message.result);
    throw new SandboxError("internal", `${method} was refused`);
  }
}

function format(found: {
  readonly version: string;
  readonly listed: readonly z.infer<typeof listedToolSchema>[];
  readonly resourceTemplates: readonly Record<string, unknown>[];
  readonly tools: readonly Tool[];
}): string {
  const toolsetOf = new Map(found.tools.map((tool) => [tool.name, tool.toolset]));
  const tools = found.listed
    .map((tool) => ({
      name: tool.name,
      title: tool.title,
      description: tool.description,
      toolset: toolsetOf.get(tool.name),
      inputSchema: sortKeys(tool.inputSchema),
      ...(tool.outputSchema !== undefined && { outputSchema: sortKeys(tool.outputSchema) }),
      annotations: sortKeys(tool.annotations),
    }))
    .toSorted((left, right) => (left.name < right.name ? -1 : 1));
  const listedBytes = Buffer.byteLength(JSON.stringify(found.listed), "utf8");
  const manifest = {
    version: 1,
    server: { name: "sandbox-mcp", version: found.version, protocolVersions: PROTOCOL_VERSIONS },
    tools,
    resourceTemplates: found.resourceTemplates.map((template) => sortKeys(template)),
    budget: { tools: tools.length, approxTokens: Math.ceil(listedBytes / BYTES_PER_TOKEN) },
  };
  return `${JSON.stringify(manifest, undefined, 2)}\n`;
}

/** The same value with sorted keys, so that equal manifests are equal text. */
function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => sortKeys(item));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(entries.map(([name, item]) => [name, sortKeys(item)]));
}
