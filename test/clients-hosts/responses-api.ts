/** The Responses API of OpenAI, as far as Codex needs it from a scripted model. */

import { z } from "../../src/common/schema.ts";
import type { ModelApi, ShownResult } from "./model-api.ts";

const partSchema = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  image_url: z.string().optional(),
});
const outputSchema = z.union([z.string(), z.array(partSchema)]).optional();
const requestSchema = z.looseObject({
  tools: z.array(z.looseObject({ name: z.string().optional() })).default([]),
  input: z.array(z.looseObject({ type: z.string(), output: outputSchema.catch(undefined) })),
});

/** How Codex groups the tools of a server that was added as `sandbox`. */
const NAMESPACE = "mcp__sandbox";
const USAGE = {
  input_tokens: 1,
  input_tokens_details: null,
  output_tokens: 1,
  output_tokens_details: null,
  total_tokens: 2,
};

export const RESPONSES_API: ModelApi = {
  path: "/v1/responses",
  readResults(request) {
    const { tools, input } = requestSchema.parse(request);
    if (!tools.some(({ name }) => name === NAMESPACE)) return undefined;
    return input
      .filter(({ type }) => type === "function_call_output")
      .map(({ output }) => toShown(output));
  },
  reply(_request, { id, call }) {
    const item =
      call === undefined
        ? {
            type: "message",
            role: "assistant",
            id: `message_${id}`,
            content: [{ type: "output_text", text: "done" }],
          }
        : {
            type: "function_call",
            id: `item_${id}`,
            call_id: id,
            namespace: NAMESPACE,
            name: call.tool,
            arguments: JSON.stringify(call.input),
          };
    const response = { id: `response_${id}` };
    return [
      { type: "response.created", response },
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: { ...response, output: [], usage: USAGE } },
    ];
  },
};

function toShown(output: z.infer<typeof outputSchema>): ShownResult {
  if (output === undefined || typeof output === "string") return { text: output ?? "", images: [] };
  return {
    text: output.map(({ text }) => text ?? "").join("\n"),
    images: output.flatMap(({ image_url: url }) => {
      const type = /^data:([^;]+);/.exec(url ?? "")?.[1];
      return type === undefined ? [] : [type];
    }),
  };
}
