/** Fixtures: prompts, which our server has none of. */

import {
  acceptedContent,
  completable,
  inputRequired,
  type McpServer,
} from "@modelcontextprotocol/server";
import { z } from "../common/schema.ts";
import { PNG_BASE64 } from "./samples.ts";

const MAX_TEXT = 1_000;

export function registerPrompts(server: McpServer): void {
  server.registerPrompt("test_simple_prompt", { description: "A prompt." }, () =>
    saying("This is a simple prompt for testing."),
  );
  const argument = () =>
    completable(z.string().max(MAX_TEXT).describe("An argument."), (prefix) =>
      ["paris", "park", "party"].filter((value) => value.startsWith(prefix ?? "")),
    );
  server.registerPrompt(
    "test_prompt_with_arguments",
    {
      description: "A prompt of two arguments.",
      argsSchema: z.object({ arg1: argument(), arg2: argument() }),
    },
    ({ arg1, arg2 }) => saying(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`),
  );
  server.registerPrompt(
    "test_prompt_with_embedded_resource",
    {
      description: "A prompt with a resource.",
      argsSchema: z.object({ resourceUri: z.string().max(MAX_TEXT).describe("Its URI.") }),
    },
    ({ resourceUri: uri }) => {
      const text = "Embedded resource content for testing.";
      const content = {
        type: "resource" as const,
        resource: { uri, mimeType: "text/plain", text },
      };
      const { messages } = saying("Please process the embedded resource above.");
      return { messages: [{ role: "user", content }, ...messages] };
    },
  );
  server.registerPrompt(
    "test_prompt_with_image",
    { description: "A prompt with an image." },
    () => {
      const content = { type: "image" as const, data: PNG_BASE64, mimeType: "image/png" };
      const { messages } = saying("Please analyze the image above.");
      return { messages: [{ role: "user", content }, ...messages] };
    },
  );
  registerAskingPrompt(server);
}

function registerAskingPrompt(server: McpServer): void {
  server.registerPrompt(
    "test_input_required_result_prompt",
    { description: "A prompt that asks first." },
    (ctx) => {
      const schema = z.looseObject({ context: z.string() });
      const answer = acceptedContent(ctx.mcpReq.inputResponses, "user_context", schema);
      if (answer !== undefined) return saying(`Use this context: ${answer.context}`);
      const form = inputRequired.elicit({
        message: "What context should the prompt use?",
        requestedSchema: {
          type: "object",
          properties: { context: { type: "string" } },
          required: ["context"],
        },
      });
      return inputRequired({ inputRequests: { user_context: form } });
    },
  );
}

function saying(text: string) {
  return { messages: [{ role: "user" as const, content: { type: "text" as const, text } }] };
}
