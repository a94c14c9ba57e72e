/** Converts the schemas of all tools by the SDKs of three providers, and calls tools through them. */

import { mcpTools } from "@anthropic-ai/sdk/helpers/beta/mcp";
import { transformJSONSchema } from "@anthropic-ai/sdk/lib/transform-json-schema";
import { mcpToTool } from "@google/genai";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { toStrictJsonSchema } from "openai/lib/transform";

const { url, headers } = JSON.parse(process.argv[2]);
const client = new Client({ name: "converter", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const { tools } = await client.listTools();

/** Strict mode knows no optional fields: hosts make them nullable before they ask for it. */
function withNullable(schema) {
  const properties = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const inner = field.type === "object" ? withNullable(field) : field;
    const isRequired = (schema.required ?? []).includes(name);
    return [name, isRequired ? inner : { anyOf: [inner, { type: "null" }] }];
  });
  return {
    ...schema,
    properties: Object.fromEntries(properties),
    required: properties.map(([name]) => name),
  };
}

/** The outcome for each tool: a schema, or the error of the converter. */
function convertAll(convert) {
  return Object.fromEntries(
    tools.map((tool) => {
      try {
        return [tool.name, { schema: convert(structuredClone(tool.inputSchema)) }];
      } catch (error) {
        return [tool.name, { error: String(error) }];
      }
    }),
  );
}

const runnable = mcpTools(tools, client);
const gemini = mcpToTool(client);
const { functionDeclarations } = await gemini.tool();
const created = await client.callTool({ name: "create_sandbox", arguments: {} });
const sandbox = { sandbox_id: created.structuredContent.sandbox_id };
const run = tools.find(({ name }) => name === "run_process").inputSchema;
const nulls = Object.fromEntries(Object.keys(run.properties).map((name) => [name, null]));
const input = { ...nulls, ...sandbox, cmd: "echo converted" };
const file = { ...sandbox, path: "pixel.png" };
await client.callTool({
  name: "write_file",
  arguments: { ...file, content: process.argv[3], encoding: "base64" },
});
const called = {
  anthropic: await runnable.find(({ name }) => name === "run_process").run(input),
  anthropicPicture: await runnable.find(({ name }) => name === "read_file").run(file),
  google: await gemini.callTool([{ name: "run_process", args: input }]),
};
await client.callTool({ name: "kill_sandbox", arguments: sandbox });
await client.close();

process.stdout.write(
  JSON.stringify({
    tools: tools.map(({ name }) => name),
    openai: convertAll((schema) => toStrictJsonSchema(withNullable(schema))),
    anthropicStrict: convertAll(transformJSONSchema),
    anthropic: runnable.map(({ name, input_schema: schema }) => ({ name, schema })),
    google: functionDeclarations.map((declared) => ({
      name: declared.name,
      schema: declared.parametersJsonSchema ?? declared.parameters,
    })),
    called,
  }),
);
