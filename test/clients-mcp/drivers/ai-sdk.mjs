/** Driver of the AI SDK: tools of `@ai-sdk/mcp` as a model's loop runs them. */

import { createInterface } from "node:readline";
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { asSchema } from "ai";

const target = JSON.parse(process.argv[2]);
const transport =
  target.transport === "stdio"
    ? new StdioTransport({ command: target.command, args: target.args, env: target.env })
    : { type: "http", url: target.url, headers: target.headers };
const client = await createMCPClient({ transport });
const tools = await client.tools();
const calls = new Map();

async function call({ id, tool, input }) {
  const controller = new AbortController();
  calls.set(id, controller);
  const toolCallId = `call_${id}`;
  const options = { toolCallId, messages: [], abortSignal: controller.signal };
  const output = await tools[tool].execute(input, options);
  const shown = await tools[tool].toModelOutput({ toolCallId, input, output });
  const parts = shown.type === "content" ? shown.value : [];
  const content = output.content ?? [];
  return {
    isError: output.isError === true,
    text: content.map((part) => part.text ?? "").join("\n"),
    images: parts.flatMap((part) => {
      const data = typeof part.data === "string" ? part.data : part.data?.data;
      const isImage = (part.mediaType ?? "").startsWith("image/");
      return isImage ? [{ mimeType: part.mediaType, data }] : [];
    }),
    kinds: content.map((part) => part.type),
    fields: output.structuredContent ?? {},
    progress: [],
  };
}

const OPERATIONS = {
  call,
  async tools() {
    const listed = Object.entries(tools);
    return Promise.all(
      listed.map(async ([name, tool]) => ({
        name,
        inputSchema: await asSchema(tool.inputSchema).jsonSchema,
      })),
    );
  },
  resources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
  async read({ uri }) {
    const { contents } = await client.readResource({ uri });
    return contents.map((part) => part.text ?? "").join("");
  },
};

function say(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

async function answer(request) {
  const { id } = request;
  try {
    say({ id, result: await OPERATIONS[request.op](request) });
  } catch (error) {
    const isCancelled = calls.get(id)?.signal.aborted === true;
    say(isCancelled ? { id, cancelled: true } : { id, error: String(error) });
  }
}

say({ id: 0, result: client.initializeResult.protocolVersion });
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.op === "cancel") calls.get(request.target).abort();
  // Faults are answered inside; several operations run at once.
  else void answer(request);
}
await client.close();
process.exit();
