/** The Messages API of Anthropic, as far as Claude Code needs it from a scripted model. */

import { z } from "../../src/common/schema.ts";
import type { ModelApi, ShownResult } from "./model-api.ts";

const partSchema = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  source: z.looseObject({ media_type: z.string().optional() }).optional(),
});
const contentSchema = z.union([z.string(), z.array(partSchema)]).optional();
const blockSchema = z.looseObject({ type: z.string(), content: contentSchema.catch(undefined) });
const requestSchema = z.looseObject({
  model: z.string(),
  tools: z.array(z.looseObject({ name: z.string().optional() })).default([]),
  messages: z.array(z.looseObject({ content: z.union([z.string(), z.array(blockSchema)]) })),
});

/** How Claude Code names the tools of a server that was added as `sandbox`. */
const PREFIX = "mcp__sandbox__";
const USAGE = { input_tokens: 1, output_tokens: 1 };

export const MESSAGES_API: ModelApi = {
  path: "/v1/messages",
  readResults(request) {
    const { tools, messages } = requestSchema.parse(request);
    if (!tools.some(({ name }) => name?.startsWith(PREFIX))) return undefined;
    return messages
      .flatMap(({ content }) => (typeof content === "string" ? [] : content))
      .filter(({ type }) => type === "tool_result")
      .map(({ content }) => toShown(content));
  },
  reply(request, { id, call }) {
    const { model } = requestSchema.parse(request);
    const head = { id: `msg_${id}`, type: "message", role: "assistant", model, content: [] };
    const block =
      call === undefined
        ? { type: "text", text: "" }
        : { type: "tool_use", id: `toolu_${id}`, name: `${PREFIX}${call.tool}`, input: {} };
    const delta =
      call === undefined
        ? { type: "text_delta", text: "done" }
        : { type: "input_json_delta", partial_json: JSON.stringify(call.input) };
    const stop = call === undefined ? "end_turn" : "tool_use";
    return [
      {
        type: "message_start",
        message: { ...head, stop_reason: null, stop_sequence: null, usage: USAGE },
      },
      { type: "content_block_start", index: 0, content_block: block },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      {
        type: "message_delta",
        delta: { stop_reason: stop, stop_sequence: null },
        usage: { output_tokens: 1 },
      },
      { type: "message_stop" },
    ];
  },
};

function toShown(content: z.infer<typeof contentSchema>): ShownResult {
  if (content === undefined || typeof content === "string") {
    return { text: content ?? "", images: [] };
  }
  return {
    text: content.map(({ text }) => text ?? "").join("\n"),
    images: content
      .filter(({ type }) => type === "image")
      .map(({ source }) => source?.media_type ?? ""),
  };
}
